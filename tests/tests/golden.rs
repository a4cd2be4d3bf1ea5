//! A savepoint that an earlier version made is restored by this one, at any parallelism, and answers as it must. A component that was built for
//! an earlier version runs.
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

/// The component from before the contract had the interface `detector`.
fn with_root_exports() -> PathBuf {
    root().join("tests/golden/root-exports-1/quiet.wasm")
}

fn has_the_interface(component: &Path) -> bool {
    let (bytes, name) = (fs::read(component).unwrap(), b"tidemill:process/detector");
    bytes.windows(name.len()).any(|window| window == name)
}

#[test]
fn a_component_with_exports_outside_the_interface_is_tested_and_inspected_like_any_other() {
    let (old, new) = (with_root_exports(), component("quiet"));
    assert!(!has_the_interface(&old) && has_the_interface(&new));
    let place = Workplace::new();
    let guests = new.parent().unwrap().display().to_string();
    let case = old.with_file_name("quiet.case.yaml").display().to_string();
    place.run(&["test", &case, "--components", &guests]).expect(0, &["1 passed, 0 failed"]);
    let inspected = |path: &Path| {
        let shown = place.run(&["component", "inspect", &path.display().to_string()]).expect(0, &["seen: value"]).stdout.clone();
        shown.lines().filter(|line| !line.starts_with("file ") && !line.starts_with("digest ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(inspected(&old), inspected(&new));
}

/// The savepoint of one is taken over by the other in the middle of its timers.
#[test]
fn a_job_of_a_component_with_exports_outside_the_interface_continues_with_one_of_today() {
    let place = Workplace::new();
    let spec = |component: &Path, follow: bool| {
        format!(
            "name: quiet\ncheckpoints: {{ interval: 50ms }}\n\
             sources:\n  - uid: in\n    file: {{ path: \"in/*.jsonl\", format: json, follow: {follow} }}\n    timestamp: at\n    \
             watermark: {{ bounded_out_of_orderness: 1s }}\n\
             operators:\n  - uid: quiet\n    input: in\n    key_by: [device]\n    component: {}\n    parameters: {{ after: 10s }}\n\
             sinks:\n  - {{ uid: out, input: quiet, file: {{ path: out, format: json }} }}\n",
            component.display()
        )
    };
    let said = || {
        let row = |row: Value| format!("{} {} {}", row["device"].as_str().unwrap(), row["at"], row["readings"]);
        let mut rows: Vec<_> = place.visible("out").into_iter().map(row).collect();
        rows.sort();
        rows
    };
    let reading = |device: &str, at: u32| format!("{{\"device\": \"{device}\", \"at\": {at}}}\n");
    place.write("in/a.jsonl", [reading("a", 1000), reading("b", 2000), reading("c", 30_000)].concat());
    place.write("job.yaml", spec(&with_root_exports(), true));
    let child = place.start(&["run", "job.yaml"]);
    place.wait_until("four timers have fired", || said().len() == 4);
    place.run(&["stop", "job.yaml", "--savepoint", "sp"]).expect(0, &["has stopped at checkpoint"]);
    place.finish(child).expect(0, &["has stopped at checkpoint"]);
    let before = ["a 11000 1", "a 21000 1", "b 12000 1", "b 22000 1"];
    assert_eq!(said(), before);

    place.write("job.yaml", spec(&component("quiet"), false));
    place.run(&["run", "job.yaml", "--from", "sp"]).expect(0, &["took over", "finished"]);
    let mut all = [&before[..], &["a 31000 1", "b 32000 1", "c 40000 1"]].concat();
    all.sort_unstable();
    assert_eq!(said(), all);
}
