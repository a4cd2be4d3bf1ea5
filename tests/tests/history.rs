//! The history of checkpoints, by the real binary, and through it the options of checkpoints.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Child;
use std::time::Duration;

use serde_json::Value;
use tidemill_tests::cli::{FOLLOW, Workplace, signal};

const DATA: &str = "tidemill-data/stock-out";
/// It takes a second or two for the day, and then waits for more.
const SLOW: [&str; 6] = ["run", "job.yaml", "--set", "sources.pos-baskets.max_rate=20000", "--set", FOLLOW];

/// What the command shows of the job's checkpoints.
fn history(place: &Workplace) -> Vec<Value> {
    let shown = place.run(&["checkpoints", "job.yaml", "--format", "json", "--last", "100000"]);
    assert_eq!(shown.code(), 0, "{shown:#?}");
    shown.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// The number of the newest checkpoint that is complete; 0 if there is none.
fn newest(place: &Workplace) -> u64 {
    let checkpoints = format!("{DATA}/checkpoints");
    let complete = |name: &String| place.path(&checkpoints).join(name).join("manifest.json").exists();
    let id = |name: String| name.strip_prefix("chk-")?.parse().ok();
    place.names(&checkpoints).into_iter().filter(complete).filter_map(id).max().unwrap_or(0)
}

#[test]
fn every_checkpoint_and_savepoint_is_there_with_what_it_took() {
    let place = Workplace::larkspur();
    place.run(&["checkpoints", "job.yaml"]).expect(2, &["no history of checkpoints", DATA]);
    let child = place.start(&SLOW);
    place.wait_until("a checkpoint completes", || newest(&place) > 1);
    let command = |arguments: &[&str]| assert!(place.command(arguments).output().unwrap().status.success(), "{arguments:?}");
    command(&["savepoint", "create", "job.yaml", "sp"]);
    let saved = newest(&place);
    place.wait_until("more checkpoints complete, of which one has what has changed alone", || {
        let is_partial = |record: &Value| record["kind"] != "savepoint" && number(&record["uploaded_bytes"]) < number(&record["bytes"]);
        newest(&place) > saved + 1 && history(&place).iter().any(is_partial)
    });
    command(&["stop", "job.yaml"]);
    place.finish(child).expect(0, &["stopped"]);

    let records = history(&place);
    let last = records.last().unwrap();
    let stopped_at = newest(&place);
    let ids: Vec<u64> = records.iter().map(|record| number(&record["id"])).collect();
    assert_eq!(ids, (1..=stopped_at).collect::<Vec<_>>(), "each once, in order");
    assert!(records.iter().all(|record| record["outcome"] == "completed" && record["reason"].is_null()), "{records:#?}");
    assert_eq!(records.iter().filter(|record| record["kind"] == "savepoint").count(), 1);
    assert!(records.windows(2).all(|pair| pair[0]["began"].as_i64() <= pair[1]["began"].as_i64()));

    let text = fs::read_to_string(place.path(format!("{DATA}/checkpoints/chk-{stopped_at}/manifest.json"))).unwrap();
    let manifest: Value = serde_json::from_str(text.rsplit_once("\nxxh3").unwrap().0).unwrap();
    let bytes_of = |files: &Value| files.as_array().unwrap().iter().map(|file| number(&file["bytes"])).sum::<u64>();
    let databases = manifest["databases"].as_array().unwrap();
    let stored = bytes_of(&manifest["files"]) + databases.iter().map(|database| bytes_of(&database["files"])).sum::<u64>();
    assert_eq!(number(&last["bytes"]), stored);
    let (bytes, uploaded) = ["bytes", "uploaded_bytes"]
        .map(|what| records[1..].iter().filter(|record| record["kind"] != "savepoint").map(|record| number(&record[what])).sum::<u64>())
        .into();
    assert!(uploaded < bytes, "only what has changed is written: {uploaded} of {bytes} bytes");
    let tasks = last["tasks"].as_array().unwrap();
    let named: Vec<_> = tasks.iter().map(|task| (task["uid"].as_str().unwrap(), number(&task["subtask"]))).collect();
    let uids = ["pos-baskets", "first-copy", "basket-lines", "stock-out", "alerts-file", "late-file"];
    assert_eq!(named, uids.iter().flat_map(|uid| [(*uid, 0), (*uid, 1)]).collect::<Vec<_>>());
    let of_tasks: u64 = tasks.iter().map(|task| number(&task["bytes"])).sum();
    assert!(of_tasks <= stored && of_tasks > stored * 9 / 10, "{of_tasks} of {stored} bytes belong to a task");
    assert!(tasks.iter().all(|task| number(&task["aligned_us"]) <= 1_000 * number(&last["duration_ms"]).max(1) + 1_000), "{last:#}");

    let row = format!(" {stopped_at}  checkpoint  2");
    place.run(&["checkpoints", "job.yaml", "--last", "3"]).expect(0, &["aligned", "uploaded", &row]);
    place.run(&["checkpoints", "--data-dir", DATA, "--id", "2"]).expect(0, &[" 2  checkpoint", "stock-out"]);
    place.run(&["checkpoints", "job.yaml", "--id", "99999"]).expect(2, &["no checkpoint 99999"]);

    place.run(&["run", "job.yaml"]).expect(0, &["resumed from checkpoint", "finished"]);
    let more = history(&place);
    assert_eq!(more[..records.len()], records, "what is there stays");
    assert!(number(&more[records.len()]["id"]) == stopped_at + 1 && more.last().unwrap()["outcome"] == "completed");
}

#[test]
fn the_interval_and_the_pause_decide_how_many_there_are() {
    for (options, most) in [("checkpoints.interval=10h", 1), ("checkpoints={interval: 1ms, min_pause: 10h}", 2)] {
        let place = Workplace::larkspur();
        place.run(&["run", "job.yaml", "--set", options]).expect(0, &["finished"]);
        let count = history(&place).len();
        assert!((1..=most).contains(&count), "{count} checkpoints with {options}");
    }
    let place = Workplace::larkspur();
    let child = place.start(&[&SLOW[..], &["--set", "checkpoints={interval: 1ms, min_pause: 0s}"]].concat());
    place.wait_until("four checkpoints complete", || newest(&place) > 3);
    place.complete(child, &[]);
}

#[test]
fn as_many_are_kept_as_the_spec_says() {
    for retain in [1, 3] {
        let place = Workplace::larkspur();
        let keep = format!("checkpoints.retain={retain}");
        let child = place.start(&[&SLOW[..], &["--set", &keep]].concat());
        place.wait_until("more checkpoints complete than are kept", || newest(&place) > retain);
        place.complete(child, &["--set", &keep]);
        let kept = place.names(&format!("{DATA}/checkpoints")).iter().filter(|name| name.starts_with("chk-")).count() as u64;
        assert_eq!(kept, retain);
    }
}

/// Lets the program stand still for longer than a checkpoint may take, until one that was under way has failed; returns which, and what was said.
fn stand_still(place: &Workplace, child: &Child) -> (u64, String) {
    let failed = " failed: it did not complete within 2000 ms";
    loop {
        signal(child, "-STOP");
        std::thread::sleep(Duration::from_millis(2_500));
        signal(child, "-CONT");
        let id = newest(place);
        place.wait_until("another checkpoint completes", || newest(place) > id + 1);
        let log = fs::read_to_string(place.path("stderr.log")).unwrap();
        if let Some((before, _)) = log.split_once(failed) {
            let id = before.rsplit(' ').next().unwrap().parse().unwrap();
            return (id, format!("checkpoint {id}{failed}"));
        }
    }
}

#[test]
fn one_that_takes_too_long_fails_and_the_job_tolerates_it_as_the_spec_says() {
    for tolerated in [false, true] {
        let place = Workplace::larkspur();
        let failures = format!("checkpoints.tolerable_failures={}", if tolerated { 100_000 } else { 0 });
        let checkpoints = "checkpoints={interval: 1ms, min_pause: 0s, timeout: 2s}";
        let options = ["--set", checkpoints, "--set", &failures, "--set", "restart.initial=10ms"];
        let child = place.start(&[&SLOW[..], &options].concat());
        place.wait_until("a checkpoint completes", || newest(&place) > 1);
        let (id, said) = stand_still(&place, &child);
        let ended = place.complete(child, &options);
        ended.expect(0, &[&said]);
        // A commit that takes too long fails the job in either case, and is not meant.
        assert_eq!(ended.stderr.contains(&format!("the job failed and restarts: {said}")), !tolerated, "{ended:#?}");
        let records = history(&place);
        let failed = records.iter().find(|record| number(&record["id"]) == id).unwrap();
        assert_eq!((&failed["outcome"], &failed["reason"]), (&"failed".into(), &"it did not complete within 2000 ms".into()));
        assert!(number(&failed["duration_ms"]) >= 2_000);
        assert_eq!(records.last().unwrap()["outcome"], "completed");
    }
}
