//! Where the time goes: the parts of the stock-out job one after the other in one thread, with a clock around each.

use std::path::Path;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tidemill::clock::monotonic;
use tidemill::disk::RealDisk;
use tidemill::guest::{ComponentCache, GuestEngine};
use tidemill::runtime::{Assembly, Job};
use tidemill_core::Timestamp;
use tidemill_core::batch::{Batch, Origin};
use tidemill_core::disk::Disk;
use tidemill_core::exchange::{ByKey, Edge, Element, Outputs, Receiver, channel};
use tidemill_core::operator::{BATCH_ROWS, Env, Operator, OperatorSettings};
use tidemill_core::sink::WriterTask;
use tidemill_core::source::{Limit, Polled, SourceRows, SplitReader};
use tidemill_core::time::Domain;
use tidemill_core::worker::{Node, SourceSettings, WireKind};

const POLL_BYTES: usize = 512 * 1024;
const KEY_GROUPS: u32 = 128;

/// Runs the job of `spec` over all its files and prints what each part cost.
///
/// # Errors
/// The job cannot be assembled or fails, or is not the stock-out job.
pub fn run(spec: &Path, cache: &Path) -> Result<(), String> {
    let chain = |error: tidemill_core::Error| error.chain();
    let spec = tidemill::spec::load(spec, &[]).map_err(|error| error.to_string())?;
    let engine = GuestEngine::new().map_err(chain)?;
    let assembly = Assembly::load(&spec, &engine, ComponentCache::open(cache).ok().as_ref()).map_err(chain)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let job = assembly.job(KEY_GROUPS, 0, &disk).map_err(chain)?;
    let mut line = Line::new(&job).map_err(chain)?;
    line.run(&job).map_err(chain)?;
    line.print();
    Ok(())
}

/// A part of the job with its cost so far.
struct Stage {
    name: &'static str,
    records: u64,
    spent: Duration,
}

impl Stage {
    fn new(name: &'static str) -> Self {
        Self { name, records: 0, spent: Duration::ZERO }
    }

    fn time<T>(&mut self, records: usize, work: impl FnOnce() -> T) -> T {
        let begin = monotonic();
        let done = work();
        self.spent += begin.elapsed();
        self.records += records as u64;
        done
    }
}

/// The outputs of a part and the input of the next.
struct Link {
    outputs: Outputs,
    receiver: Receiver,
}

impl Link {
    /// By key as the wire says, or to the next part as it is.
    fn new(lanes: usize, kind: &WireKind) -> Self {
        let (sender, receiver) = channel(1, Waker::noop().clone(), Waker::noop().clone());
        let mut outputs = Outputs::new(lanes);
        outputs.connect(
            0,
            match kind {
                WireKind::Forward => Edge::forward(sender),
                WireKind::Broadcast => Edge::broadcast(vec![sender]),
                WireKind::ByKey(encoder) => Edge::ByKey(ByKey::new(vec![sender], encoder.clone(), KEY_GROUPS)),
            },
        );
        Self { outputs, receiver }
    }

    fn of(settings: &OperatorSettings) -> Self {
        Self::new(settings.dead_letter_lane() + 1, &WireKind::Forward)
    }

    /// All that has been sent.
    fn take(&mut self) -> Vec<Batch> {
        let mut batches = Vec::new();
        loop {
            self.outputs.blocked();
            match self.receiver.receive() {
                Some(Element::Batch(batch)) => batches.push(batch),
                Some(_) => {}
                None => return batches,
            }
        }
    }
}

/// The parts of the stock-out job in their order.
struct Line {
    source: Stage,
    by_basket: (Stage, Link),
    first_copy: (Stage, Operator, Link),
    basket_lines: (Stage, Operator, Link),
    by_store: (Stage, Link),
    stock_out: (Stage, Operator, Link),
    timers: Stage,
    sink: Stage,
}

impl Line {
    fn new(job: &Job) -> tidemill_core::Result<Self> {
        let missing = || tidemill_core::Error::config("the spec is not that of the stock-out job");
        let operator = |uid: &str| {
            let found = job.operators.iter().find(|operator| operator.uid == uid).ok_or_else(missing)?;
            let state = job.backend.open(uid, 0, &found.settings.states)?;
            let kind = job.graph.wires.iter().find(|wire| wire.to == found.node).map(|wire| &wire.kind).ok_or_else(missing)?;
            Ok::<_, tidemill_core::Error>((Operator::new(Arc::clone(&found.settings), state)?, Link::of(&found.settings), kind))
        };
        let (first_copy, copies, by_basket) = operator("first-copy")?;
        let (basket_lines, lines, _) = operator("basket-lines")?;
        let (stock_out, alerts, by_store) = operator("stock-out")?;
        Ok(Self {
            source: Stage::new("source: read, decode JSON, event time"),
            by_basket: (Stage::new("exchange by basket"), Link::new(1, by_basket)),
            first_copy: (Stage::new("first-copy"), first_copy, copies),
            basket_lines: (Stage::new("basket-lines"), basket_lines, lines),
            by_store: (Stage::new("exchange by store and SKU"), Link::new(1, by_store)),
            stock_out: (Stage::new("stock-out: lines"), stock_out, alerts),
            timers: Stage::new("stock-out: timers"),
            sink: Stage::new("sink: encode JSON, write"),
        })
    }

