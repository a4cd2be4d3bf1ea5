//! When a failed job starts again (Flink's `ExponentialDelayRestartBackoffTimeStrategy` and its kin).

use std::time::Duration;

use tidemill_core::Timestamp;

use crate::spec::job::Restart;

/// What to do after a failure. All times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strategy {
    /// Never restart.
    None,
    /// Wait the same time before each restart.
    FixedDelay {
        /// How long.
        delay: i64,
        /// How many restarts at most; `None`: unlimited.
        attempts: Option<u32>,
    },
    /// Wait longer after each failure, until the job has run for a while.
    ExponentialDelay {
        /// Before the first restart, and the least.
        initial: i64,
        /// The most.
        max: i64,
        /// By which each delay grows.
        multiplier: f64,
        /// The share of the delay that chance adds or takes.
        jitter: f64,
        /// How many restarts before the last failure is final; `None`: unlimited.
        attempts: Option<u32>,
        /// After so long without failure the delay begins at `initial` again.
        reset_after: i64,
    },
}

/// After an hour without failure the delay begins anew: Flink's default.
const RESET_AFTER: i64 = 3_600_000;

impl Strategy {
    /// As the job spec says.
    #[must_use]
    pub fn of(spec: &Restart) -> Self {
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        match *spec {
            Restart::None => Self::None,
            Restart::FixedDelay { delay, attempts } => Self::FixedDelay { delay: millis(delay), attempts },
            Restart::ExponentialDelay { initial, max, multiplier, jitter, attempts } => Self::ExponentialDelay {
                initial: millis(initial),
                max: millis(max),
                multiplier,
                jitter,
                attempts,
                reset_after: RESET_AFTER,
            },
        }
    }
}

/// Counts failures and decides.
#[derive(Clone, Debug)]
pub struct Backoff {
    strategy: Strategy,
    failures: u32,
    last_restart: Option<Timestamp>,
}

impl Backoff {
    /// No failures yet.
    #[must_use]
    pub fn new(strategy: Strategy) -> Self {
        Self { strategy, failures: 0, last_restart: None }
    }

    /// The delay before the restart after a failure at `now`; `None`: the failure is final. `chance` is a number in 0..1.
    pub fn on_failure(&mut self, now: Timestamp, chance: f64) -> Option<i64> {
        if let (Strategy::ExponentialDelay { reset_after, .. }, Some(last)) = (self.strategy, self.last_restart)
            && now.0.saturating_sub(last.0) >= reset_after
        {
            self.failures = 0;
        }
        self.failures += 1;
        let delay = match self.strategy {
            Strategy::None => return None,
            Strategy::FixedDelay { attempts: Some(attempts), .. } if self.failures > attempts => return None,
            Strategy::FixedDelay { delay, .. } => delay,
            Strategy::ExponentialDelay { attempts: Some(attempts), .. } if self.failures > attempts => return None,
            Strategy::ExponentialDelay { initial, max, multiplier, jitter, .. } => {
                exponential(&Range { initial, max }, multiplier, jitter * (2.0 * chance - 1.0), self.failures - 1)
            }
        };
        self.last_restart = Some(now.plus(delay));
        Some(delay)
    }
}

struct Range {
    initial: i64,
    max: i64,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "held between two i64 that are far below 2^53")]
fn exponential(range: &Range, multiplier: f64, swing: f64, failures_before: u32) -> i64 {
    let base = range.initial as f64 * multiplier.powi(failures_before.min(1000).cast_signed());
    let base = base.min(range.max as f64);
    ((base + base * swing) as i64).clamp(range.initial.min(range.max), range.max)
}

#[cfg(test)]
mod tests {
    use tidemill_core::Timestamp;

    use super::{Backoff, Strategy};

    fn exponential(initial: i64, max: i64, jitter: f64, attempts: Option<u32>) -> Strategy {
        Strategy::ExponentialDelay { initial, max, multiplier: 2.0, jitter, attempts, reset_after: 3_600_000 }
    }

    #[test]
    fn delays_double_up_to_the_maximum_and_attempts_end() {
        let mut backoff = Backoff::new(exponential(500, 3000, 0.0, Some(5)));
        let delays: Vec<_> = (0..6).map(|n| backoff.on_failure(Timestamp(n), 0.5)).collect();
        assert_eq!(delays, [Some(500), Some(1000), Some(2000), Some(3000), Some(3000), None]);
    }

    #[test]
    fn jitter_stays_within_bounds() {
        for draw in 0..200 {
            let chance = f64::from(draw) / 200.0;
            let mut backoff = Backoff::new(exponential(500, 3000, 0.5, None));
            for expected in [500.0, 1000.0, 2000.0, 3000.0] {
                let delay = backoff.on_failure(Timestamp(0), chance).unwrap();
                assert!((500..=3000).contains(&delay) && (delay as f64 - expected).abs() <= expected * 0.5);
            }
        }
    }

    #[test]
    fn a_long_run_resets_the_delay() {
        let mut backoff = Backoff::new(exponential(500, 3000, 0.0, None));
        backoff.on_failure(Timestamp(0), 0.5);
        backoff.on_failure(Timestamp(1000), 0.5);
        assert_eq!(backoff.on_failure(Timestamp(2000 + 3_600_000), 0.5), Some(500));
    }

    #[test]
    fn fixed_delay_and_none() {
        let mut fixed = Backoff::new(Strategy::FixedDelay { delay: 7, attempts: Some(1) });
        assert_eq!((fixed.on_failure(Timestamp(0), 0.0), fixed.on_failure(Timestamp(0), 0.0)), (Some(7), None));
        assert_eq!(Backoff::new(Strategy::None).on_failure(Timestamp(0), 0.0), None);
    }
}
