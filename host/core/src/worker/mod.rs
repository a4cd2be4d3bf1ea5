//! A worker: one subtask of every source, operator and sink, driven by [`Worker::step`].
//!
//! A step never waits: not for a peer, not for a disk or network, not for a lock. Production calls it in a loop that parks when there is
//! nothing to do; tests call it by hand, which makes whole jobs deterministic.

mod build;
mod input;
mod invalid;
mod operator_task;
mod pulse;
mod restored;
mod sink_task;
mod snapshot;
mod source_task;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

pub use build::{Graph, Node, States, Wire, WireKind, WorkerSetup, build, build_with, open_states};
pub use invalid::{InvalidPolicy, OnInvalid};
pub use operator_task::{OperatorTask, PassProgress};
pub use pulse::Pulse;
pub use restored::RestoredOperator;
pub use sink_task::SinkTask;
pub use snapshot::{TaskPart, WorkerSnapshot};
pub use source_task::{Alignment, INVALID_LANE, MAIN_LANE, SourceSettings, SourceTask};

use crate::effects::Count;
use crate::exchange::Barrier;
use crate::operator::{Effort, Metrics};
use crate::sample::Samples;
use crate::source::Split;
use crate::{Error, Result, Timestamp};

/// One subtask of everything.
pub struct Worker {
    index: u32,
    /// In topological order: sources first, sinks last.
    tasks: Vec<Task>,
    /// The snapshots that are not complete yet, oldest first: a checkpoint that has failed may still be passing when the next begins.
    snapshots: Vec<WorkerSnapshot>,
    reports: VecDeque<Report>,
    open_ends: usize,
    stopwatch: Stopwatch,
    pulse: Arc<Pulse>,
    /// Since when each task has waited for the barriers of some of its channels.
    aligning: Vec<Option<Duration>>,
}

/// Tells how much time has passed since some moment. What is said of checkpoints and of slow operators comes from it, and how much an operator
/// does at once: how batches and timer passes are cut, how many records wait in queues, never what comes of them. A job without one runs
/// as if everything took no time.
pub type Stopwatch = fn() -> Duration;

/// A subtask.
pub enum Task {
    /// Of a source.
    Source(Box<SourceTask>),
    /// Of an operator.
    Operator(Box<OperatorTask>),
    /// Of a sink.
    Sink(Box<SinkTask>),
}

impl Task {
    /// Whether some of its channels wait for the barrier of others.
    fn is_aligning(&self) -> bool {
        match self {
            Self::Source(_) => false,
            Self::Operator(task) => task.is_aligning(),
            Self::Sink(task) => task.is_aligning(),
        }
    }
}

/// What a worker has to tell the coordinator.
pub enum Report {
    /// Its part of a checkpoint is complete.
    Snapshot(Box<WorkerSnapshot>),
    /// All its data has been processed to the end.
    EndOfInput,
}

/// The time of a step, on two clocks. On virtual time both are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Processing time: what detectors see, what timers and TTL run on. It may stand still or leap.
    pub processing: Timestamp,
    /// Milliseconds since some moment, without leaps: what sources wait, limit their rate and become idle by.
    pub steady: Timestamp,
}

impl From<Timestamp> for Clocks {
    fn from(now: Timestamp) -> Self {
        Self { processing: now, steady: now }
    }
}

impl Clocks {
    /// When processing time will be there by the steady clock, if neither is touched.
    fn steady_at(self, processing: Timestamp) -> Timestamp {
        self.steady.plus(processing.0.saturating_sub(self.processing.0))
    }
}

/// What a task did in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Something: it may have more to do.
    Worked,
    /// Nothing, until its peers or the outside give it something, or until this time of the task's clock: processing time for operators,
    /// steady time for sources.
    Waiting(Option<Timestamp>),
}

/// What a task's turn ended with besides, for the worker to act on.
#[derive(Default)]
pub(crate) struct Events {
    /// The barrier that the task has just passed.
    pub(crate) barrier: Option<Barrier>,
    /// The task has seen the end of all its data.
    pub(crate) ended: bool,
}

