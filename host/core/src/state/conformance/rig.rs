//! Drives a backend with few words.

use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate, timer_op, write_op};
use tidemill_wit::schema::TypeTable;

use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::effects::{TimerOps, Writes};
use crate::key_group::{KeyGroup, hash_key, key_group};
use crate::state::{DueTimers, KeyedState, Scan};
use crate::time::{Domain, Timestamp};

/// The number of key groups in these tests.
pub(super) const GROUPS: u32 = 8;

/// An entry key and a value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// What one key group's snapshot is.
pub(super) type Snapshot = Vec<(KeyGroup, Vec<u8>)>;

/// A declared state that reads renew.
pub(super) fn state(kind: StateKind, ttl: Option<i64>) -> StateDescriptor {
    let entry_key = (kind == StateKind::Map).then(TypeTable::default);
    StateDescriptor { name: String::new(), kind, value: TypeTable::default(), entry_key, ttl, ttl_update: TtlUpdate::OnReadAndWrite }
}

/// A key as a batch has it.
pub(super) fn key(bytes: &[u8]) -> KeyRef<'_> {
    let hash = hash_key(bytes);
    KeyRef { bytes, hash, group: key_group(hash, GROUPS) }
}

/// Distinct keys as slots.
pub(super) fn slots(keys: &[&[u8]]) -> SlotKeys {
    let mut slots = SlotKeys::default();
    keys.iter().for_each(|bytes| slots.push(key(bytes)));
    slots
}

/// The writes and timer operations of a batch.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) writes: Writes,
    pub(super) timers: TimerOps,
}

impl Batch {
    pub(super) fn put(self, slot: u32, state: u8, value: &[u8]) -> Self {
        self.write(write_op::PUT, slot, state, &[], value)
    }

    pub(super) fn append(self, slot: u32, state: u8, value: &[u8]) -> Self {
        self.write(write_op::APPEND, slot, state, &[], value)
    }

    pub(super) fn put_entry(self, slot: u32, state: u8, entry: &[u8], value: &[u8]) -> Self {
        self.write(write_op::PUT_ENTRY, slot, state, entry, value)
    }

    pub(super) fn remove_entry(self, slot: u32, state: u8, entry: &[u8]) -> Self {
        self.write(write_op::REMOVE_ENTRY, slot, state, entry, &[])
    }

    pub(super) fn clear(self, slot: u32, state: u8) -> Self {
        self.write(write_op::CLEAR, slot, state, &[], &[])
    }

    pub(super) fn touch(self, slot: u32, state: u8, entry: &[u8]) -> Self {
        self.write(write_op::TOUCH, slot, state, entry, &[])
    }

    pub(super) fn write(mut self, op: u8, slot: u32, state: u8, entry: &[u8], value: &[u8]) -> Self {
        self.writes.op.push(op);
        self.writes.slot.push(slot);
        self.writes.state.push(state);
        self.writes.entry.push(entry);
        self.writes.value.push(value);
        self
    }

    pub(super) fn register(self, slot: u32, domain: Domain, time: i64) -> Self {
        self.timer(timer_op::REGISTER, slot, domain, time)
    }

    pub(super) fn delete(self, slot: u32, domain: Domain, time: i64) -> Self {
        self.timer(timer_op::DELETE, slot, domain, time)
    }

    fn timer(mut self, op: u8, slot: u32, domain: Domain, time: i64) -> Self {
        self.timers.op.push(op);
        self.timers.slot.push(slot);
        self.timers.domain.push(domain as u8);
        self.timers.timestamp.push(time);
        self
    }
}

/// A backend under test with a clock.
pub(super) struct Rig {
    pub(super) state: Box<dyn KeyedState>,
    pub(super) now: i64,
    pub(super) columns: Prefetched,
}

impl Rig {
    pub(super) fn new(state: Box<dyn KeyedState>) -> Self {
        Self { state, now: 1_000, columns: Prefetched::default() }
    }

    pub(super) fn prefetch(&mut self, keys: &[&[u8]]) {
        self.state.prefetch(&slots(keys), Timestamp(self.now), &mut self.columns).expect("prefetch");
    }

    pub(super) fn apply(&mut self, keys: &[&[u8]], batch: &Batch) {
        self.state.apply(&slots(keys), &batch.writes, &batch.timers, Timestamp(self.now)).expect("apply");
    }

    /// The value of a slot in a column of the last prefetch.
    pub(super) fn cell(&self, column: usize, slot: usize) -> Option<Vec<u8>> {
        let cells = &self.columns.values[column];
        (cells.present[slot] == 1).then(|| cells.items.get(slot).to_vec())
    }

