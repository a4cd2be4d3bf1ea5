//! One life of a simulated process: from recovery to the end, a crash or a failure, step by step under a seeded scheduler.
//!
//! It has the parts of the real runtime (workers, checkpoint thread, coordinator), and the queues between them, so that commands and
//! reports are as late as threads may make them. A worker that waits sleeps until something wakes it, or the clock does.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use fastrand::Rng;
use tidemill::runtime::checkpoints::{Checkpoints, Task};
use tidemill::runtime::job::Job;
use tidemill::runtime::recovery::{Recovered, recover};
use tidemill::store::CheckpointStore;
use tidemill::store::savepoint::{Saved, SavepointFolder};
use tidemill_core::checkpoint::{Action, Coordinator, Event};
use tidemill_core::disk::Disk;
use tidemill_core::exchange::{Barrier, Purpose};
use tidemill_core::sink::Sink;
use tidemill_core::worker::{Report, Step, Worker, WorkerSetup, build};
use tidemill_core::{Error, Result, Timestamp};

use super::stopwatch;

/// Where the checkpoints are.
pub const CHECKPOINTS: &str = "/job/checkpoints";

/// Where a life is.
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

/// How a life ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All input is processed and committed, which is recorded.
    Finished,
    /// It has stopped at a checkpoint.
    Stopped,
}

/// A running process.
pub struct Life {
    rng: Rng,
    store: CheckpointStore,
    workers: Vec<Seat>,
    coordinator: Coordinator,
    checkpoints: Checkpoints,
    /// For the checkpoint thread.
    tasks: VecDeque<Task>,
    /// For the coordinator.
    messages: VecDeque<Message>,
    now: Timestamp,
    phase: Phase,
    tally: Tally,
    end: Option<Action>,
    /// The plain savepoint under way.
    saving: Option<u64>,
    /// The savepoints that are wanted.
    wanted: VecDeque<SavepointFolder>,
    /// Those that have begun, by their ids, until it is certain what came of them.
    begun: BTreeMap<u64, SavepointFolder>,
    /// Where the savepoint of the stop goes.
    at_stop: Option<SavepointFolder>,
    /// The checkpoint that it is of.
    saved_at: Option<u64>,
    /// The savepoints that the user was told are there.
    saved: Vec<PathBuf>,
    /// Those that the user was told have failed, and of which nothing is left.
    failed: Vec<PathBuf>,
    breaks: Option<Breaks>,
}

/// A life that breaks a rule: it commits a plain savepoint's output to these sinks.
#[derive(Clone)]
pub struct Breaks {
    /// By uid.
    pub sinks: Vec<(String, Arc<dyn Sink>)>,
    /// Where the savepoints are.
    pub disk: Arc<dyn Disk>,
}

/// What has become of a life's checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those whose output was committed.
    pub committed: u64,
    /// Those that failed or took too long.
    pub failed: u64,
}

/// A worker and its thread's sleeping place.
struct Seat {
    worker: Worker,
    commands: VecDeque<Barrier>,
    alarm: Arc<Alarm>,
    /// It sleeps until it is woken or the clock has come this far.
    asleep: Option<Option<Timestamp>>,
}

#[derive(Default)]
struct Alarm(AtomicBool);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

enum Message {
    Report(u32, Report),
    Io(Event),
}

impl Life {
    /// Recovers, and builds the workers. `None`: the job has finished.
    ///
    /// # Errors
    /// The job cannot be recovered, or the disk fails.
    pub fn start(job: &Job, disk: &Arc<dyn Disk>, rng: Rng, now: Timestamp, attempt: u64) -> Result<Option<Self>> {
        let store = CheckpointStore::open(Arc::clone(disk), PathBuf::from(CHECKPOINTS))?;
        if store.finished()?.is_some() {
            return Ok(None);
        }
        let recovered = recover(job, &store)?;
        if recovered.end_of_input {
            store.mark_finished(recovered.checkpoint)?;
            return Ok(None);
        }
        let coordinator = Coordinator::new(job.checkpoints, job.parallelism, recovered.checkpoint, now);
        let checkpoints = Checkpoints::new(store.clone(), job, &recovered);
        let mut workers = seats(job, recovered, attempt)?;
        if attempt % 2 == 1 {
            let stopwatch = stopwatch::random(attempt);
            workers.iter_mut().for_each(|seat| seat.worker.measure_by(stopwatch));
        }
        let (tasks, messages) = Default::default();
        let (phase, tally, end) = (Phase::Run, Tally::default(), None);
        let (saving, wanted, begun, at_stop, saved_at, saved, failed, breaks) = Default::default();
        Ok(Some(Self {
            rng,
            store,
            workers,
            coordinator,
            checkpoints,
            tasks,
            messages,
            now,
            phase,
            tally,
            end,
            saving,
            wanted,
            begun,
            at_stop,
            saved_at,
            saved,
            failed,
            breaks,
        }))
    }