/// Whether there is more to do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something was done: step again.
    Worked,
    /// Nothing can be done until something arrives, or until the steady clock has reached this time.
    Waiting(Option<Timestamp>),
}

impl Worker {
    fn new(index: u32, tasks: Vec<Task>) -> Self {
        let (open_ends, aligning) = (tasks.len(), vec![None; tasks.len()]);
        let reports = VecDeque::new();
        Self { index, tasks, snapshots: Vec::new(), reports, open_ends, stopwatch: || Duration::ZERO, pulse: Arc::default(), aligning }
    }

    /// Gives every task a turn, those furthest downstream first, so that queues drain before they fill.
    ///
    /// # Errors
    /// The job must fail and restart from its last checkpoint. The worker is of no more use.
    pub fn step(&mut self, now: impl Into<Clocks>) -> Result<Step> {
        let now = now.into();
        let mut worked = false;
        let mut wake: Option<Timestamp> = None;
        for index in (0..self.tasks.len()).rev() {
            let mut events = Events::default();
            let Some(task) = self.tasks.get_mut(index) else { break };
            let turn = match task {
                Task::Source(task) => task.run(now.steady, &mut events)?,
                Task::Operator(task) => {
                    self.pulse.begin(index, self.stopwatch);
                    let turn = task.run(now.processing, &mut events)?;
                    self.pulse.end();
                    match turn {
                        Turn::Waiting(Some(until)) => Turn::Waiting(Some(now.steady_at(until))),
                        turn => turn,
                    }
                }
                Task::Sink(task) => task.run(&mut events)?,
            };
            if task.is_aligning()
                && let Some(since) = self.aligning.get_mut(index)
            {
                since.get_or_insert_with(self.stopwatch);
            }
            match turn {
                Turn::Worked => worked = true,
                Turn::Waiting(until) => wake = [wake, until].into_iter().flatten().min(),
            }
            self.handle(index, &events)?;
        }
        self.report_snapshots();
        Ok(if worked { Step::Worked } else { Step::Waiting(wake) })
    }

    fn handle(&mut self, index: usize, events: &Events) -> Result<()> {
        if events.ended {
            self.open_ends = self.open_ends.saturating_sub(1);
            if self.open_ends == 0 {
                self.reports.push_back(Report::EndOfInput);
            }
        }
        if let Some(barrier) = events.barrier {
            self.snapshot_task(index, barrier)?;
        }
        Ok(())
    }

