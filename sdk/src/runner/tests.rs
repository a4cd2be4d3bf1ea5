use serde::{Deserialize, Serialize};
use tidemill_wit::columns::{Blobs, BlobsBuf};
use tidemill_wit::schema::{Type, TypeTable};

use super::Runner;
use crate::columns::{Batch, Elements, Timers};
use crate::effects::Effects;
use crate::failure::BatchFailure;
use crate::host::{Host, Level};
use crate::testing::Harness;
use crate::{Context, Detector, Failure, KeyedProcessFunction, MapState, OpenContext, Parameters, Schema, SideOutput, Table, TimeDomain};
use crate::{Timer, ValueState};

#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
enum Op {
    Register(i64),
    Delete(i64),
    RegisterProcessing(i64),
    DeleteProcessing(i64),
    /// What the event timer of that time does.
    Script(i64, Vec<Op>),
    Lookup(i64),
    Log(String),
    Bad,
    Fatal,
}

#[derive(Serialize, Deserialize, Schema)]
struct Options {
    greeting: String,
}

#[derive(Detector)]
#[detector(name = "scripted", version = "7")]
struct Scripted {
    scripts: MapState<i64, Vec<Op>>,
    #[output(name = "side")]
    other: SideOutput<&'static str>,
    #[table(name = "names")]
    table: Table<i64, String>,
    options: Parameters<Options>,
    #[detector(skip)]
    opened: bool,
}

impl KeyedProcessFunction for Scripted {
    type Key = (String,);
    type Input<'a> = Op;
    type Output<'a> = String;

    fn open(&mut self, ctx: &mut OpenContext<'_>) -> Result<(), Failure> {
        if self.options.greeting.is_empty() {
            return Err("the greeting is empty".into());
        }
        self.opened = true;
        ctx.log(Level::Info, &self.options.greeting);
        Ok(())
    }

    fn process_element(&mut self, op: Op, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        assert!(self.opened);
        self.run(op, ctx)
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let (key,) = ctx.key()?;
        let watermark = ctx.current_watermark();
        assert_eq!(ctx.timestamp(), Some(timer.timestamp));
        ctx.emit(&match timer.domain {
            TimeDomain::EventTime => format!("{key}{} at {watermark}", timer.timestamp),
            TimeDomain::ProcessingTime => format!("{key}{} on the clock", timer.timestamp),
        });
        self.other.emit(ctx, &key.as_str());
        let script = self.scripts.get(ctx, &timer.timestamp)?.cloned().unwrap_or_default();
        script.into_iter().try_for_each(|op| self.run(op, ctx))
    }
}

impl Scripted {
    fn run(&mut self, op: Op, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        match op {
            Op::Register(timestamp) => ctx.register_event_time_timer(timestamp),
            Op::Delete(timestamp) => ctx.delete_event_time_timer(timestamp),
            Op::RegisterProcessing(timestamp) => ctx.register_processing_time_timer(timestamp),
            Op::DeleteProcessing(timestamp) => ctx.delete_processing_time_timer(timestamp),
            Op::Script(timestamp, ops) => self.scripts.put(ctx, &timestamp, ops),
            Op::Lookup(id) => {
                let name = self.table.get(ctx, &id)?;
                ctx.emit(&format!("{name:?}"));
            }
            Op::Log(text) => ctx.log(Level::Warn, &text),
            Op::Bad => return Err(format!("bad at {:?}", ctx.timestamp()).into()),
            Op::Fatal => return Err(Failure::fatal("no more")),
        }
        Ok(())
    }
}

fn harness() -> Harness<Scripted> {
    Harness::open(&Options { greeting: "hello".to_owned() }).unwrap()
}

fn send(harness: &mut Harness<Scripted>, key: &str, ops: impl IntoIterator<Item = Op>) {
    ops.into_iter().for_each(|op| harness.element(&(key.to_owned(),), 1, &op).unwrap());
}

fn said(harness: &mut Harness<Scripted>) -> Vec<String> {
    harness.outputs::<String>("main").unwrap().into_iter().map(|(_, text)| text).collect()
}

/// Runs `test` with several batch sizes.
fn at_every_batch_size(test: impl Fn(Harness<Scripted>)) {
    [1, 2, 3, 1024].into_iter().for_each(|rows| test(harness().batch_rows(rows)));
}

