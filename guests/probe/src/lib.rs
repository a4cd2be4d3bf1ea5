//! Does what its records say, and says what it sees: for tests of semantics. Its variants, which differ in a state or in the key, are for
//! tests of upgrades.

mod misbehave;
mod ops;
mod variant;

use serde::{Deserialize, Serialize};
use tidemill_sdk::{
    AggregateFunction, AggregatingState, Context, Detector, Failure, KeyedProcessFunction, ListState, MapState, OpenContext,
};
use tidemill_sdk::{Parameters, ReduceFunction, ReducingState, Schema, SideOutput, Table, TimeDomain, Timer, ValueState};

pub use ops::{Input, Lane, Op, Said};
pub use variant::{Key, Note, Value};
use variant::{number_of, value_of};

/// The detector.
#[derive(Detector)]
pub struct Probe {
    #[cfg_attr(feature = "renamed", state(name = "amount"))]
    value: ValueState<Value>,
    note: ValueState<Note>,
    list: ListState<String>,
    map: MapState<String, i64>,
    sum: ReducingState<i64, Sum>,
    average: AggregatingState<Average>,
    /// What to do when a timer fires.
    scripts: MapState<(Clock, i64), Vec<Op>>,
    late: SideOutput<Said>,
    other: SideOutput<Said>,
    #[table(optional)]
    names: Table<String, Name>,
    parameters: Parameters<Greeting>,
    #[detector(skip)]
    greeting: String,
}

/// What the job spec may say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
#[serde(default)]
pub struct Greeting {
    /// What `greet` says.
    pub greeting: String,
}

/// A row of the table `names`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Name {
    /// The name.
    pub name: String,
}

/// Which clock a timer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The watermark.
    Event,
    /// The wall clock.
    Processing,
}

/// Addition.
pub struct Sum;

impl ReduceFunction<i64> for Sum {
    fn reduce(older: i64, newer: i64) -> i64 {
        older.wrapping_add(newer)
    }
}

/// The mean of what was added, by way of sum and count.
pub struct Average;

impl AggregateFunction for Average {
    type Input = i64;
    type Accumulator = (i64, i64);
    type Output = f64;

    fn create_accumulator() -> (i64, i64) {
        (0, 0)
    }

    fn add((sum, count): &mut (i64, i64), input: i64) {
        *sum = sum.wrapping_add(input);
        *count += 1;
    }

    fn get_result((sum, count): &(i64, i64)) -> f64 {
        *sum as f64 / *count as f64
    }
}

impl KeyedProcessFunction for Probe {
    type Key = Key;
    type Input<'a> = Input;
    type Output<'a> = Said;

    fn open(&mut self, _: &mut OpenContext<'_>) -> Result<(), Failure> {
        self.greeting.clone_from(&self.parameters.greeting);
        Ok(())
    }

    fn process_element(&mut self, element: Input, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        self.run(element.ops, ctx)
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let (clock, name) = match timer.domain {
            TimeDomain::EventTime => (Clock::Event, "event"),
            TimeDomain::ProcessingTime => (Clock::Processing, "processing"),
        };
        say(ctx, format!("{name} {}", timer.timestamp))?;
        let script = (clock, timer.timestamp);
        let Some(ops) = self.scripts.get(ctx, &script)?.cloned() else { return Ok(()) };
        self.scripts.remove(ctx, &script);
        self.run(ops, ctx)
    }
}

impl Probe {
    fn run(&mut self, ops: Vec<Op>, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        ops.into_iter().try_for_each(|op| self.act(op, ctx))
    }

    fn act(&mut self, op: Op, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        match op {
            Op::Side { lane, say } => self.side(lane, say, ctx)?,
            Op::EventTimer(at) => ctx.register_event_time_timer(at),
            Op::EventTimerIn(delay) => {
                let Some(now) = ctx.timestamp() else {
                    return Err(Failure::bad_record("event_timer_in: the element has no time to count from"));
                };
                ctx.register_event_time_timer(now.saturating_add(delay.as_millis()));
            }
            Op::DeleteEventTimer(at) => ctx.delete_event_time_timer(at),
            Op::ProcessingTimer(at) => ctx.register_processing_time_timer(at),
            Op::ProcessingTimerIn(delay) => {
                ctx.register_processing_time_timer(ctx.current_processing_time().saturating_add(delay.as_millis()));
            }
            Op::DeleteProcessingTimer(at) => ctx.delete_processing_time_timer(at),
            Op::EventTimerDo { at, ops } => {
                ctx.register_event_time_timer(at);
                self.scripts.put(ctx, &(Clock::Event, at), ops);
            }
            Op::ProcessingTimerDo { at, ops } => {
                ctx.register_processing_time_timer(at);
                self.scripts.put(ctx, &(Clock::Processing, at), ops);
            }
            Op::Fail(reason) => return Err(Failure::BadRecord(reason)),
            Op::Fatal(reason) => return Err(Failure::Fatal(reason)),
            Op::Trap => misbehave::trap(),
            Op::Loop => misbehave::run_for_ever(),
            Op::Recurse => return Err(Failure::BadRecord(format!("{} levels", misbehave::recurse(1)))),
            Op::Allocate(mebibytes) => misbehave::allocate(mebibytes),
            Op::UnreachableAfter(ops) => {
                self.run(ops, ctx)?;
                misbehave::trap();
            }
            other => return self.write(other, ctx),
        }
        Ok(())
    }

