//! Gathers numbers in windows of event time, of the kind that the job spec says: for tests of windows.

use serde::{Deserialize, Serialize};
use tidemill_sdk::window::{Arrival, FullWindows, ReducingWindows, Window, Windows};
use tidemill_sdk::{Context, Detector, Duration, Failure, KeyedProcessFunction, Parameters, ReduceFunction, Schema, SideOutput, Timer};

/// A number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Input {
    /// Whose it is.
    pub key: String,
    /// The number.
    pub number: i64,
}

/// What a window holds when it fires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Fired {
    /// Whose window it is.
    pub key: String,
    /// Its first millisecond.
    pub start: i64,
    /// The millisecond after its last.
    pub end: i64,
    /// Its sum, or all its numbers.
    pub result: Vec<i64>,
}

/// Kinds of windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One after the other.
    #[default]
    Tumbling,
    /// One that begins every `slide`.
    Sliding,
    /// From a record until `size` without another.
    Session,
}

/// Which windows, and what they hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
#[serde(default)]
pub struct Settings {
    /// The kind.
    pub kind: Kind,
    /// How long a window is, or the gap that ends a session.
    pub size: Duration,
    /// Every so often a sliding window begins.
    pub slide: Duration,
    /// So much later than at multiples windows begin.
    pub offset: Duration,
    /// So long a window takes late records.
    pub lateness: Duration,
    /// Windows hold all numbers instead of the sum.
    pub full: bool,
}

/// The detector.
#[derive(Detector)]
pub struct WindowedNumbers {
    sums: ReducingWindows<i64, Sum>,
    numbers: FullWindows<i64>,
    late: SideOutput<Input>,
    settings: Parameters<Settings>,
}

/// Addition.
pub struct Sum;

impl ReduceFunction<i64> for Sum {
    fn reduce(older: i64, newer: i64) -> i64 {
        older.wrapping_add(newer)
    }
}

impl KeyedProcessFunction for WindowedNumbers {
    type Key = String;
    type Input<'a> = Input;
    type Output<'a> = Fired;

    fn process_element(&mut self, input: Input, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let windows = self.settings.windows();
        let arrival = if self.settings.full {
            self.numbers.add(ctx, &windows, input.number, |window, numbers, ctx| fire(window, numbers, ctx))?
        } else {
            self.sums.add(ctx, &windows, input.number, |window, sum, ctx| fire(window, &[*sum], ctx))?
        };
        if arrival == Arrival::Late {
            self.late.emit(ctx, &input);
        }
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let windows = self.settings.windows();
        if self.settings.full {
            self.numbers.on_timer(ctx, &windows, timer, |window, numbers, ctx| fire(window, numbers, ctx))
        } else {
            self.sums.on_timer(ctx, &windows, timer, |window, sum, ctx| fire(window, &[*sum], ctx))
        }
    }
}

impl Settings {
    fn windows(&self) -> Windows {
        let windows = match self.kind {
            Kind::Tumbling => Windows::tumbling(self.size),
            Kind::Sliding => Windows::sliding(self.size, self.slide),
            Kind::Session => Windows::session(self.size),
        };
        windows.offset(self.offset).allowed_lateness(self.lateness)
    }
}

fn fire(window: Window, result: &[i64], ctx: &mut Context<'_, WindowedNumbers>) -> Result<(), Failure> {
    let key = ctx.key()?.to_owned();
    ctx.emit(&Fired { key, start: window.start, end: window.end, result: result.to_vec() });
    Ok(())
}

tidemill_sdk::export!(WindowedNumbers);

#[cfg(test)]
mod tests;
