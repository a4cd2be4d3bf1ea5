//! A limit on how many records a second a source reads, shared by its subtasks without locks.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::Timestamp;

/// What was not used in this time is lost, so that a pause is not followed by a burst. In nanoseconds.
const BURST: i64 = 100_000_000;
const NANOS_PER_MILLI: i64 = 1_000_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Hands out records at a steady rate. All who take share it: in no time do they get more together than the rate allows.
#[derive(Debug)]
pub struct MaxRate {
    /// How long a record takes, in nanoseconds.
    interval: i64,
    /// The time up to which all is handed out, in nanoseconds since the epoch.
    spent_until: AtomicI64,
}

impl MaxRate {
    /// So many records a second, at least one. Rates beyond a record a nanosecond limit nothing.
    #[must_use]
    pub fn per_second(records: u64) -> Self {
        let interval = NANOS_PER_SECOND.unsigned_abs().div_ceil(records.max(1));
        Self { interval: i64::try_from(interval).unwrap_or(NANOS_PER_SECOND), spent_until: AtomicI64::new(i64::MIN) }
    }

    /// How many records [`take`](Self::take) would give.
    #[must_use]
    pub fn available(&self, now: Timestamp, wanted: usize) -> usize {
        self.count(self.begin(self.spent_until.load(Ordering::Relaxed), now), now, wanted)
    }

    /// Takes up to `wanted` records.
    pub fn take(&self, now: Timestamp, wanted: usize) -> usize {
        let mut taken = 0;
        let spend = |spent_until| {
            let begin = self.begin(spent_until, now);
            taken = self.count(begin, now, wanted);
            Some(begin.saturating_add(self.nanos(taken)))
        };
        // Never fails: the closure always gives a value.
        _ = self.spent_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend);
        taken
    }

    /// Gives back what was taken and not read.
    pub fn give_back(&self, records: usize) {
        self.spent_until.fetch_sub(self.nanos(records), Ordering::Relaxed);
    }

    /// From when on there is something to hand out: the clock starts at the first look.
    fn begin(&self, spent_until: i64, now: Timestamp) -> i64 {
        let now = nanos(now);
        if spent_until == i64::MIN { now } else { spent_until.max(now.saturating_sub(BURST.max(self.interval + NANOS_PER_MILLI))) }
    }

    fn count(&self, begin: i64, now: Timestamp, wanted: usize) -> usize {
        let count = nanos(now).saturating_sub(begin).max(0) / self.interval;
        usize::try_from(count).map_or(wanted, |count| count.min(wanted))
    }

    fn nanos(&self, records: usize) -> i64 {
        i64::try_from(records).unwrap_or(i64::MAX).saturating_mul(self.interval)
    }
}

fn nanos(time: Timestamp) -> i64 {
    time.0.saturating_mul(NANOS_PER_MILLI)
}

#[cfg(test)]
mod tests {
    use super::MaxRate;
    use crate::Timestamp;

    #[test]
    fn all_who_take_share_the_rate() {
        for (rate, seconds) in [(1, 20), (3, 20), (1000, 5), (8000, 5), (3_000_000, 2)] {
            let limit = MaxRate::per_second(rate);
            let mut taken = 0;
            for now in 0..=seconds * 1000 {
                for subtask in 0..4 {
                    // Each finds fewer than it took, now and then.
                    let got = limit.take(Timestamp(1_700_000_000_000 + now), 10_000);
                    let unread = if subtask == 1 { got / 2 } else { 0 };
                    limit.give_back(unread);
                    taken += (got - unread) as u64;
                }
                assert!(taken * 1000 <= rate * now.unsigned_abs(), "{taken} records after {now} ms at {rate}/s");
            }
            let wanted = rate * seconds.unsigned_abs();
            assert!((taken + 1) * 100 >= wanted * 99, "{taken} of {wanted}");
        }
    }

    #[test]
    fn a_pause_is_not_followed_by_a_burst() {
        let limit = MaxRate::per_second(1000);
        assert_eq!(limit.take(Timestamp(0), 5000), 0);
        assert_eq!(limit.available(Timestamp(60_000), 5000), 100);
        assert_eq!(limit.take(Timestamp(60_000), 5000), 100);
        assert_eq!(limit.take(Timestamp(60_000), 5000), 0);
        assert_eq!(MaxRate::per_second(u64::MAX).interval, 1);
        let slow = MaxRate::per_second(1);
        assert_eq!((slow.take(Timestamp(0), 5), slow.take(Timestamp(999), 5), slow.take(Timestamp(1000), 5)), (0, 0, 1));
    }
}
