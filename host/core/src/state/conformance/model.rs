//! Keyed state, done naively.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_wit::descriptor::{StateDescriptor, StateKind, timer_op, write_op};

use super::rig::{Batch, Pair, key};
use crate::key_group::KeyGroup;
use crate::time::Domain;

/// A timer as it is ordered: time, key group, key.
pub(super) type Timer = (i64, KeyGroup, Vec<u8>);

/// All state. Expired content is removed at once, so the clock may only go forward.
pub(super) struct Model {
    states: Vec<StateDescriptor>,
    content: BTreeMap<(Vec<u8>, u8), Vec<Entry>>,
    timers: [BTreeSet<Timer>; 2],
}

/// A value (without key), list element (without key) or map entry.
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    stamp: i64,
}

impl Model {
    pub(super) fn new(states: &[StateDescriptor]) -> Self {
        Self { states: states.to_vec(), content: BTreeMap::new(), timers: Default::default() }
    }

    pub(super) fn expire(&mut self, now: i64) {
        for ((_, state), entries) in &mut self.content {
            if let Some(ttl) = self.states[usize::from(*state)].ttl {
                entries.retain(|entry| entry.stamp + ttl > now);
            }
        }
        self.content.retain(|_, entries| !entries.is_empty());
    }

    /// The live content of a state; values and list elements have empty keys.
    pub(super) fn entries(&self, of: &[u8], state: u8) -> Vec<Pair> {
        let found = self.content.get(&(of.to_vec(), state));
        found.into_iter().flatten().map(|entry| (entry.key.clone(), entry.value.clone())).collect()
    }

    pub(super) fn apply(&mut self, keys: &[&[u8]], batch: &Batch, now: i64) {
        let writes = &batch.writes;
        for row in 0..writes.op.len() {
            let of = keys[writes.slot[row] as usize].to_vec();
            let kind = self.states[usize::from(writes.state[row])].kind;
            let entries = self.content.entry((of, writes.state[row])).or_default();
            let (key, value) = (writes.entry.get(row), writes.value.get(row).to_vec());
            match writes.op[row] {
                write_op::PUT => *entries = vec![Entry { key: vec![], value, stamp: now }],
                write_op::CLEAR => entries.clear(),
                write_op::APPEND => entries.push(Entry { key: vec![], value, stamp: now }),
                write_op::PUT_ENTRY | write_op::REMOVE_ENTRY => {
                    entries.retain(|entry| entry.key != key);
                    if writes.op[row] == write_op::PUT_ENTRY {
                        entries.push(Entry { key: key.to_vec(), value, stamp: now });
                    }
                    entries.sort_by(|a, b| a.key.cmp(&b.key));
                }
                _ => {
                    let index = key.try_into().map_or(0, |index| u32::from_be_bytes(index) as usize);
                    let touched = match kind {
                        StateKind::Map => entries.iter_mut().find(|entry| entry.key == key),
                        _ => entries.get_mut(index),
                    };
                    if let Some(entry) = touched {
                        entry.stamp = now;
                    }
                }
            }
        }
        self.content.retain(|_, entries| !entries.is_empty());
        let ops = &batch.timers;
        for row in 0..ops.op.len() {
            let bytes = keys[ops.slot[row] as usize];
            let timer = (ops.timestamp[row], key(bytes).group, bytes.to_vec());
            let timers = &mut self.timers[usize::from(ops.domain[row])];
            if ops.op[row] == timer_op::REGISTER {
                timers.insert(timer)
            } else {
                timers.remove(&timer)
            };
        }
    }

    pub(super) fn timers(&mut self, domain: Domain) -> &mut BTreeSet<Timer> {
        &mut self.timers[domain as usize]
    }

    /// The due timers within a limit, and the horizon up to which others may join.
    pub(super) fn due(&self, domain: Domain, horizon: i64, limit: usize) -> (Vec<Timer>, i64) {
        let due: Vec<_> = self.timers[domain as usize].iter().filter(|timer| timer.0 <= horizon).cloned().collect();
        if due.len() <= limit {
            return (due, horizon);
        }
        let beyond = due[limit].0;
        let whole = due.iter().filter(|timer| timer.0 < beyond).count();
        let some = due[..if whole > 0 { whole } else { limit }].to_vec();
        let last = some[some.len() - 1].0;
        (some, last)
    }

    /// The keys that have anything.
    pub(super) fn keys(&self) -> BTreeSet<&[u8]> {
        let with_timers = self.timers.iter().flatten().map(|timer| &timer.2[..]);
        self.content.keys().map(|(of, _)| &of[..]).chain(with_timers).collect()
    }

    /// The timers of the keys in some key groups.
    pub(super) fn timers_in(&self, domain: Domain, groups: &dyn Fn(KeyGroup) -> bool) -> usize {
        self.timers[domain as usize].iter().filter(|timer| groups(timer.1)).count()
    }
}
