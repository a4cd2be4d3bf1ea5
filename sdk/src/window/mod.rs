//! Windows over event time, by Flink's rules: tumbling, sliding and session windows with allowed lateness, built on map state and timers.
//!
//! A detector holds [`Windows`], which say how records are assigned, and a handle for what the windows have gathered: [`ReducingWindows`],
//! [`AggregatingWindows`] or [`FullWindows`]. It adds records in `process_element` and passes timers on in `on_timer`.
//!
//! A window fires when the watermark reaches its last millisecond, and again at once for each later record that it still takes. It is gone
//! when the watermark reaches that time and the allowed lateness. A record is late if all its windows are gone.
//!
//! ```
//! use tidemill_sdk::window::{Arrival, ReducingWindows, Window, Windows};
//! use tidemill_sdk::{Context, Detector, Duration, Failure, KeyedProcessFunction, ReduceFunction, SideOutput, Timer};
//!
//! struct Sum;
//!
//! impl ReduceFunction<i64> for Sum {
//!     fn reduce(older: i64, newer: i64) -> i64 {
//!         older + newer
//!     }
//! }
//!
//! const WINDOWS: Windows = Windows::tumbling(Duration::from_mins(1)).allowed_lateness(Duration::from_secs(10));
//!
//! #[derive(Detector)]
//! struct UnitsPerMinute {
//!     units: ReducingWindows<i64, Sum>,
//!     late: SideOutput<i64>,
//! }
//!
//! impl KeyedProcessFunction for UnitsPerMinute {
//!     type Key = String;
//!     type Input<'a> = i64;
//!     type Output<'a> = (i64, i64);
//!
//!     fn process_element(&mut self, units: i64, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
//!         if self.units.add(ctx, &WINDOWS, units, emit)? == Arrival::Late {
//!             self.late.emit(ctx, &units);
//!         }
//!         Ok(())
//!     }
//!
//!     fn on_timer(&mut self, timer: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
//!         self.units.on_timer(ctx, &WINDOWS, timer, emit)
//!     }
//! }
//!
//! fn emit(window: Window, units: &i64, ctx: &mut Context<'_, UnitsPerMinute>) -> Result<(), Failure> {
//!     ctx.emit(&(window.start, *units));
//!     Ok(())
//! }
//! ```

mod content;
mod state;

use serde::{Deserialize, Serialize};

use crate::{Duration, Schema};

pub use self::content::{Aggregated, Collected, Reduced, WindowContent};
pub use self::state::{AggregatingWindows, Arrival, FullWindows, ReducingWindows, WindowState};

/// A stretch of event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Schema)]
pub struct Window {
    /// Its first millisecond.
    pub start: i64,
    /// The millisecond after its last one.
    pub end: i64,
}

/// How records are assigned to windows, and for how long a window takes late ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    kind: Kind,
    lateness: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A tumbling window slides by its own size.
    Sliding {
        size: i64,
        slide: i64,
        offset: i64,
    },
    Session {
        gap: i64,
    },
}

impl Window {
    /// The last millisecond that belongs to the window.
    #[must_use]
    pub const fn max_timestamp(self) -> i64 {
        self.end.saturating_sub(1)
    }

    /// Whether the two overlap or touch: sessions that do are one.
    const fn meets(self, other: Self) -> bool {
        self.start <= other.end && self.end >= other.start
    }

    fn cover(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

impl Windows {
    /// Windows of this size, one after the other, that begin at multiples of it. A size below a millisecond counts as one.
    #[must_use]
    pub const fn tumbling(size: Duration) -> Self {
        Self::sliding(size, size)
    }

    /// Windows of this size, of which one begins every `slide`, at multiples of it. With a slide above the size there are gaps: records in
    /// them belong to no window.
    #[must_use]
    pub const fn sliding(size: Duration, slide: Duration) -> Self {
        Self { kind: Kind::Sliding { size: at_least_1(size), slide: at_least_1(slide), offset: 0 }, lateness: 0 }
    }

    /// A window from a record until this long after the last one that is no further from the one before.
    #[must_use]
    pub const fn session(gap: Duration) -> Self {
        Self { kind: Kind::Session { gap: at_least_1(gap) }, lateness: 0 }
    }

    /// Windows begin so much later than at multiples: `-2h` for days of a zone that is two hours ahead. Sessions have none.
    #[must_use]
    pub const fn offset(self, by: Duration) -> Self {
        match self.kind {
            Kind::Sliding { size, slide, .. } => {
                Self { kind: Kind::Sliding { size, slide, offset: by.as_millis() }, lateness: self.lateness }
            }
            Kind::Session { .. } => self,
        }
    }

    /// A window takes records, and fires again for each, until the watermark is so far beyond its end. By default not at all.
    #[must_use]
    pub const fn allowed_lateness(self, lateness: Duration) -> Self {
        let lateness = lateness.as_millis();
        Self { kind: self.kind, lateness: if lateness < 0 { 0 } else { lateness } }
    }

    /// The windows of a time, the latest first.
    fn of(&self, timestamp: i64) -> impl Iterator<Item = Window> + use<> {
        let (size, slide, last) = match self.kind {
            Kind::Sliding { size, slide, offset } => (size, slide, start_of(timestamp, slide, offset)),
            Kind::Session { gap } => (gap, gap, timestamp),
        };
        let starts = std::iter::successors(Some(last), move |start| start.checked_sub(slide));
        let live = starts.take_while(move |&start| i128::from(start) + i128::from(size) > i128::from(timestamp));
        live.map(move |start| Window { start, end: start.saturating_add(size) })
    }

    fn merges(&self) -> bool {
        matches!(self.kind, Kind::Session { .. })
    }

    /// The watermark at which a window is gone.
    fn cleanup_time(&self, window: Window) -> i64 {
        window.max_timestamp().saturating_add(self.lateness)
    }

    /// Whether a record of this time is late where no window takes it.
    fn is_late(&self, timestamp: i64, watermark: i64) -> bool {
        timestamp.saturating_add(self.lateness) <= watermark
    }
}

const fn at_least_1(length: Duration) -> i64 {
    if length.as_millis() < 1 { 1 } else { length.as_millis() }
}

/// The last start of a window at or before a time.
fn start_of(timestamp: i64, slide: i64, offset: i64) -> i64 {
    let into = (i128::from(timestamp) - i128::from(offset)).rem_euclid(i128::from(slide));
    i64::try_from(i128::from(timestamp) - into).unwrap_or(i64::MIN)
}

#[cfg(test)]
mod tests;
