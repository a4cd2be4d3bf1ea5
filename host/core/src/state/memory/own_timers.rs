//! The timers of one key.

use std::collections::BTreeSet;

use crate::time::Domain;

/// The times of a key's timers. One or two, as while a timer is moved, take no memory of their own.
#[derive(Debug)]
pub(super) enum OwnTimers {
    /// By domain and time.
    Few { count: u8, domains: [Domain; 2], times: [i64; 2] },
    /// By [`Domain`].
    Many(Box<[BTreeSet<i64>; 2]>),
}

impl Default for OwnTimers {
    fn default() -> Self {
        Self::Few { count: 0, domains: [Domain::Event; 2], times: [0; 2] }
    }
}

impl OwnTimers {
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few { count, .. } => usize::from(*count),
            Self::Many(times) => times.iter().map(BTreeSet::len).sum(),
        }
    }

    /// Adds a timer that is not there.
    #[inline]
    pub(super) fn add(&mut self, domain: Domain, time: i64) {
        match self {
            Self::Few { count: count @ 0, domains: [first, _], times: [at, _] } => (*count, *first, *at) = (1, domain, time),
            Self::Few { count: count @ 1, domains: [first, second], times: [at, then] } => {
                *count = 2;
                if (*first, *at) < (domain, time) {
                    (*second, *then) = (domain, time);
                } else {
                    (*second, *then) = (*first, *at);
                    (*first, *at) = (domain, time);
                }
            }
            Self::Few { domains, times, .. } => {
                let mut many = Box::<[BTreeSet<i64>; 2]>::default();
                for (domain, time) in domains.iter().zip(times).map(|(domain, time)| (*domain, *time)).chain([(domain, time)]) {
                    of(&mut many, domain).insert(time);
                }
                *self = Self::Many(many);
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
            Self::Few { count, domains: [first, second], times: [at, then] } => {
                if (*first, *at) == (domain, time) {
                    (*first, *at) = (*second, *then);
                }
                *count = count.saturating_sub(1);
            }
            Self::Many(times) => {
                of(times, domain).remove(&time);
                if times.iter().map(BTreeSet::len).sum::<usize>() < 2 {
                    let left = Domain::ALL.into_iter().find_map(|domain| Some((domain, *of(times, domain).first()?)));
                    *self = Self::default();
                    left.into_iter().for_each(|(domain, time)| self.add(domain, time));
                }
            }
        }
    }

    /// The times of a domain's timers, ascending.
    pub(super) fn of(&self, domain: Domain) -> impl ExactSizeIterator<Item = i64> {
        match self {
            Self::Few { count, domains: [first, second], times: [at, then] } => {
                let [at, then] = [(0, first, at), (1, second, then)].map(|(n, of, time)| (n < *count && *of == domain).then_some(*time));
                Times { few: [at, then], many: None }
            }
            Self::Many(times) => {
                let [event, processing] = &**times;
                Times { few: [None; 2], many: Some(if domain == Domain::Event { event } else { processing }.iter()) }
            }
        }
    }
}

fn of(times: &mut [BTreeSet<i64>; 2], domain: Domain) -> &mut BTreeSet<i64> {
    let [event, processing] = times;
    if domain == Domain::Event { event } else { processing }
}

/// A few times or many.
struct Times<'a> {
    few: [Option<i64>; 2],
    many: Option<std::collections::btree_set::Iter<'a, i64>>,
}

impl Iterator for Times<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let few = self.few.iter_mut().find_map(Option::take);
        few.or_else(|| self.many.as_mut()?.next().copied())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.few.iter().flatten().count() + self.many.as_ref().map_or(0, ExactSizeIterator::len);
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
        assert!(matches!(timers, OwnTimers::Few { count: 1, .. }), "few again");
        timers.add(Event, 9);
        timers.remove(Event, 3);
        check(&timers, &[9], &[]);
        timers.add(Event, 1);
        timers.remove(Event, 9);
        check(&timers, &[1], &[]);
        timers.remove(Event, 1);
        check(&timers, &[], &[]);
    }
}
