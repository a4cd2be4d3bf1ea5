//! The backend as all backends are tested, and its files.

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
fn conforms_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut backend = RocksBackend::in_folder(folder.path(), 8 << 20).unwrap();
    // Tables of a few rows, so that a restore makes many.
    backend.memory.set_for_loading(400);
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
    let frozen = states[0].freeze().unwrap();
    assert!(frozen.is_some_and(|frozen| frozen.files.iter().any(|file| file.name == "CURRENT") && count() == 3));
    drop(states);
    assert_eq!(count(), 0, "a folder goes with its database, and frozen files with their last use");
}
