//! Tells which devices have gone quiet: a small state and a timer for each device, and every reading moves the timer. For `bench big-state`.

use serde::{Deserialize, Serialize};
use tidemill_sdk::{Context, Detector, Duration, Failure, KeyedProcessFunction, Parameters, Schema, Timer, ValueState};

/// A device tells of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Reading<'a> {
    /// The device; the key.
    pub device: &'a str,
    /// When, in milliseconds.
    pub at: i64,
}

/// A device has told nothing for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Quiet<'a> {
    /// The device.
    pub device: &'a str,
    /// When that was certain, in milliseconds.
    pub at: i64,
    /// How many readings it has given so far.
    pub readings: i64,
}

/// What is kept of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
pub struct Seen {
    /// How many readings it has given.
    pub readings: i64,
    /// When it will have been quiet for long enough, in milliseconds.
    pub deadline: i64,
}

/// What the job spec may say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
#[serde(default)]
pub struct QuietParameters {
    /// How long a device may tell nothing; after that it is told of each time that so much has passed.
    pub after: Duration,
}

impl Default for QuietParameters {
    fn default() -> Self {
        Self { after: Duration::from_mins(60) }
    }
}

/// The detector; keyed by device.
#[derive(Detector)]
#[detector(version = "1")]
pub struct GoneQuiet {
    seen: ValueState<Seen>,
    parameters: Parameters<QuietParameters>,
}

impl KeyedProcessFunction for GoneQuiet {
    type Key = String;
    type Input<'a> = Reading<'a>;
    type Output<'a> = Quiet<'a>;

    fn process_element(&mut self, reading: Reading<'_>, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let seen = self.seen.value(ctx)?.cloned();
        let deadline = reading.at.saturating_add(self.parameters.after.as_millis());
        if let Some(before) = seen.as_ref().map(|seen| seen.deadline).filter(|before| *before != deadline) {
            ctx.delete_event_time_timer(before);
        }
        ctx.register_event_time_timer(deadline);
        self.seen.update(ctx, Seen { readings: seen.map_or(0, |seen| seen.readings) + 1, deadline });
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let readings = self.seen.value(ctx)?.map_or(0, |seen| seen.readings);
        let device = ctx.key()?;
        ctx.emit(&Quiet { device, at: timer.timestamp, readings });
        let deadline = timer.timestamp.saturating_add(self.parameters.after.as_millis());
        if ctx.current_watermark() < i64::MAX {
            ctx.register_event_time_timer(deadline);
        }
        self.seen.update(ctx, Seen { readings, deadline });
        Ok(())
    }
}

tidemill_sdk::export!(GoneQuiet);

#[cfg(test)]
mod tests;
