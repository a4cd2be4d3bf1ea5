//! A running job gets another number of workers, by the real binary: both ways, through kills, and what a start after it does.
#![expect(clippy::unwrap_used, reason = "a test cannot go on")]

use std::fs;
use std::process::{Child, Output, Stdio};

use fastrand::Rng;
use serde_json::Value;
use tidemill_tests::cli::{FOLLOW, Workplace, number, signal};

const DATA: &str = "tidemill-data/stock-out";
/// It takes some seconds for the day, and then waits for more.
const SLOW: [&str; 6] = ["run", "job.yaml", "--set", "sources.pos-baskets.max_rate=6000", "--set", FOLLOW];

fn wait_for_alerts(place: &Workplace, more_than: usize) {
    place.wait_until("more alerts are there", || place.visible("out/alerts").len() > more_than);
}

fn wait_until_it_runs(place: &Workplace) {
    place.wait_until("the job runs", || fs::read_to_string(place.path("stderr.log")).is_ok_and(|log| log.contains("progress")));
}

fn kill(place: &Workplace, child: Child) {
    signal(&child, "-KILL");
    assert!(!place.finish(child).status.success());
}

/// Asks for another number of workers and waits for the answer.
fn rescale(place: &Workplace, to: &str, more: &[&str]) -> Output {
    place.command(&[&["rescale", "job.yaml", "--parallelism", to], more].concat()).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn expect(output: &Output, code: i32, texts: &[&str]) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    texts.iter().for_each(|text| assert!(said.contains(text), "{text:?} is missing in {said}"));
}

