//! A length of time as job specs write it.

use serde::{Deserialize, Serialize};

/// A length of time in whole milliseconds, written `30m` in a job spec (units `ms`, `s`, `m`, `h`, `d`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(i64);

impl Duration {
    /// That many milliseconds.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// That many seconds, at most the longest duration there is.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// That many minutes, at most the longest duration there is.
    #[must_use]
    pub const fn from_mins(minutes: i64) -> Self {
        Self(minutes.saturating_mul(60_000))
    }

    /// The length in milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }
}