    fn run(&mut self, job: &Job) -> tidemill_core::Result<()> {
        let sources = job.graph.nodes.iter().filter_map(|node| if let Node::Source(settings) = node { Some(settings) } else { None });
        let mut writers = job.sinks.iter().map(|(_, sink)| sink.writer(WriterTask { subtask: 0, incarnation: 0, attempt: 0 }));
        let mut writer = writers.next().ok_or_else(|| tidemill_core::Error::config("the job has no sink"))??;
        for settings in sources {
            let mut files = Files::open(settings)?;
            while let Some((batch, watermark)) = self.source.time(0, || files.read(settings)).transpose()? {
                self.source.records += batch.len() as u64;
                self.pass(batch, watermark)?;
                for batch in self.stock_out.2.take() {
                    self.sink.time(batch.len(), || writer.write(&batch))?;
                }
            }
        }
        // Written out, so that it counts, but never committed.
        self.sink.time(0, || writer.prepare_commit(1)).map(drop)
    }

    fn pass(&mut self, batch: Batch, watermark: i64) -> tidemill_core::Result<()> {
        let now = Timestamp(watermark);
        let (stage, link) = &mut self.by_basket;
        stage.time(batch.len(), || link.outputs.send(0, batch))?;
        for batch in link.take() {
            let (stage, operator, outputs) = &mut self.first_copy;
            stage.time(batch.len(), || operator.process(&batch, &mut Env { now, outputs: &mut outputs.outputs }))?;
        }
        for batch in self.first_copy.2.take() {
            let (stage, operator, outputs) = &mut self.basket_lines;
            stage.time(batch.len(), || operator.process(&batch, &mut Env { now, outputs: &mut outputs.outputs }))?;
        }
        for batch in self.basket_lines.2.take() {
            let (stage, link) = &mut self.by_store;
            stage.time(batch.len(), || link.outputs.send(0, batch))?;
        }
        let (stage, operator, outputs) = &mut self.stock_out;
        for batch in self.by_store.1.take() {
            stage.time(batch.len(), || operator.process(&batch, &mut Env { now, outputs: &mut outputs.outputs }))?;
        }
        let fired = operator.metrics().timers_fired;
        self.timers.time(0, || {
            operator.begin_pass(Domain::Event, Timestamp(watermark));
            while operator.continue_pass(&mut Env { now, outputs: &mut outputs.outputs })?.is_none() {}
            Ok::<_, tidemill_core::Error>(())
        })?;
        self.timers.records += operator.metrics().timers_fired - fired;
        Ok(())
    }

    #[expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "this is what the bench is for")]
    fn print(&self) {
        let stages = [
            &self.source,
            &self.by_basket.0,
            &self.first_copy.0,
            &self.basket_lines.0,
            &self.by_store.0,
            &self.stock_out.0,
            &self.timers,
            &self.sink,
        ];
        let (lines, total) = (self.stock_out.0.records.max(1) as f64, stages.iter().map(|stage| stage.spent).sum::<Duration>());
        println!("where the time goes, all parts in one thread:");
        println!("  {:<40} {:>10} {:>12} {:>12} {:>7}", "part", "records", "ns a record", "ns a line", "share");
        for Stage { name, records, spent } in stages {
            let nanos = spent.as_nanos() as f64;
            let share = 100.0 * nanos / total.as_nanos() as f64;
            println!("  {name:<40} {records:>10} {:>12.0} {:>12.0} {share:>6.1}%", nanos / (*records).max(1) as f64, nanos / lines);
        }
        println!("  {:<40} {:>10} {:>12} {:>12.0}", "total", "", "", total.as_nanos() as f64 / lines);
    }
}

/// The files of a source, the one furthest behind read first.
struct Files {
    open: Vec<(Box<dyn SplitReader>, i64)>,
    rows: SourceRows,
}

impl Files {
    fn open(settings: &SourceSettings) -> tidemill_core::Result<Self> {
        let mut splits = Vec::new();
        settings.source.discover(&mut splits)?;
        let open = splits.iter().map(|split| Ok((settings.source.open(split)?, i64::MIN))).collect::<tidemill_core::Result<_>>()?;
        Ok(Self { open, rows: SourceRows::default() })
    }

    /// The next batch and the watermark after it; `None` at the end.
    fn read(&mut self, settings: &SourceSettings) -> Option<tidemill_core::Result<(Batch, i64)>> {
        let (index, (reader, newest)) = self.open.iter_mut().enumerate().min_by_key(|(_, (_, newest))| *newest)?;
        self.rows.clear();
        let polled = match reader.poll(Limit { rows: BATCH_ROWS, bytes: POLL_BYTES }, &mut self.rows) {
            Ok(polled) => polled,
            Err(error) => return Some(Err(error)),
        };
        let mut batch = Batch::default();
        for (payload, &position) in self.rows.payload.view().iter().zip(&self.rows.position) {
            let time = settings.timestamp.as_ref().and_then(|path| path.timestamp(payload).ok().flatten());
            *newest = (*newest).max(time.unwrap_or(i64::MIN));
            batch.push(payload, time, Origin { source: 0, split: 0, position });
        }
        if polled == Polled::End {
            drop(self.open.swap_remove(index));
        }
        let behind = self.open.iter().map(|(_, newest)| *newest).min().unwrap_or(i64::MAX);
        let bound = if behind == i64::MAX { 0 } else { settings.watermark.bound };
        Some(Ok((batch, behind.saturating_sub(bound))))
    }
}
