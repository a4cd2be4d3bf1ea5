//! The only place that asks the operating system for the time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidemill_core::Timestamp;
use tidemill_core::worker::Clocks;

/// The time, on two clocks.
pub trait Clock: Send + Sync {
    /// Processing time: milliseconds since the epoch, as the machine's clock has it. It never goes backwards while the process runs, though
    /// that clock may.
    fn now(&self) -> Timestamp;

    /// Milliseconds since some moment, for intervals, timeouts and pauses: whatever is done to the machine's clock changes nothing here.
    fn steady(&self) -> Timestamp;

    /// Both.
    fn clocks(&self) -> Clocks {
        Clocks { processing: self.now(), steady: self.steady() }
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    began: Instant,
    newest: Newest,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { began: monotonic(), newest: Newest(AtomicI64::new(i64::MIN)) }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the clock")]
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.newest.of(millis(elapsed))
    }

    fn steady(&self) -> Timestamp {
        Timestamp(millis(monotonic().duration_since(self.began)))
    }
}

/// The newest time that was told: what is older is not told.
#[derive(Debug)]
struct Newest(AtomicI64);

impl Newest {
    fn of(&self, time: i64) -> Timestamp {
        Timestamp(self.0.fetch_max(time, Ordering::Relaxed).max(time))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Time that only goes forward, for measuring.
#[must_use]
pub fn monotonic() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    Instant::now()
}

/// How long the process has run, or nearly so: to measure short times with.
#[must_use]
pub fn since_start() -> Duration {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    monotonic().duration_since(*BEGAN.get_or_init(monotonic))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use super::Newest;

    #[test]
    fn a_clock_that_is_set_back_stands_still_until_it_has_caught_up() {
        let newest = Newest(AtomicI64::new(i64::MIN));
        assert_eq!([5, 3, -9, 5, 6].map(|time| newest.of(time).0), [5, 5, 5, 5, 6]);
    }
}
