//! How many changed keys may wait to be written.
//!
//! A key that waits longer is written less often, but all that wait must be written at the next barrier, while the worker stands still. So
//! they may wait for the first part of the time between two barriers, and are then written bit by bit. The time is the shortest of the last
//! few: if it is taken to be too long, many keys are left at the barrier; if too short, some are written once more than needed. If no
//! barrier comes, it is taken to be twice as long: else nearly every change would be written at once from then on.

use std::collections::VecDeque;

/// How long it is taken to be to the first barrier if nobody says, in milliseconds.
const FIRST: i64 = 5_000;

/// Changed keys are written in the last of so many parts of an interval.
const PATIENCE: i64 = 4;

/// A barrier may be late by one of so many parts of an interval, since it waits in queues.
const LATE: i64 = 2;

/// By how many milliseconds barriers may come too early, where intervals are long enough for that.
const JITTER: i64 = 500;

/// Of how many intervals between barriers the shortest counts.
const INTERVALS: usize = 4;

/// When changed keys are written.
#[derive(Debug)]
pub(super) struct Pace {
    /// How many may always wait.
    pub(super) least: usize,
    /// The time between barriers in milliseconds, as far as is known.
    pub(super) interval: i64,
    /// The last ones that were expected or measured, the newest last.
    measured: VecDeque<i64>,
    /// When the last barrier was; before the first, when it began.
    began: Option<i64>,
    /// Whether there has been one.
    after_barrier: bool,
    pub(super) now: i64,
    /// How many waited when it was time to begin with writing.
    waiting: usize,
}

impl Pace {
    pub(super) fn new(least: usize) -> Self {
        Self {
            least,
            interval: FIRST,
            measured: VecDeque::with_capacity(INTERVALS),
            began: None,
            after_barrier: false,
            now: i64::MIN,
            waiting: 0,
        }
    }

    /// Takes it that barriers come every so many milliseconds, as if that had been measured once.
    pub(super) fn expect(&mut self, interval: i64) {
        self.measured.push_back(interval);
        self.interval = interval;
    }

    /// It is this late now.
    pub(super) fn at(&mut self, now: i64) {
        self.now = now;
        let began = *self.began.get_or_insert(now);
        while self.interval > 0 && now > began.saturating_add(self.interval).saturating_add(self.interval / LATE) {
            self.interval = self.interval.saturating_mul(2);
        }
    }

    /// A barrier has come.
    pub(super) fn barrier(&mut self) {
        let after_barrier = std::mem::replace(&mut self.after_barrier, true);
        // Without any change meanwhile it is not known how much time has passed.
        if let Some(began) = self.began.replace(self.now).filter(|began| after_barrier && *began < self.now) {
            if self.measured.len() == INTERVALS {
                self.measured.pop_front();
            }
            self.measured.push_back(self.now.saturating_sub(began));
            self.interval = self.measured.iter().copied().min().unwrap_or(FIRST);
        }
    }

    /// How many of the `waiting` ones may go on waiting.
    pub(super) fn room(&mut self, waiting: usize) -> usize {
        let begin = self.interval / PATIENCE;
        // A barrier that was late, since it waited in queues, is followed by one that comes so much sooner: all is to be written earlier.
        let spare = (self.interval / 8).max(begin.min(JITTER));
        let left = self.began.unwrap_or(self.now).saturating_add(self.interval - spare).saturating_sub(self.now);
        if begin > 0 && left > begin {
            self.waiting = waiting;
            return usize::MAX;
        }
        let share = u128::try_from(left.max(0)).unwrap_or(0) * self.waiting as u128 / u128::try_from(begin.max(1)).unwrap_or(1);
        self.least.max(usize::try_from(share).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;

    #[test]
    fn keys_wait_until_the_next_barrier_is_near() {
        let mut pace = Pace::new(10);
        pace.at(0);
        pace.barrier();
        pace.at(1_000);
        pace.barrier();
        pace.at(1_100);
        assert_eq!(pace.room(400), usize::MAX);
        pace.at(1_490);
        assert_eq!(pace.room(500), usize::MAX);
        pace.at(1_650);
        assert_eq!(pace.room(500), 200, "a tenth of the time is left, and a quarter was for all");
        pace.at(1_750);
        assert_eq!(pace.room(500), 10, "a quarter of the time before the barrier, all is written");
        pace.at(2_200);
        assert_eq!(pace.room(500), 10, "the barrier is late");
    }

    #[test]
    fn a_barrier_that_does_not_come_is_expected_after_twice_the_time() {
        let mut pace = Pace::new(10);
        pace.at(0);
        pace.barrier();
        pace.at(8_000);
        pace.barrier();
        pace.at(12_000);
        assert_eq!(pace.room(500), usize::MAX);
        pace.at(19_900);
        assert_eq!(pace.room(500), 10, "it is late");
        pace.at(20_100);
        assert_eq!(pace.room(500), 237, "there are 1.9 s of the last 4 s in which all is to be written");
    }

    #[test]
    fn the_shortest_of_the_last_intervals_counts() {
        let mut pace = Pace::new(10);
        pace.expect(1_000);
        pace.at(0);
        pace.barrier();
        let intervals = [1_100, 700, 1_300, 900, 1_200, 1_100].map(|interval| {
            pace.at(pace.now + interval);
            pace.barrier();
            pace.interval
        });
        assert_eq!(intervals, [1_000, 700, 700, 700, 700, 900]);
    }
}
