//! A small job for tests of workers: an unbounded source in memory, an operator that tells what it sees, a sink that writes it down.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::task::Waker;

use tidemill_wit::descriptor::{Descriptor, LaneDescriptor};
use tidemill_wit::schema::{Field, NamedType, Shape, Type, TypeTable};

use super::super::{Graph, InvalidPolicy, Node, RestoredOperator, SourceSettings, Wire, WireKind, Worker, WorkerSetup, build};
use crate::batch::Batch;
use crate::checkpoint::snapshot::Snapshot;
use crate::detector::{CallContext, Detector, DetectorFactory, Elements, Failure, Reads, Timers};
use crate::effects::Effects;
use crate::operator::OperatorSettings;
use crate::schema::{FieldPath, KeyEncoder};
use crate::sink::{Committable, Prepared, Sink, SinkWriter, WriterTask};
use crate::source::{Limit, Polled, Source, SourceRows, Split, SplitReader};
use crate::state::MemoryBackend;
use crate::time::Domain;
use crate::watermark::Strategy;
use crate::{Result, Timestamp};

/// What can be chosen.
#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) workers: usize,
    pub(super) batch_rows: usize,
    pub(super) source_rows: usize,
    /// Outputs per record, each of so many bytes.
    pub(super) fan_out: (usize, usize),
    /// The time of a processing-time timer that each record registers.
    pub(super) processing_timer: Option<i64>,
    /// Each timer registers another one this much later.
    pub(super) renewed_after: Option<i64>,
    /// Whether the source ends.
    pub(super) bounded: bool,
    /// Whether timers stay when it has ended.
    pub(super) stay_at_end: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 1,
            batch_rows: 1024,
            source_rows: 1024,
            fan_out: (1, 0),
            processing_timer: None,
            renewed_after: None,
            bounded: false,
            stay_at_end: false,
        }
    }
}

/// What is there to read, and what has been written: keys and times.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) records: Arc<Mutex<Vec<(i64, i64)>>>,
    written: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub(super) fn of(records: impl IntoIterator<Item = (i64, i64)>) -> Self {
        Self { records: Arc::new(Mutex::new(records.into_iter().collect())), ..Self::default() }
    }

    /// A line a record (`e`: from an element, with the processing time; `t`: from a timer, with the watermark), `|` for a barrier.
    pub(super) fn written(&self) -> Vec<String> {
        self.written.lock().unwrap().clone()
    }

    /// Workers that start from nothing, or from a snapshot.
    pub(super) fn start(&self, options: Options, from: Option<Restart>) -> Vec<Worker> {
        let (splits, restored) = from.map_or_else(|| (vec![Split::new(&[], "0")], None), |from| (from.splits, Some(from.operator)));
        let setup = WorkerSetup {
            wakers: vec![Waker::noop().clone(); options.workers],
            queue_capacity: 2,
            backend: Arc::new(MemoryBackend),
            splits: vec![splits],
            restored: vec![None, restored, None],
            incarnation: 0,
            attempt: 0,
        };
        build(&self.graph(options), &setup).unwrap()
    }

    fn graph(&self, options: Options) -> Graph {
        let input = record("Event", &[("key", Type::I64), ("time", Type::I64)]);
        let source = SourceSettings {
            invalid: InvalidPolicy::default(),
            uid: "source".to_owned(),
            index: 0,
            source: Arc::new(Feed { world: self.clone(), bounded: options.bounded }),
            timestamp: Some(FieldPath::resolve(&input, "time").unwrap().as_timestamp().unwrap()),
            watermark: Strategy { bound: 0, idle_timeout: None },
            alignment: None,
            max_rate: None,
            batch_rows: options.source_rows,
            caution: usize::MAX.into(),
            splits: Arc::default(),
        };
        let lane =
            record("Seen", &[("kind", Type::String), ("key", Type::I64), ("time", Type::I64), ("at", Type::I64), ("pad", Type::Bytes)]);
        let descriptor = Descriptor {
            key: Some(TypeTable::of(Type::I64)),
            lanes: vec![LaneDescriptor { name: "main".to_owned(), schema: lane }],
            input: input.clone(),
            ..Descriptor::default()
        };
        let mut settings = OperatorSettings::new("teller", Arc::new(Teller { descriptor, options }), Vec::new(), 128);
        settings.batch_rows = options.batch_rows;
        settings.fire_at_end = !options.stay_at_end;
        let by_key = KeyEncoder::new(&input, &["key".to_owned()]).unwrap();
        Graph {
            nodes: vec![Node::Source(Arc::new(source)), Node::Operator(Arc::new(settings)), Node::Sink(0, Arc::new(self.clone()))],
            wires: vec![
                Wire { from: 0, lane: 0, to: 1, kind: WireKind::ByKey(by_key) },
                Wire { from: 1, lane: 0, to: 2, kind: WireKind::Forward },
            ],
            max_parallelism: 128,
        }
    }
}

fn record(name: &str, fields: &[(&str, Type)]) -> TypeTable {
    let field = |(name, ty): &(&str, Type)| Field { name: (*name).to_owned(), aliases: vec![], ty: ty.clone(), default: None };
    let shape = Shape::Struct(fields.iter().map(field).collect());
    TypeTable { types: vec![NamedType { name: name.to_owned(), shape }], root: Type::Named(0) }
}

/// What workers restart from.
pub(super) struct Restart {
    pub(super) splits: Vec<Split>,
    operator: RestoredOperator,
}

/// A worker's state file, with frozen state in it or without.
pub(super) fn state_file(snapshot: &mut super::super::WorkerSnapshot, whole: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    snapshot.write(whole, &mut out).unwrap();
    bytes
}