/// Case T1.
#[test]
fn a_timer_registered_three_times_fires_once() {
    at_every_batch_size(|mut harness| {
        send(&mut harness, "a", [10, 10, 10].map(Op::Register));
        harness.watermark(10).unwrap();
        assert_eq!(said(&mut harness), ["a10 at 10"]);
    });
}

/// Case T2, with the fixed order of equal times: c is of an earlier key group than b.
#[test]
fn timers_fire_across_keys_in_the_order_of_time_key_group_and_key() {
    at_every_batch_size(|mut harness| {
        for (key, timestamp) in [("b", 10), ("a", 10), ("c", 10), ("z", 5), ("a", 7), ("a", 8), ("a", 11)] {
            send(&mut harness, key, [Op::Register(timestamp)]);
        }
        harness.watermark(10).unwrap();
        assert_eq!(said(&mut harness), ["z5 at 10", "a7 at 10", "a8 at 10", "a10 at 10", "c10 at 10", "b10 at 10"]);
        harness.watermark(10).unwrap();
        assert_eq!((said(&mut harness).len(), harness.pending_timers().unwrap()), (6, 1));
    });
}

/// Case T4.
#[test]
fn timers_registered_and_deleted_in_a_pass_belong_to_it() {
    at_every_batch_size(|mut harness| {
        let script = vec![Op::Register(20), Op::Register(60), Op::Register(500), Op::Delete(70)];
        send(&mut harness, "a", [Op::Script(50, script), Op::Register(50), Op::Register(70)]);
        send(&mut harness, "b", [Op::Register(55)]);
        harness.watermark(80).unwrap();
        assert_eq!(said(&mut harness), ["a50 at 80", "a20 at 80", "b55 at 80", "a60 at 80"]);
        harness.watermark(i64::MAX).unwrap();
        assert_eq!(said(&mut harness)[4..], [format!("a500 at {}", i64::MAX)]);
    });
}

/// Case T5.
#[test]
fn deletions_are_of_the_current_key_only() {
    at_every_batch_size(|mut harness| {
        send(&mut harness, "a", [Op::Register(10), Op::Register(20), Op::Delete(10), Op::Delete(99)]);
        send(&mut harness, "b", [Op::Delete(20)]);
        harness.watermark(30).unwrap();
        assert_eq!(said(&mut harness), ["a20 at 30"]);
    });
}

#[test]
fn a_past_timer_fires_with_the_next_watermark() {
    let mut harness = harness();
    harness.watermark(10).unwrap();
    send(&mut harness, "a", [5, i64::MIN, -3].map(Op::Register));
    harness.watermark(10).unwrap();
    assert_eq!(said(&mut harness), [""; 0]);
    harness.watermark(11).unwrap();
    assert_eq!(said(&mut harness), [format!("a{} at 11", i64::MIN), "a-3 at 11".to_owned(), "a5 at 11".to_owned()]);
}

#[test]
fn output_of_processing_time_timers_has_no_timestamp() {
    let mut harness = harness();
    send(&mut harness, "a", [Op::RegisterProcessing(5), Op::RegisterProcessing(6), Op::DeleteProcessing(6), Op::Register(2)]);
    harness.processing_time(5).unwrap();
    assert_eq!(said(&mut harness), [""; 0], "the clock must be past the timer");
    harness.watermark(9).unwrap();
    harness.processing_time(7).unwrap();
    let main = [(Some(2), "a2 at 9".to_owned()), (None, "a5 on the clock".to_owned())];
    assert_eq!(harness.outputs::<String>("main").unwrap(), main);
    assert_eq!(harness.outputs::<&str>("side").unwrap(), [(Some(2), "a"), (None, "a")]);
}

#[test]
fn a_registration_on_the_other_clock_is_an_effect_of_the_pass() {
    let mut harness = harness();
    send(&mut harness, "a", [Op::Script(5, vec![Op::RegisterProcessing(1)]), Op::Register(5)]);
    harness.watermark(9).unwrap();
    assert_eq!(harness.pending_timers().unwrap(), 1);
    harness.processing_time(2).unwrap();
    assert_eq!(said(&mut harness), ["a5 at 9", "a1 on the clock"]);
}