    /// Lets it commit what plain savepoints hold.
    pub fn break_rule(&mut self, breaks: Breaks) {
        self.breaks = Some(breaks);
    }

    /// Lets one thing happen, whichever the seed picks. Returns the end when it is reached.
    ///
    /// # Errors
    /// The job failed.
    pub fn step(&mut self) -> Result<Option<End>> {
        match self.rng.usize(..self.workers.len() * 2 + 3) {
            0 => {
                self.now = self.now.plus(self.rng.i64(0..3));
                self.event(Event::Tick);
            }
            1 => self.perform_task()?,
            2 => self.hear(),
            worker => self.step_worker((worker - 3) / 2)?,
        }
        match self.end.take() {
            Some(Action::Fail { reason }) => Err(Error::storage(reason)),
            Some(Action::Finish { checkpoint }) => {
                self.tell_stop(checkpoint);
                self.wind_down();
                self.store.mark_finished(checkpoint)?;
                Ok(Some(End::Finished))
            }
            Some(Action::Stopped { checkpoint }) => {
                self.tell_stop(checkpoint);
                self.wind_down();
                Ok(Some(End::Stopped))
            }
            Some(action) => Err(Error::guest(format!("{action:?} ends nothing"))),
            None => Ok(None),
        }
    }

    /// Asks for a stop at a checkpoint, maybe with a savepoint of it, maybe after the end of all event time.
    pub fn stop(&mut self, savepoint: Option<SavepointFolder>, drain: bool) {
        self.at_stop = savepoint;
        self.event(if drain { Event::Drain } else { Event::Stop });
    }

    /// Asks for a savepoint.
    pub fn savepoint(&mut self, folder: SavepointFolder) {
        self.wanted.push_back(folder);
        self.event(Event::Savepoint);
    }

