//! Every kind of file of a checkpoint and of a savepoint, damaged: it is refused by name, by whoever reads it.

use std::fs;
use std::path::Path;

use tidemill_tests::cli::Workplace;

use super::folder::{Checkpoints, newest};
use super::{CHECKPOINTS, ROCKSDB, SLOW, killed};

/// The bytes with something wrong: flipped bits at the begin, in the middle and at the end, and ends that are missing or too many.
fn damaged(whole: &[u8]) -> Vec<Vec<u8>> {
    let flipped = |at: usize| {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 4;
        bytes
    };
    let mut all = vec![[whole, b"\0"].concat()];
    if let Some(last) = whole.len().checked_sub(1) {
        all.extend([0, last / 2, last].map(flipped));
        all.extend([0, last / 2, last].map(|len| whole[..len].to_vec()));
    }
    all
}

/// Damages a file in all ways; each command must refuse it by its name.
fn refused(place: &Workplace, path: &Path, commands: &[&[&str]], said: &[&str]) {
    let whole = fs::read(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let visible = place.visible("out/alerts").len();
    for bytes in damaged(&whole) {
        // A new file: the old one may have other names.
        fs::remove_file(path).unwrap();
        fs::write(path, &bytes).unwrap();
        for command in commands {
            place.run(command).expect(1, &[&[name.as_str()], said].concat());
        }
    }
    fs::remove_file(path).unwrap();
    for command in commands {
        place.run(command).expect(1, &[&name]);
    }
    fs::write(path, whole).unwrap();
    assert_eq!(place.visible("out/alerts").len(), visible, "output was touched");
}

#[test]
fn every_file_of_a_checkpoint_is_refused_by_name() {
    let place = killed();
    let (folder, newest, checkpoints) = (place.path(CHECKPOINTS), newest(&place), Checkpoints::of(&place));
    let run = [&["run", "job.yaml"][..], &ROCKSDB].concat();
    let saved = format!("{CHECKPOINTS}/{newest}");
    let commands = [&run[..], &["savepoint", "inspect", &saved]];
    let files = checkpoints.files_of(&newest);
    // What the checkpoint covers is committed first, whatever becomes of its state.
    let state = folder.join(files.iter().find(|path| path.ends_with(".state")).unwrap());
    let whole = fs::read(&state).unwrap();
    fs::write(&state, b"").unwrap();
    place.run(&run).expect(1, &["is damaged"]);
    fs::write(&state, whole).unwrap();
    // One of each kind is read by both commands, the others by the shorter way.
    for kind in ["shared/", "/CURRENT", "/MANIFEST-", "/OPTIONS-", ".state"] {
        let of_kind: Vec<_> = files.iter().filter(|path| path.contains(kind)).collect();
        assert!(!of_kind.is_empty(), "there is no {kind} among {files:?}");
        for (number, path) in of_kind.iter().enumerate() {
            let path = folder.join(path);
            refused(&place, &path, &commands[usize::from(number > 0)..], &["is damaged"]);
        }
    }
    refused_manifest(&place, &folder.join(&newest).join("manifest.json"), &commands[1..]);
    place.run(&run).expect(0, &["resumed from checkpoint", "finished"]);
    place.check_with_oracle();
}

/// A manifest that is gone is no checkpoint: else as [`refused`].
fn refused_manifest(place: &Workplace, path: &Path, commands: &[&[&str]]) {
    let whole = fs::read(path).unwrap();
    for bytes in damaged(&whole) {
        fs::write(path, &bytes).unwrap();
        for command in commands {
            let ended = place.run(command);
            ended.expect(1, &["the manifest"]);
            let folder = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
            assert!(ended.stderr.contains(&folder), "{ended:?}");
        }
    }
    fs::write(path, whole).unwrap();
}

#[test]
fn every_file_of_a_savepoint_is_refused_by_name() {
    let place = Workplace::larkspur();
    let mut child = place.start(&[&SLOW[..], &ROCKSDB].concat());
    place.wait_until("some alerts are there", || place.visible("out/alerts").len() > 1_000);
    let created = place.command(&["savepoint", "create", "job.yaml", "sp"]).output().unwrap();
    assert!(created.status.success(), "{created:?}");
    child.kill().unwrap();
    assert!(!place.finish(child).status.success());
    fs::remove_dir_all(place.path("tidemill-data")).unwrap();
    let run = [&["run", "job.yaml", "--from", "sp", "--new-incarnation"][..], &ROCKSDB].concat();
    let commands = [&run[..], &["savepoint", "inspect", "sp"]];
    for name in ["worker-0.state", "worker-1.state"] {
        refused(&place, &place.path("sp").join(name), &commands, &[]);
    }
    refused_manifest(&place, &place.path("sp/manifest.json"), &commands);
    assert!(!place.names(CHECKPOINTS).iter().any(|name| name.starts_with("chk-")), "something was changed before the refusal");
    place.run(&run).expect(0, &["took over savepoint", "finished"]);
}