#[test]
fn failures_name_their_row() {
    let mut harness = harness();
    send(&mut harness, "a", [Op::Log("seen".to_owned()), Op::Log("seen".to_owned()), Op::Bad]);
    assert_eq!(harness.flush(), Err(BatchFailure::BadRecord(2, "bad at Some(1)".to_owned())));
    send(&mut harness, "a", [Op::Fatal]);
    assert_eq!(harness.flush(), Err(BatchFailure::Fatal("no more".to_owned())));
    // A timer that joined fails as the row from which it descends.
    send(&mut harness, "a", [Op::Register(1), Op::Register(2), Op::Script(2, vec![Op::Register(3)]), Op::Script(3, vec![Op::Bad])]);
    assert_eq!(harness.watermark(4), Err(BatchFailure::BadRecord(1, "bad at Some(3)".to_owned())));
    assert_eq!(harness.log().len(), 3, "the greeting and two lines");
}

#[test]
fn tables_are_looked_up() {
    let mut harness = harness();
    harness.row("names", &5i64, &"five").unwrap();
    assert_eq!(harness.row("nomes", &5i64, &"five"), Err("the detector has no table nomes".to_owned()));
    send(&mut harness, "a", [5, 6].map(Op::Lookup));
    assert_eq!(said(&mut harness), ["Some(\"five\")", "None"]);
}

#[test]
fn parameters_are_checked_when_a_detector_opens() {
    let error = Harness::<Scripted>::open(&Options { greeting: String::new() }).map(drop).unwrap_err();
    assert_eq!(error, "bad record: the greeting is empty");
    let error = Harness::<Scripted>::open(&()).map(drop).unwrap_err();
    assert!(error.starts_with("the parameters do not decode as Options: "), "{error}");
    assert_eq!(harness().log(), [(Level::Info, "hello".to_owned())]);
}

#[test]
fn a_detector_describes_itself() {
    let descriptor = Runner::<Scripted>::describe();
    assert_eq!((descriptor.name.as_str(), descriptor.version.as_str()), ("scripted", "7"));
    assert_eq!(descriptor.key, Some(TypeTable::of(Type::Tuple(vec![Type::String]))));
    let lanes: Vec<_> = descriptor.lanes.iter().map(|lane| (lane.name.as_str(), lane.schema.root.clone())).collect();
    assert_eq!(lanes, [("main", Type::String), ("side", Type::String)]);
    let table = &descriptor.tables[0];
    assert_eq!((table.name.as_str(), &table.key.root, &table.row.root), ("names", &Type::I64, &Type::String));
    assert_eq!(descriptor.parameters.fields().map(<[_]>::len), Some(1));
    let unkeyed = Runner::<Unkeyed>::describe();
    assert_eq!((unkeyed.name.as_str(), unkeyed.key, unkeyed.parameters.root), ("tidemill-sdk", None, Type::Unit));
}

/// An operator without keys that asks for what only keys give.
#[derive(Detector)]
struct Unkeyed;

impl KeyedProcessFunction for Unkeyed {
    type Key = ();
    type Input<'a> = u8;
    type Output<'a> = u8;

    fn process_element(&mut self, input: u8, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        match input {
            0 => ctx.register_event_time_timer(1),
            1 => {
                ctx.key()?;
            }
            _ => ctx.emit(&input),
        }
        Ok(())
    }
}

#[test]
fn an_operator_without_keys_has_neither_timers_nor_a_key() {
    let mut harness = Harness::<Unkeyed>::open(&()).unwrap();
    for (input, text) in [(0, "cannot have timers"), (1, "name its fields in the job spec's key_by")] {
        harness.element(&(), 1, &input).unwrap();
        assert!(matches!(harness.flush(), Err(BatchFailure::Fatal(error)) if error.contains(text)), "{text}");
    }
}

#[test]
fn output_has_the_records_timestamp_or_none() {
    let mut harness = Harness::<Unkeyed>::open(&()).unwrap();
    for (timestamp, input) in [(Some(1), 4), (None, 5), (Some(2), 6)] {
        harness.element(&(), timestamp, &input).unwrap();
    }
    assert_eq!(harness.outputs::<u8>("main").unwrap(), [(Some(1), 4), (None, 5), (Some(2), 6)]);
    assert_eq!(harness.last_effects().outputs.timed, [1, 0, 1]);
}

