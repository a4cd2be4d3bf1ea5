//! `tidemill test`: what it runs, what it says and how it ends.

use std::process::Command;

use serde_json::Value;
use tidemill_tests::cli::{Workplace, component, tidemill};

/// How many backends a case runs on.
const BACKENDS: u32 = if cfg!(feature = "rocksdb") { 2 } else { 1 };

/// A step for a record of the probe with this key and these ops.
fn element(ops: &str) -> String {
    format!("  - element: {{ ts: 1, value: {{ key: a, ops: [{ops}] }} }}\n")
}

fn case(head: &str, steps: &str) -> String {
    format!("component: probe\nkey_by: [key]\n{head}steps:\n{steps}")
}

struct Tested {
    code: i32,
    text: String,
}

impl Tested {
    #[track_caller]
    fn expect(&self, code: i32, texts: &[&str]) {
        assert_eq!(self.code, code, "{}", self.text);
        for text in texts {
            assert!(self.text.contains(text), "{text:?} is missing in:\n{}", self.text);
        }
    }
}

#[expect(clippy::unwrap_used, reason = "a test cannot go on")]
fn run(place: &Workplace, arguments: &[&str]) -> Tested {
    let mut command = Command::new(tidemill());
    command.current_dir(place.path("")).env_remove("TIDEMILL_COMPONENTS").arg("test").args(arguments);
    let output = command.env("TIDEMILL_COMPONENTS", component("probe").parent().unwrap()).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Tested { code: output.status.code().unwrap_or(-1), text }
}

/// Runs one case.
fn test(text: &str) -> Tested {
    let place = Workplace::new();
    place.write("one.case.yaml", text);
    run(&place, &["one.case.yaml"])
}

#[test]
fn a_failure_names_step_and_line_and_shows_both_sides() {
    let steps = element("emit: x, emit: y") + "  - expect: [{ value: { key: a, say: x } }, { value: { key: a, say: z }, ts: 1 }]\n";
    let tested = test(&case("name: both sides\n", &steps));
    let row = r#"! {"key":"a","say":"z"} at 1   {"key":"a","say":"y"} at 1"#;
    tested.expect(
        1,
        &[
            "one.case.yaml: both sides",
            "one.case.yaml:6:5: step 2, `expect`, in every run",
            row,
            &format!("0 passed, 1 failed ({} runs)", 3 * BACKENDS),
        ],
    );
}

#[test]
fn the_element_that_failed_is_named_and_not_the_last_of_its_batch() {
    let tested = test(&case("", &(element("fail: sour") + &element("emit: x") + &element("emit: y"))));
    tested.expect(1, &["one.case.yaml:4:5: step 1, `element`, in every run: ", "sour"]);
}

