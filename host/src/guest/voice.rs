//! What the component of an operator writes to the log, at a bounded rate.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::generated::tidemill::process::telemetry::Level;
use crate::clock::monotonic;

/// So many lines may come at once.
const BURST: u32 = 1_000;
/// So many come in a second after that.
const PER_SECOND: u32 = 100;
/// How often it is said at most that lines were dropped.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// The log of one operator, shared by the instances of its component.
#[derive(Debug)]
pub(super) struct Voice {
    /// The operator's uid, or what else the component is called.
    name: String,
    /// Whether lines are dropped without a word.
    is_silent: bool,
    bucket: Mutex<Bucket>,
}

/// How many lines may be written now.
#[derive(Debug)]
struct Bucket {
    left: u32,
    /// Up to when `left` was filled.
    filled: Instant,
    dropped: u64,
    told: Option<Instant>,
    /// Whether it was said that there are too many counters.
    counters_told: bool,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { left: BURST, filled: now, dropped: 0, told: None, counters_told: false }
    }

    /// Takes one line; whether it may be written.
    fn take(&mut self, now: Instant) -> bool {
        let each = Duration::from_secs(1) / PER_SECOND;
        let passed = u32::try_from(now.duration_since(self.filled).as_nanos() / each.as_nanos()).unwrap_or(u32::MAX);
        self.filled = if passed >= BURST { now } else { self.filled + each * passed };
        self.left = self.left.saturating_add(passed).min(BURST);
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        self.dropped += u64::from(!may);
        may
    }

    /// How many lines were dropped, if it is time to say it.
    fn untold(&mut self, now: Instant) -> Option<u64> {
        if self.dropped == 0 || self.told.is_some_and(|told| now.duration_since(told) < TOLD_EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.dropped))
    }
}

impl Voice {
    pub(super) fn new(name: &str, is_silent: bool) -> Self {
        Self { name: name.to_owned(), is_silent, bucket: Mutex::new(Bucket::new(monotonic())) }
    }

    /// Writes a line.
    pub(super) fn say(&self, level: Level, text: &str) {
        if self.is_silent || !is_enabled(level) {
            return;
        }
        let (may, untold) = {
            let (mut bucket, now) = (self.bucket.lock().unwrap_or_else(PoisonError::into_inner), monotonic());
            (bucket.take(now), bucket.untold(now))
        };
        if let Some(dropped) = untold {
            self.tell_dropped(dropped);
        }
        let operator = &*self.name;
        match level {
            _ if !may => {}
            Level::Error => tracing::error!(operator, "{text}"),
            Level::Warn => tracing::warn!(operator, "{text}"),
            Level::Info => tracing::info!(operator, "{text}"),
            Level::Debug => tracing::debug!(operator, "{text}"),
            Level::Trace => tracing::trace!(operator, "{text}"),
        }
    }

    /// Says, once, that a counter is one too many.
    pub(super) fn too_many_counters(&self, most: usize, counter: &str) {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut bucket.counters_told, true) {
            let operator = &*self.name;
            tracing::warn!(operator, counter, "the component counts under more than {most} names: what it counts under others is dropped");
        }
    }

    fn tell_dropped(&self, dropped: u64) {
        let operator = &*self.name;
        tracing::warn!(operator, dropped, "the component writes more than {PER_SECOND} lines a second: {dropped} were dropped");
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        let dropped = self.bucket.get_mut().unwrap_or_else(PoisonError::into_inner).dropped;
        if dropped > 0 {
            self.tell_dropped(dropped);
        }
    }
}

fn is_enabled(level: Level) -> bool {
    match level {
        Level::Error => tracing::enabled!(tracing::Level::ERROR),
        Level::Warn => tracing::enabled!(tracing::Level::WARN),
        Level::Info => tracing::enabled!(tracing::Level::INFO),
        Level::Debug => tracing::enabled!(tracing::Level::DEBUG),
        Level::Trace => tracing::enabled!(tracing::Level::TRACE),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BURST, Bucket, PER_SECOND};
    use crate::clock::monotonic;

    #[test]
    fn many_lines_come_at_once_then_a_bounded_number_a_second() {
        let now = monotonic();
        let mut bucket = Bucket::new(now);
        let written = |bucket: &mut Bucket, millis: u64| (0..5_000).filter(|_| bucket.take(now + Duration::from_millis(millis))).count();
        assert_eq!(written(&mut bucket, 0), BURST as usize);
        assert_eq!(bucket.untold(now), Some(4_000));
        assert_eq!(bucket.untold(now), None, "all is told");
        assert_eq!((written(&mut bucket, 5), written(&mut bucket, 10), written(&mut bucket, 1_010)), (0, 1, PER_SECOND as usize));
        assert_eq!(bucket.untold(now + Duration::from_millis(900)), None, "it was told a moment ago");
        assert_eq!(bucket.untold(now + Duration::from_secs(2)), Some(15_000 - 1 - u64::from(PER_SECOND)));
        assert_eq!(written(&mut bucket, 3_600_000), BURST as usize);
    }
}
