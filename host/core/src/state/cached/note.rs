//! What the cache knows of a key in use beside its content.

use std::collections::BTreeMap;

use crate::time::Domain;

/// The most uses that are counted.
pub(super) const MOST_USES: u8 = 3;

/// About a key in use.
#[derive(Debug, Default)]
pub(super) struct Note {
    /// Its timers, and those of which a row remains.
    pub(super) timers: Timers,
    /// How many bytes it was taken to need.
    pub(super) size: u32,
    /// Whether the store has a row of it, be it out of date.
    pub(super) stored: bool,
    /// In how many calls it was used since the clock hand last passed, the one that brought it not counted, up to [`MOST_USES`]: so often
    /// is it spared. Most keys that come into use are not used again soon, and go at the hand's next pass.
    pub(super) uses: u8,
}

/// The timers of a key, of which those in a row must be told from those that are not. One or two, as while a timer is moved, take no memory
/// of their own.
#[derive(Debug)]
pub(super) enum Timers {
    Few([Option<Timer>; 2]),
    Many(BTreeMap<(Domain, i64), Where>),
}

impl Default for Timers {
    fn default() -> Self {
        Self::Few([None; 2])
    }
}

/// A timer: registered, or of which a row remains, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timer {
    pub(super) domain: Domain,
    pub(super) time: i64,
    pub(super) at: Where,
}

/// Where a timer is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Where {
    pub(super) live: bool,
    pub(super) stored: bool,
}

impl Timers {
    /// In no order.
    fn iter(&self) -> impl Iterator<Item = Timer> {
        let (few, many) = match self {
            Self::Few(timers) => (Some(timers), None),
            Self::Many(timers) => (None, Some(timers)),
        };
        let many = many.into_iter().flatten().map(|(&(domain, time), &at)| Timer { domain, time, at });
        few.into_iter().flatten().flatten().copied().chain(many)
    }

    /// The registered ones, in no order.
    pub(super) fn live(&self) -> impl Iterator<Item = (Domain, i64)> {
        self.iter().filter(|timer| timer.at.live).map(|timer| (timer.domain, timer.time))
    }

    /// Those of which there is a row.
    pub(super) fn stored(&self) -> impl Iterator<Item = Timer> {
        self.iter().filter(|timer| timer.at.stored)
    }

    /// Those of which the rows do not say what is true.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = Timer> {
        self.iter().filter(|timer| timer.at.live != timer.at.stored)
    }

    /// A timer of which there is a row.
    pub(super) fn add_stored(&mut self, domain: Domain, time: i64) {
        self.insert(Timer { domain, time, at: Where { live: true, stored: true } });
    }

    pub(super) fn register(&mut self, domain: Domain, time: i64) {
        self.insert(Timer { domain, time, at: Where { live: true, stored: false } });
    }

    pub(super) fn delete(&mut self, domain: Domain, time: i64) {
        let Some(found) = self.get_mut(domain, time) else { return };
        if found.stored {
            found.live = false;
            return;
        }
        match self {
            Self::Many(timers) => {
                timers.remove(&(domain, time));
            }
            Self::Few(timers) => timers.iter_mut().filter(|timer| is(timer, domain, time)).for_each(|timer| *timer = None),
        }
    }

    /// The rows are as the registered timers from now on.
    pub(super) fn settle(&mut self) {
        match self {
            Self::Many(timers) => {
                timers.retain(|_, at| at.live);
                timers.values_mut().for_each(|at| at.stored = true);
                if timers.len() < 2 {
                    let left = self.iter().next();
                    *self = Self::Few([left, None]);
                }
            }
            Self::Few(timers) => {
                for timer in timers {
                    *timer = timer.filter(|timer| timer.at.live).map(|timer| Timer { at: Where { live: true, stored: true }, ..timer });
                }
            }
        }
    }

    fn get_mut(&mut self, domain: Domain, time: i64) -> Option<&mut Where> {
        match self {
            Self::Few(timers) => timers.iter_mut().find(|timer| is(timer, domain, time))?.as_mut().map(|timer| &mut timer.at),
            Self::Many(timers) => timers.get_mut(&(domain, time)),
        }
    }

    fn insert(&mut self, new: Timer) {
        if let Some(found) = self.get_mut(new.domain, new.time) {
            found.live = true;
            return;
        }
        match self {
            Self::Few(timers) => match timers.iter_mut().find(|timer| timer.is_none()) {
                Some(free) => *free = Some(new),
                None => *self = Self::Many(self.iter().chain([new]).map(|timer| ((timer.domain, timer.time), timer.at)).collect()),
            },
            Self::Many(timers) => {
                timers.insert((new.domain, new.time), new.at);
            }
        }
    }
}

fn is(timer: &Option<Timer>, domain: Domain, time: i64) -> bool {
    timer.is_some_and(|timer| (timer.domain, timer.time) == (domain, time))
}
