//! Time in milliseconds since the epoch.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in event time or processing time: milliseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The watermark before any other.
    pub const MIN: Self = Self(i64::MIN);
    /// The end of time: the watermark after the last record of a bounded input.
    pub const MAX: Self = Self(i64::MAX);

    /// This time plus a length in milliseconds, held within the range.
    #[must_use]
    pub fn plus(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// This time minus a length in milliseconds, held within the range.
    #[must_use]
    pub fn minus(self, millis: i64) -> Self {
        Self(self.0.saturating_sub(millis))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The two clocks on which timers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Domain {
    /// Event time: timers fire when the watermark reaches them.
    Event = 0,
    /// Processing time: timers fire when the clock is past them.
    Processing = 1,
}

impl Domain {
    /// Both domains.
    pub const ALL: [Self; 2] = [Self::Event, Self::Processing];

    /// The domain with this code of the contract.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            tidemill_wit::descriptor::time_domain::EVENT => Some(Self::Event),
            tidemill_wit::descriptor::time_domain::PROCESSING => Some(Self::Processing),
            _ => None,
        }
    }
}
