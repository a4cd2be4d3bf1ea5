//! The backend as all backends are tested, and its files.

mod freezing;

use tidemill_core::detector::{KeyRef, SlotKeys};
use tidemill_core::effects::{TimerOps, Writes};
use tidemill_core::key_group::{hash_key, key_group};
use tidemill_core::state::conformance::conformance;
use tidemill_core::state::{DueTimers, Frozen, KeyedState, MemoryBackend, StateBackend};
use tidemill_core::time::Domain;
use tidemill_core::{Kind, Timestamp};
use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate, timer_op, write_op};
use tidemill_wit::schema::{Type, TypeTable};

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

/// The same snapshot and the same due timers, after rows came in many small tables.
#[test]
fn loads_rows_in_tables() {
    let number = StateDescriptor {
        name: "number".to_owned(),
        kind: StateKind::Value,
        value: TypeTable::of(Type::U64),
        entry_key: None,
        ttl: None,
        ttl_update: TtlUpdate::OnCreateAndWrite,
    };
    let mut memory = MemoryBackend.open("operator", 0, std::slice::from_ref(&number)).unwrap();
    let (mut slots, mut writes, mut timers) = (SlotKeys::default(), Writes::default(), TimerOps::default());
    for slot in 0..3_000u32 {
        let key = slot.to_le_bytes();
        let hash = hash_key(&key);
        slots.push(KeyRef { bytes: &key, hash, group: key_group(hash, 128) });
        writes.op.push(write_op::PUT);
        writes.state.push(0);
        writes.slot.push(slot);
        writes.entry.push(&[]);
        writes.value.push(&hash.to_le_bytes());
        timers.op.push(timer_op::REGISTER);
        timers.domain.push((slot % 2) as u8);
        timers.slot.push(slot);
        timers.timestamp.push((hash >> 40).cast_signed());
    }
    memory.apply(&slots, &writes, &timers, Timestamp(1)).unwrap();
    let snapshot = |state: &mut dyn KeyedState| {
        let mut groups = Vec::new();
        state.snapshot(&mut |group, bytes| groups.push((group, bytes.to_vec()))).unwrap();
        groups
    };
    let groups = snapshot(&mut *memory);
    let folder = tempfile::tempdir().unwrap();
    let mut backend = RocksBackend::in_folder(folder.path(), 8 << 20).unwrap();
    backend.memory.set_for_loading(4_000);
    let mut state = backend.open("operator", 0, &[number]).unwrap();
    // Not in their order.
    let mut source = |into: &mut dyn FnMut(_, &[u8]) -> _| groups.iter().rev().try_for_each(|(group, bytes)| into(*group, bytes));
    state.restore_all(&mut source, &[Some(0)]).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "tables are left");
    assert_eq!(state.key_count(), 3_000);
    for domain in Domain::ALL {
        assert_eq!((state.timer_count(domain), state.next_timer(domain)), (1_500, memory.next_timer(domain)));
        let (mut expected, mut found) = (DueTimers::default(), DueTimers::default());
        memory.due_timers(domain, Timestamp(i64::MAX), 200, &mut expected).unwrap();
        state.due_timers(domain, Timestamp(i64::MAX), 200, &mut found).unwrap();
        assert_eq!((expected.timestamp, expected.slots.keys), (found.timestamp, found.slots.keys));
    }
    assert!(snapshot(&mut *state) == groups);
}

#[test]
fn a_folder_is_emptied_and_left_empty() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("state");
    std::fs::create_dir_all(dir.join("7-3.loading")).unwrap();
    std::fs::write(dir.join("7-3.loading/Keys-0.sst"), "left over").unwrap();
    let backend = RocksBackend::in_folder(&dir, 64 << 20).unwrap();
    let count = || std::fs::read_dir(&dir).unwrap().count();
    assert_eq!(count(), 0, "the folder is emptied");
    let mut states = [backend.open("a", 0, &[]).unwrap(), backend.open("a", 0, &[]).unwrap()];
    assert_eq!(count(), 2, "a new attempt may begin before the old one has gone");
    let mut frozen = freeze(&mut *states[0]);
    assert!(frozen.files().unwrap().iter().any(|file| file.name == "CURRENT") && count() == 3);
    drop(frozen);
    assert_eq!(count(), 2, "frozen files go with their last use");
    drop(states);
    assert_eq!(count(), 0, "a folder goes with its database");
}

/// There is one for each subtask of each operator.
#[test]
fn a_new_database_takes_little_disk() {
    let folder = tempfile::tempdir().unwrap();
    let backend = RocksBackend::in_folder(&folder.path().join("state"), 64 << 20).unwrap();
    let _state = backend.open("a", 0, &[]).unwrap();
    let files = std::fs::read_dir(folder.path().join("state/0-0")).unwrap();
    let taken: u64 = files.map(|file| std::os::unix::fs::MetadataExt::blocks(&file.unwrap().metadata().unwrap()) * 512).sum();
    assert!(taken < 1 << 20, "{taken} bytes");
}

#[test]
fn what_cannot_be_frozen_is_said_to_whoever_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("state");
    let backend = RocksBackend::in_folder(&dir, 64 << 20).unwrap();
    let mut state = backend.open("a", 0, &[]).unwrap();
    // The place for the files is taken.
    std::fs::create_dir(dir.join("0-0.frozen-0")).unwrap();
    let failed = freeze(&mut *state).files().unwrap_err();
    assert!(failed.kind() == Kind::Storage && failed.chain().contains("freezing the files of the state database"), "{}", failed.chain());
    assert!(!freeze(&mut *state).files().unwrap().is_empty(), "the next one succeeds");
}

/// Freezes a state and does what is left to be done for that.
fn freeze(state: &mut dyn KeyedState) -> Box<dyn Frozen> {
    let frozen = state.freeze().unwrap().unwrap();
    while state.go_on_freezing().unwrap() {}
    frozen
}
