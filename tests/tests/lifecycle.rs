//! A job's life on the command line: stopping, resuming, starting again, a second process, changes between runs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use serde_json::{Value, json};
use tidemill_tests::cli::{FOLLOW, Workplace, component, records, signal};

/// It takes some seconds for the day, and then waits for more.
const SLOW: [&str; 6] = ["run", "job.yaml", "--set", "sources.pos-baskets.max_rate=6000", "--set", FOLLOW];
const DATA: &str = "tidemill-data/stock-out";

fn wait_for_checkpoint(place: &Workplace, at_least: u64) {
    wait_for_checkpoint_in(place, DATA, at_least);
}

fn wait_for_checkpoint_in(place: &Workplace, folder: &str, at_least: u64) {
    place.wait_until("a checkpoint completes", || {
        let ids =
            place.names(&format!("{folder}/checkpoints")).into_iter().filter_map(|name| name.strip_prefix("chk-")?.parse::<u64>().ok());
        ids.max().is_some_and(|id| id > at_least)
    });
}

#[test]
fn ctrl_c_stops_at_a_checkpoint_and_the_same_command_goes_on() {
    let place = Workplace::larkspur();
    let child = place.start(&SLOW);
    wait_for_checkpoint(&place, 3);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped", "same command"]);
    let alerts = place.visible("out/alerts").len();
    assert!(alerts < 9_833);
    place.run(&["run", "job.yaml"]).expect(0, &["resumed from checkpoint", "finished"]);
    place.check_with_oracle();
}

#[test]
fn ctrl_c_twice_stops_at_once_and_nothing_is_lost() {
    let place = Workplace::larkspur();
    // No checkpoint can complete meanwhile, so the first signal alone would not end the process soon.
    let child = place.start(&SLOW);
    wait_for_checkpoint(&place, 2);
    signal(&child, "-STOP");
    signal(&child, "-INT");
    signal(&child, "-TERM");
    signal(&child, "-CONT");
    let ended = place.finish(child);
    assert!([0, 130].contains(&ended.code()), "{ended:#?}");
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    place.check_with_oracle();
}

#[test]
fn a_second_job_is_kept_out_of_a_sink_folder_and_of_a_job_folder_that_are_not_its_own() {
    let place = Workplace::larkspur();
    let other = ["run", "job.yaml", "--set", "name=other"];
    let child = place.start(&SLOW);
    wait_for_checkpoint(&place, 1);
    let second = place.command(&other).output().unwrap();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(3), "{text}");
    assert!(text.contains("out/alerts") && text.contains(&format!("job stock-out (process {})", child.id())), "{text}");
    place.complete(child, &["--set", "checkpoints.on_finish=delete"]);
    assert!(place.names("out/alerts").iter().all(|name| !name.starts_with('.') || name == ".tidemill-job-stock-out"));
    // Neither its output nor its end is the other job's.
    place.run(&other).expect(2, &["already holds committed output", "--fresh"]);
    place.run(&[&other[..], &["--data-dir", DATA]].concat()).expect(2, &["of job stock-out, not of other"]);
    place.run(&["run", "job.yaml"]).expect(0, &["finished already"]);
}

#[test]
fn a_folder_with_a_job_may_be_moved() {
    let place = Workplace::larkspur();
    fs::create_dir(place.path("a")).unwrap();
    for name in ["data", "job.yaml"] {
        fs::rename(place.path(name), place.path("a").join(name)).unwrap();
    }
    let child = place.start(&[&["run", "a/job.yaml"], &SLOW[2..]].concat());
    wait_for_checkpoint_in(&place, &format!("a/{DATA}"), 3);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
    fs::rename(place.path("a"), place.path("b")).unwrap();
    place.run(&["run", "b/job.yaml"]).expect(0, &["resumed from checkpoint", "finished"]);
    for name in ["data", "out"] {
        fs::rename(place.path("b").join(name), place.path(name)).unwrap();
    }
    place.check_with_oracle();
}

#[test]
fn a_second_process_is_refused_and_the_first_goes_on() {
    let place = Workplace::larkspur();
    let child = place.start(&SLOW);
    wait_for_checkpoint(&place, 1);
    let second = place.command(&["run", "job.yaml"]).output().unwrap();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(3), "{text}");
    assert!(text.contains("stock-out") && text.contains(&format!("process {}", child.id())), "{text}");
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    place.check_with_oracle();
}

#[test]
fn a_finished_job_says_so_and_fresh_begins_a_new_incarnation() {
    let place = Workplace::larkspur();
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    let first = place.names("out/alerts");
    place.run(&["run", "job.yaml"]).expect(0, &["has finished already", "--fresh"]);
    assert_eq!(place.names("out/alerts"), first);

    place.run(&["run", "job.yaml", "--fresh"]).expect(0, &["from nothing", "finished"]);
    let both = place.names("out/alerts");
    assert!(first.iter().all(|name| both.contains(name)) && both.iter().any(|name| name.starts_with("part-1-")), "{both:?}");
    assert_eq!(place.visible("out/alerts").len(), 2 * 9_833);

    fs::remove_dir_all(place.path("tidemill-data")).unwrap();
    place.run(&["run", "job.yaml"]).expect(2, &["alerts-file", "already holds committed output", "--fresh"]);
    assert_eq!(place.names("out/alerts"), both);
    place.run(&["run", "job.yaml", "--fresh"]).expect(0, &["finished"]);
    assert!(place.names("out/alerts").iter().any(|name| name.starts_with("part-2-")));
}

