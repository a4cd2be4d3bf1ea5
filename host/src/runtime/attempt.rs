//! One attempt: from recovered state to the end, a stop or a failure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tidemill_core::checkpoint::{Action, Coordinator, Event, Lost};
use tidemill_core::worker::{WorkerSetup, build};
use tidemill_core::{Error, Result, Timestamp};
use tracing::warn;

use super::checkpoints::{Checkpoints, Task};
use super::gauge::Gauge;
use super::io::IoThread;
use super::job::Job;
use super::recovery::Recovered;
use super::threads::{Command, Crew, Message, Parkers};
use super::{Control, Observer};
use crate::clock::Clock;
use crate::store::CheckpointStore;

/// How often the coordinator looks at the clock and the user's wishes.
const TICK: Duration = Duration::from_millis(20);
/// How long a worker may take to say what it has counted at the end.
const LAST_WORD: Duration = Duration::from_secs(1);
/// How often unbounded sources are searched for new splits.
const DISCOVERY_MILLIS: i64 = 1000;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All input is processed and committed by this checkpoint.
    Finished(u64),
    /// The job has stopped at this checkpoint.
    Stopped(u64),
}

/// A running attempt.
pub(super) struct Attempt<'a> {
    job: &'a Job,
    clock: &'a Arc<dyn Clock>,
    coordinator: Coordinator,
    crew: Crew,
    io: IoThread,
    messages: Receiver<Message>,
    splits: Vec<Vec<tidemill_core::source::Split>>,
    next_discovery: Timestamp,
    stopping: bool,
    /// When the checkpoint under way began.
    started_checkpoint: Option<Timestamp>,
    end: Option<End>,
    failure: Option<Error>,
}

impl<'a> Attempt<'a> {
    /// Makes and starts the workers.
    ///
    /// # Errors
    /// Something cannot be opened or restored.
    pub(super) fn start(
        job: &'a Job,
        clock: &'a Arc<dyn Clock>,
        store: CheckpointStore,
        recovered: Recovered,
        attempt: u64,
    ) -> Result<Self> {
        let parkers = Parkers::new(job.parallelism);
        let (sender, messages) = channel();
        let checkpoints = Checkpoints::new(store, job, &recovered);
        let setup = WorkerSetup {
            wakers: parkers.wakers(),
            queue_capacity: job.queue_capacity,
            backend: Arc::clone(&job.backend),
            splits: recovered.splits,
            restored: recovered.operators,
            incarnation: recovered.incarnation,
            attempt,
        };
        let workers = build(&job.graph, &setup)?;
        let now = clock.steady();
        Ok(Self {
            job,
            clock,
            coordinator: Coordinator::new(job.checkpoints, job.parallelism, recovered.checkpoint, now),
            crew: Crew::start(workers, &parkers, clock, &sender)?,
            io: IoThread::start(checkpoints, Arc::clone(clock), sender)?,
            messages,
            splits: setup.splits,
            next_discovery: now.plus(DISCOVERY_MILLIS),
            stopping: false,
            started_checkpoint: None,
            end: None,
            failure: None,
        })
    }