    /// Begins a checkpoint: every source puts the barrier into its stream.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn trigger(&mut self, barrier: Barrier) -> Result<()> {
        for index in 0..self.tasks.len() {
            if let Some(Task::Source(task)) = self.tasks.get_mut(index) {
                task.barrier(barrier);
                self.snapshot_task(index, barrier)?;
            }
        }
        Ok(())
    }

    /// Measures by this what checkpoints and calls take; without it they seem to take no time. Before the first step.
    pub fn measure_by(&mut self, stopwatch: Stopwatch) {
        self.stopwatch = stopwatch;
        for task in &mut self.tasks {
            if let Task::Operator(task) = task {
                task.measure_by(stopwatch);
            }
        }
    }

    /// What the worker is doing, for others to look at while it does it.
    #[must_use]
    pub fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    /// Tells the sources that there may be something to read: their next turn looks, without waiting for their interval.
    pub fn wake_sources(&mut self) {
        for task in &mut self.tasks {
            if let Task::Source(task) = task {
                task.wake();
            }
        }
    }

    /// Holds processing-time timers back, due or not, or lets them go. With it a test decides between which records they fire.
    pub fn hold_processing_timers(&mut self, held: bool) {
        for task in &mut self.tasks {
            if let Task::Operator(task) = task {
                task.hold(held);
            }
        }
    }

    /// Gives a newly discovered split to the worker's subtask of a source.
    ///
    /// # Errors
    /// The split cannot be opened.
    pub fn assign(&mut self, source: u32, split: Split) -> Result<()> {
        let task = self.tasks.iter_mut().find_map(|task| match task {
            Task::Source(task) if task.settings().index == source => Some(task),
            _ => None,
        });
        task.ok_or_else(|| Error::config(format!("there is no source {source} to assign split {} to", split.name)))?.assign(split)
    }

    /// Adds a task's part to the worker's snapshot of a checkpoint.
    fn snapshot_task(&mut self, index: usize, barrier: Barrier) -> Result<()> {
        let checkpoint = barrier.checkpoint;
        if !self.snapshots.iter().any(|snapshot| snapshot.checkpoint == checkpoint) {
            self.snapshots.push(WorkerSnapshot::new(checkpoint, self.index, self.tasks.len()));
        }
        let found = self.snapshots.iter().position(|snapshot| snapshot.checkpoint == checkpoint);
        let (Some(at), Some(task)) = (found, self.tasks.get_mut(index)) else { return Ok(()) };
        if let Some(snapshot) = self.snapshots.get_mut(at) {
            let (began, bytes) = ((self.stopwatch)(), snapshot.bytes());
            snapshot.add(task)?;
            let since = self.aligning.get_mut(index).and_then(Option::take).unwrap_or(began);
            snapshot.tasks.push(TaskPart {
                node: index,
                aligned: began.saturating_sub(since),
                stopped: (self.stopwatch)().saturating_sub(began),
                bytes: snapshot.bytes() - bytes,
            });
        }
        Ok(())
    }

    /// Reports the snapshots that have all parts, once nothing is left to be done for what was frozen: who takes them may wait for that.
    fn report_snapshots(&mut self) {
        let is_freezing = |task: &Task| matches!(task, Task::Operator(task) if task.is_freezing());
        if self.snapshots.is_empty() || self.tasks.iter().any(is_freezing) {
            return;
        }
        let complete = self.snapshots.extract_if(.., |snapshot| snapshot.is_complete());
        self.reports.extend(complete.map(|snapshot| Report::Snapshot(Box::new(snapshot))));
    }

    /// Takes the next report for the coordinator.
    pub fn report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// The worker's index.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// What the worker's tasks have counted.
    #[must_use]
    pub fn statistics(&self) -> WorkerStatistics {
        let mut statistics = WorkerStatistics::default();
        for task in &self.tasks {
            match task {
                Task::Source(task) => statistics.sources.push(task.statistics()),
                Task::Operator(task) => statistics.operators.push(task.statistics()),
                Task::Sink(task) => statistics.sinks.push(task.records()),
            }
        }
        statistics
    }
}

/// Counts of one worker, in the order of the graph.
#[derive(Clone, Debug, Default)]
pub struct WorkerStatistics {
    /// Per source.
    pub sources: Vec<SourceStatistics>,
    /// Per operator.
    pub operators: Vec<OperatorStatistics>,
    /// Records written per sink.
    pub sinks: Vec<u64>,
}

/// Counts of a source's subtask.
#[derive(Clone, Debug)]
pub struct SourceStatistics {
    /// Records read, valid or not.
    pub records: u64,
    /// Records that went to the invalid lane.
    pub invalid: u64,
    /// Examples of them.
    pub invalid_samples: Samples,
    /// The last watermark; [`Timestamp::MIN`] before the first.
    pub watermark: Timestamp,
}

/// Counts of an operator's subtask.
#[derive(Clone, Debug)]
pub struct OperatorStatistics {
    /// The operator's own.
    pub metrics: Metrics,
    /// Records sent per lane, the dead-letter lane last.
    pub lanes: Vec<u64>,
    /// What the detector has counted, by name.
    pub counters: Vec<Count>,
    /// Examples of what went to the dead-letter lane.
    pub dead_letter_samples: Samples,
    /// The watermark; [`Timestamp::MIN`] before the first.
    pub watermark: Timestamp,
    /// What its calls have taken.
    pub effort: Effort,
    /// How many records wait in front of it.
    pub queued: u64,
    /// The timer pass that is going on.
    pub pass: Option<PassProgress>,
}

#[cfg(test)]
mod tests;
