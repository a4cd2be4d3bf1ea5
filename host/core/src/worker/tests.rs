//! Whole workers, stepped by hand on virtual time: sources that are fed by the test, one operator, one sink that remembers.

mod broadcast;
mod parts;
mod rig;
mod union;
mod watermarks;

use std::sync::{Arc, Mutex};
use std::task::Waker;

use tidemill_wit::columns::Blobs;
use tidemill_wit::descriptor::{Descriptor, LaneDescriptor, StateDescriptor, StateKind, TtlUpdate, write_op};
use tidemill_wit::schema::{Field, Shape, TableBuilder, Type, TypeTable};

use super::{
    Alignment, Graph, InvalidPolicy, Node, Report, RestoredOperator, SourceSettings, Step, Wire, WireKind, Worker, WorkerSetup, build,
};
use crate::batch::Batch;
use crate::checkpoint::snapshot::Snapshot;
use crate::detector::{CallContext, Detector, DetectorFactory, Elements, Failure, Reads, Timers};
use crate::effects::Effects;
use crate::exchange::Barrier;
use crate::operator::OperatorSettings;
use crate::schema::{FieldPath, KeyEncoder};
use crate::sink::{Committable, Prepared, Sink, SinkWriter, WriterTask};
use crate::source::{Limit, Polled, Source, SourceRows, Split, SplitReader};
use crate::state::MemoryBackend;
use crate::watermark::Strategy;
use crate::{Result, Timestamp};

/// What came out for a record: its key, its time, the watermark that it saw, and the value of the broadcast entry of its key, or -1.
type Said = (i64, i64, i64, i64);

/// The records of each split, as (key, time), and whether the split has ended.
type Feed = Arc<Mutex<Vec<(Vec<(i64, i64)>, bool)>>>;

struct TestSource {
    feed: Feed,
    bounded: bool,
    times: Times,
}

/// Who says what time a record has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Times {
    /// A field of the record.
    Field,
    /// The source.
    Source,
    /// The source, which tells watermarks as well: each a thousand milliseconds behind the record.
    SourceWithWatermarks,
}

struct TestReader {
    feed: Feed,
    split: usize,
    next: usize,
    times: Times,
}

impl Source for TestSource {
    /// The test gives out the splits itself.
    fn discover(&self, _: &mut Vec<Split>) -> Result<()> {
        Ok(())
    }

    fn open(&self, split: &Split) -> Result<Box<dyn SplitReader>> {
        let next = usize::try_from(split.position).unwrap();
        Ok(Box::new(TestReader { feed: Arc::clone(&self.feed), split: split.id as usize, next, times: self.times }))
    }

    fn bounded(&self) -> bool {
        self.bounded
    }
}

impl SplitReader for TestReader {
    fn poll(&mut self, limit: Limit, rows: &mut SourceRows) -> Result<Polled> {
        let feed = self.feed.lock().unwrap();
        let (records, ended) = &feed[self.split];
        for record in records.iter().skip(self.next).take(limit.rows) {
            rows.payload.push(&postcard::to_allocvec(record).unwrap());
            rows.position.push(self.next as u64);
            if self.times != Times::Field {
                rows.time.push(Some(record.1));
            }
            if self.times == Times::SourceWithWatermarks {
                rows.watermark = Some(Timestamp(record.1 - 1000));
            }
            self.next += 1;
        }
        let more = self.next < records.len();
        Ok(if *ended && !more {
            Polled::End
        } else if more {
            Polled::More
        } else {
            Polled::Pending
        })
    }

    fn position(&self) -> u64 {
        self.next as u64
    }
}

struct TestSink(Arc<Mutex<Vec<Said>>>);

impl Sink for TestSink {
    fn writer(&self, _: WriterTask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Self(Arc::clone(&self.0))))
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

impl SinkWriter for TestSink {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        self.0.lock().unwrap().extend(batch.payload.view().iter().map(|row| postcard::from_bytes::<Said>(row).unwrap()));
        Ok(())
    }

    fn prepare_commit(&mut self, _: u64) -> Result<Prepared> {
        Ok(Prepared::default())
    }
}

/// Says a [`Said`] for each record. A broadcast record writes its time under its key; one with a negative key is bad.
struct Teller(Descriptor);

impl DetectorFactory for Teller {
    fn descriptor(&self) -> &Descriptor {
        &self.0
    }

    fn open(&self, _: &[u8]) -> Result<Box<dyn Detector>, Failure> {
        Ok(Box::new(Self(Descriptor::default())))
    }
}

