//! Savepoints by the real binary: taken while the job runs or stops, moved, restored at another parallelism and by another version.
#![expect(clippy::unwrap_used, reason = "a test cannot go on")]

use std::fs;
use std::process::Command;

use serde_json::Value;
use tidemill_tests::cli::{FOLLOW, Workplace, component, root, signal};

/// It takes some seconds for the day, and then waits for more.
const SLOW: [&str; 6] = ["run", "job.yaml", "--set", "sources.pos-baskets.max_rate=6000", "--set", FOLLOW];
const DATA: &str = "tidemill-data/stock-out";

/// Waits until the job has done about half of the day.
fn wait_for_half(place: &Workplace) {
    place.wait_until("half of the alerts are there", || place.visible("out/alerts").len() > 4_000);
}

/// Starts the job, stops it half-way with a savepoint in `sp`, and with these options.
fn stopped_half_way(options: &[&str]) -> Workplace {
    let place = Workplace::larkspur();
    stop_half_way(&place, options);
    place
}

fn stop_half_way(place: &Workplace, options: &[&str]) {
    let child = place.start(&SLOW);
    wait_for_half(place);
    let stop = place.command(&[&["stop", "job.yaml", "--savepoint", "sp"], options].concat()).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&stop.stdout), String::from_utf8_lossy(&stop.stderr));
    assert!(stop.status.success() && said.contains("has stopped at checkpoint") && said.contains("/sp"), "{said}");
    place.finish(child).expect(0, &["has stopped at checkpoint"]);
}

fn replace_in_spec(place: &Workplace, from: &str, to: &str) {
    let spec = fs::read_to_string(place.path("job.yaml")).unwrap();
    assert!(spec.contains(from), "{spec}");
    place.write("job.yaml", spec.replace(from, to));
}

fn inspect(place: &Workplace, path: &str) -> Value {
    serde_json::from_str(&place.run(&["savepoint", "inspect", path, "--format", "json"]).expect(0, &[]).stdout).unwrap()
}

/// One number of an operator.
fn number(contents: &Value, operator: &str, what: &str) -> u64 {
    let found = contents["operators"].as_array().unwrap().iter().find(|found| found["uid"] == operator).unwrap();
    found[what].as_u64().unwrap()
}

#[test]
fn the_second_version_takes_over_half_way_at_twice_the_parallelism() {
    let place = stopped_half_way(&[]);
    let contents = inspect(&place, "sp");
    assert!(number(&contents, "stock-out", "keys") > 5_000 && contents["parallelism"] == 2, "{contents}");
    place.run(&["savepoint", "inspect", "sp"]).expect(0, &["value state stock", "map state pending", "split(s)", "i64 to i64"]);
    let dump = place.run(&["savepoint", "dump", "sp", "--operator", "stock-out", "--state", "stock"]).expect(0, &[]).stdout.clone();
    place.write("stock.jsonl", &dump);
    let first: Value = serde_json::from_str(dump.lines().next().unwrap()).unwrap();
    let key = first["key"].to_string();
    let one = place.run(&["savepoint", "dump", "sp", "--operator", "stock-out", "--state", "stock", "--key", &key]);
    assert_eq!(one.expect(0, &[]).stdout.lines().collect::<Vec<_>>(), [dump.lines().next().unwrap()]);

    place.run(&["plan", "job.yaml", "--from", "sp"]).expect(0, &["state stock: kept"]);
    let v2 = component("stock_out_v2").display().to_string();
    replace_in_spec(&place, &component("stock_out").display().to_string(), &v2);
    place.run(&["plan", "job.yaml", "--from", "sp"]).expect(0, &["state stock: migrated: `low_since` added; can go back"]);
    fs::rename(place.path("sp"), place.path("moved")).unwrap();
    place.run(&["run", "job.yaml", "--from", "sp"]).expect(2, &["there is no savepoint in sp"]);
    place
        .run(&["run", "job.yaml", "--from", "moved/manifest.json", "--parallelism", "4"])
        .expect(0, &["took over savepoint", "resumed from checkpoint", "finished"]);
    let low = place.visible("out/alerts").iter().filter(|alert| alert["kind"] == "LOW_STOCK").count();
    assert!(low > 100, "{low}");
    oracle(&place, &["--upgraded-at", &place.path("stock.jsonl").display().to_string()]);
}

