//! The only place that asks the operating system for the time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidemill_core::Timestamp;

/// A source of processing time.
pub trait Clock: Send + Sync {
    /// Milliseconds since the epoch.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the clock")]
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Time that only goes forward, for measuring.
#[must_use]
pub fn monotonic() -> std::time::Instant {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    std::time::Instant::now()
}
