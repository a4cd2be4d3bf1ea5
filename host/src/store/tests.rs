use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidemill_core::checkpoint::manifest::{Manifest, VERSION};
use tidemill_core::{Error, Kind};

use super::CheckpointStore;
use crate::disk::RealDisk;

struct Fixture {
    _root: TempDir,
    dir: PathBuf,
    store: CheckpointStore,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("job/checkpoints");
        let store = CheckpointStore::open(Arc::new(RealDisk), dir.clone()).unwrap();
        Self { _root: root, dir, store }
    }

    fn complete(&self, checkpoint: u64) -> Manifest {
        let files = [b"zero".as_slice(), b"one"]
            .iter()
            .zip(0..)
            .map(|(bytes, worker)| self.store.write_state(checkpoint, worker, bytes).unwrap())
            .collect::<Vec<_>>();
        let manifest = Manifest { version: VERSION, checkpoint, parallelism: 2, files, ..Manifest::default() };
        self.store.write_manifest(&manifest).unwrap();
        manifest
    }

    fn names(&self) -> Vec<String> {
        names(&self.dir)
    }

    fn newest(&self) -> Option<u64> {
        self.store.newest().unwrap().map(|manifest| manifest.checkpoint)
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>();
    names.sort();
    names
}

#[test]
fn the_newest_complete_checkpoint_counts() {
    let fixture = Fixture::new();
    assert_eq!(fixture.newest(), None);
    fixture.complete(9);
    let manifest = fixture.complete(10);
    fixture.store.write_state(11, 0, b"unfinished").unwrap();
    for foreign in ["chk-x", "notes"] {
        fs::create_dir(fixture.dir.join(foreign)).unwrap();
    }
    assert_eq!(fixture.store.newest().unwrap(), Some(manifest.clone()));
    assert_eq!(fixture.store.read_state(&manifest.files[1]).unwrap(), b"one");
    assert_eq!(names(&fixture.dir.join("chk-10")), ["manifest.json", "worker-0.state", "worker-1.state"]);
    fixture.store.remove_unfinished().unwrap();
    assert_eq!(fixture.names(), ["chk-10", "chk-9", "chk-x", "notes"]);
}

#[test]
fn damage_is_named_and_never_passed_over() {
    let fixture = Fixture::new();
    fixture.complete(1);
    let manifest = fixture.complete(2);
    let state = fixture.dir.join("chk-2/worker-0.state");
    let check = |error: Error, path: &Path, expected: &str| {
        let text = error.chain();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(text.contains(&path.display().to_string()) && text.contains(expected) && text.contains("--fresh"), "{text}");
    };
    for (content, expected) in [("zer", "has 3 bytes"), ("zerO", "with checksum")] {
        fs::write(&state, content).unwrap();
        check(fixture.store.read_state(&manifest.files[0]).unwrap_err(), &state, expected);
    }
    fs::remove_file(&state).unwrap();
    assert!(fixture.store.read_state(&manifest.files[0]).unwrap_err().chain().contains(&state.display().to_string()));

    let path = fixture.dir.join("chk-2/manifest.json");
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    check(fixture.store.newest().unwrap_err(), &path, "does not have the checksum");
    fs::copy(fixture.dir.join("chk-1/manifest.json"), &path).unwrap();
    check(fixture.store.newest().unwrap_err(), &path, "is that of checkpoint 1");
}

#[test]
fn retention_keeps_the_newest() {
    let fixture = Fixture::new();
    for checkpoint in [1, 2, 3, 5, 6] {
        fixture.complete(checkpoint);
    }
    for unfinished in [4, 7] {
        fixture.store.write_state(unfinished, 0, b"").unwrap();
    }
    fixture.store.retain(6, 2).unwrap();
    assert_eq!(fixture.names(), ["chk-5", "chk-6", "chk-7"]);
    fixture.store.retain(6, 0).unwrap();
    assert_eq!(fixture.names(), ["chk-6", "chk-7"]);
    assert_eq!(fixture.newest(), Some(6));
}

#[test]
fn the_end_is_recorded_and_cleared() {
    let fixture = Fixture::new();
    assert_eq!(fixture.store.finished().unwrap(), None);
    fixture.complete(12);
    fixture.store.mark_finished(12).unwrap();
    assert_eq!(fixture.store.finished().unwrap(), Some(12));
    fs::write(fixture.dir.join("FINISHED"), "x").unwrap();
    assert_eq!(fixture.store.finished().unwrap_err().kind(), Kind::Corrupt);
    fixture.store.clear().unwrap();
    assert_eq!(fixture.names(), [""; 0]);
    assert_eq!((fixture.store.finished().unwrap(), fixture.newest()), (None, None));
    assert_eq!(CheckpointStore::open(Arc::new(RealDisk), fixture.dir.join("a")).map(|_| ()).ok(), Some(()));
    fs::write(fixture.dir.join("file"), "").unwrap();
    let error = CheckpointStore::open(Arc::new(RealDisk), fixture.dir.join("file")).err().unwrap();
    assert_eq!(error.kind(), Kind::Config);
}

#[test]
fn a_folder_stays_its_jobs_after_the_checkpoints_are_gone() {
    let fixture = Fixture::new();
    let id = fixture.store.claim("first").unwrap();
    assert_eq!(fixture.store.claim("first").unwrap(), id);
    // A job that has stored nothing may be renamed.
    let renamed = fixture.store.claim("second").unwrap();
    assert_ne!(renamed, id);
    fixture.complete(12);
    fixture.store.mark_finished(12).unwrap();
    fixture.store.remove_all().unwrap();
    let error = fixture.store.claim("third").unwrap_err();
    assert!(error.kind() == Kind::Config && error.chain().contains("of job second, not of third"), "{error}");
    assert_eq!(fixture.store.claim("second").unwrap(), renamed);
    fs::write(fixture.dir.join("OWNER"), "second").unwrap();
    assert_eq!(fixture.store.claim("second").unwrap_err().kind(), Kind::Corrupt);
}