/// The one worker's snapshot, as a restore reads it.
pub(super) fn restart(mut snapshot: super::super::WorkerSnapshot) -> Restart {
    let bytes = state_file(&mut snapshot, false);
    let Snapshot { operators, .. } = Snapshot::parse(&bytes).unwrap();
    let part = operators.first().unwrap();
    let passes = part.groups.iter().map(|(group, _)| (*group, part.pass)).collect();
    let groups = part.groups.iter().map(|(group, bytes)| (*group, bytes.to_vec())).collect();
    let splits = snapshot.splits.into_iter().flat_map(|(_, splits)| splits).collect();
    Restart { splits, operator: RestoredOperator { passes, groups, ..RestoredOperator::default() } }
}

/// The source of a world.
struct Feed {
    world: World,
    bounded: bool,
}

impl Source for Feed {
    fn discover(&self, _: &mut Vec<Split>) -> Result<()> {
        Ok(())
    }

    fn open(&self, split: &Split) -> Result<Box<dyn SplitReader>> {
        Ok(Box::new(Reader { records: Arc::clone(&self.world.records), position: split.position, bounded: self.bounded }))
    }

    fn bounded(&self) -> bool {
        self.bounded
    }
}

struct Reader {
    records: Arc<Mutex<Vec<(i64, i64)>>>,
    position: u64,
    bounded: bool,
}

impl SplitReader for Reader {
    fn poll(&mut self, limit: Limit, rows: &mut SourceRows) -> Result<Polled> {
        for record in self.records.lock().unwrap().iter().skip(usize::try_from(self.position).unwrap()).take(limit.rows) {
            rows.payload.push(&postcard::to_allocvec(record).unwrap());
            rows.position.push(self.position);
            self.position += 1;
        }
        Ok(if self.bounded { Polled::End } else { Polled::Pending })
    }

    fn position(&self) -> u64 {
        self.position
    }
}

impl Sink for World {
    fn writer(&self, _: WriterTask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(self.clone()))
    }

    fn commit(&self, _: &[Committable]) -> Result<()> {
        Ok(())
    }

    fn clean(&self) -> Result<()> {
        Ok(())
    }

    fn newest_commit(&self) -> Result<Option<(u32, u64)>> {
        Ok(None)
    }
}

impl SinkWriter for World {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        let line = |payload| {
            let (kind, key, time, at, _): (String, i64, i64, i64, &[u8]) = postcard::from_bytes(payload).unwrap();
            format!("{kind} {key} {time} @{at}")
        };
        self.written.lock().unwrap().extend(batch.payloads().iter().map(line));
        Ok(())
    }

    fn prepare_commit(&mut self, _: u64) -> Result<Prepared> {
        self.written.lock().unwrap().push("|".to_owned());
        Ok(Prepared::default())
    }
}

/// Registers an event-time timer at each record's time and tells of every record and timer.
struct Teller {
    descriptor: Descriptor,
    options: Options,
}

impl DetectorFactory for Teller {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn open(&self, _: &[u8]) -> Result<Box<dyn Detector>, Failure> {
        Ok(Box::new(Telling(self.options)))
    }
}

struct Telling(Options);

impl Detector for Telling {
    fn process_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &Elements<'_>,
        _: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let (copies, bytes) = self.0.fan_out;
        for (row, (&slot, payload)) in (0u32..).zip(elements.slot.iter().zip(elements.payload.iter())) {
            let (key, time): (i64, i64) = postcard::from_bytes(payload).unwrap();
            register(effects, Domain::Event, slot, time);
            self.0.processing_timer.iter().for_each(|&time| register(effects, Domain::Processing, slot, time));
            let seen = ("e", key, time, context.processing_time.0, vec![0u8; bytes]);
            (0..copies).for_each(|_| tell(effects, row, time, &seen));
        }
        Ok(u32::try_from(elements.slot.len()).unwrap())
    }

    fn on_timers(&mut self, context: &CallContext<'_>, timers: &Timers<'_>, _: &mut Reads, effects: &mut Effects) -> Result<u32, Failure> {
        let rows = (0u32..).zip(timers.slot.iter().zip(timers.timestamp));
        let mut due: BTreeSet<_> = rows.map(|(row, (&slot, &time))| (time, slot, row)).collect();
        while let Some((time, slot, row)) = due.pop_first() {
            let key = i64::from_be_bytes(context.keys.get(slot as usize).try_into().unwrap()) ^ i64::MIN;
            let (kind, at) = if timers.domain == Domain::Event { ("t", context.watermark) } else { ("p", context.processing_time) };
            tell(effects, row, time, &(kind, key, time, at.0, Vec::new()));
            match self.0.renewed_after.map(|after| time + after) {
                Some(again) if again <= timers.horizon.0 => _ = due.insert((again, slot, row)),
                Some(again) => register(effects, timers.domain, slot, again),
                None => {}
            }
        }
        Ok(u32::try_from(timers.slot.len()).unwrap())
    }
}

fn register(effects: &mut Effects, domain: Domain, slot: u32, time: i64) {
    effects.timers.op.push(0);
    effects.timers.domain.push(domain as u8);
    effects.timers.slot.push(slot);
    effects.timers.timestamp.push(time);
}

fn tell(effects: &mut Effects, row: u32, time: i64, seen: &(&str, i64, i64, i64, Vec<u8>)) {
    effects.outputs.lane.push(0);
    effects.outputs.row.push(row);
    effects.outputs.timestamp.push(time);
    effects.outputs.payload.push(&postcard::to_allocvec(seen).unwrap());
}

/// Steps a worker once, at this time.
pub(super) fn step(worker: &mut Worker, now: i64) -> super::super::Step {
    worker.step(Timestamp(now)).unwrap()
}