    /// Runs until the end.
    ///
    /// # Errors
    /// The attempt failed; the job restarts from its last checkpoint.
    pub(super) fn run(&mut self, control: &Control, gauge: &mut Gauge, observer: &mut Observer<'_>) -> Result<End> {
        loop {
            let now = self.clock.steady();
            if control.stop_requested() && !self.stopping {
                self.stopping = true;
                self.event(Event::Stop, now, gauge);
            }
            self.event(Event::Tick, now, gauge);
            self.discover(now)?;
            if gauge.is_due() {
                self.crew.tell_all(|| Command::Statistics);
                observer(&gauge.progress(self.job));
            }
            match self.messages.recv_timeout(TICK) {
                Ok(message) => self.handle(message, gauge)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Error::guest("all threads of the job have ended without a word")),
            }
            while let Ok(message) = self.messages.try_recv() {
                self.handle(message, gauge)?;
            }
            if let Some(error) = self.failure.take() {
                return Err(error);
            }
            if let Some(end) = self.end {
                self.count_last(gauge);
                return Ok(end);
            }
        }
    }

    /// Asks the workers once more, so that the summary is complete.
    fn count_last(&mut self, gauge: &mut Gauge) {
        self.crew.tell_all(|| Command::Statistics);
        let mut heard = BTreeSet::new();
        while heard.len() < self.crew.len() {
            match self.messages.recv_timeout(LAST_WORD) {
                Ok(Message::Statistics(worker, statistics)) => {
                    gauge.update(worker, statistics);
                    heard.insert(worker);
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    fn handle(&mut self, message: Message, gauge: &mut Gauge) -> Result<()> {
        let now = self.clock.steady();
        match message {
            Message::Snapshot(snapshot) => self.io.give(Task::Persist(snapshot)),
            Message::EndOfInput(worker) => {
                self.event(Event::EndOfInput { worker }, now, gauge);
            }
            Message::Statistics(worker, statistics) => gauge.update(worker, statistics),
            Message::Io(event, bytes) => {
                if let Event::Committed { checkpoint } = event {
                    let duration = now.0.saturating_sub(self.started_checkpoint.map_or(now.0, |started| started.0));
                    gauge.checkpoint(checkpoint, duration, bytes);
                }
                self.event(event, now, gauge);
            }
            Message::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn event(&mut self, event: Event, now: Timestamp, gauge: &mut Gauge) {
        let actions = self.coordinator.on_event(event, now);
        if let Some(Lost { checkpoint, phase, age, missing, reason }) = self.coordinator.take_lost() {
            warn!(checkpoint, %phase, age_ms = age, missing_workers = ?missing, doing = self.io.doing(), "checkpoint {checkpoint} failed: {reason}");
        }
        for action in actions {
            self.perform(action, now, gauge);
        }
    }

    fn perform(&mut self, action: Action, now: Timestamp, gauge: &mut Gauge) {
        match action {
            Action::Trigger(barrier) => {
                self.started_checkpoint = Some(now);
                self.crew.tell_all(|| Command::Trigger(barrier));
            }
            Action::Store { checkpoint, end_of_input } => self.io.give(Task::Store { checkpoint, end_of_input }),
            Action::Commit { checkpoint } => self.io.give(Task::Commit { checkpoint }),
            Action::Retain { newest } => self.io.give(Task::Retain { newest }),
            Action::Discard { checkpoint } => {
                gauge.checkpoint_failed();
                self.io.give(Task::Discard { checkpoint });
            }
            Action::Finish { checkpoint } => self.end = Some(End::Finished(checkpoint)),
            Action::Stopped { checkpoint } => self.end = Some(End::Stopped(checkpoint)),
            Action::Fail { reason } => {
                let doing = self.io.doing().map_or_else(String::new, |doing| format!(" (under way: {doing})"));
                self.failure = Some(Error::storage(format!("{reason}{doing}")));
            }
        }
    }

    /// Gives splits that have appeared to the workers in turn.
    fn discover(&mut self, now: Timestamp) -> Result<()> {
        if now < self.next_discovery {
            return Ok(());
        }
        self.next_discovery = now.plus(DISCOVERY_MILLIS);
        for (index, ((uid, source), known)) in (0u32..).zip(self.job.sources.iter().zip(&mut self.splits)) {
            if source.bounded() {
                continue;
            }
            let before = known.len();
            source.discover(known).map_err(|error| Error::connector(format!("looking for new splits of source {uid}")).caused_by(error))?;
            for split in known.iter().skip(before) {
                self.crew.tell(split.id as usize % self.crew.len().max(1), Command::Assign(index, split.clone()));
            }
        }
        Ok(())
    }
}
