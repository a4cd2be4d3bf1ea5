//! Failures that go away: the job goes on by itself, from its last checkpoint.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write;

use serde_json::{Value, json};
use tidemill_tests::cli::{Workplace, records, signal, wait_until};

fn passed(place: &Workplace) -> Vec<Value> {
    let mut passed = place.visible("out/main");
    passed.sort_by_key(Value::as_i64);
    passed
}

fn wait_for_log(place: &Workplace, text: &str) {
    wait_until(&format!("the log says {text:?}"), || fs::read_to_string(place.path("stderr.log")).unwrap().contains(text));
}

#[test]
fn a_job_restarts_after_a_failure_and_goes_on_when_its_cause_is_gone() {
    let place = Workplace::picky("");
    place.write("in/a.jsonl", records(&["pass", "trap", "pass"]));
    // Long enough to mend the record before the third failure in the same way ends the job.
    let delays = ["--set", "restart.initial=2s", "--set", "restart.max=2s"];
    let child = place.start(&[&["run", "job.yaml"][..], &delays].concat());
    wait_for_log(&place, "the job failed and restarts");
    place.write("in/a.jsonl", records(&["pass", "pass", "pass"]));
    place.finish(child).expect(0, &["asked to trap", "delay_ms", "finished"]);
    assert_eq!(passed(&place), [json!(0), json!(1), json!(2)]);
}

#[test]
fn a_second_ctrl_c_ends_a_job_that_cannot_reach_a_checkpoint_and_nothing_is_lost() {
    let place = Workplace::picky(", follow: true");
    place.write("in/a.jsonl", records(&["pass"]));
    let child = place.start(&["run", "job.yaml", "--set", "operators.picky.limits.deadline=1h"]);
    wait_until("the first record is out", || place.visible("out/main") == [json!(0)]);
    // The component now loops for an hour, so that no barrier can pass it.
    let looping = records(&["pass", "loop"]);
    let mut file = fs::OpenOptions::new().append(true).open(place.path("in/a.jsonl")).unwrap();
    file.write_all(looping.lines().nth(1).map(|line| format!("{line}\n")).unwrap().as_bytes()).unwrap();
    wait_for_log(&place, "looping as asked");
    signal(&child, "-INT");
    signal(&child, "-TERM");
    place.finish(child).expect(130, &[]);

    place.write("in/a.jsonl", records(&["pass", "pass"]));
    place.run(&["run", "job.yaml", "--set", "sources.in.file.follow=false"]).expect(0, &["resumed from checkpoint", "finished"]);
    assert_eq!(passed(&place), [json!(0), json!(1)]);
}
