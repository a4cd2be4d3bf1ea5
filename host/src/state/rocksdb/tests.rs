//! The backend as all backends are tested, and its files.

mod freezing;

use tidemill_core::Kind;
use tidemill_core::state::StateBackend;
use tidemill_core::state::conformance::conformance;

use super::RocksBackend;

#[test]
fn conforms() {
    let backend = RocksBackend::in_memory(64 << 20).unwrap();
    conformance(&mut |states| backend.open("operator", 0, states).unwrap());
}

#[test]
fn conforms_without_room_for_any_key() {
    let mut backend = RocksBackend::in_memory(64 << 20).unwrap();
    backend.pool = tidemill_core::state::Pool::new(0);
    conformance(&mut |states| backend.open("operator", 0, states).unwrap());
}

#[test]
fn a_folder_is_emptied_and_left_empty() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("state");
    std::fs::create_dir_all(dir.join("left over")).unwrap();
    let backend = RocksBackend::in_folder(&dir, 64 << 20).unwrap();
    let count = || std::fs::read_dir(&dir).unwrap().count();
    assert_eq!(count(), 0, "the folder is emptied");
    let mut states = [backend.open("a", 0, &[]).unwrap(), backend.open("a", 0, &[]).unwrap()];
    assert_eq!(count(), 2, "a new attempt may begin before the old one has gone");
    let mut frozen = states[0].freeze().unwrap().unwrap();
    assert!(frozen.files().unwrap().iter().any(|file| file.name == "CURRENT") && count() == 3);
    drop(frozen);
    assert_eq!(count(), 2, "frozen files go with their last use");
    drop(states);
    assert_eq!(count(), 0, "a folder goes with its database");
}

#[test]
fn what_cannot_be_frozen_is_said_to_whoever_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("state");
    let backend = RocksBackend::in_folder(&dir, 64 << 20).unwrap();
    let mut state = backend.open("a", 0, &[]).unwrap();
    // The place for the files is taken.
    std::fs::create_dir(dir.join("0-0.frozen-0")).unwrap();
    let failed = state.freeze().unwrap().unwrap().files().unwrap_err();
    assert!(failed.kind() == Kind::Storage && failed.chain().contains("freezing the files of the state database"), "{}", failed.chain());
    assert!(!state.freeze().unwrap().unwrap().files().unwrap().is_empty(), "the next one succeeds");
}
