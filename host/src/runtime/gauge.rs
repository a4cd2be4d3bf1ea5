//! Counts what the workers and the checkpoints say, for the user's view.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidemill_core::Timestamp;
use tidemill_core::worker::{INVALID_LANE, Node, OperatorStatistics, WorkerStatistics};

use super::earlier::Earlier;
use super::job::Job;
use super::losses::Losses;
use super::progress::{CheckpointProgress, LaneProgress, OperatorProgress, Progress, SourceProgress};
use crate::clock::monotonic;

/// How often the user's view is refreshed.
const REFRESH: Duration = Duration::from_millis(50);

/// What is known of the running job.
pub(super) struct Gauge {
    began: Instant,
    refreshed: Instant,
    workers: BTreeMap<u32, WorkerStatistics>,
    /// What earlier attempts of this process have counted.
    earlier: Earlier,
    /// Records read before the current attempt: by earlier processes, and by earlier attempts of this one.
    records_before: u64,
    records_now_before: u64,
    previous: Option<(Instant, Vec<u64>)>,
    rates: Vec<f64>,
    checkpoint: Option<CheckpointProgress>,
    slowest: Option<CheckpointProgress>,
    checkpoints: (u64, u64),
    restarts: u32,
    /// Whether there was an attempt before.
    begun: bool,
    resumed_from: Option<u64>,
    /// The operators' lanes, by operator: named once.
    lanes: Vec<Vec<LaneName>>,
    losses: Losses,
}

/// A lane as the user sees it.
struct LaneName {
    name: String,
    /// Whether something reads it.
    read: bool,
}

impl Gauge {
    pub(super) fn new() -> Self {
        let began = monotonic();
        Self {
            began,
            refreshed: began,
            workers: BTreeMap::new(),
            earlier: Earlier::default(),
            records_before: 0,
            records_now_before: 0,
            previous: None,
            rates: Vec::new(),
            checkpoint: None,
            slowest: None,
            checkpoints: (0, 0),
            restarts: 0,
            begun: false,
            resumed_from: None,
            lanes: Vec::new(),
            losses: Losses::default(),
        }
    }

    /// A new attempt begins, from a checkpoint before which so many records had been read.
    pub(super) fn attempt(&mut self, checkpoint: u64, records_in: u64) {
        if !std::mem::replace(&mut self.begun, true) {
            self.resumed_from = (checkpoint > 0).then_some(checkpoint);
        }
        self.records_now_before += self.read();
        self.records_before = records_in;
        self.workers.values().for_each(|worker| self.earlier.add(worker));
        self.workers.clear();
        self.losses.attempt();
        self.previous = None;
        if checkpoint > 0 && self.checkpoint.is_none() {
            self.checkpoint = Some(CheckpointProgress { id: checkpoint, duration: Duration::ZERO, aligned: Duration::ZERO, bytes: 0 });
        }
    }

    pub(super) fn restarted(&mut self) {
        self.restarts += 1;
    }

    pub(super) fn update(&mut self, worker: u32, statistics: WorkerStatistics, job: &Job) {
        self.workers.insert(worker, statistics);
        self.losses.check(job, &self.workers.values());
    }

    /// What the workers have said last.
    pub(super) fn workers(&self) -> &BTreeMap<u32, WorkerStatistics> {
        &self.workers
    }

    pub(super) fn checkpoint(&mut self, checkpoint: CheckpointProgress) {
        self.checkpoints.0 += 1;
        self.checkpoint = Some(checkpoint);
        if self.slowest.is_none_or(|slowest| slowest.duration < checkpoint.duration) {
            self.slowest = Some(checkpoint);
        }
    }

    pub(super) fn checkpoint_failed(&mut self) {
        self.checkpoints.1 += 1;
    }

    /// Whether it is time to ask the workers and show the user; if so the next time is later.
    pub(super) fn is_due(&mut self) -> bool {
        let now = monotonic();
        let due = now.duration_since(self.refreshed) >= REFRESH;
        if due {
            self.refreshed = now;
        }
        due
    }

