//! Tells which doors were left open.

use serde::{Deserialize, Serialize};
use tidemill_sdk::{
    Context, Detector, Duration, Failure, KeyedProcessFunction, Parameters, Schema, Timer,
    ValueState,
};

/// A door was opened or closed.
#[derive(Serialize, Deserialize, Schema)]
pub struct Event<'a> {
    pub door: &'a str,
    pub open: bool,
    /// Milliseconds, as all times.
    pub ts: i64,
}

/// A door has been open for too long.
#[derive(Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Alert<'a> {
    pub door: &'a str,
    pub open_since: i64,
}

/// What the job spec may say.
#[derive(Serialize, Deserialize, Schema)]
#[serde(default)]
pub struct Settings {
    /// How long a door may be open.
    pub limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limit: Duration::from_mins(5),
        }
    }
}

/// The detector; keyed by door. What it must remember is a state. If it loops over a map of its own, that is a `BTreeMap`: the order of a
/// `HashMap` is another one each time.
#[derive(Detector)]
#[detector(version = "1")]
pub struct MyDetector {
    /// Absent while the door is closed, and once it was reported.
    open_since: ValueState<i64>,
    parameters: Parameters<Settings>,
}

impl KeyedProcessFunction for MyDetector {
    type Key = String;
    type Input<'a> = Event<'a>;
    type Output<'a> = Alert<'a>;

    fn process_element(
        &mut self,
        event: Event<'_>,
        ctx: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        let open_since = self.open_since.value(ctx)?.copied();
        match (open_since, event.open) {
            (None, true) => {
                self.open_since.update(ctx, event.ts);
                ctx.register_event_time_timer(self.deadline(event.ts));
            }
            (Some(since), false) => {
                // This may be the first record after the deadline: then the watermark has not passed it yet, and no timer has fired.
                if event.ts > self.deadline(since) {
                    ctx.emit(&Alert {
                        door: event.door,
                        open_since: since,
                    });
                }
                self.open_since.clear(ctx);
                ctx.delete_event_time_timer(self.deadline(since));
            }
            _ => {} // was said before, or was reported
        }
        Ok(())
    }

    fn on_timer(&mut self, _: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        if let Some(open_since) = self.open_since.value(ctx)?.copied() {
            let door = ctx.key()?;
            ctx.emit(&Alert { door, open_since });
            self.open_since.clear(ctx);
        }
        Ok(())
    }
}

impl MyDetector {
    fn deadline(&self, open_since: i64) -> i64 {
        open_since.saturating_add(self.parameters.limit.as_millis())
    }
}

tidemill_sdk::export!(MyDetector);

#[cfg(test)]
mod tests {
    use tidemill_sdk::testing::Harness;

    use super::*;

    #[test]
    fn a_door_that_is_closed_in_time_is_no_alert() {
        let mut harness = Harness::<MyDetector>::open(&Settings {
            limit: Duration::from_secs(10),
        })
        .unwrap();
        let events = [
            ("front", true, 1_000),
            ("back", true, 2_000),
            ("side", true, 3_000),
            ("front", false, 4_000),
            ("side", false, 14_000),
        ];
        for (door, open, ts) in events {
            harness
                .element(&door.to_owned(), ts, &Event { door, open, ts })
                .unwrap();
        }
        harness.watermark(i64::MAX).unwrap();
        let alerts = harness.outputs::<Alert<'_>>("main").unwrap();
        let [side, back] = [("side", 14_000, 3_000), ("back", 12_000, 2_000)];
        assert_eq!(
            alerts,
            [side, back].map(|(door, ts, open_since)| (Some(ts), Alert { door, open_since }))
        );
    }
}
