//! What a component writes and counts reaches its author: once, with its name, at a bounded rate.

use tidemill_tests::cli::{Ended, Workplace, component, records};

fn said(ended: &Ended, text: &str) -> usize {
    ended.stderr.lines().filter(|line| line.contains(text)).count()
}

#[test]
fn prints_and_counters_of_a_batch_that_is_processed_again_are_told_once() {
    let place = Workplace::picky("");
    // The third record stops the component, so that those before it are processed again, each alone.
    place.write("in/a.jsonl", records(&["say", "say", "trap", "say"]));
    let ended = place.run(&["run", "job.yaml", "--set", "operators.picky.on_error=dead-letter"]);
    ended.expect(0, &["finished", "counters=\"said 3\"", "said              3"]);
    for id in [0, 1, 3] {
        assert_eq!(said(&ended, &format!("INFO record {id} operator=\"picky\"")), 1, "{ended:#?}");
        assert_eq!(said(&ended, &format!("record.ts = {}", 1000 + id)), 1, "{ended:#?}");
    }
    assert_eq!((said(&ended, "WARN it says so operator=\"picky\""), said(&ended, "asked to trap")), (3, 1), "{ended:#?}");
    assert_eq!(place.visible("out/dead").len(), 1);
}

#[test]
fn a_panic_is_told_with_operator_record_and_place() {
    let place = Workplace::picky("");
    place.write("in/a.jsonl", records(&["pass", "say", "trap"]));
    let spec = std::fs::read_to_string(place.path("job.yaml")).unwrap_or_default();
    place.write("job.yaml", spec.replace("{ strategy: exponential-delay, initial: 10ms, max: 20ms }", "{ strategy: none }"));
    let ended = place.run(&["run", "job.yaml"]);
    ended.expect(
        1,
        &["operator picky: the record at in/a.jsonl line 3 of source in is bad", "picky/src/lib.rs:", "(key 2, timestamp 1002)"],
    );
    assert_eq!((said(&ended, "asked to trap"), said(&ended, "record 1 operator")), (1, 1), "{ended:#?}");
}

#[test]
fn a_component_that_never_stops_talking_is_cut_short() {
    let place = Workplace::picky("");
    place.write("in/a.jsonl", records(&["say"; 5_000]));
    let ended = place.run(&["run", "job.yaml"]);
    ended.expect(0, &["finished", "counters=\"said 5,000\"", "the component writes more than 100 lines a second"]);
    let lines = said(&ended, "operator=\"picky\"");
    assert!((900..10_000).contains(&lines), "{lines} of 15,000 lines");
}

#[test]
fn cases_see_counters() {
    let place = Workplace::new();
    let case = |metric: &str| {
        format!(
            "component: {}\nkey_by: [id]\nsteps:\n  - element: {{ ts: 1, value: {{ id: 1, ts: 1, act: say }} }}\n  - expect: [{{ value: 1 }}]\n  \
             - expect_metric: {metric}\n",
            component("picky").display()
        )
    };
    place.write("a.case.yaml", case("{ said: 1, records_in: 1, never: 0 }"));
    let ended = place.run(&["test", "a.case.yaml"]);
    ended.expect(0, &["1 passed"]);
    assert_eq!(said(&ended, "it says so"), 1, "in the first run of the case only: {ended:#?}");
    place.write("a.case.yaml", case("{ said: 2, records_inn: 1, nevr: 1 }"));
    place.run(&["test", "a.case.yaml"]).expect(1, &["said: 1", "did you mean `records_in`?", "nevr: 0 (the component has counted said)"]);
}