    /// The savepoints that the user has been told of.
    pub fn take_saved(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.saved)
    }

    /// The savepoints that the user was told have failed.
    pub fn take_failed(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.failed)
    }

    fn tell_stop(&mut self, checkpoint: u64) {
        if let Some(folder) = self.at_stop.take_if(|_| self.saved_at == Some(checkpoint)) {
            self.saved.push(folder.dir().to_owned());
        }
    }

    /// Tells the checkpoint thread where a savepoint goes, before any part of it comes.
    fn save(&mut self, barrier: Barrier) {
        let Barrier { checkpoint, purpose } = barrier;
        let (savepoint, stop) = (purpose == Purpose::Savepoint, purpose.stops());
        if savepoint && let Some(folder) = self.wanted.pop_front() {
            self.begun.insert(checkpoint, folder);
        }
        let folder = if savepoint { self.begun.get(&checkpoint) } else { self.at_stop.as_ref().filter(|_| stop) };
        if let Some(folder) = folder.cloned() {
            self.saved_at = stop.then_some(checkpoint);
            self.tasks.push_back(Task::Save { checkpoint, folder, also_checkpoint: stop, trigger: checkpoint.to_string() });
        }
    }

    fn commit_savepoint(&self, checkpoint: u64) -> Result<()> {
        let (Some(breaks), Some(folder)) = (&self.breaks, self.begun.get(&checkpoint)) else { return Ok(()) };
        let manifest = Saved::open(Arc::clone(&breaks.disk), folder.dir())?.manifest;
        for (of, (_, sink)) in manifest.sinks.iter().zip(&breaks.sinks) {
            sink.commit(&of.committables)?;
        }
        Ok(())
    }

    /// Does what the checkpoint thread was still asked for, as the runtime does when an attempt ends while the process lives on.
    pub fn wind_down(&mut self) {
        while let Some(task) = self.tasks.pop_front() {
            if self.checkpoints.perform(task, self.now).is_err() {
                self.tasks.clear();
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The time of its clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// What has become of its checkpoints so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// As the loop of a worker's thread.
    fn step_worker(&mut self, index: usize) -> Result<()> {
        let Some(Seat { worker, commands, alarm, asleep }) = self.workers.get_mut(index) else { return Ok(()) };
        let woken = alarm.0.swap(false, Ordering::Relaxed);
        if asleep.is_some_and(|until| !woken && until.is_none_or(|until| until > self.now)) {
            return Ok(());
        }
        if let Some(barrier) = commands.pop_front() {
            worker.trigger(barrier)?;
        }
        *asleep = match worker.step(self.now)? {
            Step::Waiting(until) if commands.is_empty() => Some(until),
            _ => None,
        };
        while let Some(report) = worker.report() {
            self.messages.push_back(Message::Report(worker.index(), report));
        }
        Ok(())
    }

    /// As the loop of the checkpoint thread.
    fn perform_task(&mut self) -> Result<()> {
        let Some(task) = self.tasks.pop_front() else { return Ok(()) };
        if let Task::Commit { .. } = task {
            self.phase = Phase::Commit;
        }
        let Some(event) = self.checkpoints.perform(task, self.now)? else { return Ok(()) };
        match event {
            Event::Stored { checkpoint } if self.saving == Some(checkpoint) => {
                self.phase = Phase::Run;
                self.commit_savepoint(checkpoint)?;
            }
            Event::Stored { .. } => self.phase = Phase::AfterManifest,
            Event::Committed { .. } => {
                self.phase = Phase::Run;
                self.tally.committed += 1;
            }
            _ => {}
        }
        self.messages.push_back(Message::Io(event));
        Ok(())
    }

    /// As the loop of the coordinator's thread.
    fn hear(&mut self) {
        match self.messages.pop_front() {
            Some(Message::Report(_, Report::Snapshot(snapshot))) => self.tasks.push_back(Task::Persist(snapshot)),
            Some(Message::Report(worker, Report::EndOfInput)) => self.event(Event::EndOfInput { worker }),
            Some(Message::Io(event)) => self.event(event),
            None => {}
        }
    }

    fn event(&mut self, event: Event) {
        for action in self.coordinator.on_event(event, self.now) {
            match action {
                Action::Trigger(barrier) => {
                    self.phase = Phase::BeforeManifest;
                    self.saving = (barrier.purpose == Purpose::Savepoint).then_some(barrier.checkpoint);
                    self.save(barrier);
                    for seat in &mut self.workers {
                        seat.commands.push_back(barrier);
                        seat.alarm.0.store(true, Ordering::Relaxed);
                    }
                }
                Action::Store { checkpoint, end_of_input } => self.tasks.push_back(Task::Store { checkpoint, end_of_input }),
                Action::Commit { checkpoint } => self.tasks.push_back(Task::Commit { checkpoint }),
                Action::Retain { newest } => self.tasks.push_back(Task::Retain { newest }),
                Action::Discard { checkpoint } => {
                    self.phase = Phase::Run;
                    self.tally.failed += 1;
                    self.checkpoints.given_up().give_up(checkpoint);
                    self.tasks.push_back(Task::Discard { checkpoint });
                }
                Action::Saved { checkpoint } => {
                    self.saved.extend(self.begun.remove(&checkpoint).map(|folder| folder.dir().to_owned()));
                }
                Action::NotSaved { checkpoint, reason } => {
                    let folder = self.begun.remove(&checkpoint).filter(|_| !reason.contains("could not be removed"));
                    self.failed.extend(folder.map(|folder| folder.dir().to_owned()));
                }
                Action::Finish { .. } | Action::Stopped { .. } | Action::Fail { .. } => self.end = Some(action),
            }
        }
    }
}

fn seats(job: &Job, recovered: Recovered, attempt: u64) -> Result<Vec<Seat>> {
    let alarms: Vec<Arc<Alarm>> = (0..job.parallelism).map(|_| Arc::default()).collect();
    let setup = WorkerSetup {
        wakers: alarms.iter().map(|alarm| Waker::from(Arc::clone(alarm))).collect(),
        queue_capacity: job.queue_capacity,
        backend: Arc::clone(&job.backend),
        splits: recovered.splits,
        restored: recovered.operators,
        incarnation: recovered.incarnation,
        attempt,
    };
    let workers = build(&job.graph, &setup)?.into_iter().zip(alarms);
    Ok(workers.map(|(worker, alarm)| Seat { worker, commands: VecDeque::new(), alarm, asleep: None }).collect())
}
