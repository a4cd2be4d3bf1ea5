//! The timers of one time domain.

use std::collections::BTreeSet;

use super::keys::Keys;
use super::order::{Ranked, sort};
use crate::detector::KeyRef;
use crate::key_group::{KeyGroup, hash_key};
use crate::state::DueTimers;
use crate::time::Timestamp;

/// A timer: its time, and its key by group and place.
pub(super) type Timer = (i64, KeyGroup, u32);

/// The timers of one time domain. Ties within (time, key group) are put in the order of keys when they are due: few timers tie.
#[derive(Debug, Default)]
pub(super) struct Timers {
    set: BTreeSet<Timer>,
    run: Option<Run>,
    rows: Vec<Timer>,
    ranked: Vec<Ranked>,
}

/// The keys with timers at one (time, key group) that are too many for one call, in order. Kept from call to call, so that a million
/// equal timers are sorted once. Timers that are gone are passed over; a new one ends the run.
#[derive(Debug)]
struct Run {
    time: i64,
    group: KeyGroup,
    ids: Vec<u32>,
    next: usize,
}

impl Timers {
    /// Adds a timer; returns whether it is new.
    pub(super) fn register(&mut self, timer: Timer) -> bool {
        let new = self.set.insert(timer);
        if new && self.run.as_ref().is_some_and(|run| (run.time, run.group) == (timer.0, timer.1)) {
            self.run = None;
        }
        new
    }

    /// Removes a timer; returns whether it was there.
    pub(super) fn delete(&mut self, timer: Timer) -> bool {
        self.set.remove(&timer)
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.set.first().map(|timer| Timestamp(timer.0))
    }

    pub(super) fn len(&self) -> usize {
        self.set.len()
    }

    /// See [`KeyedState::due_timers`](crate::state::KeyedState::due_timers).
    pub(super) fn due(&mut self, horizon: Timestamp, limit: usize, keys: &Keys, into: &mut DueTimers) {
        into.clear();
        let all = self.collect(horizon, limit.max(1), keys);
        self.number(keys, into);
        self.rows.sort_unstable_by_key(|&(time, _, slot)| (time, slot));
        into.timestamp.extend(self.rows.iter().map(|row| row.0));
        into.slot.extend(self.rows.iter().map(|row| row.2));
        into.horizon = if all { horizon } else { Timestamp(into.timestamp.last().copied().unwrap_or(horizon.0)) };
    }

    /// Collects the timers to fire into `rows`; returns whether these are all that are due.
    fn collect(&mut self, horizon: Timestamp, limit: usize, keys: &Keys) -> bool {
        let Self { set, rows, .. } = self;
        rows.clear();
        rows.extend(set.iter().take_while(|timer| timer.0 <= horizon.0).take(limit.saturating_add(1)));
        let (Some(&first), Some(&beyond)) = (rows.first(), rows.get(limit)) else { return true };
        if first.0 < beyond.0 {
            rows.truncate(rows.partition_point(|timer| timer.0 < beyond.0));
            return false;
        }
        // One timestamp has more than the limit: take whole key groups, then the first keys of the next one.
        rows.truncate(rows.partition_point(|timer| timer.1 < beyond.1));
        let left = limit - rows.len();
        self.take_of_run(beyond.0, beyond.1, left, keys);
        false
    }

    /// Adds the first `count` timers of a (time, key group) to `rows`.
    fn take_of_run(&mut self, time: i64, group: KeyGroup, count: usize, keys: &Keys) {
        let mut run = match self.run.take() {
            Some(run) if (run.time, run.group) == (time, group) => run,
            _ => {
                let of_group = self.set.range((time, group, 0)..=(time, group, u32::MAX));
                let mut ranked: Vec<_> = of_group.map(|timer| Ranked::new(keys, 0, group, timer.2)).collect();
                sort(0, keys, &mut ranked);
                Run { time, group, ids: ranked.iter().map(|ranked| ranked.id).collect(), next: 0 }
            }
        };
        let left = run.ids.get(run.next..).unwrap_or(&[]);
        let gone = left.iter().take_while(|&&id| !self.set.contains(&(time, group, id))).count();
        run.next += gone;
        let pending = left.iter().skip(gone).map(|&id| (time, group, id)).filter(|timer| self.set.contains(timer));
        self.rows.extend(pending.take(count));
        self.run = Some(run);
    }

    /// Numbers the keys of the rows by (key group, key bytes) as slots, which replace the places in the rows.
    fn number(&mut self, keys: &Keys, into: &mut DueTimers) {
        let Self { rows, ranked, .. } = self;
        keys.warm(rows.iter().map(|timer| timer.2));
        ranked.clear();
        ranked.extend(rows.iter().zip(0..).map(|(timer, row)| Ranked::new(keys, 0, timer.1, timer.2).of_row(row)));
        sort(0, keys, ranked);
        let (mut last, mut slot) = (None, 0);
        for ranked in &*ranked {
            let Some(row) = rows.get_mut(ranked.row as usize) else { continue };
            if last.replace(ranked.id) != Some(ranked.id) {
                let bytes = keys.key(ranked.id);
                slot = u32::try_from(into.slots.len()).unwrap_or(u32::MAX);
                into.slots.push(KeyRef { bytes, hash: hash_key(bytes), group: row.1 });
            }
            row.2 = slot;
        }
    }
}
