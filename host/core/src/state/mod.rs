//! Keyed state and timers of one operator's subtask, behind one trait.

mod broadcast;
mod cached;
pub mod conformance;
mod files;
mod journal;
pub mod layout;
mod memory;
pub mod migrate;
mod one_nan;

use tidemill_wit::descriptor::StateDescriptor;

use crate::Result;
use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::effects::{TimerOps, Writes};
use crate::key_group::KeyGroup;
use crate::time::{Domain, Timestamp};

pub use broadcast::BroadcastStates;
pub use cached::{CachedState, Layer, Pool, Rows, Space, can_go_on, pass_groups};
pub use files::{Frozen, FrozenFile, StoredGroups};
pub use journal::{Journal, Piece, Recording, pass_pieces};
pub use memory::{MemoryBackend, MemoryState};
pub use migrate::Migration;
pub use one_nan::{Moved, OneNan};

/// A slot's entries of a list or map are prefetched whole up to this number.
pub const PREFETCH_ENTRIES: usize = 64;
/// A slot's entries of a list or map are prefetched whole up to this many bytes.
pub const PREFETCH_BYTES: usize = 4096;

/// The keyed state and the timers of one operator's subtask. Ids of states are indexes into the descriptors given at creation. All times
/// for TTL are processing time; an expired value or entry is never returned (expired once `written + ttl <= now`).
pub trait KeyedState: Send {
    /// Fills the columns with the state of the keys.
    ///
    /// # Errors
    /// The backend cannot be read.
    fn prefetch(&mut self, slots: &SlotKeys, now: Timestamp, into: &mut Prefetched) -> Result<()>;

