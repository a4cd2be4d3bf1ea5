//! How many changed keys may wait to be written.
//!
//! A key that waits longer is written less often, but all that wait must be written at the next barrier, while the worker stands still. So
//! they may wait for the most part of the time between two barriers, and are then written bit by bit. The time is taken from the last two.
//! If a barrier does not come, the time is taken to be twice as long: else every change would be written at once from then on.

/// How long it is taken to be to the first barrier if nobody says, in milliseconds.
const FIRST: i64 = 5_000;

/// Changed keys are written in the last of so many parts of an interval, and a barrier may be late by one.
const PATIENCE: i64 = 4;

/// When changed keys are written.
#[derive(Debug)]
pub(super) struct Pace {
    /// How many may always wait.
    pub(super) least: usize,
    /// The time between barriers in milliseconds.
    pub(super) interval: i64,
    /// When the last barrier was.
    began: Option<i64>,
    pub(super) now: i64,
    /// How many waited when it was time to begin with writing.
    waiting: usize,
}

impl Pace {
    pub(super) fn new(least: usize) -> Self {
        Self { least, interval: FIRST, began: None, now: i64::MIN, waiting: 0 }
    }

    /// It is this late now.
    pub(super) fn at(&mut self, now: i64) {
        self.now = now;
        let began = *self.began.get_or_insert(now);
        while self.interval > 0 && now > began.saturating_add(self.interval).saturating_add(self.interval / PATIENCE) {
            self.interval = self.interval.saturating_mul(2);
        }
    }

    /// A barrier has come.
    pub(super) fn barrier(&mut self) {
        if let Some(began) = self.began.replace(self.now) {
            self.interval = self.now.saturating_sub(began);
        }
    }

    /// How many of the `waiting` ones may go on waiting.
    pub(super) fn room(&mut self, waiting: usize) -> usize {
        let begin = self.interval / PATIENCE;
        let left = self.began.unwrap_or(self.now).saturating_add(self.interval).saturating_sub(self.now);
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
        pace.at(1_740);
        assert_eq!(pace.room(500), usize::MAX);
        pace.at(1_900);
        assert_eq!(pace.room(500), 200, "a tenth of the time is left, and a quarter was for all");
        pace.at(2_200);
        assert_eq!(pace.room(500), 10, "the barrier is late");
        pace.at(2_400);
        assert_eq!(pace.room(500), usize::MAX, "it comes only after twice the time");
        pace.at(i64::MAX);
        assert_eq!(pace.room(500), usize::MAX, "it never comes");
    }
}
