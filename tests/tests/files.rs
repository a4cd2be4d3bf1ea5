//! What becomes of a job whose files are removed, rotated, overwritten, unreadable or too many, by the real program.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};
use tidemill_tests::cli::{Workplace, signal};

const RUN: [&str; 2] = ["run", "job.yaml"];

/// A job over followed files, with so many of them: `in/f0.jsonl` and so on, a record each, all read and committed.
fn followed(files: i64) -> Workplace {
    let place = Workplace::picky(", follow: true");
    (0..files).for_each(|id| place.write(&format!("in/f{id}.jsonl"), record(id)));
    place
}

fn record(id: i64) -> String {
    format!("{{\"id\": {id}, \"ts\": 1, \"act\": \"pass\"}}\n")
}

fn ids(place: &Workplace) -> Vec<i64> {
    let mut ids: Vec<i64> = place.visible("out/main").iter().filter_map(Value::as_i64).collect();
    ids.sort_unstable();
    ids
}

fn wait_for(place: &Workplace, expected: &[i64]) {
    place.wait_until(&format!("the records {expected:?} are out"), || ids(place).len() >= expected.len());
    assert_eq!(ids(place), expected);
}

fn wait_to_hear(place: &Workplace, text: &str) {
    place.wait_until(&format!("{text:?} is said"), || fs::read_to_string(place.path("stderr.log")).unwrap_or_default().contains(text));
}

/// Starts the job at a limit of open files: with 60 the files of a source are closed between polls if they are more than 15.
fn start(place: &Workplace, few: bool) -> std::process::Child {
    if few { place.start_limited("-Hn 60", &RUN) } else { place.start(&RUN) }
}

#[test]
fn files_that_are_read_and_gone_end_their_splits_however_many_they_are() {
    for (files, few) in [(3, false), (70, false), (70, true)] {
        let place = followed(files);
        let all: Vec<i64> = (0..files).collect();
        let child = start(&place, few);
        wait_for(&place, &all);
        // One is rotated out of the pattern while the job runs, one is removed.
        fs::rename(place.path("in/f0.jsonl"), place.path("old")).unwrap();
        place.write("in/f0.jsonl", record(1000));
        fs::remove_file(place.path("in/f1.jsonl")).unwrap();
        for name in ["in/f0.jsonl", "in/f1.jsonl"] {
            wait_to_hear(&place, &format!("source in: the file `{name}` is gone"));
        }
        wait_for(&place, &[&all[..], &[1000]].concat());
        signal(&child, "-INT");
        place.finish(child).expect(0, &["stopped"]);
        // One more is removed while it does not run. It is said once.
        fs::remove_file(place.path("in/f2.jsonl")).unwrap();
        place.write("in/g.jsonl", record(1001));
        let child = start(&place, few);
        wait_for(&place, &[&all[..], &[1000, 1001]].concat());
        wait_to_hear(&place, "the file `in/f2.jsonl` is gone");
        signal(&child, "-INT");
        let ended = place.finish(child);
        assert!(!ended.expect(0, &["stopped"]).stderr.contains("f1.jsonl") && !ended.stderr.contains("restarts"), "{ended:#?}");
        let child = start(&place, few);
        place.write("in/h.jsonl", record(1002));
        wait_for(&place, &[&all[..], &[1000, 1001, 1002]].concat());
        signal(&child, "-INT");
        let ended = place.finish(child);
        assert!(!ended.expect(0, &["stopped"]).stderr.contains("gone"), "{ended:#?}");
    }
}

#[test]
fn an_unread_rest_that_is_gone_can_be_given_up_and_the_state_kept() {
    let place = followed(2);
    let child = place.start(&RUN);
    wait_for(&place, &[0, 1]);
    // Half a record is waited for.
    fs::OpenOptions::new().append(true).open(place.path("in/f1.jsonl")).unwrap().write_all(b"{\"id\": 5,").unwrap();
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
    let child = place.start(&["run", "job.yaml", "--set", "parallelism=2"]);
    place.write("in/f2.jsonl", record(2));
    wait_for(&place, &[0, 1, 2]);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
    fs::rename(place.path("in/f1.jsonl"), place.path("away")).unwrap();
    let set = "sources.in.file.on_gone=skip";
    place.run(&RUN).expect(1, &["`in/f1.jsonl` of source in is gone, and 9 bytes of it", "`in/*.jsonl`", set]);
    place.write("in/f3.jsonl", record(3));
    let child = place.start(&["run", "job.yaml", "--set", set]);
    wait_for(&place, &[0, 1, 2, 3]);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["resumed", "`in/f1.jsonl` is gone, and 9 bytes of it", "stopped"]);
    let child = place.start(&RUN);
    place.write("in/f4.jsonl", record(4));
    wait_for(&place, &[0, 1, 2, 3, 4]);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["resumed", "stopped"]);
}

/// Appends a record.
fn append(place: &Workplace, name: &str, id: i64) {
    fs::OpenOptions::new().append(true).open(place.path(name)).unwrap().write_all(record(id).as_bytes()).unwrap();
}