#[test]
fn a_long_comparison_shows_the_first_difference() {
    let records = |count: u32| (0..count).map(|n| format!("{{ value: {{ key: a, say: \"{n}\" }} }}")).collect::<Vec<_>>().join(", ");
    let steps = (0..200).map(|n| element(&format!("emit: \"{n}\""))).collect::<String>();
    let tested = test(&case("", &format!("{steps}  - expect: [{}]\n", records(100))));
    tested.expect(1, &["(90 rows as expected)", r#"! -  "#, r#"{"key":"a","say":"100"}"#, "(50 more rows)"]);
}

#[test]
fn components_are_found_from_the_working_directory() {
    let place = Workplace::new();
    place.write("cases/one.case.yaml", case("", "  - end: {}\n"));
    place.write("built/probe.wasm", "");
    std::fs::copy(component("probe"), place.path("built/probe.wasm")).unwrap();
    run(&place, &["cases", "--components", "built"]).expect(0, &["1 passed"]);
}

#[test]
fn an_expectation_that_cannot_be_met_or_missed_is_refused() {
    let steps = element("emit: x") + "  - expect: [{ lane: mian, value: { key: a, say: x } }]\n";
    test(&case("", &steps)).expect(1, &["step 2, `expect`", "the component has no lane `mian`", "main"]);
    test("component: probe\nkey_by: [key]\nsteps: []\n").expect(2, &["`steps` is empty"]);
    test(&case("", "  - expect_metric: {}\n")).expect(2, &["`expect_metric` is empty"]);
    test(&case("parallelism: 513\n", &element("emit: x"))).expect(2, &["parallelism must be at most 512, not 513"]);
}

#[test]
fn output_that_is_not_expected_fails_the_case() {
    test(&case("", &element("emit: x"))).expect(1, &["output that no step expects", r#"-          {"key":"a","say":"x"}"#]);
}

#[test]
fn an_error_is_the_steps_and_may_be_expected() {
    let fails = element("fail: no such luck");
    test(&case("", &fails)).expect(1, &["one.case.yaml:4:5: step 1, `element`", "no such luck"]);
    test(&case("", &format!("{fails}  - expect_error: such luck\n"))).expect(0, &["1 passed"]);
    test(&case("", &format!("{fails}  - expect_error: other\n"))).expect(1, &["step 2, `expect_error`", "other", "no such luck"]);
    test(&case("", &format!("{}  - expect_error: any\n", element("put: 1")))).expect(1, &["no error"]);
    // Of several elements, only the one before may fail.
    test(&case("", &format!("{fails}{}  - expect_error: such luck\n", element("put: 1")))).expect(1, &["step 1, `element`"]);
}

#[test]
fn what_does_not_work_yet_says_so() {
    let swap = case("", "  - swap: { component: probe_v2 }\n");
    test(&swap).expect(1, &["one.case.yaml:4:5: step 1, `swap`", "not yet supported"]);
}

#[test]
fn a_build_without_rocksdb_says_so() {
    let restore = case("backends: memory\n", "  - savepoint: s\n  - restore: { from: s, backend: rocksdb }\n");
    let both = case("backends: [memory, rocksdb]\n", &element("put: 1"));
    if cfg!(feature = "rocksdb") {
        test(&restore).expect(0, &["1 passed"]);
        test(&both).expect(0, &["1 passed, 0 failed (6 runs)"]);
    } else {
        test(&restore).expect(1, &["step 2, `restore`", "rocksdb is not in this build"]);
        test(&both).expect(1, &["rocksdb is not in this build", "rocksdb batches of 3"]);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told_from_a_case_that_does_not_hold() {
    let wrong = [
        (case("paralelism: 2\n", ""), "one.case.yaml:3:1: unknown field `paralelism`, did you mean `parallelism`?"),
        (case("", "  - elment: {}\n"), "one.case.yaml:4:5: unknown step `elment`, did you mean `element`?"),
        (case("", "  - watermark: yes\n"), "`watermark`: must be a whole number of milliseconds, not a string"),
        (case("", "  - expect: []\n  - expect_error: x\n"), "`expect_error` is about the step before"),
        (case("", "  - end: {}\n    crash: {}\n"), "a step is one thing"),
        (case("", "  - restore: { from: s, paralelism: 2 }\n"), "one.case.yaml:4:25: unknown field `paralelism`"),
        ("component: nowhere\nsteps: []\n".to_owned(), "one.case.yaml:1:12: `component`: there is no component `nowhere`"),
        ("component: ./nowhere.wasm\nsteps: []\n".to_owned(), "one.case.yaml:1:12: `component`: there is no file"),
        ("component: probe\nkey_by: [kee]\nsteps: [end: {}]\n".to_owned(), "no field `kee`, did you mean `key`?"),
        (case("states: { valu: { ttl: 1s } }\n", &element("put: 1")), "no state `valu`, did you mean `value`?"),
        ("component: [probe\n".to_owned(), "not valid YAML"),
    ];
    for (text, expected) in wrong {
        test(&text).expect(2, &[expected]);
    }
    let place = Workplace::new();
    run(&place, &["missing.case.yaml"]).expect(2, &["missing.case.yaml"]);
    run(&place, &[]).expect(2, &["no file *.case.yaml"]);
}

#[test]
fn only_true_and_false_are_booleans() {
    let steps = element("emit: y") + "  - expect: [{ value: { key: a, say: y } }]\n" + &element("emit: no");
    test(&case("", &(steps + "  - expect: [{ value: { key: a, say: no } }]\n"))).expect(0, &["1 passed"]);
}

#[test]
fn folders_are_searched_and_filtered() {
    let place = Workplace::new();
    place.write("cases/good.case.yaml", case("name: the good one\n", &element("put: 1")));
    place.write("cases/deep/bad.case.yaml", case("", &element("emit: x")));
    place.write("cases/deep/other.yaml", "no case");
    run(&place, &["cases"]).expect(1, &["cases/deep/bad.case.yaml", &format!("1 passed, 1 failed ({} runs)", 6 * BACKENDS)]);
    run(&place, &[]).expect(1, &["1 passed, 1 failed"]);
    run(&place, &["cases", "--filter", "good one"]).expect(0, &[&format!("1 passed, 0 failed ({} runs)", 3 * BACKENDS)]);
    run(&place, &["cases", "--filter", "deep/"]).expect(1, &["0 passed, 1 failed"]);
    run(&place, &["cases", "--filter", "nothing"]).expect(2, &["no case has `nothing`"]);
}

#[test]
fn machines_read_the_report() {
    let place = Workplace::new();
    place.write("a.case.yaml", case("name: a <b> & c\nbackends: memory\nbatch_rows: [2]\n", &(element("emit: x") + "  - expect: []\n")));
    let tested = run(&place, &["--format", "json"]);
    // The log follows.
    let report: Value = serde_json::Deserializer::from_str(&tested.text).into_iter().next().unwrap().unwrap();
    assert_eq!((tested.code, &report["failed"], &report["runs"]), (1, &1.into(), &1.into()), "{report:#}");
    let run_of_case = &report["cases"][0]["runs"][0];
    assert_eq!((&run_of_case["backend"], &run_of_case["batch_rows"]), (&"memory".into(), &2.into()));
    let failure = &run_of_case["failure"];
    assert_eq!((&failure["step"], &failure["line"], &failure["action"]), (&2.into(), &8.into(), &"expect".into()), "{report:#}");
    assert_eq!(failure["comparison"][0]["actual"], Value::from(r#"{"key":"a","say":"x"} at 1"#));
    let junit = run(&place, &["--format", "junit"]);
    let named = "name=\"a &lt;b&gt; &amp; c (memory, batches of 2)\"";
    junit
        .expect(1, &["<testsuites tests=\"1\" failures=\"1\" errors=\"0\">", named, "<failure message=\"the output is not as expected\">"]);
}