/// A host that has nothing.
pub(crate) struct Nothing;

impl Host for Nothing {
    fn get_entry(&mut self, _: u32, _: u8, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn scan_entries(&mut self, _: u32, _: u8, _: Option<&[u8]>, _: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        Vec::new()
    }

    fn get_broadcast_entry(&mut self, _: u8, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn scan_broadcast_entries(&mut self, _: u8, _: Option<&[u8]>, _: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        Vec::new()
    }

    fn lookup(&mut self, _: u8, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn log(&mut self, _: Level, _: &str) {}

    fn count(&mut self, _: &str, _: u64) {}
}

#[derive(Detector)]
struct Valued {
    value: ValueState<i64>,
}

impl KeyedProcessFunction for Valued {
    type Key = String;
    type Input<'a> = &'a str;
    type Output<'a> = &'a str;

    fn process_element(&mut self, text: &str, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        self.value.value(ctx)?;
        ctx.key()?;
        ctx.emit(&text);
        Ok(())
    }
}

/// Processes one record with these columns.
fn process(key: &[u8], slot: u32, payload: &[u8], stored: &[&[u8]]) -> Result<u32, BatchFailure> {
    let (mut runner, mut effects) = (Runner::<Valued>::new(), Effects::default());
    runner.open(&[], &mut Nothing).unwrap();
    let (mut keys, mut items, mut payloads) = (BlobsBuf::default(), BlobsBuf::default(), BlobsBuf::default());
    keys.push(key);
    payloads.push(payload);
    stored.iter().for_each(|value| items.push(value));
    let present = vec![1; stored.len()];
    let values = [crate::columns::Cells { present: &present, items: items.view() }];
    let values = if stored.is_empty() { &[][..] } else { &values[..] };
    let batch = Batch { watermark: 0, processing_time: 0, keys: keys.view(), values, entries: &[] };
    let elements = Elements { slot: &[slot], timestamp: &[1], timed: &[], payload: payloads.view() };
    runner.process_elements(&batch, &elements, &mut Nothing, &mut effects)
}

#[test]
fn what_does_not_fit_the_detector_is_refused() {
    let fatal = |text: &str| Err(BatchFailure::Fatal(text.to_owned()));
    let misfit = || fatal("the host sent a batch that does not fit the detector's states and slots");
    assert_eq!(process(b"k\0\x01", 0, b"\x01x", &[b"\x02"]), Ok(1));
    assert_eq!(process(b"k\0\x01", 1, b"\x01x", &[b"\x02"]), misfit());
    assert_eq!(process(b"k\0\x01", 0, b"\x01x", &[]), misfit());
    assert_eq!(process(b"k", 0, b"\x01x", &[b"\x02"]), fatal("the key does not decode as String: a string in a key has no end"));
    let undecodable = process(b"k\0\x01", 0, b"\x09x", &[b"\x02"]);
    assert!(matches!(undecodable, Err(BatchFailure::BadRecord(0, text)) if text.starts_with("the record does not decode as &str: ")));
    let undecodable = process(b"k\0\x01", 0, b"\x01x", &[b"\xff"]);
    assert!(matches!(undecodable, Err(BatchFailure::Fatal(text)) if text.starts_with("state value does not decode as i64: ")));
}

#[test]
fn a_batch_before_open_and_an_unknown_clock_are_refused() {
    let (mut runner, mut effects) = (Runner::<Unkeyed>::new(), Effects::default());
    let batch = Batch { watermark: 0, processing_time: 0, keys: Blobs::default(), values: &[], entries: &[] };
    let early = runner.process_elements(&batch, &Elements::default(), &mut Nothing, &mut effects);
    assert!(matches!(early, Err(BatchFailure::Fatal(text)) if text.contains("not open")));
    runner.open(&[], &mut Nothing).unwrap();
    let timers = Timers { domain: 9, ..Timers::default() };
    let unknown = runner.on_timers(&batch, &timers, &mut Nothing, &mut effects);
    assert!(matches!(unknown, Err(BatchFailure::Fatal(text)) if text.contains("unknown domain 9")));
}
