use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::checkpoint::manifest::{FileFormat, StoredDatabase};
use tidemill_core::detector::SlotKeys;
use tidemill_core::disk::Disk;
use tidemill_core::effects::{TimerOps, Writes};
use tidemill_core::key_group::{KeyGroup, hash_key, key_group};
use tidemill_core::state::layout::Writer;
use tidemill_core::state::{Frozen, KeyedState, MemoryState, StateBackend, StoredGroups};
use tidemill_core::{Result, Timestamp};
use tidemill_wit::descriptor::{StateDescriptor, StateKind, write_op};

use super::file::{GroupsFile, pass_merged};
use super::{MemoryFiles, StoredKeyGroups};
use crate::disk::RealDisk;
use crate::store::CheckpointStore;

fn disk() -> Arc<dyn Disk> {
    Arc::new(RealDisk)
}

type Groups = Vec<(KeyGroup, Vec<u8>)>;

fn states() -> Vec<StateDescriptor> {
    let state = StateDescriptor {
        name: "n".to_owned(),
        kind: StateKind::Value,
        value: Default::default(),
        entry_key: None,
        ttl: None,
        ttl_update: Default::default(),
    };
    vec![state]
}

/// Puts a value for some keys, or removes them.
fn write(state: &mut dyn KeyedState, keys: impl Iterator<Item = u32>, value: Option<&[u8]>) {
    let (mut slots, mut writes) = (SlotKeys::default(), Writes::default());
    for (slot, key) in (0..).zip(keys) {
        let bytes = key.to_be_bytes();
        let hash = hash_key(&bytes);
        slots.push(tidemill_core::detector::KeyRef { bytes: &bytes, hash, group: key_group(hash, 16) });
        writes.op.push(if value.is_some() { write_op::PUT } else { write_op::CLEAR });
        writes.state.push(0);
        writes.slot.push(slot);
        writes.entry.push(b"");
        writes.value.push(value.unwrap_or_default());
    }
    state.apply(&slots, &writes, &TimerOps::default(), Timestamp(0)).unwrap();
}

fn content(state: &mut dyn KeyedState) -> Groups {
    let mut groups = Groups::new();
    state.snapshot(&mut |group, bytes| groups.push((group, bytes.to_vec()))).unwrap();
    groups
}

fn freeze(state: &mut dyn KeyedState) -> Box<dyn Frozen> {
    let frozen = state.freeze().unwrap().unwrap();
    while state.go_on_freezing().unwrap() {}
    frozen
}

fn frozen_content(frozen: &mut dyn Frozen) -> Result<Groups> {
    let mut groups = Groups::new();
    frozen.groups(&mut |group, bytes| {
        groups.push((group, bytes.to_vec()));
        Ok(())
    })?;
    Ok(groups)
}

fn sizes(frozen: &mut dyn Frozen) -> Vec<u64> {
    frozen.files().unwrap().iter().map(|file| fs::metadata(&file.path).unwrap().len()).collect()
}

#[test]
fn a_checkpoint_costs_what_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let backend = MemoryFiles::in_folder(disk(), dir.path()).unwrap();
    let mut state = backend.open("u", 0, &states()).unwrap();
    write(&mut *state, 0..5_000, Some(b"a value of some length"));
    let mut first = freeze(&mut *state);
    let whole = sizes(&mut *first);
    assert_eq!(whole.len(), 1);
    for (change, key) in [(Some(&b"another"[..]), 7), (None, 8), (Some(b"new"), 9_999)] {
        write(&mut *state, key..key + 1, change);
    }
    let mut second = freeze(&mut *state);
    let expected = content(&mut *state);
    // Later changes are not in it, though they come before it is read.
    write(&mut *state, 0..5_000, None);
    assert_eq!(second.files().unwrap()[..1], first.files().unwrap());
    assert!(matches!(sizes(&mut *second)[..], [base, change] if base == whole[0] && change < 500));
    assert!(frozen_content(&mut *second).unwrap() == expected);
    assert_eq!(content(&mut *state).iter().filter(|(_, bytes)| !bytes.is_empty()).count(), 1, "one key is left");
}

#[test]
fn many_changes_are_put_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = MemoryFiles::in_folder(disk(), dir.path()).unwrap().even_if_small().open("u", 0, &states()).unwrap();
    let mut most = 0;
    for round in 0..60u32 {
        write(&mut *state, round * 3..round * 3 + 50, Some(&round.to_be_bytes()));
        write(&mut *state, round..round + 2, None);
        let mut frozen = freeze(&mut *state);
        most = most.max(frozen.files().unwrap().len());
        assert!(frozen_content(&mut *frozen).unwrap() == content(&mut *state), "round {round}");
    }
    assert!((2..=16).contains(&most), "{most} files");
    assert!(files_in(dir.path()).len() <= 16, "files that nobody needs go");
    drop(state);
    assert!(files_in(dir.path()).is_empty());
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let list = |dir: &Path| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    list(dir).iter().flat_map(|dir| list(dir)).collect()
}