    fn write(&mut self, op: Op, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        match op {
            Op::Put(number) => self.value.update(ctx, value_of(number)),
            Op::Add(number) => {
                let value = self.value.value(ctx)?.map_or(0, number_of).wrapping_add(number);
                self.value.update(ctx, value_of(value));
            }
            Op::ClearValue => self.value.clear(ctx),
            Op::Note { text, count, tag } => self.note.update(ctx, Note::new(text, count, tag)),
            Op::ClearNote => self.note.clear(ctx),
            Op::ListAdd(item) => self.list.add(ctx, item),
            Op::ListAddAll(items) => self.list.add_all(ctx, items),
            Op::ListUpdate(items) => self.list.update(ctx, items),
            Op::ListClear => self.list.clear(ctx),
            Op::MapPut(entries) => self.map.put_all(ctx, entries),
            Op::MapRemove(key) => self.map.remove(ctx, &key),
            Op::MapClear => self.map.clear(ctx),
            Op::SumAdd(number) => self.sum.add(ctx, number)?,
            Op::SumClear => self.sum.clear(ctx),
            Op::AverageAdd(number) => self.average.add(ctx, number)?,
            Op::AverageClear => self.average.clear(ctx),
            other => {
                let text = self.read(other, ctx)?;
                say(ctx, text)?;
            }
        }
        Ok(())
    }

    /// What an op says.
    fn read(&mut self, op: Op, ctx: &mut Context<'_, Self>) -> Result<String, Failure> {
        Ok(match op {
            Op::Emit(text) => text,
            Op::Greet => self.greeting.clone(),
            Op::SayTimestamp => known("timestamp", ctx.timestamp()),
            Op::SayWatermark => format!("watermark {}", ctx.current_watermark()),
            Op::SayProcessingTime => format!("processing time {}", ctx.current_processing_time()),
            Op::Get => known("value", self.value.value(ctx)?),
            Op::GetNote => known("note", self.note.value(ctx)?),
            Op::ListGet => joined("list", self.list.get(ctx)?),
            Op::MapGet(key) => known(&format!("map {key}"), self.map.get(ctx, &key)?),
            Op::MapContains(key) => format!("contains {}", self.map.contains(ctx, &key)?),
            Op::MapIsEmpty => format!("empty {}", self.map.is_empty(ctx)?),
            Op::MapLen => format!("len {}", self.map.len(ctx)?),
            Op::MapKeys => joined("keys", &self.map.keys(ctx)?),
            Op::MapEntries => {
                let entries: Vec<_> = self.map.entries(ctx)?.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
                joined("entries", &entries)
            }
            Op::GetSum => known("sum", self.sum.get(ctx)?),
            Op::GetAverage => known("average", self.average.get(ctx)?),
            Op::Lookup(id) => known("name", self.names.get(ctx, &id)?.map(|row| row.name)),
            other => return Err(Failure::Fatal(format!("the probe does not know how to do {other:?}"))),
        })
    }

    fn side(&self, lane: Lane, text: String, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let said = Said { key: ctx.key()?.to_owned(), say: text };
        match lane {
            Lane::Main => ctx.emit(&said),
            Lane::Late => self.late.emit(ctx, &said),
            Lane::Other => self.other.emit(ctx, &said),
        }
        Ok(())
    }
}

fn say(ctx: &mut Context<'_, Probe>, say: String) -> Result<(), Failure> {
    let key = ctx.key()?.to_owned();
    ctx.emit(&Said { key, say });
    Ok(())
}

/// `WHAT VALUE`, or `WHAT none`.
fn known(what: &str, value: Option<impl ToString>) -> String {
    format!("{what} {}", value.map_or_else(|| "none".to_owned(), |value| value.to_string()))
}

/// `WHAT a,b`, or the word alone.
fn joined(what: &str, items: &[String]) -> String {
    if items.is_empty() { what.to_owned() } else { format!("{what} {}", items.join(",")) }
}

tidemill_sdk::export!(Probe);

#[cfg(test)]
mod tests;