/// Compares the output with the batch answer.
fn oracle(place: &Workplace, options: &[&str]) {
    let python = std::env::var_os("TIDEMILL_PYTHON").map_or_else(|| root().join("target/python/bin/python"), Into::into);
    let output = Command::new(python)
        .arg(root().join("examples/larkspur/oracle.py"))
        .arg(place.path("data"))
        .arg("--alerts")
        .arg(place.path("out/alerts"))
        .arg("--late")
        .arg(place.path("out/late"))
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_renamed_operator_is_refused_unless_its_state_may_go() {
    let place = stopped_half_way(&[]);
    let keys = number(&inspect(&place, "sp"), "stock-out", "keys");
    replace_in_spec(&place, "uid: stock-out\n", "uid: stockout\n");
    replace_in_spec(&place, "input: stock-out", "input: stockout");
    let before = place.names(&format!("{DATA}/checkpoints"));
    let refused = ["state of operator stock-out, which the job does not have", "restore its uid", "--allow-non-restored-state"];
    place.run(&["plan", "job.yaml", "--from", "sp"]).expect(2, &refused);
    place.run(&["run", "job.yaml", "--from", "sp"]).expect(2, &refused);
    assert_eq!(place.names(&format!("{DATA}/checkpoints")), before);
    place.run(&["plan", "job.yaml", "--from", "sp", "--allow-non-restored-state"]).expect(4, &["dropped for good", "no way back"]);
    let said = format!("dropped all state of operator stock-out: {keys} keys");
    place.run(&["run", "job.yaml", "--from", "sp", "--allow-non-restored-state"]).expect(0, &[&said, "finished"]);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_starts() {
    let place = stopped_half_way(&[]);
    let before = place.names(&format!("{DATA}/checkpoints"));
    for (set, expected) in [
        ("max_parallelism=64", "has max_parallelism 128, the job asks for 64"),
        ("max_parallelism=256", "has max_parallelism 128, the job asks for 256"),
        ("parallelism=200", "parallelism 200 is more than the max_parallelism 128"),
    ] {
        place.run(&["run", "job.yaml", "--from", "sp", "--set", set]).expect(2, &[expected]);
    }
    let file = place.path("sp/worker-1.state");
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 1;
    fs::write(&file, &bytes).unwrap();
    for command in [&["run", "job.yaml", "--from", "sp"][..], &["savepoint", "inspect", "sp"]] {
        place.run(command).expect(1, &["sp/worker-1.state is damaged"]);
    }
    assert_eq!(place.names(&format!("{DATA}/checkpoints")), before);
    // The stop was at a checkpoint as well.
    place.run(&["run", "job.yaml"]).expect(0, &["resumed from checkpoint", "finished"]);
    place.check_with_oracle();
}

#[test]
fn a_plain_savepoint_commits_nothing_and_going_back_to_it_is_asked_for_twice() {
    let place = Workplace::larkspur();
    let child = place.start(&SLOW);
    wait_for_half(&place);
    let created = place.command(&["savepoint", "create", "job.yaml", "sp"]).output().unwrap();
    assert!(created.status.success(), "{created:?}");
    let again = place.command(&["savepoint", "create", "--data-dir", DATA, "sp"]).output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("needs a folder of its own"), "{again:?}");
    let id = inspect(&place, "sp")["checkpoint"].as_u64().unwrap();
    assert!(!place.names(&format!("{DATA}/checkpoints")).contains(&format!("chk-{id}")));
    place.complete(child, &[]);

    place.run(&["run", "job.yaml", "--from", "sp"]).expect(2, &["has committed output up to checkpoint", "--new-incarnation"]);
    place.run(&["run", "job.yaml", "--from", "sp", "--new-incarnation", "--parallelism", "3"]).expect(0, &["finished"]);
    // What the first incarnation had when the savepoint was taken, and what the second has written since, are the whole day.
    for folder in ["out/alerts", "out/late"] {
        for name in place.names(folder) {
            let numbers: Vec<u64> = name.trim_end_matches(".jsonl").split('-').filter_map(|part| part.parse().ok()).collect();
            if numbers.len() == 2 && numbers[0] > id {
                fs::remove_file(place.path(folder).join(name)).unwrap();
            }
        }
    }
    place.check_with_oracle();
}

#[test]
fn a_drain_fires_every_event_time_timer_before_the_savepoint() {
    let place = stopped_half_way(&["--drain"]);
    let contents = inspect(&place, "sp");
    assert_eq!(number(&contents, "stock-out", "event_timers"), 0);
    assert!(number(&contents, "first-copy", "keys") > 0);
    let pending = place.run(&["savepoint", "dump", "sp", "--operator", "stock-out", "--state", "pending"]);
    assert_eq!(pending.expect(0, &[]).stdout, "");
}

#[test]
fn a_crash_in_the_first_restore_goes_back_to_the_savepoint() {
    let place = stopped_half_way(&[]);
    let id = inspect(&place, "sp")["checkpoint"].as_u64().unwrap();
    // Nothing is left of the job but the savepoint and the output.
    fs::remove_dir_all(place.path(DATA)).unwrap();
    let mut child = place.start(&[&SLOW[..], &["--from", "sp", "--set", "checkpoints.interval=1h"]].concat());
    place.wait_until("the job runs", || fs::read_to_string(place.path("stderr.log")).is_ok_and(|log| log.contains("progress")));
    signal(&child, "-KILL");
    child.wait().unwrap();
    place.run(&["run", "job.yaml"]).expect(0, &[&format!("resumed from checkpoint {id}"), "finished"]);
    place.check_with_oracle();
    let newest = place.names(&format!("{DATA}/checkpoints")).into_iter().filter_map(|name| name.strip_prefix("chk-")?.parse::<u64>().ok());
    assert!(newest.max().is_some_and(|newest| newest > id));
}

#[test]
fn two_savepoints_are_compared() {
    let place = Workplace::larkspur();
    place.give(60);
    stop_half_way(&place, &[]);
    let checkpoint = place.names(&format!("{DATA}/checkpoints")).into_iter().find(|name| name.starts_with("chk-")).unwrap();
    place.run(&["savepoint", "diff", "sp", &format!("{DATA}/checkpoints/{checkpoint}")]).expect(0, &["the two hold the same"]);
    let before = place.visible("out/alerts").len();
    place.give(100);
    let child = place.start(&[&SLOW[..], &["--from", "sp", "--parallelism", "3"]].concat());
    place.wait_until("more alerts are there", || place.visible("out/alerts").len() > before);
    let stop = place.command(&["stop", "--data-dir", DATA, "--savepoint", "later"]).output().unwrap();
    assert!(stop.status.success(), "{stop:?}");
    place.finish(child).expect(0, &["stopped"]);
    place.run(&["savepoint", "diff", "sp", "later"]).expect(1, &["split data/pos-", "operator stock-out, state stock:", "keys added"]);
    place.run(&["stop", "job.yaml"]).expect(2, &["no job runs in the folder"]);
}

#[test]
fn a_kept_checkpoint_is_started_from_in_a_new_incarnation_and_is_not_lost_by_it() {
    let place = Workplace::larkspur();
    let keep = ["--set", "checkpoints.retain=100000"];
    let child = place.start(&[&SLOW[..], &keep].concat());
    wait_for_half(&place);
    let path = format!("{DATA}/checkpoints/{}", newest_checkpoint(&place));
    place.complete(child, &keep);
    place.run(&["run", "job.yaml", "--from", &path]).expect(2, &["--new-incarnation"]);
    let id = inspect(&place, &path)["checkpoint"].as_u64().unwrap();
    let mut child = place.start(&[&SLOW[..], &["--from", &path, "--new-incarnation", "--set", "checkpoints.interval=1h"]].concat());
    place.wait_until("the job has taken it over", || {
        fs::read_to_string(place.path("stderr.log")).is_ok_and(|log| log.contains("took over"))
    });
    signal(&child, "-KILL");
    child.wait().unwrap();
    place.run(&["run", "job.yaml"]).expect(0, &[&format!("resumed from checkpoint {id}"), "finished"]);
    assert!(place.names("out/alerts").iter().any(|name| name.starts_with(&format!("part-1-{}-", id + 1))));
}

fn newest_checkpoint(place: &Workplace) -> String {
    let names = place.names(&format!("{DATA}/checkpoints")).into_iter();
    let complete = names.filter(|name| place.names(&format!("{DATA}/checkpoints/{name}")).contains(&"manifest.json".to_owned()));
    complete.max_by_key(|name| name.strip_prefix("chk-").and_then(|id| id.parse::<u64>().ok())).unwrap()
}

#[test]
fn a_checkpoint_that_took_the_id_of_a_savepoint_is_not_written_over() {
    let place = Workplace::larkspur();
    let rare = [&SLOW[..], &["--set", "checkpoints.interval=1h"]].concat();
    let runs = || fs::read_to_string(place.path("stderr.log")).is_ok_and(|log| log.contains("progress"));
    let mut child = place.start(&rare);
    place.wait_until("the job runs", runs);
    assert!(place.command(&["savepoint", "create", "job.yaml", "sp"]).status().unwrap().success());
    signal(&child, "-KILL");
    child.wait().unwrap();
    let child = place.start(&rare);
    place.wait_until("the job runs again", runs);
    assert!(place.command(&["stop", "job.yaml"]).status().unwrap().success());
    place.finish(child).expect(0, &["stopped at checkpoint 1"]);
    place.run(&["run", "job.yaml", "--from", "sp"]).expect(2, &["gone on to its own checkpoint 1", "--new-incarnation"]);
    place.run(&["run", "job.yaml"]).expect(0, &["resumed from checkpoint 1", "finished"]);
    place.check_with_oracle();
}

/// The hidden parts of the job's alerts that have rows.
fn hidden(place: &Workplace) -> usize {
    let names = place.names("out/alerts").into_iter().filter(|name| name.starts_with(".part-"));
    names.filter(|name| fs::metadata(place.path("out/alerts").join(name)).is_ok_and(|meta| meta.len() > 0)).count()
}

#[test]
fn a_savepoint_whose_output_was_removed_since_is_refused_and_the_job_goes_on() {
    let place = Workplace::larkspur();
    place.give(30);
    let rare = [&SLOW[..], &["--set", "checkpoints.interval=1h"]].concat();
    let runs = || fs::read_to_string(place.path("stderr.log")).is_ok_and(|log| log.contains("progress"));
    let mut child = place.start(&rare);
    place.wait_until("some output is written", || hidden(&place) > 0);
    assert!(place.command(&["stop", "job.yaml"]).status().unwrap().success());
    place.finish(child).expect(0, &["stopped at checkpoint 1"]);
    place.give(100);
    child = place.start(&rare);
    place.wait_until("more output is written", || hidden(&place) > 0);
    assert!(place.command(&["savepoint", "create", "job.yaml", "sp"]).status().unwrap().success());
    for _ in 0..2 {
        signal(&child, "-KILL");
        child.wait().unwrap();
        // The second life removes the hidden output of the first one, to write it again.
        child = place.start(&rare);
        place.wait_until("the job runs again", runs);
    }
    signal(&child, "-KILL");
    child.wait().unwrap();
    let before = place.names(&format!("{DATA}/checkpoints"));
    let said = ["part(s) of output for sink alerts-file", "they are gone", "from checkpoint 1", "--new-incarnation"];
    place.run(&["run", "job.yaml", "--from", "sp"]).expect(2, &said);
    assert_eq!(place.names(&format!("{DATA}/checkpoints")), before);
    place.run(&["run", "job.yaml", "--from", "sp", "--new-incarnation", "--data-dir", "other"]).expect(0, &["begins without that output"]);
    // The parts of the second incarnation have its number in front.
    for folder in ["out/alerts", "out/late"] {
        for name in place.names(folder).into_iter().filter(|name| name.matches('-').count() == 3) {
            fs::remove_file(place.path(folder).join(name)).unwrap();
        }
    }
    place.run(&["run", "job.yaml"]).expect(0, &["resumed from checkpoint 1", "finished"]);
    place.check_with_oracle();
}

#[test]
fn a_savepoint_of_another_job_begins_a_new_incarnation_or_nothing() {
    let place = stopped_half_way(&[]);
    let other = ["run", "job.yaml", "--set", "name=other", "--from", "sp"];
    place.run(&other).expect(2, &["is of job stock-out, not of other", "--new-incarnation"]);
    assert!(!place.names("tidemill-data/other/checkpoints").iter().any(|name| name.starts_with("chk-")));
    place.run(&[&other[..], &["--new-incarnation"]].concat()).expect(0, &["took over savepoint", "finished"]);
}

#[test]
#[cfg(feature = "rocksdb")]
fn savepoints_of_state_in_files_are_whole_and_any_backend_goes_on_from_them() {
    let place = Workplace::larkspur();
    let rocksdb = ["--set", "state.backend=rocksdb", "--set", "state.memory=8MiB"];
    let child = place.start(&[&["run", "job.yaml", "--set", "sources.pos-baskets.max_rate=2500", "--set", FOLLOW][..], &rocksdb].concat());
    place.wait_until("some of the alerts are there", || place.visible("out/alerts").len() > 1_500);
    assert!(place.command(&["savepoint", "create", "job.yaml", "plain"]).status().unwrap().success());
    let rescale = place.command(&["rescale", "job.yaml", "--parallelism", "3", "--savepoint", "between"]).output().unwrap();
    assert!(rescale.status.success(), "{rescale:?}");
    assert!(place.command(&["stop", "job.yaml", "--savepoint", "sp"]).status().unwrap().success());
    place.finish(child).expect(0, &["stopped"]);
    let id = inspect(&place, "sp")["checkpoint"].as_u64().unwrap();
    place.run(&["savepoint", "diff", "sp", &format!("{DATA}/checkpoints/chk-{id}")]).expect(0, &["the two hold the same"]);
    for (path, workers) in [("plain", 2), ("between", 2), ("sp", 3)] {
        let contents = inspect(&place, path);
        assert!(contents["parallelism"] == workers && number(&contents, "stock-out", "keys") > 5_000, "{contents}");
        let states = place.names(path).into_iter().filter(|name| name.starts_with("worker-")).count();
        assert!(states == workers && place.names(path).len() <= states + 2, "{:?}", place.names(path));
    }
    // The checkpoint of the stop, whose files are others, is known to be the same.
    place.run(&["run", "job.yaml", "--from", "sp", "--parallelism", "1"]).expect(0, &["took over savepoint", "finished"]);
    place.check_with_oracle();
}
