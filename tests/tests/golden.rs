//! A savepoint that an earlier version made is restored by this one, at any parallelism, and answers as it must.
#![expect(clippy::unwrap_used, reason = "a test cannot go on")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tidemill_core::checkpoint::manifest::Manifest;
use tidemill_tests::cli::{Workplace, component, root};

fn golden(name: &str) -> PathBuf {
    root().join("tests/golden/probe-1").join(name)
}

/// A folder with the golden job and its savepoint; more input has come meanwhile, and then it ends.
fn place() -> Workplace {
    let place = Workplace::new();
    let spec = fs::read_to_string(golden("job.yaml")).unwrap();
    place.write("job.yaml", spec.replace("COMPONENT", &component("probe").display().to_string()).replace(", follow: true", ""));
    let read = |name: &str| fs::read(golden(name)).unwrap();
    place.write("in/records.jsonl", [read("in/records.jsonl"), read("questions.jsonl")].concat());
    copy(&golden("savepoint"), &place, "savepoint");
    place
}

fn copy(from: &Path, place: &Workplace, to: &str) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        place.write(&format!("{to}/{}", entry.file_name().to_str().unwrap()), fs::read(entry.path()).unwrap());
    }
}

/// What is said, by key: the order of one key's words counts.
fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(|row| row["key"].to_string());
    rows
}

#[test]
fn a_savepoint_of_an_earlier_version_is_restored_at_any_parallelism() {
    let expected = fs::read_to_string(golden("expected.jsonl")).unwrap();
    let expected = sorted(expected.lines().map(|line| serde_json::from_str(line).unwrap()).collect());
    for parallelism in ["1", "2", "7", "128"] {
        let place = place();
        place.run(&["run", "job.yaml", "--from", "savepoint", "--parallelism", parallelism]).expect(0, &["took over", "finished"]);
        assert_eq!(sorted(place.visible("out")), expected, "parallelism {parallelism}");
    }
}

#[test]
fn a_savepoint_of_an_earlier_version_is_still_read() {
    let place = place();
    let shown = place.run(&["savepoint", "inspect", "savepoint"]);
    shown.expect(0, &["8 keys of type string, 16 event-time timers, 8 processing-time timers", "map state map: 8 keys, 16 entries"]);
    let dump = |state: &str, key: &str| {
        place.run(&["savepoint", "dump", "savepoint", "--operator", "probe", "--state", state, "--key", key]).expect(0, &[]).stdout.clone()
    };
    assert_eq!(dump("note", "b"), "{\"key\":\"b\",\"value\":{\"count\":1,\"text\":\"note 1\"}}\n");
    assert_eq!(
        dump("list", "\"d\\u0000e\""),
        "{\"key\":\"d\\u0000e\",\"index\":0,\"value\":\"x3\"}\n{\"key\":\"d\\u0000e\",\"index\":1,\"value\":\"y\"}\n"
    );
    place.run(&["savepoint", "dump", "savepoint", "--operator", "prob", "--state", "note"]).expect(2, &["did you mean `probe`?"]);
    place.run(&["savepoint", "dump", "savepoint", "--operator", "probe", "--state", "nota"]).expect(2, &["did you mean `note`?"]);
}

/// What follows a checkpoint names it by the hash of its manifest, and a start reads that manifest and may be by a newer version.
#[test]
fn a_manifest_of_an_earlier_version_is_the_same_bytes_when_it_is_written_again() {
    let bytes = fs::read(golden("savepoint/manifest.json")).unwrap();
    assert_eq!(Manifest::from_bytes(&bytes).unwrap().to_bytes().unwrap(), bytes);
}

/// Every bit that is flipped and every end that is cut off is noticed.
#[test]
fn damaged_savepoints_are_refused_by_name() {
    for (name, at) in [("manifest.json", 0), ("manifest.json", 9_000), ("worker-0.state", 3), ("worker-1.state", 400)] {
        let bytes = fs::read(golden("savepoint").join(name)).unwrap();
        let mut flipped = bytes.clone();
        flipped[at] ^= 4;
        for damaged in [&flipped[..], &bytes[..at], &[]] {
            let place = place();
            place.write(&format!("savepoint/{name}"), damaged);
            let what = if name == "manifest.json" { "the manifest" } else { name };
            for command in [&["run", "job.yaml", "--from", "savepoint"][..], &["savepoint", "inspect", "savepoint"]] {
                place.run(command).expect(1, &["savepoint", what]);
            }
            assert!(
                place.names("out").iter().all(|name| name.starts_with('.')) && place.names("tidemill-data/golden/checkpoints").len() == 1
            );
        }
    }
}
