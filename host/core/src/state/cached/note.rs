//! What the cache knows of a key in use beside its content.

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

/// The timers of a key: nearly always none or one.
#[derive(Debug, Default)]
pub(super) enum Timers {
    #[default]
    None,
    One(Timer),
    Many(Vec<Timer>),
}

/// A timer: registered, or of which a row remains, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub(super) domain: Domain,
    pub(super) time: i64,
    pub(super) live: bool,
    pub(super) stored: bool,
}

impl Timers {
    pub(super) fn as_slice(&self) -> &[Timer] {
        match self {
            Self::None => &[],
            Self::One(timer) => std::slice::from_ref(timer),
            Self::Many(timers) => timers,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [Timer] {
        match self {
            Self::None => &mut [],
            Self::One(timer) => std::slice::from_mut(timer),
            Self::Many(timers) => timers,
        }
    }

    /// The registered ones, by domain and time.
    pub(super) fn live(&self) -> impl Iterator<Item = (Domain, i64)> {
        self.as_slice().iter().filter(|timer| timer.live).map(|timer| (timer.domain, timer.time))
    }

    /// A timer of which there is a row.
    pub(super) fn add_stored(&mut self, domain: Domain, time: i64) {
        self.insert(Timer { domain, time, live: true, stored: true });
    }

    pub(super) fn register(&mut self, domain: Domain, time: i64) {
        self.insert(Timer { domain, time, live: true, stored: false });
    }

    pub(super) fn delete(&mut self, domain: Domain, time: i64) {
        let Ok(at) = self.find(domain, time) else { return };
        match self.as_mut_slice().get_mut(at) {
            Some(timer) if timer.stored => timer.live = false,
            _ => match self {
                Self::Many(timers) => {
                    timers.remove(at);
                }
                Self::One(_) | Self::None => *self = Self::None,
            },
        }
    }

    /// The rows are as the registered timers from now on.
    pub(super) fn settle(&mut self) {
        let left = self.live().count();
        match self {
            Self::Many(timers) if left > 0 => timers.retain(|timer| timer.live),
            _ if left == 0 => *self = Self::None,
            _ => {}
        }
        self.as_mut_slice().iter_mut().for_each(|timer| timer.stored = true);
    }

    fn insert(&mut self, new: Timer) {
        let at = match self.find(new.domain, new.time) {
            Ok(at) => {
                self.as_mut_slice().iter_mut().skip(at).take(1).for_each(|timer| timer.live = true);
                return;
            }
            Err(at) => at,
        };
        match self {
            Self::None => *self = Self::One(new),
            Self::One(other) => {
                let other = *other;
                *self = Self::Many(if at == 0 { vec![new, other] } else { vec![other, new] });
            }
            Self::Many(timers) => timers.insert(at, new),
        }
    }

    fn find(&self, domain: Domain, time: i64) -> Result<usize, usize> {
        self.as_slice().binary_search_by_key(&(domain, time), |timer| (timer.domain, timer.time))
    }
}
