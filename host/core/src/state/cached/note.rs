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
    /// Whether that row, or the lack of one, is out of date.
    pub(super) dirty: bool,
    /// In how many calls it was used since the clock hand last passed, the one that brought it not counted, up to [`MOST_USES`]: so often
    /// is it spared. Most keys that come into use are not used again soon, and go at the hand's next pass.
    pub(super) uses: u8,
}

/// The timers of a key, of which those in a row must be told from those that are not: nearly always none or one.
#[derive(Debug, Default)]
pub(super) enum Timers {
    #[default]
    None,
    One(Timer),
    Many(BTreeMap<(Domain, i64), Where>),
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
    fn iter(&self) -> impl Iterator<Item = Timer> {
        let (one, many) = match self {
            Self::None => (None, None),
            Self::One(timer) => (Some(*timer), None),
            Self::Many(timers) => (None, Some(timers)),
        };
        one.into_iter().chain(many.into_iter().flatten().map(|(&(domain, time), &at)| Timer { domain, time, at }))
    }

    /// The registered ones, by domain and time.
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
            Self::One(_) | Self::None => *self = Self::None,
        }
    }

    /// The rows are as the registered timers from now on.
    pub(super) fn settle(&mut self) {
        match self {
            Self::Many(timers) => {
                timers.retain(|_, at| at.live);
                timers.values_mut().for_each(|at| at.stored = true);
                if timers.is_empty() {
                    *self = Self::None;
                }
            }
            Self::One(timer) if timer.at.live => timer.at.stored = true,
            Self::One(_) | Self::None => *self = Self::None,
        }
    }

    fn get_mut(&mut self, domain: Domain, time: i64) -> Option<&mut Where> {
        match self {
            Self::None => None,
            Self::One(timer) => Some(timer).filter(|timer| (timer.domain, timer.time) == (domain, time)).map(|timer| &mut timer.at),
            Self::Many(timers) => timers.get_mut(&(domain, time)),
        }
    }

    fn insert(&mut self, new: Timer) {
        if let Some(found) = self.get_mut(new.domain, new.time) {
            found.live = true;
            return;
        }
        match self {
            Self::None => *self = Self::One(new),
            Self::One(other) => *self = Self::Many([*other, new].map(|timer| ((timer.domain, timer.time), timer.at)).into()),
            Self::Many(timers) => {
                timers.insert((new.domain, new.time), new.at);
            }
        }
    }
}