/// Replaces a file by a copy of it with one more record, as `rsync` and `sed -i` do.
fn replace_by_copy(place: &Workplace, name: &str, id: i64) {
    place.write("copy", fs::read(place.path(name)).unwrap());
    append(place, "copy", id);
    fs::rename(place.path("copy"), place.path(name)).unwrap();
}

#[test]
fn a_copy_in_the_place_of_a_followed_file_is_read_on() {
    let place = followed(1);
    let child = place.start(&RUN);
    wait_for(&place, &[0]);
    (1..50).for_each(|id| append(&place, "in/f0.jsonl", id));
    wait_for(&place, &(0..50).collect::<Vec<_>>());
    replace_by_copy(&place, "in/f0.jsonl", 50);
    wait_for(&place, &(0..51).collect::<Vec<_>>());
    wait_to_hear(&place, "it is taken for a copy");
    append(&place, "in/f0.jsonl", 51);
    wait_for(&place, &(0..52).collect::<Vec<_>>());
    // It is known by its new identity, so it may also be renamed.
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
    fs::rename(place.path("in/f0.jsonl"), place.path("in/f1.jsonl")).unwrap();
    append(&place, "in/f1.jsonl", 52);
    let child = place.start(&RUN);
    wait_for(&place, &(0..53).collect::<Vec<_>>());
    signal(&child, "-INT");
    assert!(!place.finish(child).expect(0, &["stopped"]).stderr.contains("taken for a copy"));
    // Between runs, and after its split has ended.
    replace_by_copy(&place, "in/f1.jsonl", 53);
    let child = place.start(&RUN);
    wait_for(&place, &(0..54).collect::<Vec<_>>());
    place.write("backup", fs::read(place.path("in/f1.jsonl")).unwrap());
    fs::remove_file(place.path("in/f1.jsonl")).unwrap();
    wait_to_hear(&place, "the file `in/f1.jsonl` is gone");
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
    append(&place, "backup", 54);
    fs::rename(place.path("backup"), place.path("in/f1.jsonl")).unwrap();
    let child = place.start(&RUN);
    wait_for(&place, &(0..55).collect::<Vec<_>>());
    signal(&child, "-INT");
    place.finish(child).expect(0, &["taken for a copy", "stopped"]);
}

#[test]
fn a_file_that_comes_back_under_its_name_is_read_on_and_the_job_restarts() {
    let place = followed(1);
    let child = place.start(&RUN);
    wait_for(&place, &[0]);
    fs::rename(place.path("in/f0.jsonl"), place.path("away")).unwrap();
    wait_to_hear(&place, "the file `in/f0.jsonl` is gone");
    fs::rename(place.path("away"), place.path("in/f0.jsonl")).unwrap();
    append(&place, "in/f0.jsonl", 1);
    wait_for(&place, &[0, 1]);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
    append(&place, "in/f0.jsonl", 2);
    let child = place.start(&RUN);
    wait_for(&place, &[0, 1, 2]);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
}

#[test]
fn what_a_file_has_got_before_it_was_rotated_between_runs_is_read() {
    for (stop, path) in [("-INT", "in/*.jsonl"), ("-KILL", "in/*.jsonl"), ("-INT", "in/f0.jsonl")] {
        let set = format!("sources.in.file.path={path}");
        let run = ["run", "job.yaml", "--set", &set];
        let place = followed(1);
        let child = place.start(&run);
        wait_for(&place, &[0]);
        signal(&child, stop);
        _ = place.finish(child);
        append(&place, "in/f0.jsonl", 1);
        fs::rename(place.path("in/f0.jsonl"), place.path("in/f0.jsonl.1")).unwrap();
        place.write("in/f0.jsonl", record(2));
        let child = place.start(&run);
        wait_for(&place, &[0, 1, 2]);
        signal(&child, "-INT");
        place.finish(child).expect(0, &["renamed to `in/f0.jsonl.1`", "stopped"]);
    }
}

#[test]
fn a_finished_job_tells_of_input_that_it_has_not_read() {
    let place = Workplace::picky("");
    (0..2).for_each(|id| place.write(&format!("in/f{id}.jsonl"), record(id)));
    place.run(&RUN).expect(0, &["finished"]);
    // Copies and other names are no new input.
    fs::rename(place.path("in/f1.jsonl"), place.path("in/g.jsonl")).unwrap();
    place.write("copy", fs::read(place.path("in/f0.jsonl")).unwrap());
    fs::rename(place.path("copy"), place.path("in/f0.jsonl")).unwrap();
    assert!(!place.run(&RUN).expect(0, &["finished already"]).stdout.contains("has not read"));
    append(&place, "in/f0.jsonl", 2);
    (3..8).for_each(|id| place.write(&format!("in/n{id}.jsonl"), record(id)));
    let expected = [
        "finished already",
        "has not read",
        "source in has 5 files that are new (`in/n3.jsonl`, `in/n4.jsonl`, `in/n5.jsonl`, ..)",
        "1 file that is longer than what was read (`in/f0.jsonl`)",
        "--fresh",
        "follow: true",
    ];
    place.run(&RUN).expect(0, &expected);
    assert_eq!(ids(&place), [0, 1]);
}