impl Detector for Teller {
    fn process_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        for (row, record) in (0u32..).zip(elements.payload.iter()) {
            let (key, time): (i64, i64) = postcard::from_bytes(record).unwrap();
            let rule = reads.broadcast.get(0, &key.to_be_bytes()).map_or(-1, |value| postcard::from_bytes(value).unwrap());
            let outputs = &mut effects.outputs;
            outputs.lane.push(0);
            outputs.row.push(row);
            outputs.timestamp.push(time);
            outputs.payload.push(&postcard::to_allocvec(&(key, time, context.watermark.0, rule)).unwrap());
        }
        rows(elements.payload)
    }

    fn on_timers(&mut self, _: &CallContext<'_>, _: &Timers<'_>, _: &mut Reads, _: &mut Effects) -> Result<u32, Failure> {
        Err(Failure::Fatal("no timers are set".to_owned()))
    }

    fn process_broadcast_elements(
        &mut self,
        _: &CallContext<'_>,
        elements: &Elements<'_>,
        _: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        for (row, record) in (0u32..).zip(elements.payload.iter()) {
            let (key, value): (i64, i64) = postcard::from_bytes(record).unwrap();
            if key < 0 {
                return Err(Failure::BadRecord { row, reason: "negative".to_owned() });
            }
            effects.writes.op.push(write_op::PUT_ENTRY);
            effects.writes.state.push(0);
            effects.writes.slot.push(0);
            effects.writes.entry.push(&key.to_be_bytes());
            effects.writes.value.push(&postcard::to_allocvec(&value).unwrap());
        }
        rows(elements.payload)
    }
}

fn rows(payload: Blobs<'_>) -> Result<u32, Failure> {
    Ok(u32::try_from(payload.len()).unwrap())
}

/// A source of a test job.
#[derive(Clone, Copy)]
struct Shaped {
    splits: usize,
    bounded: bool,
    idle_timeout: Option<i64>,
    max_drift: Option<i64>,
    broadcast: bool,
    /// Who says what time a record has.
    times: Times,
}

const SOURCE: Shaped = Shaped { splits: 1, bounded: false, idle_timeout: None, max_drift: None, broadcast: false, times: Times::Field };

struct Rig {
    workers: Vec<Worker>,
    feeds: Vec<Feed>,
    out: Arc<Mutex<Vec<Said>>>,
    now: i64,
}

fn record_type() -> TypeTable {
    let mut builder = TableBuilder::default();
    let field = |name: &str| Field { name: name.to_owned(), aliases: Vec::new(), ty: Type::I64, default: None };
    let root = builder.named("record", "Record", |_| Shape::Struct(vec![field("key"), field("ts")]));
    builder.finish(root)
}

fn operator() -> Arc<OperatorSettings> {
    let said = TypeTable::of(Type::Tuple(vec![Type::I64; 4]));
    let rules = StateDescriptor {
        name: "rules".to_owned(),
        kind: StateKind::Map,
        value: TypeTable::of(Type::I64),
        entry_key: Some(TypeTable::of(Type::I64)),
        ttl: None,
        ttl_update: TtlUpdate::OnCreateAndWrite,
    };
    let descriptor = Descriptor {
        input: record_type(),
        key: Some(TypeTable::of(Type::I64)),
        lanes: vec![LaneDescriptor { name: "main".to_owned(), schema: said }],
        broadcast: Some(record_type()),
        broadcast_states: vec![rules],
        ..Descriptor::default()
    };
    let mut settings = OperatorSettings::new("teller", Arc::new(Teller(descriptor)), Vec::new(), 128);
    settings.on_error = crate::operator::OnError::DeadLetter;
    Arc::new(settings)
}

fn source(index: usize, shape: Shaped, feed: &Feed) -> Arc<SourceSettings> {
    Arc::new(SourceSettings {
        invalid: InvalidPolicy::default(),
        uid: format!("source-{index}"),
        index: u32::try_from(index).unwrap(),
        source: Arc::new(TestSource { feed: Arc::clone(feed), bounded: shape.bounded, times: shape.times }),
        timestamp: (shape.times == Times::Field).then(|| FieldPath::resolve(&record_type(), "ts").unwrap().as_timestamp().unwrap()),
        watermark: Strategy { bound: 0, idle_timeout: shape.idle_timeout },
        alignment: shape.max_drift.map(|max_drift| Alignment { group: "all".to_owned(), max_drift }),
        max_rate: None,
        // One record a turn, so that a test knows how far a source runs ahead.
        batch_rows: 1,
        caution: usize::MAX.into(),
        splits: Arc::default(),
    })
}

