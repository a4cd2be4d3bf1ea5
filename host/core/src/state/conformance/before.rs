//! A state to which something is done before each call.

use crate::Result;
use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::effects::{TimerOps, Writes};
use crate::key_group::KeyGroup;
use crate::state::{DueTimers, Frozen, GroupSource, KeyedState, Scan};
use crate::time::{Domain, Timestamp};

/// A state to which `turn` is done before each call that may change it, but for expiry, which goes on where its last call stopped.
pub struct Before<S, F> {
    /// The state.
    pub state: S,
    /// What is done.
    pub turn: F,
}

impl<S: KeyedState, F: FnMut(&mut S)> Before<S, F> {
    fn turned(&mut self) -> &mut S {
        (self.turn)(&mut self.state);
        &mut self.state
    }
}

impl<S: KeyedState, F: FnMut(&mut S) + Send> KeyedState for Before<S, F> {
    fn prefetch(&mut self, slots: &SlotKeys, now: Timestamp, into: &mut Prefetched) -> Result<()> {
        self.turned().prefetch(slots, now, into)
    }

    fn get_entry(&self, key: KeyRef<'_>, state: u8, entry: &[u8], now: Timestamp, into: &mut Vec<u8>) -> Result<bool> {
        self.state.get_entry(key, state, entry, now, into)
    }

    fn scan_entries(&self, scan: &Scan<'_>, now: Timestamp, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.state.scan_entries(scan, now, found)
    }

    fn apply(&mut self, slots: &SlotKeys, writes: &Writes, timers: &TimerOps, now: Timestamp) -> Result<()> {
        self.turned().apply(slots, writes, timers, now)
    }

    fn due_timers(&mut self, domain: Domain, horizon: Timestamp, limit: usize, into: &mut DueTimers) -> Result<()> {
        self.turned().due_timers(domain, horizon, limit, into)
    }

    fn remove_timers(&mut self, domain: Domain, due: &DueTimers, count: usize) -> Result<()> {
        self.turned().remove_timers(domain, due, count)
    }

    fn next_timer(&self, domain: Domain) -> Option<Timestamp> {
        self.state.next_timer(domain)
    }

    fn timer_count(&self, domain: Domain) -> u64 {
        self.state.timer_count(domain)
    }

    fn key_count(&self) -> u64 {
        self.state.key_count()
    }

    fn expire(&mut self, now: Timestamp) -> Result<()> {
        self.state.expire(now)
    }

    fn snapshot(&mut self, into: &mut dyn FnMut(KeyGroup, &[u8])) -> Result<()> {
        self.state.snapshot(into)
    }

    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>> {
        self.state.freeze()
    }

    fn go_on_freezing(&mut self) -> Result<bool> {
        self.state.go_on_freezing()
    }

    fn restore(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        self.turned().restore(group, bytes, states)
    }

    fn restore_all(&mut self, source: GroupSource<'_>, states: &[Option<u8>]) -> Result<()> {
        self.turned().restore_all(source, states)
    }
}
