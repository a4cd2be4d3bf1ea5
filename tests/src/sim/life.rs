//! One life of a simulated process: from recovery to the end, a crash or a failure, step by step under a seeded scheduler.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Waker;

use fastrand::Rng;
use tidemill::runtime::checkpoints::{Checkpoints, Task};
use tidemill::runtime::job::Job;
use tidemill::runtime::recovery::recover;
use tidemill::store::CheckpointStore;
use tidemill_core::checkpoint::{Action, Coordinator, Event};
use tidemill_core::disk::Disk;
use tidemill_core::worker::{Report, Worker, WorkerSetup, build};
use tidemill_core::{Error, Result, Timestamp};

/// Where a life was when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Committing, cleaning and loading what was recovered.
    Restore,
    /// Between checkpoints.
    Run,
    /// A checkpoint is under way, its manifest is not durable.
    BeforeManifest,
    /// The manifest is durable, the commit has not begun.
    AfterManifest,
    /// Amid the commit.
    Commit,
}

/// A running process.
pub struct Life<'a> {
    job: &'a Job,
    rng: &'a mut Rng,
    store: CheckpointStore,
    workers: Vec<Worker>,
    coordinator: Coordinator,
    checkpoints: Option<Checkpoints>,
    tasks: VecDeque<Task>,
    now: Timestamp,
    /// Where the life is.
    pub phase: Phase,
    finished: bool,
    failure: Option<Error>,
}

impl<'a> Life<'a> {
    /// A process that has not recovered yet.
    ///
    /// # Errors
    /// The disk fails.
    pub fn new(job: &'a Job, disk: &Arc<dyn Disk>, rng: &'a mut Rng) -> Result<Self> {
        Ok(Self {
            job,
            rng,
            store: CheckpointStore::open(Arc::clone(disk), PathBuf::from("/job/checkpoints"))?,
            workers: Vec::new(),
            coordinator: Coordinator::new(job.checkpoints, job.parallelism, 0, Timestamp(0)),
            checkpoints: None,
            tasks: VecDeque::new(),
            now: Timestamp(0),
            phase: Phase::Restore,
            finished: false,
            failure: None,
        })
    }

    /// Lives on for at most that many steps. Returns whether the job has finished.
    ///
    /// # Errors
    /// The job failed, or the disk stopped.
    pub fn run(&mut self, attempt: u64, steps: u64) -> Result<bool> {
        if self.store.finished()?.is_some() || self.start(attempt)? {
            return Ok(true);
        }
        for _ in 0..steps {
            self.step()?;
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if self.finished {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Recovers and builds the workers. Returns whether nothing was left to do.
    fn start(&mut self, attempt: u64) -> Result<bool> {
        let recovered = recover(self.job, &self.store)?;
        if recovered.end_of_input {
            self.store.mark_finished(recovered.checkpoint)?;
            return Ok(true);
        }
        self.coordinator = Coordinator::new(self.job.checkpoints, self.job.parallelism, recovered.checkpoint, self.now);
        self.checkpoints = Some(Checkpoints::new(self.store.clone(), self.job, &recovered));
        let setup = WorkerSetup {
            wakers: (0..self.job.parallelism).map(|_| Waker::noop().clone()).collect(),
            queue_capacity: self.job.queue_capacity,
            backend: Arc::clone(&self.job.backend),
            splits: recovered.splits,
            restored: recovered.operators,
            incarnation: recovered.incarnation,
            attempt,
        };
        self.workers = build(&self.job.graph, &setup)?;
        self.phase = Phase::Run;
        Ok(false)
    }

    /// Lets one thing happen, whichever the seed picks.
    fn step(&mut self) -> Result<()> {
        let choices = self.workers.len() + 2;
        match self.rng.usize(..choices) {
            0 => {
                self.now = self.now.plus(self.rng.i64(0..3));
                self.event(Event::Tick)
            }
            1 => self.perform_task(),
            worker => self.step_worker(worker - 2),
        }
    }

    fn step_worker(&mut self, index: usize) -> Result<()> {
        let now = self.now;
        let Some(worker) = self.workers.get_mut(index) else { return Ok(()) };
        worker.step(now)?;
        self.listen(index)
    }

    fn listen(&mut self, index: usize) -> Result<()> {
        while let Some(report) = self.workers.get_mut(index).and_then(Worker::report) {
            match report {
                Report::Snapshot(snapshot) => self.tasks.push_back(Task::Persist(snapshot)),
                Report::EndOfInput => self.event(Event::EndOfInput { worker: u32::try_from(index).unwrap_or(u32::MAX) })?,
            }
        }
        Ok(())
    }

    fn perform_task(&mut self) -> Result<()> {
        let (Some(task), Some(checkpoints)) = (self.tasks.pop_front(), &mut self.checkpoints) else { return Ok(()) };
        if let Task::Commit { .. } = task {
            self.phase = Phase::Commit;
        }
        if let Some(event) = checkpoints.perform(task, self.now)? {
            self.event(event)?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<()> {
        for action in self.coordinator.on_event(event, self.now) {
            match action {
                Action::Trigger(barrier) => {
                    self.phase = Phase::BeforeManifest;
                    for index in 0..self.workers.len() {
                        self.workers.get_mut(index).map_or(Ok(()), |worker| worker.trigger(barrier))?;
                        self.listen(index)?;
                    }
                }
                Action::Store { checkpoint, end_of_input } => self.tasks.push_back(Task::Store { checkpoint, end_of_input }),
                Action::Commit { checkpoint } => {
                    self.phase = Phase::AfterManifest;
                    self.tasks.push_back(Task::Commit { checkpoint });
                }
                Action::Retain { newest } => {
                    self.phase = Phase::Run;
                    self.tasks.push_back(Task::Retain { newest });
                }
                Action::Discard { checkpoint } => self.tasks.push_back(Task::Discard { checkpoint }),
                Action::Finish { checkpoint } => {
                    self.store.mark_finished(checkpoint)?;
                    self.finished = true;
                }
                Action::Stopped { .. } => {}
                Action::Fail { reason } => self.failure = Some(Error::storage(reason)),
            }
        }
        Ok(())
    }
}
