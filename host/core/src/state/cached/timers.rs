//! Timers of keys that are put away: rows in the order in which they fire, among rows of keys in use, which are passed over.

use super::CachedState;
use super::rows::{Rows, Space, timer_of};
use crate::Result;
use crate::detector::SlotKeys;
use crate::time::{Domain, Timestamp};

/// The timers of one domain that belong to keys put away.
#[derive(Debug)]
pub(super) struct Away {
    domain: Domain,
    /// How many there are.
    pub(super) count: u64,
    /// The row of the first one, or, if `moved`, a row before which there is none.
    head: Option<Vec<u8>>,
    /// Whether the key of the first one has come into use, so that the next one must be looked for.
    moved: bool,
}

impl Away {
    pub(super) fn new(domain: Domain) -> Self {
        Self { domain, count: 0, head: None, moved: false }
    }

    /// So many timers of rows of which none has been looked at.
    pub(super) fn stored(domain: Domain, count: u64) -> Self {
        Self { domain, count, head: Some(vec![domain as u8]), moved: true }
    }

    /// The time of the first one.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let (time, _) = timer_of(self.domain, self.head.as_ref()?)?;
        Some(Timestamp(time))
    }

    /// A key with this timer is put away.
    pub(super) fn add(&mut self, row: &[u8]) {
        self.count += 1;
        if self.head.as_ref().is_none_or(|head| row < &head[..]) {
            let mut head = self.head.take().unwrap_or_default();
            head.clear();
            head.extend_from_slice(row);
            self.head = Some(head);
        }
    }

    /// A key with a timer at this time comes into use.
    pub(super) fn take(&mut self, time: i64) {
        self.count -= 1;
        self.moved |= self.next() == Some(Timestamp(time));
    }
}

impl<R: Rows> CachedState<R> {
    pub(super) fn away_of(&self, domain: Domain) -> &Away {
        let [event, processing] = &self.timers;
        if domain == Domain::Event { event } else { processing }
    }

    /// Looks for the first timers put away, where they are not known.
    pub(super) fn find_heads(&mut self) -> Result<()> {
        let Self { timers, memory, rows, .. } = self;
        for away in timers.iter_mut().filter(|away| away.moved) {
            away.moved = false;
            let Some(mut head) = away.head.take().filter(|_| away.count > 0) else { continue };
            let (domain, mut found) = (away.domain, false);
            let from = head.clone();
            rows.scan(Space::Timers, &from, &mut |row, _| {
                let Some((_, key)) = timer_of(domain, row) else { return false };
                if memory.find(key).is_some() {
                    return true;
                }
                head.clear();
                head.extend_from_slice(row);
                found = true;
                false
            })?;
            away.head = found.then_some(head);
        }
        Ok(())
    }

    /// Brings the keys into use whose timers are among the first `limit` due ones, and the next after those.
    pub(super) fn bring_due(&mut self, domain: Domain, horizon: Timestamp, limit: usize) -> Result<()> {
        let Some(from) = self.away_of(domain).head.clone().filter(|_| self.away_of(domain).next() <= Some(horizon)) else { return Ok(()) };
        let (mut due, mut left) = (SlotKeys::default(), limit.max(1).saturating_add(1));
        let memory = &self.memory;
        self.rows.scan(Space::Timers, &from, &mut |row, _| {
            let Some((_, key)) = timer_of(domain, row).filter(|(time, _)| *time <= horizon.0) else { return false };
            if memory.find(key).is_none() {
                due.push(key);
                left -= 1;
            }
            left > 0
        })?;
        self.bring_all(&due, None)?;
        self.looked = false;
        self.find_heads()
    }
}
