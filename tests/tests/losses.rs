//! Records that do not fit, and lanes that nobody reads: nothing is lost without a word.

use std::fs;
use std::io::Write;

use serde_json::{Value, json};
use tidemill_tests::cli::{Ended, Workplace, component, records, signal};

/// A job that passes records on, without a sink for those that do not fit.
fn place(more_of_the_source: &str) -> Workplace {
    let place = Workplace::new();
    place.write(
        "job.yaml",
        format!(
            "name: pass\ncheckpoints: {{ interval: 50ms }}\nrestart: {{ strategy: exponential-delay, initial: 10ms, max: 20ms }}\n\
             sources:\n  - uid: in\n    file: {{ path: \"in/*.jsonl\", format: json }}\n    timestamp: ts\n{more_of_the_source}\
             operators:\n  - uid: pass\n    input: in\n    key_by: [id]\n    component: {}\n\
             sinks:\n  - {{ uid: out, input: pass, file: {{ path: out/main, format: json }} }}\n",
            component("picky").display()
        ),
    );
    place
}

fn passed(place: &Workplace) -> Vec<Value> {
    let mut passed = place.visible("out/main");
    passed.sort_by_key(Value::as_i64);
    passed
}

/// How many lines of the log have this text.
fn said(ended: &Ended, text: &str) -> usize {
    ended.stderr.lines().filter(|line| line.contains(text)).count()
}

const UNREAD: &str = "nothing reads `in.invalid`";

#[test]
fn the_first_record_that_does_not_fit_ends_a_job_that_has_no_place_for_it() {
    for parallelism in ["parallelism=1", "parallelism=3"] {
        let place = place("");
        place.write("in/a.jsonl", records(&["pass", "pass"]) + "not json\n");
        place.write("in/b.jsonl", "");
        for _ in 0..2 {
            let ended = place.run(&["run", "job.yaml", "--set", parallelism]);
            ended.expect(1, &["source in: the record at in/a.jsonl line 3 is invalid: expected ident", "in.invalid", "on_invalid: lane"]);
            assert_eq!(said(&ended, "restarts"), 0, "{ended:#?}");
        }
        // Each of the ways that the message names leads on from the checkpoint that there may be.
        place.run(&["run", "job.yaml", "--set", parallelism, "--set", "sources.in.on_invalid=lane"]).expect(0, &["finished"]);
        assert_eq!(passed(&place), [json!(0), json!(1)]);
    }
}

#[test]
fn a_record_without_a_time_is_such_a_record() {
    let place = place("");
    place.write("in/a.jsonl", "{\"id\": 1, \"ts\": null, \"act\": \"pass\"}\n");
    place.run(&["run", "job.yaml"]).expect(1, &["in/a.jsonl line 1 is invalid: ts:"]);
}

#[test]
fn records_that_are_dropped_are_told_and_counted() {
    let place = place("    on_invalid: lane\n");
    place.write("in/a.jsonl", records(&["pass"]) + "not json\n[]\n" + &records(&["pass", "pass"]));
    let ended = place.run(&["run", "job.yaml"]);
    ended.expect(0, &["finished", "in/a.jsonl line 2", "expected ident", "2 invalid records of source in were dropped"]);
    assert_eq!((said(&ended, "dropped, since nothing reads in.invalid"), said(&ended, UNREAD)), (1, 1), "{ended:#?}");
    assert_eq!(passed(&place), [json!(0), json!(0), json!(1)]);
}

#[test]
fn a_lane_that_is_read_takes_them_without_a_word() {
    let place = place("");
    let sink = "  - { uid: bad, input: in.invalid, file: { path: out/bad, format: json } }\n";
    place.write("job.yaml", fs::read_to_string(place.path("job.yaml")).unwrap() + sink);
    place.write("in/a.jsonl", records(&["pass"]) + "not json\n");
    let ended = place.run(&["run", "job.yaml"]);
    ended.expect(0, &["finished", "1 invalid"]);
    assert_eq!((said(&ended, "nothing reads"), said(&ended, "dropped"), place.visible("out/bad").len()), (0, 0, 1), "{ended:#?}");
    let refused = place.run(&["run", "job.yaml", "--fresh", "--set", "sources.in.on_invalid=fail"]);
    refused.expect(1, &["`in.invalid` stays empty", "in/a.jsonl line 2", "the source has on_invalid: fail"]);
}

#[test]
fn so_many_are_dropped_and_no_more_over_restarts() {
    let place = place("    max_invalid: 2\n");
    place.write("in/a.jsonl", records(&["pass"]) + "not json\n");
    let start = || place.start(&["run", "job.yaml", "--set", "sources.in.file.follow=true"]);
    let append = || {
        let mut file = fs::OpenOptions::new().append(true).open(place.path("in/a.jsonl")).unwrap();
        file.write_all(b"not json\n").unwrap();
    };
    let mut child = start();
    place.wait_until("a checkpoint covers the first one", || place.visible("out/main") == [json!(0)]);
    signal(&child, "-KILL");
    _ = child.wait().unwrap();
    let child = start();
    append();
    let log = || fs::read_to_string(place.path("stderr.log")).unwrap();
    place.wait_until("the second one is dropped", || log().contains("in/a.jsonl line 3"));
    append();
    let ended = place.finish(child);
    ended.expect(1, &["in/a.jsonl line 4 is invalid", "it is one more than max_invalid, 2"]);
    assert_eq!(said(&ended, "restarts"), 0, "{ended:#?}");
}

#[test]
fn validate_says_which_lanes_lose_records() {
    let place = place("");
    place.write("in/a.jsonl", records(&["pass"]));
    place.run(&["validate", "job.yaml"]).expect(0, &[UNREAD, "will end the job"]);
    place.run(&["validate", "job.yaml", "--set", "sources.in.max_invalid=9"]).expect(0, &[UNREAD, "are dropped and only counted"]);
    let meant = place.run(&["validate", "job.yaml", "--set", "sources.in.on_invalid=fail"]);
    assert_eq!((meant.code(), said(&meant, UNREAD)), (0, 0), "{meant:#?}");
    let both = ["validate", "job.yaml", "--set", "sources.in.on_invalid=fail", "--set", "sources.in.max_invalid=9"];
    place.run(&both).expect(2, &["`max_invalid` does nothing with on_invalid: fail"]);
}

#[test]
fn dead_letters_that_nobody_reads_are_told_and_counted() {
    let place = place("");
    place.write("in/a.jsonl", records(&["pass", "trap", "pass", "bad"]));
    let ended = place.run(&["run", "job.yaml", "--set", "operators.pass.on_error=dead-letter"]);
    ended.expect(0, &["finished", "nothing reads `pass.dead-letter`", "2 dead letters of operator pass were dropped"]);
    let first = "the record at in/a.jsonl line 2 of source in (key 1, timestamp 1001) was dropped, since nothing reads pass.dead-letter";
    assert_eq!((said(&ended, first), said(&ended, "asked to trap")), (1, 1), "{ended:#?}");
    assert_eq!(passed(&place), [json!(0), json!(2)]);
}