    /// Appends the value of one map entry (or list element, by its index as big-endian u32) to `into` and returns whether there is one.
    ///
    /// # Errors
    /// The backend cannot be read.
    fn get_entry(&self, key: KeyRef<'_>, state: u8, entry: &[u8], now: Timestamp, into: &mut Vec<u8>) -> Result<bool>;

    /// Calls `found` with up to `limit` entries in order after `after` (exclusive).
    ///
    /// # Errors
    /// The backend cannot be read.
    fn scan_entries(&self, scan: &Scan<'_>, now: Timestamp, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;

    /// Applies checked writes and timer operations as one unit.
    ///
    /// # Errors
    /// The backend cannot be written.
    fn apply(&mut self, slots: &SlotKeys, writes: &Writes, timers: &TimerOps, now: Timestamp) -> Result<()>;

    /// Fills `into` with the timers due up to `horizon` by (time, key group, key), without removing them: all of them, or the first whole
    /// timestamps that fit `limit`, or, where one timestamp alone has more, its first `limit`.
    ///
    /// # Errors
    /// The backend cannot be read.
    fn due_timers(&mut self, domain: Domain, horizon: Timestamp, limit: usize, into: &mut DueTimers) -> Result<()>;

    /// Removes the first `count` timers of `due`.
    ///
    /// # Errors
    /// The backend cannot be written.
    fn remove_timers(&mut self, domain: Domain, due: &DueTimers, count: usize) -> Result<()>;

    /// The time of the earliest timer.
    fn next_timer(&self, domain: Domain) -> Option<Timestamp>;

    /// The number of pending timers.
    fn timer_count(&self, domain: Domain) -> u64;

    /// The number of keys that have state or timers.
    fn key_count(&self) -> u64;

    /// Removes expired values and entries within bounded work, going on where the last call stopped.
    ///
    /// # Errors
    /// The backend cannot be written.
    fn expire(&mut self, now: Timestamp) -> Result<()>;

    /// Writes everything, key group by key group in ascending order, in the backend-independent layout of `state/layout.rs`.
    ///
    /// # Errors
    /// The backend cannot be read.
    fn snapshot(&mut self, into: &mut dyn FnMut(KeyGroup, &[u8])) -> Result<()>;

    /// The same state as files, for a backend that has it in files anyway; `None` otherwise. What changes afterwards is not in them, even
    /// though they may be made meanwhile.
    ///
    /// # Errors
    /// The backend cannot be written.
    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>> {
        Ok(None)
    }

    /// Does a bounded part of what is left to be done of a frozen state; returns whether more is left. Until nothing is, the frozen state is
    /// not to be waited for.
    ///
    /// # Errors
    /// The backend cannot be written.
    fn go_on_freezing(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Adds what [`snapshot`](Self::snapshot) wrote for one key group. `states` maps the ids of the snapshot to today's; a state that maps
    /// to `None` is dropped.
    ///
    /// # Errors
    /// The bytes are not such a snapshot.
    fn restore(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()>;

    /// The same for all key groups that `source` passes on, which may be many and large.
    ///
    /// # Errors
    /// As [`restore`](Self::restore), and those of the source. The state is of no use then.
    fn restore_all(&mut self, source: GroupSource<'_>, states: &[Option<u8>]) -> Result<()> {
        source(&mut |group, bytes| self.restore(group, bytes, states))
    }
}

/// Passes key groups on, in the layout of `state/layout.rs`, and returns the first error of its own or of whom it passes them to.
pub type GroupSource<'a> = &'a mut dyn FnMut(&mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()>;

/// Makes the state of each operator's subtask.
pub trait StateBackend: Send + Sync {
    /// Empty state for the given descriptors.
    ///
    /// # Errors
    /// The backend cannot be opened.
    fn open(&self, operator: &str, subtask: u32, states: &[StateDescriptor]) -> Result<Box<dyn KeyedState>>;

    /// Goes on with stored state as it is, without reading all of it. Its states are `states`, by the same ids, but for new ones at the
    /// end. `None`: it cannot be gone on with, and must be restored into empty state.
    ///
    /// # Errors
    /// The stored state cannot be read, or is not what was stored.
    fn go_on(
        &self,
        operator: &str,
        subtask: u32,
        states: &[StateDescriptor],
        stored: &dyn StoredGroups,
    ) -> Result<Option<Box<dyn KeyedState>>> {
        let _ = (operator, subtask, states, stored);
        Ok(None)
    }
}

/// Which entries to scan.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// The operator key.
    pub key: KeyRef<'a>,
    /// The state's id.
    pub state: u8,
    /// The entry after which to begin.
    pub after: Option<&'a [u8]>,
    /// How many to return at most.
    pub limit: usize,
}

/// Due timers with the keys that they belong to: slots are numbered by (key group, key bytes), rows ascend by (time, slot).
#[derive(Clone, Debug, Default)]
pub struct DueTimers {
    /// The distinct keys.
    pub slots: SlotKeys,
    /// The slot of each timer.
    pub slot: Vec<u32>,
    /// The time of each timer.
    pub timestamp: Vec<i64>,
    /// Up to which time a timer registered meanwhile can join: the pass's horizon if all due timers are here, else the last row's time.
    pub horizon: Timestamp,
}

impl DueTimers {
    /// Removes all timers, keeping the capacity.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.slot.clear();
        self.timestamp.clear();
    }
}

/// The state of an operator without keys: none.
#[derive(Clone, Copy, Debug)]
pub struct NoState;

impl KeyedState for NoState {
    fn prefetch(&mut self, _: &SlotKeys, _: Timestamp, into: &mut Prefetched) -> Result<()> {
        into.clear();
        Ok(())
    }

    fn get_entry(&self, _: KeyRef<'_>, _: u8, _: &[u8], _: Timestamp, _: &mut Vec<u8>) -> Result<bool> {
        Ok(false)
    }

    fn scan_entries(&self, _: &Scan<'_>, _: Timestamp, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        Ok(())
    }

    fn apply(&mut self, _: &SlotKeys, _: &Writes, _: &TimerOps, _: Timestamp) -> Result<()> {
        Ok(())
    }

    fn due_timers(&mut self, _: Domain, _: Timestamp, _: usize, into: &mut DueTimers) -> Result<()> {
        into.clear();
        Ok(())
    }

    fn remove_timers(&mut self, _: Domain, _: &DueTimers, _: usize) -> Result<()> {
        Ok(())
    }

    fn next_timer(&self, _: Domain) -> Option<Timestamp> {
        None
    }

    fn timer_count(&self, _: Domain) -> u64 {
        0
    }

    fn key_count(&self) -> u64 {
        0
    }

    fn expire(&mut self, _: Timestamp) -> Result<()> {
        Ok(())
    }

    fn snapshot(&mut self, _: &mut dyn FnMut(KeyGroup, &[u8])) -> Result<()> {
        Ok(())
    }

    fn restore(&mut self, _: KeyGroup, _: &[u8], _: &[Option<u8>]) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{DueTimers, KeyedState, NoState, Scan};
    use crate::Timestamp;
    use crate::detector::{KeyRef, Prefetched, SlotKeys};
    use crate::effects::{TimerOps, Writes};
    use crate::key_group::KeyGroup;
    use crate::time::Domain;

    #[test]
    fn an_operator_without_keys_has_nothing() {
        let key = KeyRef { bytes: b"k", hash: 1, group: KeyGroup(0) };
        let (mut columns, mut due, mut found) = (Prefetched::default(), DueTimers::default(), Vec::new());
        columns.values.resize_with(1, Default::default);
        columns.values.iter_mut().for_each(|cells| cells.present.push(1));
        due.timestamp.push(3);
        NoState.prefetch(&SlotKeys::default(), Timestamp(0), &mut columns).unwrap();
        assert!(columns.values.iter().all(|cells| cells.present.is_empty()), "what was there before is gone");
        assert!(!NoState.get_entry(key, 0, b"e", Timestamp(0), &mut found).unwrap());
        let scan = Scan { key, state: 0, after: None, limit: 9 };
        NoState.scan_entries(&scan, Timestamp(0), &mut |entry, _| found.extend_from_slice(entry)).unwrap();
        NoState.apply(&SlotKeys::default(), &Writes::default(), &TimerOps::default(), Timestamp(0)).unwrap();
        NoState.due_timers(Domain::Event, Timestamp::MAX, 9, &mut due).unwrap();
        NoState.snapshot(&mut |_, bytes| found.extend_from_slice(bytes)).unwrap();
        assert!(due.timestamp.is_empty() && found.is_empty());
        for domain in Domain::ALL {
            assert_eq!((NoState.next_timer(domain), NoState.timer_count(domain), NoState.key_count()), (None, 0, 0));
        }
        assert!(NoState.freeze().unwrap().is_none() && !NoState.go_on_freezing().unwrap());
    }
}
