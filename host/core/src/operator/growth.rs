//! An instance that has grown far is replaced: what it needed once, perhaps for one record, it would keep for ever.

use std::time::Duration;

/// Up to this size an instance is never replaced.
const FLOOR: u64 = 32 << 20;
/// An instance of more than so many times its size after it was opened has grown far.
const FACTOR: u64 = 4;
/// The least time for which an instance is used before it is replaced.
const LEAST: Duration = Duration::from_secs(1);
/// The most, for one that needs much again and again.
const MOST: Duration = Duration::from_secs(60);
/// An instance is used for so many times what it took to open it, at least.
const WORTH: u32 = 100;

/// When to replace an instance of a detector. Which one is used changes nothing in what comes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    /// Its size when it was opened.
    opened_with: u64,
    /// When it was opened, and when it was first found grown far.
    opened: Duration,
    far: Option<Duration>,
    /// For how long an instance is used before it is replaced.
    wait: Duration,
}

impl Growth {
    /// Of an instance with so many bytes.
    pub(super) fn new(memory: u64) -> Self {
        Self { opened_with: memory, opened: Duration::ZERO, far: None, wait: LEAST }
    }

    /// Whether the instance has grown far.
    pub(super) fn is_far(&self, memory: u64) -> bool {
        memory > FLOOR.max(self.opened_with.saturating_mul(FACTOR))
    }

    /// Whether an instance that has grown far is to be replaced now.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        self.far.get_or_insert(now);
        now.saturating_sub(self.opened) >= self.wait
    }

    /// It was replaced by one of so many bytes, which took a time to open. One that had needed much soon after it was opened is likely to be
    /// followed by one that does, which is left alone for longer.
    pub(super) fn replaced(&mut self, memory: u64, now: Duration, opening: Duration) {
        let soon = self.far.is_some_and(|far| far.saturating_sub(self.opened) < self.wait);
        let wait = if soon { (self.wait * 2).min(MOST) } else { LEAST };
        *self = Self { opened_with: memory, opened: now, far: None, wait: wait.max(opening * WORTH) };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FLOOR, Growth, MOST};

    /// How often an instance is replaced within so many milliseconds, if it needs much every so many.
    fn replaced(every: u64, until: u64) -> usize {
        let (mut growth, mut replaced) = (Growth::new(1 << 20), 0);
        let mut far = false;
        for now in 0..until {
            far |= now % every == 0;
            let at = Duration::from_millis(now);
            if far && growth.is_due(at) {
                growth.replaced(1 << 20, at, Duration::from_micros(40));
                (far, replaced) = (false, replaced + 1);
            }
        }
        replaced
    }

    #[test]
    fn what_is_far_depends_on_the_size_at_first() {
        assert!(!Growth::new(1).is_far(FLOOR) && Growth::new(1).is_far(FLOOR + 1));
        assert!(!Growth::new(FLOOR).is_far(4 * FLOOR) && Growth::new(FLOOR).is_far(4 * FLOOR + 1));
    }

    #[test]
    fn one_that_needs_much_now_and_then_is_replaced_each_time_and_one_that_always_does_seldom() {
        assert_eq!(replaced(10_000, 100_000), 10);
        let hour = 3_600_000;
        let seldom = replaced(5, hour);
        assert!((50..70).contains(&seldom), "{seldom} times in an hour");
    }

    #[test]
    fn what_takes_long_to_open_is_kept_for_longer() {
        let mut growth = Growth::new(1 << 20);
        let second = Duration::from_secs(1);
        assert!(!growth.is_due(Duration::ZERO) && growth.is_due(second));
        growth.replaced(1 << 20, second, second * 2);
        assert!(!growth.is_due(second + MOST * 3) && growth.is_due(second * 201));
    }
}