    /// Everything, by the names of the job.
    pub(super) fn progress(&mut self, job: &Job) -> Progress {
        let mut progress = Progress {
            checkpoint: self.checkpoint,
            slowest_checkpoint: self.slowest,
            checkpoints: self.checkpoints,
            restarts: self.restarts,
            resumed_from: self.resumed_from,
            records_in: self.records_before + self.read(),
            records_in_now: self.records_now_before + self.read(),
            elapsed: monotonic().duration_since(self.began),
            ..Progress::default()
        };
        let (mut source, mut operator, mut sink) = (0, 0, 0);
        self.measure_rates(job.sources.len());
        if self.lanes.is_empty() {
            self.lanes = lane_names(job);
        }
        for (index, node) in job.graph.nodes.iter().enumerate() {
            match node {
                Node::Source(settings) => {
                    let invalid_is_read = job.is_read(index, INVALID_LANE);
                    progress.sources.push(SourceProgress { invalid_is_read, ..self.source(source, &settings.uid) });
                    source += 1;
                }
                Node::Operator(settings) => {
                    let dead_letters_are_read = job.is_read(index, settings.dead_letter_lane());
                    progress.operators.push(OperatorProgress { dead_letters_are_read, ..self.operator(operator, &settings.uid) });
                    for (lane, LaneName { name, read }) in self.lanes.get(operator).into_iter().flatten().enumerate() {
                        let now: u64 = self.operators(operator).filter_map(|operator| operator.lanes.get(lane)).sum();
                        let records = self.earlier.lane(operator, lane) + now;
                        if records > 0 || *read {
                            progress.lanes.push(LaneProgress { name: name.clone(), records });
                        }
                    }
                    operator += 1;
                }
                Node::Sink(..) => {
                    let now: u64 = self.workers.values().filter_map(|worker| worker.sinks.get(sink)).sum();
                    let records = self.earlier.sink(sink) + now;
                    let name = job.sinks.get(sink).map_or_else(String::new, |(uid, _)| uid.clone());
                    progress.sinks.push(LaneProgress { name, records });
                    sink += 1;
                }
            }
        }
        progress
    }

    fn source(&self, index: usize, uid: &str) -> SourceProgress {
        let of_all = || self.workers.values().filter_map(|worker| worker.sources.get(index));
        let earlier = self.earlier.source(index);
        let watermark = of_all().map(|source| source.watermark).min().filter(|watermark| *watermark > Timestamp::MIN);
        SourceProgress {
            uid: uid.to_owned(),
            records_in: earlier.records + of_all().map(|source| source.records).sum::<u64>(),
            records_per_second: self.rates.get(index).copied().unwrap_or(0.0),
            invalid: earlier.invalid + of_all().map(|source| source.invalid).sum::<u64>(),
            invalid_is_read: true,
            watermark,
        }
    }

    fn operator(&self, index: usize, uid: &str) -> OperatorProgress {
        let sum =
            |of: fn(&tidemill_core::operator::Metrics) -> u64| self.operators(index).map(|operator| of(&operator.metrics)).sum::<u64>();
        let earlier = self.earlier.operator(index);
        OperatorProgress {
            uid: uid.to_owned(),
            keys: sum(|metrics| metrics.keys),
            event_timers: sum(|metrics| metrics.event_timers_pending),
            processing_timers: sum(|metrics| metrics.processing_timers_pending),
            records_in: earlier.records_in + sum(|metrics| metrics.records_in),
            late: earlier.late + sum(|metrics| metrics.late_records),
            dead_letters: earlier.dead_letters + sum(|metrics| metrics.dead_letters),
            dead_letters_are_read: true,
            records_out: earlier.records_out() + self.operators(index).flat_map(|operator| &operator.lanes).sum::<u64>(),
            watermark: self.operators(index).map(|operator| operator.watermark).min().filter(|watermark| *watermark > Timestamp::MIN),
            counters: earlier.counters(counters(self.operators(index))),
        }
    }

    fn operators(&self, index: usize) -> impl Iterator<Item = &OperatorStatistics> {
        self.workers.values().filter_map(move |worker| worker.operators.get(index))
    }

    fn read(&self) -> u64 {
        self.workers.values().flat_map(|worker| &worker.sources).map(|source| source.records).sum()
    }

    /// Records per second of each source over the last second or so.
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    fn measure_rates(&mut self, sources: usize) {
        let now = monotonic();
        let counts: Vec<u64> = (0..sources)
            .map(|index| self.workers.values().filter_map(|worker| worker.sources.get(index)).map(|source| source.records).sum())
            .collect();
        match &self.previous {
            Some((then, before)) if now.duration_since(*then) >= Duration::from_secs(1) => {
                let seconds = now.duration_since(*then).as_secs_f64();
                self.rates = counts.iter().zip(before).map(|(now, before)| now.saturating_sub(*before) as f64 / seconds).collect();
                self.previous = Some((now, counts));
            }
            Some(_) => {}
            None => self.previous = Some((now, counts)),
        }
    }
}

/// The counters of an operator over all subtasks.
fn counters<'a>(subtasks: impl Iterator<Item = &'a OperatorStatistics>) -> Vec<(String, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, n) in subtasks.flat_map(|operator| &operator.counters) {
        let sum = sums.entry(name).or_default();
        *sum = sum.saturating_add(*n);
    }
    sums.into_iter().map(|(name, n)| (name.to_owned(), n)).collect()
}

fn lane_names(job: &Job) -> Vec<Vec<LaneName>> {
    let mut operators = Vec::new();
    for (index, node) in job.graph.nodes.iter().enumerate() {
        let Node::Operator(settings) = node else { continue };
        let named = |(lane, name): (usize, String)| LaneName {
            name: if name == "main" { settings.uid.clone() } else { format!("{}.{name}", settings.uid) },
            read: job.is_read(index, lane),
        };
        operators.push(Job::lanes(node).into_iter().enumerate().map(named).collect());
    }
    operators
}