#[test]
fn a_job_never_touches_the_folder_of_another() {
    let place = Workplace::larkspur();
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    for extra in [&[][..], &["--fresh"]] {
        let arguments = ["run", "job.yaml", "--set", "name=other", "--data-dir", DATA];
        place.run(&[&arguments[..], extra].concat()).expect(2, &["stock-out", "other", "--data-dir"]);
    }
    place.run(&["run", "job.yaml"]).expect(0, &["has finished already"]);
}

#[test]
fn two_sinks_in_one_folder_are_refused_even_behind_a_link() {
    let place = Workplace::larkspur();
    fs::create_dir(place.path("out")).unwrap();
    fs::create_dir(place.path("out/alerts")).unwrap();
    std::os::unix::fs::symlink("alerts", place.path("out/late")).unwrap();
    for command in ["validate", "run"] {
        place.run(&[command, "job.yaml"]).expect(2, &["job.yaml:", "alerts-file", "late-file", "same folder"]);
    }
    assert!(place.names("out/alerts").is_empty());
}

#[test]
fn a_log_that_cannot_be_written_stops_no_job() {
    let place = Workplace::larkspur();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = |arguments: &[&str]| place.command(arguments).stderr(full()).stdout(full()).status().unwrap().code();
    assert_eq!(run(&["run", "job.yaml"]), Some(0));
    place.check_with_oracle();
    assert_eq!(run(&["validate", "absent.yaml"]), Some(2));
}

#[test]
fn parallelism_may_change_between_runs() {
    let place = Workplace::larkspur();
    for parallelism in ["1", "3", "2"] {
        let child = place.start(&[&SLOW[..], &["--set", &format!("parallelism={parallelism}")]].concat());
        let before =
            place.names(&format!("{DATA}/checkpoints")).iter().filter_map(|name| name.strip_prefix("chk-")?.parse::<u64>().ok()).max();
        wait_for_checkpoint(&place, before.unwrap_or(0) + 3);
        signal(&child, "-KILL");
        assert_eq!(place.finish(child).code(), -1);
    }
    place.run(&["run", "job.yaml", "--set", "parallelism=4"]).expect(0, &["resumed", "finished"]);
    place.check_with_oracle();
}

#[test]
fn a_job_that_does_not_fit_its_checkpoint_is_refused_and_nothing_changes() {
    let place = Workplace::larkspur();
    let child = place.start(&SLOW);
    wait_for_checkpoint(&place, 2);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
    let spec = fs::read_to_string(place.path("job.yaml")).unwrap();

    place.run(&["run", "job.yaml", "--set", "max_parallelism=64"]).expect(2, &["128", "64"]);
    place.write("renamed.yaml", spec.replace("uid: stock-out", "uid: other").replace("input: stock-out", "input: other"));
    place.run(&["run", "renamed.yaml"]).expect(2, &["stock-out", "--fresh"]);
    let picky = component("picky");
    let swapped = spec.replace(&component("first_copy").display().to_string(), &picky.display().to_string());
    place.write("swapped.yaml", swapped);
    place.run(&["run", "swapped.yaml"]).expect(2, &["swapped.yaml:"]);

    place.run(&["run", "job.yaml"]).expect(0, &["resumed", "finished"]);
    place.check_with_oracle();
}

#[test]
fn a_record_that_always_fails_stops_the_job_with_its_place() {
    let place = Workplace::picky("");
    place.write("in/a.jsonl", records(&["pass", "bad", "pass"]));
    let ended = place.run(&["run", "job.yaml"]);
    ended.expect(1, &["3 times", "in/a.jsonl line 2", "this record asked for it", "operator picky"]);
    place.write("in/b.jsonl", records(&["fatal"]));
    place.run(&["run", "job.yaml", "--fresh", "--set", "operators.picky.on_error=dead-letter"]).expect(1, &["asked for the end"]);
}