#[test]
fn after_a_failure_all_is_recorded_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = MemoryFiles::in_folder(disk(), dir.path()).unwrap().even_if_small().open("u", 0, &states()).unwrap();
    write(&mut *state, 0..100, Some(b"1"));
    freeze(&mut *state).files().unwrap();
    write(&mut *state, 0..10, Some(b"2"));
    // Where the next file would be, nothing can be written.
    let [folder] = &fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()[..] else { panic!() };
    fs::create_dir(folder.join("00000002")).unwrap();
    let error = freeze(&mut *state).files().unwrap_err();
    assert!(error.chain().contains("writing") && error.chain().contains("00000002"), "{}", error.chain());
    write(&mut *state, 0..1, Some(b"3"));
    let mut again = freeze(&mut *state);
    assert_eq!(again.files().unwrap().len(), 1);
    assert!(frozen_content(&mut *again).unwrap() == content(&mut *state));
    // The same if somebody has removed the folder.
    fs::remove_dir_all(folder).unwrap();
    write(&mut *state, 0..1, Some(b"4"));
    let mut again = freeze(&mut *state);
    assert_eq!(again.files().unwrap().len(), 1);
    assert!(frozen_content(&mut *again).unwrap() == content(&mut *state));
}

#[test]
fn a_record_is_given_up_with_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = MemoryFiles::in_folder(disk(), dir.path()).unwrap().even_if_small().open("u", 0, &states()).unwrap();
    write(&mut *state, 0..10, Some(b"1"));
    let mut frozen = state.freeze().unwrap().unwrap();
    drop(state);
    assert_eq!(frozen.files().unwrap_err().to_string(), "recording state was given up");
}

#[test]
fn files_that_are_no_longer_what_was_written_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("groups");
    let mut state = MemoryState::new(&states());
    write(&mut state, 0..40, Some(b"value"));
    let groups = content(&mut state);
    let file = GroupsFile::write(&disk(), &path, |each| groups.iter().try_for_each(|(group, bytes)| each(*group, bytes))).unwrap();
    let read = |path: &Path| {
        let mut found = Groups::new();
        let mut each = |group, bytes: &[u8]| {
            // As whoever restores them does.
            MemoryState::new(&states()).restore(group, bytes, &[Some(0)])?;
            found.push((group, bytes.to_vec()));
            Ok(())
        };
        pass_merged(&RealDisk, &[path], &(0..u32::MAX), &mut each).map(|()| found)
    };
    assert!(read(&file.path).unwrap() == groups);
    let whole = fs::read(&path).unwrap();
    let damaged = dir.path().join("damaged");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        for bytes in [&whole[..at], &bytes] {
            fs::write(&damaged, bytes).unwrap();
            // A file that ends after a whole key group is found out by its length in the manifest.
            match read(&damaged) {
                Ok(fewer) => assert!(groups.starts_with(&fewer), "byte {at}"),
                Err(error) => assert!(error.chain().contains("key group") || error.chain().contains("damaged"), "{}", error.chain()),
            }
        }
    }
    let mut writer = Writer::default();
    writer.begin(KeyGroup(1));
    let empty = writer.finish().to_vec();
    let twice = GroupsFile::write(&disk(), &dir.path().join("twice"), |each| (0..2).try_for_each(|_| each(KeyGroup(1), &empty))).unwrap();
    assert!(read(&twice.path).unwrap_err().to_string().contains("has a key group that cannot be there"));
}

#[test]
fn changes_that_are_alike_restore_and_leave_the_checkpoint_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = CheckpointStore::open(disk(), dir.path().join("checkpoints")).unwrap();
    let mut state = MemoryFiles::in_folder(disk(), &dir.path().join("state")).unwrap().open("u", 0, &states()).unwrap();
    write(&mut *state, 0..2_000, Some(b"value"));
    freeze(&mut *state).files().unwrap();
    // Nothing changes for two checkpoints, then the same in two.
    for changed in [0..0, 0..0, 7..8, 7..8] {
        write(&mut *state, changed, Some(b"again"));
        freeze(&mut *state).files().unwrap();
    }
    let mut frozen = freeze(&mut *state);
    let files = frozen.files().unwrap();
    let stored = files.iter().map(|file| store.store_shared(&file.path, &file.name, file.content.as_deref().unwrap()).unwrap());
    let stored: Vec<_> = stored.collect();
    let names: BTreeSet<_> = stored.iter().map(|file| &file.name).collect();
    assert!(names.len() + 3 <= stored.len(), "{} names of {} files", names.len(), stored.len());
    let contents = || -> Vec<_> {
        files_in(&dir.path().join("checkpoints"))
            .iter()
            .map(|path| (fs::read(path).unwrap(), fs::metadata(path).unwrap().permissions().mode() & 0o777))
            .collect()
    };
    let before = contents();
    assert!(before.len() == names.len() && before.iter().all(|(_, mode)| *mode == 0o444));
    let database = StoredDatabase { operator: "u".to_owned(), worker: 0, format: FileFormat::KeyGroups, files: stored };
    for _ in 0..2 {
        let stored = StoredKeyGroups::new(store.clone(), database.clone(), 0..16, &store.scratch());
        let mut found = Groups::new();
        let mut each = |group, bytes: &[u8]| {
            found.push((group, bytes.to_vec()));
            Ok(())
        };
        stored.read(0..16, &mut each).unwrap();
        assert!(found == content(&mut *state));
        drop(stored);
        assert!(contents() == before, "the restore has changed what it reads");
    }
}
