//! Timers, and the pass that fires them in order.

use tidemill_wit::descriptor::time_domain;

use crate::columns::Timers;

/// A timer that fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The time for which it was registered, in milliseconds.
    pub timestamp: i64,
    /// Which clock that is.
    pub domain: TimeDomain,
}

/// Which clock a timer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TimeDomain {
    /// The watermark.
    EventTime = time_domain::EVENT,
    /// The wall clock.
    ProcessingTime = time_domain::PROCESSING,
}

/// What fires next in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) timestamp: i64,
    pub(crate) slot: u32,
    /// The row of the batch; for a timer that joined, the row from which it descends.
    pub(crate) row: u32,
}

/// What a pass remembers beside its rows; kept to reuse the memory.
#[derive(Debug, Default)]
pub(crate) struct PassMemory {
    /// By row: deleted before it fired.
    skip: Vec<bool>,
    /// Timers registered during the pass that fire in it, by time and slot, the next one last, with the row from which they descend.
    joined: Vec<((i64, u32), u32)>,
}

/// One call's timers, by time and slot, and those that join them.
pub(crate) struct Pass<'b> {
    timers: &'b Timers<'b>,
    memory: &'b mut PassMemory,
    cursor: usize,
}

impl<'b> Pass<'b> {
    pub(crate) fn new(timers: &'b Timers<'b>, memory: &'b mut PassMemory) -> Self {
        memory.skip.clear();
        memory.skip.resize(timers.timestamp.len(), false);
        memory.joined.clear();
        Self { timers, memory, cursor: 0 }
    }

    /// Takes the next timer. It is gone before it fires, so that registering it again fires it again.
    pub(crate) fn next(&mut self) -> Option<Due> {
        loop {
            let row = self.row(self.cursor);
            match self.memory.joined.last() {
                Some((joined, _)) if row.is_none_or(|row| *joined < row) => {
                    let ((timestamp, slot), row) = self.memory.joined.pop()?;
                    return Some(Due { timestamp, slot, row });
                }
                _ => {
                    let ((timestamp, slot), row) = (row?, self.cursor);
                    self.cursor += 1;
                    if self.memory.skip.get(row) != Some(&true) {
                        return Some(Due { timestamp, slot, row: u32::try_from(row).unwrap_or(u32::MAX) });
                    }
                }
            }
        }
    }

    /// Registers a timer that belongs to the pass; false if it does not. `row` is the row that is being processed.
    pub(crate) fn register(&mut self, domain: TimeDomain, at: (i64, u32), row: u32) -> bool {
        if !self.covers(domain, at.0) {
            return false;
        }
        match self.upcoming(at).and_then(|upcoming| self.memory.skip.get_mut(upcoming)) {
            Some(skip) => *skip = false,
            None => {
                if let Err(place) = self.joined(at) {
                    self.memory.joined.insert(place, (at, row));
                }
            }
        }
        true
    }

    /// Deletes a timer that belongs to the pass; false if it does not.
    pub(crate) fn delete(&mut self, domain: TimeDomain, at: (i64, u32)) -> bool {
        if !self.covers(domain, at.0) {
            return false;
        }
        match self.upcoming(at).and_then(|upcoming| self.memory.skip.get_mut(upcoming)) {
            Some(skip) => *skip = true,
            None => {
                if let Ok(place) = self.joined(at) {
                    self.memory.joined.remove(place);
                }
            }
        }
        true
    }

    /// The host has put all timers of the batch's keys up to the horizon into the batch. If none may join it, that is the least time.
    fn covers(&self, domain: TimeDomain, timestamp: i64) -> bool {
        domain as u8 == self.timers.domain && timestamp <= self.timers.horizon && self.timers.horizon > i64::MIN
    }

    fn row(&self, row: usize) -> Option<(i64, u32)> {
        self.timers.timestamp.get(row).copied().zip(self.timers.slot.get(row).copied())
    }

    /// Where a timer is among those that joined, or would be.
    fn joined(&self, at: (i64, u32)) -> Result<usize, usize> {
        self.memory.joined.binary_search_by(|(joined, _)| at.cmp(joined))
    }

    /// The row of a timer that has not had its turn.
    fn upcoming(&self, at: (i64, u32)) -> Option<usize> {
        let (mut low, mut high) = (self.cursor, self.timers.timestamp.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.row(middle)?.cmp(&at) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

impl TimeDomain {
    /// The domain with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::EventTime, Self::ProcessingTime].into_iter().find(|domain| *domain as u8 == code)
    }
}

#[cfg(test)]
mod tests;