#[test]
fn dead_letters_tell_what_and_where_and_the_rest_is_unharmed() {
    let acts = ["pass", "bad", "pass", "trap", "pass", "recurse", "allocate", "timer", "pass"];
    // As long as it takes: only what loops is to meet its deadline.
    let (passed, dead) = dead_letters(&acts, "10m");
    assert_eq!(passed, [0, 2, 4, 8]);
    check_letters(&dead, &[(1, "this record asked for it"), (3, "asked to trap"), (5, "stack"), (6, "16 MiB")]);
    let timer = dead.iter().find(|letter| letter["source"].is_null()).unwrap();
    assert_eq!(timer["value"].as_str().unwrap(), r#"{"domain":"event","timestamp":1007,"key":7}"#);
    assert_eq!(dead.len(), 5, "{dead:#?}");

    let (passed, dead) = dead_letters(&["pass", "loop", "pass"], "2s");
    assert_eq!((passed, dead.len()), (vec![0, 2], 1), "{dead:#?}");
    check_letters(&dead, &[(1, "2 s")]);
}

/// Runs records; returns the ids of those that passed, and the dead letters.
fn dead_letters(acts: &[&str], deadline: &str) -> (Vec<i64>, Vec<Value>) {
    let place = Workplace::picky("");
    place.write("in/a.jsonl", records(acts));
    let deadline = format!("operators.picky.limits.deadline={deadline}");
    let set = ["--set", "operators.picky.on_error=dead-letter", "--set", "operators.picky.limits.memory=16MiB", "--set", &deadline];
    place.run(&[&["run", "job.yaml"][..], &set].concat()).expect(0, &["finished"]);
    let mut passed: Vec<_> = place.visible("out/main").iter().map(|id| id.as_i64().unwrap()).collect();
    passed.sort_unstable();
    (passed, place.visible("out/dead"))
}

fn check_letters(dead: &[Value], expected: &[(i64, &str)]) {
    for (id, reason) in expected {
        let letter = dead.iter().find(|letter| letter["value"].as_str().unwrap().contains(&format!("\"id\":{id},"))).unwrap();
        assert!(letter["reason"].as_str().unwrap().contains(reason), "{letter}");
        assert_eq!((&letter["operator"], &letter["source"], &letter["timestamp"]), (&json!("picky"), &json!("in"), &json!(1000 + id)));
        assert!(letter["position"].as_str().unwrap().ends_with(&format!("in/a.jsonl line {}", id + 1)), "{letter}");
    }
}

#[test]
fn a_followed_source_takes_new_lines_and_new_files_and_waits_for_half_a_line() {
    let place = Workplace::picky(", follow: true");
    place.write("in/a.jsonl", "{\"id\": 1, \"ts\": 1, \"act\": \"pass\"}\n{\"id\": 2, ");
    let child = place.start(&["run", "job.yaml"]);
    place.wait_until("the first record is out", || place.visible("out/main") == [json!(1)]);
    let mut file = fs::OpenOptions::new().append(true).open(place.path("in/a.jsonl")).unwrap();
    std::io::Write::write_all(&mut file, b"\"ts\": 2, \"act\": \"pass\"}\n").unwrap();
    place.wait_until("the second record is out", || place.visible("out/main").len() == 2);
    place.write("in/b.jsonl", "{\"id\": 3, \"ts\": 3, \"act\": \"pass\"}\n");
    place.wait_until("the record of the new file is out", || place.visible("out/main").len() == 3);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
}

#[test]
fn a_worker_without_a_split_does_not_hold_timers_back() {
    let place = Workplace::picky(", follow: true");
    place.write("in/a.jsonl", records(&["timer", "pass"]) + "{\"id\": 9, \"ts\": 100000, \"act\": \"pass\"}\n");
    let set = ["--set", "operators.picky.on_error=dead-letter", "--set", "parallelism=3"];
    let child = place.start(&[&["run", "job.yaml"][..], &set].concat());
    // The timer of this component does nothing but fail.
    place.wait_until("the timer fires", || place.visible("out/dead").len() == 1);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
}

#[test]
fn readers_may_take_committed_output_away() {
    let place = Workplace::larkspur();
    let child = place.start(&SLOW);
    wait_for_checkpoint(&place, 3);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
    let taken = place.visible("out/alerts").len();
    fs::rename(place.path("out/alerts"), place.path("taken")).unwrap();
    place.run(&["run", "job.yaml"]).expect(0, &["resumed", "finished"]);
    assert_eq!(taken + place.visible("out/alerts").len(), 9_833);
}

#[test]
fn rows_go_in_and_out_as_csv() {
    let place = Workplace::picky("");
    let spec = fs::read_to_string(place.path("job.yaml")).unwrap();
    let spec =
        spec.replace("in/*.jsonl\", format: json", "in/*.csv\", format: csv").replace("out/dead, format: json", "out/dead, format: csv");
    place.write("job.yaml", spec);
    place.write("in/a.csv", "act,ts,id,unknown\npass,5,1,x\n\"bad\",6,2,\"y\"\npass,7,3,\n");
    place.run(&["run", "job.yaml", "--set", "operators.picky.on_error=dead-letter"]).expect(0, &["finished"]);
    assert_eq!(place.visible("out/main"), [json!(1), json!(3)]);
    let part = place.names("out/dead").into_iter().find(|name| name.starts_with("part-")).unwrap();
    let dead = fs::read_to_string(place.path("out/dead").join(part)).unwrap();
    let mut lines = dead.lines();
    assert_eq!(lines.next(), Some("operator,reason,source,position,timestamp,value"));
    assert!(lines.next().unwrap().starts_with("picky,this record asked for it,in,"), "{dead}");
}
