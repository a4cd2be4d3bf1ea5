//! Savepoints that somebody has made to hurt, by the real binary: no command waits for ever, takes memory without end, or reads what it must not.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tidemill_tests::cli::{Ended, Workplace, records};

/// A job that has stopped with a savepoint in `sp`.
fn stopped() -> Workplace {
    let place = Workplace::picky(", follow: true");
    place.write("in/a.jsonl", records(&["pass", "pass"]));
    let child = place.start(&["run", "job.yaml"]);
    place.wait_until("the records are out", || place.visible("out/main").len() == 2);
    let stop = place.command(&["stop", "job.yaml", "--savepoint", "sp"]).output().unwrap();
    assert!(stop.status.success(), "{stop:?}");
    place.finish(child).expect(0, &["stopped"]);
    place
}

/// Runs every command that reads a savepoint: each fails within a bounded time, and says why.
fn all_refuse(place: &Workplace, texts: &[&str]) {
    let refused = |ended: &Ended| {
        assert!([1, 2].contains(&ended.code()), "{ended:#?}");
        assert!(texts.iter().all(|text| ended.stderr.contains(text)), "{texts:?} in {ended:#?}");
        assert!(
            !ended.stderr.contains("thread '") && !ended.stderr.contains('\x1b') && !ended.stderr.contains("memory allocation"),
            "{ended:#?}"
        );
    };
    let dump = ["savepoint", "dump", "sp", "--operator", "picky", "--state", "none"];
    for arguments in [&["savepoint", "inspect", "sp"][..], &["savepoint", "diff", "sp", "sp"]] {
        refused(&place.finish(place.start_limited("-v 1500000", arguments)));
    }
    if texts.iter().any(|text| text.contains("manifest")) {
        refused(&place.finish(place.start_limited("-v 1500000", &dump)));
        refused(&place.run(&["plan", "job.yaml", "--from", "sp"]));
    }
    refused(&place.run(&["run", "job.yaml", "--from", "sp"]));
}

/// Puts something else in the place of a file of the savepoint, for a while.
fn instead(place: &Workplace, name: &str, what: impl FnOnce(&Path), then: impl FnOnce()) {
    let (path, aside) = (place.path("sp").join(name), place.path("aside"));
    fs::rename(&path, &aside).unwrap();
    what(&path);
    then();
    if path.is_dir() {
        fs::remove_dir(&path).unwrap();
    } else {
        fs::remove_file(&path).unwrap();
    }
    fs::rename(&aside, &path).unwrap();
}

/// Tampers with a manifest.
type Change = fn(&mut Value);

#[test]
fn what_is_no_regular_file_is_not_read() {
    let place = stopped();
    for name in ["worker-0.state", "manifest.json"] {
        let said: &[&str] = if name == "manifest.json" { &["manifest.json"] } else { &["worker-0.state"] };
        instead(&place, name, |path| symlink("/dev/zero", path).unwrap(), || all_refuse(&place, &[said, &["not a regular file"]].concat()));
        let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        instead(&place, name, fifo, || all_refuse(&place, &[said, &["not a regular file"]].concat()));
        instead(&place, name, |path| fs::create_dir(path).unwrap(), || all_refuse(&place, said));
        instead(
            &place,
            name,
            |path| File::create(path).unwrap().set_len(1 << 40).unwrap(),
            || all_refuse(&place, &[said, &["more than"]].concat()),
        );
    }
    // A plan looks at the files too, though it does not read them.
    let planned =
        |text: &str| _ = place.run(&["plan", "job.yaml", "--from", "sp"]).expect(2, &["worker-0.state", text, "would be refused"]);
    let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    instead(&place, "worker-0.state", fifo, || planned("not a regular file"));
    instead(&place, "worker-0.state", |path| fs::write(path, "cut").unwrap(), || planned("it has 3 bytes"));
    instead(&place, "worker-0.state", |path| symlink("absent", path).unwrap(), || planned("No such file"));
    // Nothing is left of all that: the savepoint is as good as before.
    place.run(&["savepoint", "inspect", "sp"]).expect(0, &["checkpoint", "operator picky"]);
}

/// Changes the manifest of a savepoint, and makes its checksum right.
fn tamper(place: &Workplace, change: impl FnOnce(&mut Value)) {
    let path = place.path("sp/manifest.json");
    let bytes = fs::read(&path).unwrap();
    let mut manifest = serde_json::from_slice(&bytes[..bytes.len() - 23]).unwrap();
    change(&mut manifest);
    let text = serde_json::to_string(&manifest).unwrap();
    let hash = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    fs::write(&path, format!("{text}\nxxh3 {hash:016x}\n")).unwrap();
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let place = stopped();
    let whole = fs::read(place.path("sp/manifest.json")).unwrap();
    let changes: [(&str, Change); 9] = [
        ("max_parallelism 4294967295", |manifest| manifest["max_parallelism"] = json!(u32::MAX)),
        ("checkpoint id 18446744073709551615", |manifest| manifest["checkpoint"] = json!(u64::MAX)),
        ("incarnation 4294967295", |manifest| manifest["incarnation"] = json!(u32::MAX)),
        ("is there twice", |manifest| {
            let mut split = manifest["sources"][0]["splits"][0].clone();
            split["id"] = json!(7);
            manifest["sources"][0]["splits"].as_array_mut().unwrap().push(split);
        }),
        ("operator picky twice", |manifest| {
            let operator = manifest["operators"][0].clone();
            manifest["operators"].as_array_mut().unwrap().push(operator);
        }),
        ("/etc/passwd, outside of its folder", |manifest| manifest["files"][0]["path"] = json!("/etc/passwd")),
        ("0 state files, though its parallelism is 1", |manifest| manifest["files"] = json!([])),
        (r#"the job's name "\u{1b}]0;x""#, |manifest| manifest["job"] = json!("\x1b]0;x")),
        (r#"the uid of an operator "\u{1b}[31m""#, |manifest| manifest["operators"][0]["uid"] = json!("\x1b[31m")),
    ];
    for (reason, change) in changes {
        tamper(&place, change);
        all_refuse(&place, &["the manifest states what cannot be", reason]);
        fs::write(place.path("sp/manifest.json"), &whole).unwrap();
    }
    // A file outside of the source's pattern is not read.
    for name in ["/etc/passwd", "../../../../etc/passwd", "in/../../etc/passwd"] {
        let name = json!(name);
        tamper(&place, |manifest| {
            let split = &mut manifest["sources"][0]["splits"][0];
            (split["name"], split["position"], split["identity"]) = (name, json!(0), Value::Null);
        });
        let ended = place.run(&["run", "job.yaml", "--from", "sp", "--new-incarnation", "--data-dir", "other"]);
        let refused = ["does not match it", "is gone"].iter().any(|text| ended.stderr.contains(text));
        assert!([1, 2].contains(&ended.code()) && refused, "{ended:#?}");
        fs::write(place.path("sp/manifest.json"), &whole).unwrap();
    }
    // In the job's own folder it is the same.
    let newest = place.names("tidemill-data/picky/checkpoints").into_iter().filter(|name| name.starts_with("chk-")).max().unwrap();
    tamper(&place, |manifest| manifest["max_parallelism"] = json!(u32::MAX));
    fs::copy(place.path("sp/manifest.json"), place.path(format!("tidemill-data/picky/checkpoints/{newest}/manifest.json"))).unwrap();
    place.run(&["run", "job.yaml"]).expect(1, &["max_parallelism 4294967295"]);
}