    /// The entries of a slot in a column of the last prefetch, if they were prefetched.
    pub(super) fn cells(&self, column: usize, slot: usize) -> Option<Vec<Pair>> {
        let entries = &self.columns.entries[column];
        let start = slot.checked_sub(1).map_or(0, |before| entries.ends[before]) as usize;
        let end = entries.ends[slot] as usize;
        assert!(entries.key.view().valid(entries.key.len()) && entries.value.view().valid(entries.key.len()), "invalid column");
        let pairs = (start..end).map(|at| (entries.key.get(at).to_vec(), entries.value.get(at).to_vec())).collect::<Vec<_>>();
        if entries.whole[slot] == 0 {
            assert!(pairs.is_empty(), "entries are sent that are not whole");
            return None;
        }
        Some(pairs)
    }

    /// Prefetches one key and returns a value.
    pub(super) fn value(&mut self, of: &[u8], column: usize) -> Option<Vec<u8>> {
        self.prefetch(&[of]);
        self.cell(column, 0)
    }

    /// Prefetches one key and returns the entries of a list or map, which must be few. Lists have empty keys.
    pub(super) fn entries(&mut self, of: &[u8], column: usize) -> Vec<Pair> {
        self.prefetch(&[of]);
        self.cells(column, 0).expect("a small list or map must be prefetched whole")
    }

    pub(super) fn get(&self, of: &[u8], state: u8, entry: &[u8]) -> Option<Vec<u8>> {
        let mut found = b"before".to_vec();
        let is_there = self.state.get_entry(key(of), state, entry, Timestamp(self.now), &mut found).expect("get");
        let value = found.strip_prefix(b"before").expect("get_entry must append").to_vec();
        assert!(is_there || value.is_empty(), "get_entry appended what is not there");
        is_there.then_some(value)
    }

    pub(super) fn scan(&self, of: &[u8], state: u8, after: Option<&[u8]>, limit: usize) -> Vec<Pair> {
        let mut found = Vec::new();
        let scan = Scan { key: key(of), state, after, limit };
        let mut each = |key: &[u8], value: &[u8]| found.push((key.to_vec(), value.to_vec()));
        self.state.scan_entries(&scan, Timestamp(self.now), &mut each).expect("scan");
        found
    }

    pub(super) fn due(&mut self, domain: Domain, horizon: i64, limit: usize) -> DueTimers {
        let mut due = DueTimers::default();
        self.state.due_timers(domain, Timestamp(horizon), limit, &mut due).expect("due");
        due
    }

    pub(super) fn remove(&mut self, domain: Domain, due: &DueTimers, count: usize) {
        self.state.remove_timers(domain, due, count).expect("remove");
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        let mut groups = Vec::new();
        self.state.snapshot(&mut |group, bytes| groups.push((group, bytes.to_vec()))).expect("snapshot");
        assert!(groups.is_sorted_by(|a, b| a.0 < b.0), "key groups must ascend");
        groups
    }

    pub(super) fn restore(&mut self, snapshot: &Snapshot, states: &[Option<u8>]) {
        let mut source =
            |into: &mut dyn FnMut(KeyGroup, &[u8]) -> crate::Result<()>| snapshot.iter().try_for_each(|(group, bytes)| into(*group, bytes));
        self.state.restore_all(&mut source, states).expect("restore");
    }

    /// The same, each key group by itself.
    pub(super) fn restore_one_by_one(&mut self, snapshot: &Snapshot, states: &[Option<u8>]) {
        snapshot.iter().for_each(|(group, bytes)| self.state.restore(*group, bytes, states).expect("restore"));
    }

    /// Lets the backend remove expired content until this many keys are left.
    pub(super) fn expire_to(&mut self, keys: u64) {
        for _ in 0..100_000 {
            self.state.expire(Timestamp(self.now)).expect("expire");
            if self.state.key_count() == keys {
                return;
            }
        }
        panic!("{} keys are left after expiry instead of {keys}", self.state.key_count());
    }
}

/// Due timers as (time, key), checked to be numbered and ordered as they must.
pub(super) fn rows(due: &DueTimers) -> Vec<(i64, Vec<u8>)> {
    let keys: Vec<_> = (0..due.slots.len()).map(|slot| due.slots.get(slot)).collect();
    assert!(keys.is_sorted_by(|a, b| (a.group, a.bytes) < (b.group, b.bytes)), "slots must ascend by key group and key");
    assert!(keys.iter().all(|found| *found == key(found.bytes)), "hash or group of a slot is wrong");
    let order: Vec<_> = due.timestamp.iter().zip(&due.slot).collect();
    assert!(order.is_sorted_by(|a, b| a < b), "timers must ascend by time and slot");
    assert_eq!(due.timestamp.len(), due.slot.len());
    order.into_iter().map(|(time, slot)| (*time, keys[*slot as usize].bytes.to_vec())).collect()
}

/// A pair of strings.
pub(super) fn pair(key: &str, value: &str) -> Pair {
    (key.as_bytes().to_vec(), value.as_bytes().to_vec())
}
