//! Failures that go away: the job goes on by itself, from its last checkpoint.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write;

use serde_json::{Value, json};
use tidemill_tests::cli::{Workplace, component, records, signal};

fn passed(place: &Workplace) -> Vec<Value> {
    let mut passed = place.visible("out/main");
    passed.sort_by_key(Value::as_i64);
    passed
}

/// Adds one of these lines to the input.
fn append(place: &Workplace, lines: &str, line: usize) {
    let mut file = fs::OpenOptions::new().append(true).open(place.path("in/a.jsonl")).unwrap();
    file.write_all(lines.lines().nth(line).map(|line| format!("{line}\n")).unwrap().as_bytes()).unwrap();
}

fn wait_for_log(place: &Workplace, text: &str) {
    place.wait_until(&format!("the log says {text:?}"), || fs::read_to_string(place.path("stderr.log")).unwrap().contains(text));
}

#[test]
fn a_job_restarts_until_the_cause_of_its_failure_is_gone() {
    let place = Workplace::picky(", follow: true");
    place.write("in/a.jsonl", records(&["pass"]));
    let child = place.start(&["run", "job.yaml"]);
    place.wait_until("the first record is out", || place.visible("out/main") == [json!(0)]);
    fs::rename(place.path("out/main"), place.path("out/kept")).unwrap();
    place.write("out/main", "a file where a folder should be");
    append(&place, &records(&["pass", "pass"]), 1);
    // What a job finds when it starts would end it, had it not run before.
    let restarts = || fs::read_to_string(place.path("stderr.log")).unwrap().matches("the job failed and restarts").count();
    place.wait_until("the job restarts again and again", || restarts() > 5);
    fs::remove_file(place.path("out/main")).unwrap();
    fs::rename(place.path("out/kept"), place.path("out/main")).unwrap();
    place.wait_until("the second record is out", || passed(&place) == [json!(0), json!(1)]);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["out/main", "delay_ms", "stopped"]);
}

#[test]
fn a_job_that_waits_to_restart_can_be_stopped_and_goes_on_when_the_record_is_mended() {
    let place = Workplace::picky("");
    place.write("in/a.jsonl", records(&["pass", "trap", "pass"]));
    let child = place.start(&["run", "job.yaml", "--set", "restart.initial=1h", "--set", "restart.max=1h"]);
    wait_for_log(&place, "the job failed and restarts");
    signal(&child, "-INT");
    place.finish(child).expect(1, &["asked to trap", "delay_ms", "was stopped while it waited to restart"]);
    place.write("in/a.jsonl", records(&["pass", "pass", "pass"]));
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    assert_eq!(passed(&place), [json!(0), json!(1), json!(2)]);
}

#[test]
fn a_job_that_waits_to_restart_is_stopped_by_the_command_too() {
    let place = Workplace::picky("");
    place.write("in/a.jsonl", records(&["pass", "trap"]));
    let child = place.start(&["run", "job.yaml", "--set", "restart.initial=1h", "--set", "restart.max=1h"]);
    wait_for_log(&place, "the job failed and restarts");
    place.run(&["savepoint", "create", "job.yaml", "sp"]).expect(1, &["try again when it runs"]);
    place.run(&["stop", "job.yaml"]).expect(0, &["the job has stopped at checkpoint 0"]);
    place.finish(child).expect(1, &["was stopped while it waited to restart"]);
}

#[test]
fn a_failure_that_repeats_with_other_records_of_other_workers_stops_the_job() {
    let place = Workplace::picky("");
    place.write("in/a.jsonl", records(&["trap"; 100]));
    let set = ["--set", "parallelism=4", "--set", "restart.initial=1ms", "--set", "restart.max=1ms"];
    place.run(&[&["run", "job.yaml"][..], &set].concat()).expect(1, &["3 times in the same way", "asked to trap"]);
}

#[test]
fn timers_that_fail_at_one_time_stop_the_job_whatever_they_say_of_their_keys() {
    let place = Workplace::new();
    place.write(
        "job.yaml",
        format!(
            "name: j\nparallelism: 4\ncheckpoints: {{ interval: 50ms }}\nrestart: {{ strategy: fixed-delay, delay: 20ms }}\n\
             sources: [{{ uid: s, file: {{ path: \"in/*.jsonl\", format: json }} }}]\n\
             operators: [{{ uid: o, input: s, key_by: [key], component: {} }}]\n\
             sinks: [{{ uid: out, input: o, file: {{ path: out, format: json }} }}]\n",
            component("probe").display()
        ),
    );
    let fail = |id| json!({"key": format!("k{id}"), "ops": [{"event_timer_do": {"at": 100, "ops": [{"fail": format!("x{id}")}]}}]});
    place.write("in/a.jsonl", (0..2000).map(|id| format!("{}\n", fail(id))).collect::<String>());
    let ended = place.run(&["run", "job.yaml"]);
    ended.expect(1, &["3 times in the same way", "the event-time timer at 100 of key"]);
    assert_eq!(ended.stderr.matches("the job failed and restarts").count(), 2, "{ended:#?}");
}

#[test]
fn a_name_that_leads_nowhere_is_told_and_stops_nobody() {
    let place = Workplace::picky(", follow: true");
    place.write("in/a.jsonl", records(&["pass"]));
    let child = place.start(&["run", "job.yaml"]);
    place.wait_until("the first record is out", || place.visible("out/main") == [json!(0)]);
    std::os::unix::fs::symlink("loop.jsonl", place.path("in/loop.jsonl")).unwrap();
    wait_for_log(&place, "in/loop.jsonl");
    append(&place, &records(&["pass", "pass"]), 1);
    place.wait_until("the second record is out", || passed(&place) == [json!(0), json!(1)]);
    signal(&child, "-INT");
    let ended = place.finish(child);
    ended.expect(0, &["in/loop.jsonl", "stopped"]);
    assert!(!ended.stderr.contains("the job failed and restarts"), "{ended:#?}");
}

#[test]
fn a_second_ctrl_c_ends_a_job_that_cannot_reach_a_checkpoint_and_nothing_is_lost() {
    let place = Workplace::picky(", follow: true");
    place.write("in/a.jsonl", records(&["pass"]));
    let child = place.start(&["run", "job.yaml", "--set", "operators.picky.limits.deadline=1h"]);
    place.wait_until("the first record is out", || place.visible("out/main") == [json!(0)]);
    // The component now loops for an hour, so that no barrier can pass it.
    append(&place, &records(&["pass", "loop"]), 1);
    wait_for_log(&place, "looping as asked");
    signal(&child, "-INT");
    wait_for_log(&place, "the job has been stopping for");
    signal(&child, "-TERM");
    let texts = [
        "waits for its barrier to pass operator picky of worker 0",
        "whose call has taken",
        "A second Ctrl-C or SIGTERM ends the job at once",
    ];
    place.finish(child).expect(130, &texts);

    place.write("in/a.jsonl", records(&["pass", "pass"]));
    place.run(&["run", "job.yaml", "--set", "sources.in.file.follow=false"]).expect(0, &["resumed from checkpoint", "finished"]);
    assert_eq!(passed(&place), [json!(0), json!(1)]);
}
