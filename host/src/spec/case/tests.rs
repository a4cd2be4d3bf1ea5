use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Action, Case, Context, Expected, parse};
use crate::spec::Text;
use crate::spec::error::SpecError;

fn read(text: &str) -> Result<Case, SpecError> {
    let component = |name: &str| Ok(PathBuf::from(format!("/built/{name}.wasm")));
    let context = Context { component: &component };
    parse(&Text { text, file: "a/some.case.yaml", base: Path::new("/a") }, &context)
}

#[test]
fn a_case_has_defaults() {
    let case = read("component: probe\nsteps: [{ end: {} }]\n").unwrap();
    assert_eq!((case.name.as_str(), case.batch_rows), ("some", vec![1, 3, 1024]));
    let operator = &case.setup.operator;
    assert_eq!((operator.uid.value.as_str(), operator.component.value.as_path()), ("probe", Path::new("/built/probe.wasm")));
    assert_eq!((case.setup.parallelism.value, case.setup.max_parallelism), (1, None));
}

#[test]
fn times_may_be_given_absent_or_null() {
    let steps =
        "[{ element: { ts: null, value: 1 } }, { expect: [{ value: null }, { value: 2, ts: null }, { lane: l, value: 3, ts: -4 }] }]";
    let case = read(&format!("component: probe\nsteps: {steps}\n")).unwrap();
    assert!(matches!(&case.steps[0].action, Action::Element { time: None, value } if value.json == 1));
    let Action::Expect { records, ordered: true } = &case.steps[1].action else { panic!("{:?}", case.steps) };
    let plain = |Expected { lane, value, time }: &Expected| (lane.clone(), value.json.clone(), *time);
    let all = [("main", json!(null), None), ("main", json!(2), Some(None)), ("l", json!(3), Some(Some(-4)))];
    assert_eq!(records.iter().map(plain).collect::<Vec<_>>(), all.map(|(lane, value, time)| (lane.to_owned(), value, time)));
}

#[test]
fn a_restore_replaces_what_it_names_and_keeps_the_rest() {
    let case = read(
        "component: one\nkey_by: [k]\nparameters: { a: 1 }\nstates: { s: { ttl: 1s } }\nparallelism: 2\nmax_parallelism: 64\nsteps:\n\
         \x20 - savepoint: p\n  - restore: { from: p, component: two, states: {}, parallelism: 3 }\n",
    )
    .unwrap();
    let Action::Restore(restore) = &case.steps[1].action else { panic!("{:?}", case.steps) };
    assert_eq!((restore.from.as_str(), restore.allow_non_restored_state), ("p", false));
    let setup = case.setup.changed(restore);
    assert_eq!((setup.parallelism.value, setup.max_parallelism.map(|max| max.value)), (3, Some(64)));
    assert_eq!(setup.operator.component.value, Path::new("/built/two.wasm"));
    // The operator is still the same one.
    assert_eq!(setup.operator.uid, case.setup.operator.uid);
    assert_eq!((setup.operator.states.len(), &setup.operator.parameters), (0, &case.setup.operator.parameters));
    assert_eq!(setup.operator.key_by, case.setup.operator.key_by);
}

#[test]
fn every_problem_is_listed_with_its_place() {
    let error =
        read("component: probe\nsteps:\n  - watermark: 1.5\n  - element: { ts: 1 }\n  - restore: {}\n  - crash: now\n").unwrap_err();
    let text = error.to_string();
    let lines: Vec<_> = text.lines().collect();
    let expected = [
        "a/some.case.yaml:3:16: `watermark`: must be a whole number of milliseconds, not 1.5",
        "a/some.case.yaml:4:14: missing field `value`: the record, as the component's input type has it",
        "a/some.case.yaml:5:14: missing field `from`: the name of the savepoint or checkpoint to go on from",
        "a/some.case.yaml:6:12: `crash` takes nothing: write `crash: {}`",
    ];
    assert_eq!(lines, expected);
}