#[test]
fn an_overwritten_file_stops_the_job_or_is_read_from_the_begin() {
    let old: String = (10..30).map(record).collect();
    let new: String = (50..100).map(record).collect();
    let set = ["run", "job.yaml", "--set", "sources.in.file.on_replaced=begin_again"];
    for live in [true, false] {
        let place = followed(0);
        place.write("in/a.jsonl", &old);
        let child = place.start(&RUN);
        wait_for(&place, &(10..30).collect::<Vec<_>>());
        let ended = if live {
            place.write("in/a.jsonl", &new);
            place.finish(child)
        } else {
            signal(&child, "-INT");
            place.finish(child).expect(0, &["stopped"]);
            place.write("in/a.jsonl", &new);
            place.run(&RUN)
        };
        ended.expect(1, &["error: ", "`in/a.jsonl` of source in was overwritten", "on_replaced: begin_again"]);
        let child = place.start(&set);
        wait_for(&place, &(10..30).chain(50..100).collect::<Vec<_>>());
        // As `copytruncate` does it, with less and with more than was read.
        place.write("in/a.jsonl", record(200));
        wait_for(&place, &(10..30).chain(50..100).chain([200]).collect::<Vec<_>>());
        place.write("in/a.jsonl", (300..400).map(record).collect::<String>());
        wait_for(&place, &(10..30).chain(50..100).chain([200]).chain(300..400).collect::<Vec<_>>());
        signal(&child, "-INT");
        place.finish(child).expect(0, &["`in/a.jsonl` was overwritten", "stopped"]);
    }
}

#[test]
fn what_is_left_out_is_said() {
    let place = Workplace::picky("");
    place.write("in/a.jsonl", record(1));
    fs::write(place.path("in").join(OsStr::from_bytes(b"\xff.jsonl")), record(2)).unwrap();
    for command in ["validate", "run"] {
        place.run(&[command, "job.yaml"]).expect(0, &["in/\\xFF.jsonl` is not UTF-8, so what has it is not read: rename it"]);
    }
    assert_eq!(ids(&place), [1]);
}

#[test]
fn a_name_with_a_line_break_is_read_and_shown_in_one_line() {
    let place = Workplace::picky("");
    place.write("in/a\nb.jsonl", "{\"id\": 1, \"ts\": 1, \"act\": \"pass\"}\n{\"id\": 2, \"ts\": 1, \"act\": \"bad\"}\n");
    place.run(&["run", "job.yaml", "--set", "operators.picky.on_error=dead-letter"]).expect(0, &["finished"]);
    assert_eq!(ids(&place), [1]);
    assert_eq!(place.visible("out/dead")[0]["position"], json!("in/a\\nb.jsonl line 2"));
}

#[test]
fn validate_tells_how_many_files_match() {
    let place = Workplace::picky("");
    place
        .run(&["validate", "job.yaml"])
        .expect(0, &["WARN", "job.yaml:6:19: source in: no file matches", "`tidemill run` refuses the job", "source in: 0 files match"]);
    place.run(&["validate", "job.yaml", "--set", "sources.in.file.follow=true"]).expect(0, &["no file matches", "the job waits for files"]);
    (1..=2).for_each(|id| place.write(&format!("in/{id}.jsonl"), record(id)));
    let ended = place.run(&["validate", "job.yaml"]);
    assert!(!ended.expect(0, &["source in: 2 files match"]).stderr.contains("no file"), "{ended:#?}");
}

#[test]
fn a_job_that_would_read_its_own_output_is_refused() {
    let place = Workplace::picky(", follow: true");
    place.write("in/a.jsonl", record(1));
    fs::create_dir_all(place.path("out")).unwrap();
    std::os::unix::fs::symlink(place.path("in"), place.path("out/link")).unwrap();
    for path in ["in", "in/sub/..", "out/link"] {
        for command in ["validate", "run"] {
            let set = format!("sinks.out.file.path={path}");
            place
                .run(&[command, "job.yaml", "--set", &set])
                .expect(2, &["the sink `out` writes parts", "the source `in` (job.yaml:6:19)", "its own output"]);
        }
    }
    assert_eq!(place.names("in"), ["a.jsonl"]);
    for fine in ["sinks.out.file.path=in/out", "sinks.out.file.path=in-out", "sources.in.file.path=in/a*.jsonl"] {
        place.run(&["validate", "job.yaml", "--set", fine]).expect(0, &["sound"]);
    }
}

#[test]
fn few_open_files_are_enough_for_many_and_too_few_are_named() {
    let place = Workplace::picky("");
    (0..100).for_each(|id| place.write(&format!("in/f{id}.jsonl"), record(id)));
    let few = place.finish(place.start_limited("-Hn 4", &RUN));
    assert!(few.code() != 0 && few.stderr.contains("ulimit -n"), "{few:#?}");
    let ended = place.finish(place.start_limited("-Hn 40", &[&RUN[..], &["--fresh"]].concat()));
    ended.expect(0, &["finished"]);
    assert_eq!(ids(&place), (0..100).collect::<Vec<_>>());
}