fn inspect(place: &Workplace, path: &str) -> Value {
    let output = place.command(&["savepoint", "inspect", path, "--format", "json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn newest_checkpoint(place: &Workplace) -> u64 {
    let complete = |id: &u64| place.path(format!("{DATA}/checkpoints/chk-{id}/manifest.json")).exists();
    let ids = place.names(&format!("{DATA}/checkpoints")).into_iter().filter_map(|name| name.strip_prefix("chk-")?.parse().ok());
    ids.filter(complete).max().unwrap_or(0)
}

#[test]
fn from_two_to_five_to_one_and_nothing_is_lost() {
    let place = Workplace::larkspur();
    place.give(40);
    let child = place.start(&SLOW);
    wait_for_alerts(&place, 2_000);
    let five = rescale(&place, "5", &["--savepoint", "sp", "--trigger-id", "five"]);
    expect(&five, 0, &["runs on 5 workers instead of 2, from checkpoint", "it paused for", "/sp", "still says 2"]);
    let contents = inspect(&place, "sp");
    assert!(contents["parallelism"] == 2 && contents["savepoint"] == true, "{contents}");
    // Asked again it is told again.
    assert_eq!(said(&rescale(&place, "5", &["--trigger-id", "five"])), said(&five));
    expect(&rescale(&place, "5", &[]), 2, &["has parallelism 5 already"]);
    expect(&rescale(&place, "129", &[]), 2, &["parallelism 129 is more than the max_parallelism 128", "fixed by its first checkpoint"]);
    expect(&rescale(&place, "0", &[]), 2, &["0"]);
    let created = place.command(&["savepoint", "create", "job.yaml", "at-five"]).output().unwrap();
    expect(&created, 0, &["is in"]);
    assert_eq!(inspect(&place, "at-five")["parallelism"], 5);
    // More than comes of what was given so far.
    place.give(100);
    wait_for_alerts(&place, 6_000);
    expect(&rescale(&place, "1", &[]), 0, &["runs on 1 workers instead of 5"]);
    let ended = place.complete(child, &[]);
    ended.expect(0, &["rescaled job stock-out from 2 to 5 workers", "rescaled job stock-out from 5 to 1 workers"]);
    // The summary counts over both rescales: its table and its sentence say the same.
    let number = |line: &str, word: usize| line.split_whitespace().nth(word).unwrap().replace(',', "");
    let line = |text: &str| ended.stdout.lines().find(|line| line.contains(text)).unwrap();
    assert_eq!(number(line(" source "), 2), number(line(" records in "), 0), "{}", ended.stdout);
    // The savepoint in between is one like any other.
    let other = ["run", "job.yaml", "--from", "sp", "--new-incarnation", "--data-dir", "other", "--parallelism", "3"];
    place.run(&other).expect(0, &["finished"]);
}

#[test]
fn the_new_number_holds_after_a_crash_until_the_user_stops_the_job_or_asks_for_another() {
    let place = Workplace::larkspur();
    let child = place.start(&SLOW);
    wait_for_alerts(&place, 500);
    expect(&rescale(&place, "3", &[]), 0, &["on 3 workers"]);
    kill(&place, child);
    let child = place.start(&SLOW);
    wait_until_it_runs(&place);
    expect(&rescale(&place, "3", &[]), 2, &["has parallelism 3 already"]);
    let stop = place.command(&["stop", "job.yaml"]).output().unwrap();
    expect(&stop, 0, &["has stopped"]);
    place.finish(child).expect(0, &["goes on at parallelism 3, to which the job was rescaled, instead of 2"]);
    let child = place.start(&SLOW);
    wait_until_it_runs(&place);
    expect(&rescale(&place, "2", &[]), 2, &["has parallelism 2 already"]);
    expect(&rescale(&place, "4", &[]), 0, &["on 4 workers"]);
    kill(&place, child);
    let child = place.start(&[&SLOW[..], &["--parallelism", "5"]].concat());
    wait_until_it_runs(&place);
    expect(&rescale(&place, "5", &[]), 2, &["has parallelism 5 already"]);
    assert!(!place.complete(child, &[]).stderr.contains("goes on at parallelism"));
    place.run(&["rescale", "job.yaml", "--parallelism", "2"]).expect(2, &["no job runs in the folder"]);
}

#[test]
fn a_kill_at_any_point_of_a_rescale_leaves_a_job_that_goes_on() {
    let (kills, seed) = (number("TIDEMILL_RESCALE_KILLS", 24), number("TIDEMILL_SEED", 1));
    let mut rng = Rng::with_seed(seed);
    let place = Workplace::larkspur();
    let rate = format!("sources.pos-baskets.max_rate={}", 29_652 * 1000 / (kills * 120).max(1));
    let arguments = ["run", "job.yaml", "--set", &rate, "--set", FOLLOW, "--set", "checkpoints.interval=30ms"];
    let (mut answered, mut went_on) = (0, 0);
    for kill in 0..kills {
        // That of a killed process says nothing about the next.
        _ = fs::remove_file(place.path(DATA).join("control.sock"));
        let mut child = place.start(&arguments);
        place.wait_until("the job can be asked or has failed", || {
            place.names(DATA).contains(&"control.sock".to_owned()) || child.try_wait().unwrap().is_some()
        });
        let (before, noted) = (newest_checkpoint(&place), noted(&place));
        let mut asking = place.command(&["rescale", "job.yaml", "--parallelism", &rng.u32(1..6).to_string()]);
        let mut asking = asking.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        place.wait_until("the moment has come", || match kill % 4 {
            _ if child.try_wait().unwrap().is_some() => true,
            0 => newest_checkpoint(&place) > before,
            1 => self::noted(&place) != noted || asking.try_wait().unwrap().is_some(),
            2 => asking.try_wait().unwrap().is_some(),
            _ => rng.u8(..8) == 0,
        });
        child.kill().unwrap();
        let ended = place.finish(child);
        answered += u32::from(asking.wait().unwrap().success());
        went_on += u32::from(ended.stderr.contains("goes on at parallelism"));
        assert_eq!(ended.status.code(), None, "kill {kill}: the job failed by itself: {ended:#?}");
    }
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    place.check_with_oracle();
    assert!(answered > 0 && went_on > 0, "seed {seed}: {answered} of {kills} answered before the kill, {went_on} went on as rescaled");
}

/// The record of a rescale.
fn noted(place: &Workplace) -> Option<String> {
    fs::read_to_string(place.path(DATA).join("checkpoints/PARALLELISM")).ok()
}

#[test]
fn a_request_with_a_trigger_id_is_done_once() {
    let place = Workplace::larkspur();
    let child = place.start(&SLOW);
    wait_until_it_runs(&place);
    let create = |path: &str| place.command(&["savepoint", "create", "job.yaml", path, "--trigger-id", "one"]).output().unwrap();
    let first = create("sp");
    expect(&first, 0, &["savepoint", "/sp"]);
    assert_eq!(said(&create("sp")), said(&first));
    assert_eq!(said(&create("elsewhere")), said(&first));
    assert!(!place.path("elsewhere").exists());
    let stop = |id: &str| place.command(&["stop", "job.yaml", "--savepoint", "last", "--trigger-id", id]).output().unwrap();
    expect(&stop("one"), 2, &["given to a request of another kind"]);
    let before = newest_checkpoint(&place);
    place.wait_until("a checkpoint completes", || newest_checkpoint(&place) > before);
    kill(&place, child);
    // Another process knows it by the savepoint.
    let child = place.start(&SLOW);
    wait_until_it_runs(&place);
    assert_eq!(said(&create("sp")), said(&first));
    let stopped = stop("two");
    expect(&stopped, 0, &["has stopped at checkpoint", "/last"]);
    place.finish(child).expect(0, &["has stopped"]);
    assert_eq!(said(&stop("two")), said(&stopped));
    expect(&stop("three"), 2, &["no job runs"]);
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    place.check_with_oracle();
}
