//! The timers of one key.

use std::collections::BTreeSet;

use crate::time::Domain;

/// The times of a key's timers: nearly always none or one.
#[derive(Debug, Default)]
pub(super) enum OwnTimers {
    #[default]
    None,
    One(Domain, i64),
    /// By [`Domain`].
    Many(Box<[BTreeSet<i64>; 2]>),
}

impl OwnTimers {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(..) => 1,
            Self::Many(times) => times.iter().map(BTreeSet::len).sum(),
        }
    }

    /// Adds a timer that is not there.
    #[inline]
    pub(super) fn add(&mut self, domain: Domain, time: i64) {
        match self {
            Self::None => *self = Self::One(domain, time),
            Self::One(other, at) => {
                let mut times = Box::<[BTreeSet<i64>; 2]>::default();
                of(&mut times, *other).insert(*at);
                of(&mut times, domain).insert(time);
                *self = Self::Many(times);
            }
            Self::Many(times) => {
                of(times, domain).insert(time);
            }
        }
    }

    /// Removes a timer that is there.
    #[inline]
    pub(super) fn remove(&mut self, domain: Domain, time: i64) {
        match self {
            Self::None => {}
            Self::One(..) => *self = Self::None,
            Self::Many(times) => {
                of(times, domain).remove(&time);
                if times.iter().all(BTreeSet::is_empty) {
                    *self = Self::None;
                }
            }
        }
    }

    /// The times of a domain's timers, ascending.
    pub(super) fn of(&self, domain: Domain) -> impl ExactSizeIterator<Item = i64> {
        let (one, many) = match self {
            Self::One(mine, time) if *mine == domain => (Some(*time), None),
            Self::None | Self::One(..) => (None, None),
            Self::Many(times) => {
                let [event, processing] = &**times;
                (None, Some(if domain == Domain::Event { event } else { processing }))
            }
        };
        Times { one, many: many.map(|times| times.iter()) }
    }
}

fn of(times: &mut [BTreeSet<i64>; 2], domain: Domain) -> &mut BTreeSet<i64> {
    let [event, processing] = times;
    if domain == Domain::Event { event } else { processing }
}

/// One time or many.
struct Times<'a> {
    one: Option<i64>,
    many: Option<std::collections::btree_set::Iter<'a, i64>>,
}

impl Iterator for Times<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        self.one.take().or_else(|| self.many.as_mut()?.next().copied())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = usize::from(self.one.is_some()) + self.many.as_ref().map_or(0, ExactSizeIterator::len);
        (len, Some(len))
    }
}

impl ExactSizeIterator for Times<'_> {}

#[cfg(test)]
mod tests {
    use super::OwnTimers;
    use crate::time::Domain::{Event, Processing};

    #[test]
    fn timers_come_and_go() {
        let mut timers = OwnTimers::default();
        let check = |timers: &OwnTimers, event: &[i64], processing: &[i64]| {
            assert_eq!(timers.of(Event).collect::<Vec<_>>(), event);
            assert_eq!(timers.of(Processing).collect::<Vec<_>>(), processing);
            assert_eq!((timers.of(Event).len(), timers.of(Processing).len()), (event.len(), processing.len()));
            assert_eq!((timers.len(), timers.is_empty()), (event.len() + processing.len(), event.is_empty() && processing.is_empty()));
        };
        check(&timers, &[], &[]);
        timers.add(Processing, 5);
        check(&timers, &[], &[5]);
        timers.remove(Processing, 5);
        check(&timers, &[], &[]);
        timers.add(Event, 7);
        timers.add(Event, 3);
        timers.add(Processing, 7);
        check(&timers, &[3, 7], &[7]);
        timers.remove(Event, 7);
        timers.remove(Processing, 7);
        check(&timers, &[3], &[]);
        timers.remove(Event, 3);
        assert!(matches!(timers, OwnTimers::None));
    }
}