impl Rig {
    fn new(shapes: &[Shaped], parallelism: usize) -> Self {
        Self::restored(shapes, parallelism, None)
    }

    fn restored(shapes: &[Shaped], parallelism: usize, restored: Option<RestoredOperator>) -> Self {
        let feeds: Vec<Feed> = shapes.iter().map(|shape| Arc::new(Mutex::new(vec![(Vec::new(), false); shape.splits]))).collect();
        let out = Arc::<Mutex<Vec<Said>>>::default();
        let count = shapes.len();
        let mut nodes: Vec<Node> = (0..count).map(|index| Node::Source(source(index, shapes[index], &feeds[index]))).collect();
        nodes.push(Node::Operator(operator()));
        nodes.push(Node::Sink(0, Arc::new(TestSink(Arc::clone(&out)))));
        let by_key = || WireKind::ByKey(KeyEncoder::new(&record_type(), &["key".to_owned()]).unwrap());
        let kind = |shape: Shaped| if shape.broadcast { WireKind::Broadcast } else { by_key() };
        let mut wires: Vec<Wire> = (0..count).map(|from| Wire { from, lane: 0, to: count, kind: kind(shapes[from]) }).collect();
        wires.push(Wire { from: count, lane: 0, to: count + 1, kind: WireKind::Forward });
        let split = |id: u32| Split { id, ..Split::new(&[], id.to_string()) };
        let splits = shapes.iter().map(|shape| (0..u32::try_from(shape.splits).unwrap()).map(split).collect()).collect();
        let mut by_node: Vec<Option<RestoredOperator>> = nodes.iter().map(|_| None).collect();
        by_node[count] = restored;
        let setup = WorkerSetup {
            wakers: vec![Waker::noop().clone(); parallelism],
            queue_capacity: 1,
            backend: Arc::new(MemoryBackend),
            splits,
            restored: by_node,
            incarnation: 0,
            attempt: 0,
        };
        let workers = build(&Graph { nodes, wires, max_parallelism: 128 }, &setup).unwrap();
        Self { workers, feeds, out, now: 0 }
    }

    /// Gives records to a split, as (key, time), and lets the job run until nothing more happens.
    fn feed(&mut self, source: usize, split: usize, records: &[(i64, i64)]) {
        self.feeds[source].lock().unwrap()[split].0.extend_from_slice(records);
        self.pass(20);
    }

    fn end(&mut self, source: usize, split: usize) {
        self.feeds[source].lock().unwrap()[split].1 = true;
        self.pass(20);
    }

    /// Lets so many milliseconds pass, as the loop of a worker would see them.
    fn pass(&mut self, millis: i64) {
        let until = self.now + millis;
        while self.now < until {
            self.now = (self.now + 20).min(until);
            self.run();
        }
    }

    fn run(&mut self) {
        let now = Timestamp(self.now);
        while self.workers.iter_mut().fold(false, |worked, worker| (worker.step(now).unwrap() == Step::Worked) | worked) {}
    }

    /// What has come out since the last time, in order of key and time.
    fn said(&mut self) -> Vec<Said> {
        let mut said = std::mem::take(&mut *self.out.lock().unwrap());
        said.sort_unstable();
        said
    }

    /// The records read of a source, over all its splits.
    fn read(&self, source: usize) -> u64 {
        self.workers.iter().map(|worker| worker.statistics().sources[source].records).sum()
    }

    /// The operator's watermark in the first worker.
    fn watermark(&self) -> i64 {
        self.workers[0].statistics().operators[0].watermark.0
    }

    /// Takes a checkpoint: what the operator starts from after it.
    fn checkpoint(&mut self, checkpoint: u64) -> RestoredOperator {
        let barrier = Barrier { checkpoint, ..Barrier::default() };
        self.workers.iter_mut().for_each(|worker| worker.trigger(barrier).unwrap());
        self.run();
        let mut restored = RestoredOperator { broadcast_states: vec![Some(0)], ..RestoredOperator::default() };
        for worker in &mut self.workers {
            let Some(Report::Snapshot(mut part)) = worker.report() else { panic!("no snapshot") };
            let bytes = rig::state_file(&mut part, false);
            for operator in Snapshot::parse(&bytes).unwrap().operators {
                restored.groups.extend(operator.groups.into_iter().map(|(group, bytes)| (group, bytes.to_vec())));
                assert!(restored.broadcast.is_empty() || operator.broadcast.is_empty(), "one worker stores it");
                restored.broadcast.extend_from_slice(operator.broadcast);
            }
        }
        restored
    }
}
