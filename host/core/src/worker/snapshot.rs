//! A worker's part of a checkpoint, collected task by task as the barrier passes.

use std::time::Duration;

use super::Task;
use crate::Result;
use crate::checkpoint::snapshot::{Out, SnapshotWriter};
use crate::sink::{Committable, Job};
use crate::source::Split;
use crate::state::Frozen;

/// A worker's part of a checkpoint.
pub struct WorkerSnapshot {
    /// The checkpoint's id.
    pub checkpoint: u64,
    /// The worker's index.
    pub worker: u32,
    /// The splits of each source (by index) with their positions.
    pub splits: Vec<(u32, Vec<Split>)>,
    /// What each sink (by index) must commit once the checkpoint is durable.
    pub committables: Vec<(u32, Committable)>,
    /// What must succeed before the checkpoint counts.
    pub jobs: Vec<Job>,
    /// The state of operators, by uid, that is in files of its own instead of in the state file.
    pub frozen: Vec<(String, Box<dyn Frozen>)>,
    /// What each task's part took, in the order in which the barrier passed them.
    pub tasks: Vec<TaskPart>,
    /// How many records the worker's sources had read since the job began.
    pub records_in: u64,
    /// Where each of them goes in a state file that holds all state.
    places: Vec<usize>,
    writer: SnapshotWriter,
    missing: usize,
}

/// What a task's part of a checkpoint took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskPart {
    /// The index of its node in the graph.
    pub node: usize,
    /// From when it had seen the first barrier until it had seen all: some of its channels waited meanwhile.
    pub aligned: Duration,
    /// How long the worker stood still for it.
    pub stopped: Duration,
    /// The bytes of its state in the state file.
    pub bytes: u64,
}

impl WorkerSnapshot {
    pub(super) fn new(checkpoint: u64, worker: u32, tasks: usize) -> Self {
        Self {
            checkpoint,
            worker,
            splits: Vec::new(),
            committables: Vec::new(),
            jobs: Vec::new(),
            frozen: Vec::new(),
            tasks: Vec::new(),
            records_in: 0,
            places: Vec::new(),
            writer: SnapshotWriter::new(checkpoint, worker),
            missing: tasks,
        }
    }

    /// Adds what a task has at the barrier.
    pub(super) fn add(&mut self, task: &mut Task) -> Result<()> {
        self.missing = self.missing.saturating_sub(1);
        match task {
            Task::Source(task) => {
                self.splits.push((task.settings().index, task.splits()));
                self.records_in += task.statistics().records;
            }
            Task::Operator(task) => {
                let pass = task.unfinished_pass();
                let operator = task.operator();
                self.writer.operator(&operator.settings().uid.clone(), pass);
                // All subtasks hold the same: once is enough.
                if self.worker == 0 && !operator.broadcast_state().is_empty() {
                    let mut content = Vec::new();
                    operator.broadcast_state().snapshot(&mut content);
                    self.writer.broadcast(&content);
                }
                if let Some(frozen) = task.freeze()? {
                    self.frozen.push((task.operator().settings().uid.clone(), frozen));
                    self.places.push(self.writer.place());
                } else {
                    let writer = &mut self.writer;
                    task.operator().state().snapshot(&mut |group, bytes| writer.group(group, bytes))?;
                }
            }
            Task::Sink(task) => {
                let (sink, prepared) = task.prepare_commit(self.checkpoint)?;
                self.committables.extend(prepared.committable.map(|committable| (sink, committable)));
                self.jobs.extend(prepared.job);
            }
        }
        Ok(())
    }

    /// How many bytes the state file has so far.
    pub(super) fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Whether all tasks have added their part.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Writes the worker's state file. With the frozen state in it, if it is `whole`: then any backend can read it, and no more than a key
    /// group of that is in memory at a time.
    ///
    /// # Errors
    /// The frozen state cannot be read, or `out` fails.
    pub fn write(&mut self, whole: bool, out: &mut Out<'_>) -> Result<()> {
        let frozen = self.places.iter().zip(&mut self.frozen).filter(|_| whole);
        let mut frozen: Vec<(usize, &mut dyn Frozen)> = frozen.map(|(place, (_, frozen))| (*place, &mut **frozen as _)).collect();
        self.writer.write(&mut frozen, out)
    }
}
