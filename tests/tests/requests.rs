//! What is asked of a job that is idle, ends, or waits to restart: every request has one outcome, and the folder of its savepoint agrees.
#![expect(clippy::unwrap_used, reason = "a test cannot go on")]

use std::fs;
use std::process::Output;

use serde_json::json;
use tidemill_tests::cli::{Workplace, records};

/// No periodic checkpoint is taken while the test runs.
const RARE: &str = "checkpoints.interval=1h";

fn ask(place: &Workplace, arguments: &[&str]) -> Output {
    place.command(arguments).output().unwrap()
}

fn expect(output: &Output, code: i32, texts: &[&str]) {
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{said}");
    texts.iter().for_each(|text| assert!(said.contains(text), "{text:?} is missing in {said}"));
}

fn log_has(place: &Workplace, text: &str) -> bool {
    fs::read_to_string(place.path("stderr.log")).is_ok_and(|log| log.contains(text))
}

/// Waits until the job has read so many records: a barrier comes after them.
fn wait_for_records(place: &Workplace, count: u64) {
    place.wait_until("the records are read", || log_has(place, &format!("records_in={count} ")));
}

#[test]
fn a_savepoint_says_what_becomes_of_its_output_and_waits_for_it_if_told_to() {
    let place = Workplace::picky(", follow: true");
    place.write("in/a.jsonl", records(&["pass", "pass"]));
    let child = place.start(&["run", "job.yaml", "--set", RARE]);
    wait_for_records(&place, 2);
    expect(
        &ask(&place, &["savepoint", "create", "job.yaml", "plain"]),
        0,
        &["savepoint 1 is in", "next checkpoint commits", "--wait-committed"],
    );
    assert!(place.visible("out/main").is_empty(), "a savepoint commits nothing");
    let waited = ask(&place, &["savepoint", "create", "job.yaml", "waited", "--wait-committed", "--trigger-id", "w"]);
    expect(&waited, 0, &["savepoint 2 is in", "/waited", "all output that it covers is committed by checkpoint 3"]);
    assert_eq!(place.visible("out/main"), [json!(0), json!(1)]);
    assert_eq!(ask(&place, &["savepoint", "create", "job.yaml", "waited", "--wait-committed", "--trigger-id", "w"]).stdout, waited.stdout);
    // Nothing has come since.
    expect(&ask(&place, &["savepoint", "create", "job.yaml", "idle"]), 0, &["savepoint 4 is in", "all output that it covers is committed"]);
    expect(
        &ask(&place, &["savepoint", "create", "job.yaml", "idle"]),
        2,
        &["savepoint 4 of job picky is in", "already: name another folder"],
    );
    // By another way to the same folder.
    std::os::unix::fs::symlink(place.path("idle"), place.path("link")).unwrap();
    expect(&ask(&place, &["savepoint", "create", "job.yaml", "link"]), 2, &["savepoint 4 of job picky is in"]);
    expect(&ask(&place, &["stop", "job.yaml"]), 0, &["has stopped at checkpoint 5"]);
    place.finish(child).expect(0, &["has stopped at checkpoint 5"]);
}

#[test]
fn a_job_that_waits_to_restart_is_stopped_at_its_newest_checkpoint_and_takes_no_savepoint() {
    let place = Workplace::picky(", follow: true");
    place.write("in/a.jsonl", records(&["pass"]));
    // The first failure is waited for until the test has asked.
    let child = place.start(&["run", "job.yaml", "--set", RARE, "--set", "restart.initial=1h", "--set", "restart.max=1h"]);
    wait_for_records(&place, 1);
    expect(&ask(&place, &["savepoint", "create", "job.yaml", "sp", "--wait-committed"]), 0, &["savepoint 1 is in", "by checkpoint 2"]);
    place.write("in/b.jsonl", records(&["bad"]));
    place.wait_until("the job waits to restart", || log_has(&place, "the job failed and restarts"));
    for arguments in [
        &["savepoint", "create", "job.yaml", "other"][..],
        &["stop", "job.yaml", "--savepoint", "other"],
        &["stop", "job.yaml", "--drain"],
        &["rescale", "job.yaml", "--parallelism", "3"],
    ] {
        expect(&ask(&place, arguments), 1, &["the job has failed and is about to restart", "this record asked for it"]);
        assert!(place.names("other").is_empty());
    }
    expect(&ask(&place, &["stop", "job.yaml"]), 0, &["the job has stopped at checkpoint 2"]);
    place.finish(child).expect(1, &["was stopped while it waited to restart after a failure"]);
}

#[test]
fn a_request_that_another_process_has_done_is_answered_and_not_done_again() {
    let place = Workplace::picky(", follow: true");
    place.write("in/a.jsonl", records(&["pass"]));
    let start = || place.start(&["run", "job.yaml", "--set", RARE]);
    let kill = |mut child: std::process::Child| {
        child.kill().unwrap();
        child.wait().unwrap();
    };
    let mut child = start();
    wait_for_records(&place, 1);
    let create = ["savepoint", "create", "job.yaml", "sp", "--wait-committed", "--trigger-id", "a"];
    expect(&ask(&place, &create), 0, &["savepoint 1 is in", "is committed by checkpoint 2"]);
    let rescale = ["rescale", "job.yaml", "--parallelism", "3", "--savepoint", "between", "--trigger-id", "r"];
    expect(&ask(&place, &rescale), 0, &["runs on 3 workers instead of 1, from checkpoint 3 on; it paused for"]);
    kill(child);
    child = start();
    place.wait_until("the job runs again", || log_has(&place, "resumed from checkpoint 3"));
    expect(&ask(&place, &create), 0, &["savepoint 1 is in", "is committed by checkpoint 3"]);
    expect(&ask(&place, &rescale), 0, &["runs on 3 workers instead of 1, from checkpoint 3 on; the savepoint is in"]);
    // Of a request that has never been answered: it is done again, into the same folder.
    kill(child);
    let between = place.path("between");
    fs::remove_file(between.join("COMMITTED")).unwrap();
    child = start();
    place.wait_until("the job runs again", || log_has(&place, "resumed from checkpoint 3"));
    let stop = ["stop", "job.yaml", "--savepoint", "between", "--trigger-id", "r"];
    expect(&ask(&place, &stop), 0, &["has stopped at checkpoint 4", "/between"]);
    place.finish(child).expect(0, &["has stopped at checkpoint 4"]);
    expect(&ask(&place, &stop), 0, &["has stopped at checkpoint 4", "/between"]);
}
