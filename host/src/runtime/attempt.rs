//! One attempt: from recovered state to the end, a stop or a failure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use tidemill_core::checkpoint::{Action, Coordinator, Event, Lost, Phase};
use tidemill_core::exchange::{Barrier, Purpose};
use tidemill_core::job::{Outcome, Request};
use tidemill_core::worker::{Worker, WorkerSetup, build_with, open_states};
use tidemill_core::{Error, Result, Timestamp};
use tracing::{debug, info, warn};

use super::Observer;
use super::checkpoints::{Checkpoints, Task};
use super::control::{Control, Pending};
use super::delay::{Delays, Look};
use super::gauge::Gauge;
use super::history::{Kind, Verdict};
use super::io::IoThread;
use super::job::Job;
use super::progress::CheckpointProgress;
use super::recovery::Recovered;
use super::threads::{Command, Crew, Message, Parkers};
use super::waiting::Waiting;
use crate::clock::{Clock, since_start};
use crate::side_by_side::side_by_side;

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

/// A checkpoint or savepoint that has begun.
struct UnderWay {
    checkpoint: u64,
    kind: Kind,
    /// By the machine's clock.
    began: Timestamp,
    /// By the steady clock.
    started: Timestamp,
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
    /// Since when it is about to stop.
    stopping: Option<Timestamp>,
    delays: Delays,
    /// Savepoints that are wanted, in the order in which they were asked for.
    savepoints: VecDeque<Pending>,
    /// Savepoints that have begun, by their ids, until it is certain what came of them.
    saving: BTreeMap<u64, Pending>,
    /// Savepoints that exist, until a checkpoint has committed their output.
    committing: BTreeMap<u64, Pending>,
    /// The stop, or rescale.
    stop: Option<Pending>,
    /// When the sources were told to stop.
    stopped_reading: Option<Timestamp>,
    under_way: Option<UnderWay>,
    /// How many workers the barrier of the checkpoint under way has passed.
    passed: usize,
    /// Savepoints that were given up and of which it is not certain yet what came of them.
    given_up: BTreeMap<u64, UnderWay>,
    /// When the barrier had passed a worker, last.
    last_barrier: Timestamp,
    /// The checkpoint whose copy is the stop's savepoint.
    saved_at: Option<u64>,
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
        checkpoints: Checkpoints,
        recovered: Recovered,
        attempt: u64,
    ) -> Result<Self> {
        let parkers = Parkers::new(job.parallelism);
        let (sender, messages) = channel();
        let setup = WorkerSetup {
            wakers: parkers.wakers(),
            queue_capacity: job.queue_capacity,
            backend: Arc::clone(&job.backend),
            splits: recovered.splits,
            restored: recovered.operators,
            incarnation: recovered.incarnation,
            attempt,
        };
        // After a restore it takes most of the time of a start.
        let states = side_by_side(job.parallelism, |subtask| open_states(&job.graph, &setup, subtask))?;
        let mut workers = build_with(&job.graph, &setup, states)?;
        workers.iter_mut().for_each(|worker| worker.measure_by(since_start));
        let delays = Delays::new(job, workers.iter().map(Worker::pulse).collect());
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
            stopping: None,
            delays,
            savepoints: VecDeque::new(),
            saving: BTreeMap::new(),
            committing: BTreeMap::new(),
            stop: None,
            stopped_reading: None,
            under_way: None,
            passed: 0,
            given_up: BTreeMap::new(),
            last_barrier: now,
            saved_at: None,
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
            if control.stop_requested() && self.stopping.is_none() {
                self.stopping = Some(now);
                self.event(Event::Stop, now, gauge);
            }
            // While the job is being rescaled they wait for the workers to come.
            while !self.is_rescaling()
                && let Some(pending) = control.next()
            {
                self.take(pending, now, gauge);
            }
            self.event(Event::Tick, now, gauge);
            self.discover(now)?;
            if gauge.is_due() {
                self.crew.tell_all(|| Command::Statistics);
                self.say_delays(now, gauge, control);
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

    /// Says what takes long.
    fn say_delays(&mut self, now: Timestamp, gauge: &Gauge, control: &Control) {
        let look =
            Look { now, waiting: self.coordinator.waiting(), workers: gauge.workers(), doing: self.io.doing(), stopping: self.stopping };
        let said: Vec<String> = [self.delays.of_checkpoint(&look), self.delays.of_pass(&look)].into_iter().flatten().collect();
        said.iter().for_each(|text| warn!("{text}"));
        match look.waiting {
            _ if !said.is_empty() => control.set_waits_for(Some(said.join(". "))),
            Some(_) => {}
            None => control.set_waits_for(None),
        }
    }

    /// Passes a request on to the coordinator.
    fn take(&mut self, pending: Pending, now: Timestamp, gauge: &mut Gauge) {
        match pending.request {
            _ if self.stopping.is_some() => pending.answer(Err(Error::config("the job is stopping already"))),
            Request::Savepoint { .. } => {
                self.savepoints.push_back(pending);
                self.event(Event::Savepoint, now, gauge);
            }
            Request::Stop { drain, .. } => {
                info!("stopping at the next checkpoint, as it was asked to");
                self.stopping = Some(now);
                self.stop = Some(pending);
                self.event(if drain { Event::Drain } else { Event::Stop }, now, gauge);
            }
            Request::Rescale { parallelism, .. } => match self.refuses(parallelism) {
                Some(reason) => pending.answer(Err(Error::config(reason))),
                None => {
                    self.stopping = Some(now);
                    self.stop = Some(pending);
                    self.event(Event::Stop, now, gauge);
                }
            },
        }
    }

    /// Why the job cannot have so many workers.
    fn refuses(&self, parallelism: u32) -> Option<String> {
        let (now, max) = (self.job.parallelism, self.job.graph.max_parallelism);
        match parallelism {
            0 => Some("a job needs at least one worker, so its parallelism cannot be 0".to_owned()),
            wanted if wanted > max => Some(format!(
                "parallelism {wanted} is more than the max_parallelism {max} of the job, which is fixed by its first checkpoint"
            )),
            wanted if wanted == now => Some(format!("the job has parallelism {now} already")),
            _ => None,
        }
    }

    fn is_rescaling(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| matches!(stop.request, Request::Rescale { .. }))
    }

    /// Asks the workers once more, so that the summary is complete.
    fn count_last(&mut self, gauge: &mut Gauge) {
        self.crew.tell_all(|| Command::Statistics);
        let mut heard = BTreeSet::new();
        while heard.len() < self.crew.len() {
            match self.messages.recv_timeout(LAST_WORD) {
                Ok(Message::Statistics(worker, statistics)) => {
                    gauge.update(worker, statistics, self.job);
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
            Message::Snapshot(snapshot) => {
                self.last_barrier = now;
                self.passed += usize::from(self.coordinator.current() == Some(snapshot.checkpoint));
                self.io.give(Task::Persist(snapshot));
            }
            Message::EndOfInput(worker) => {
                self.event(Event::EndOfInput { worker }, now, gauge);
            }
            Message::Statistics(worker, statistics) => gauge.update(worker, statistics, self.job),
            Message::Io(event, bytes) => {
                if let Event::Committed { checkpoint } = event {
                    let (duration, aligned) = (self.since_trigger(now), self.since_trigger(self.last_barrier));
                    debug!(checkpoint, ?duration, ?aligned, bytes, "checkpoint {checkpoint} completed");
                    gauge.checkpoint(CheckpointProgress { id: checkpoint, duration, aligned, bytes });
                    self.note(checkpoint, None, now);
                    self.job.read(false);
                    self.answer_committed(checkpoint);
                }
                self.event(event, now, gauge);
            }
            Message::Failed(error) => return Err(error),
        }
        Ok(())
    }

    /// How long after the start of the checkpoint under way.
    fn since_trigger(&self, then: Timestamp) -> Duration {
        let started = self.under_way.as_ref().map_or(then, |under_way| under_way.started);
        Duration::from_millis(then.0.saturating_sub(started.0).max(0).unsigned_abs())
    }

    fn event(&mut self, event: Event, now: Timestamp, gauge: &mut Gauge) {
        let waiting = matches!(event, Event::Tick | Event::Failed { .. }).then(|| self.coordinator.waiting()).flatten();
        let actions = self.coordinator.on_event(event, now);
        if let Some(lost) = self.coordinator.take_lost() {
            self.lose(lost, waiting, now, gauge);
        }
        let had = self.committing.len();
        for action in actions {
            self.perform(action, now, gauge);
        }
        if self.committing.len() > had {
            // Not to wait for the interval.
            self.event(Event::Checkpoint, now, gauge);
        }
    }

    /// Says that a checkpoint has failed, or that a savepoint was given up: what came of that one is not certain yet.
    fn lose(&mut self, lost: Lost, waiting: Option<tidemill_core::checkpoint::Waiting>, now: Timestamp, gauge: &mut Gauge) {
        let Lost { checkpoint, phase, age, missing, reason } = lost;
        let doing = self.io.doing();
        let savepoint = self.under_way.take_if(|under_way| under_way.kind == Kind::Savepoint);
        let what = if savepoint.is_some() { "savepoint" } else { "checkpoint" };
        let became = if savepoint.is_some() { "is given up" } else { "failed" };
        warn!(checkpoint, %phase, age_ms = age, missing_workers = ?missing, doing, "{what} {checkpoint} {became}: {reason}");
        if savepoint.is_none() {
            gauge.checkpoint_failed();
        }
        let look = Look { now, waiting, workers: gauge.workers(), doing: self.io.doing(), stopping: self.stopping };
        self.after_lost(checkpoint, phase, &reason, &look);
        match savepoint {
            Some(savepoint) => _ = self.given_up.insert(checkpoint, savepoint),
            None => self.note(checkpoint, Some(reason), now),
        }
    }

    /// Learns from a checkpoint that failed, and says what becomes of a stop.
    fn after_lost(&self, checkpoint: u64, phase: Phase, reason: &str, look: &Look<'_>) {
        if phase == Phase::Collecting && self.passed < self.crew.len() {
            self.job.read(true);
        }
        if self.stopping.is_some() {
            let held_up = self.delays.held_up_by(look);
            warn!(
                "the job has not stopped yet: checkpoint {checkpoint} {held_up}, and failed: {reason} (`checkpoints.timeout` is {} ms). Unless \
                 the job fails with it, the next one is tried; a second Ctrl-C or SIGTERM ends the job at once, and it then goes on from its \
                 last checkpoint",
                self.job.checkpoints.timeout
            );
        }
    }

    fn perform(&mut self, action: Action, now: Timestamp, gauge: &Gauge) {
        match action {
            Action::Trigger(barrier) => {
                if barrier.purpose.stops() {
                    self.stopped_reading.get_or_insert(now);
                }
                let kind = if barrier.purpose == Purpose::Savepoint { Kind::Savepoint } else { Kind::Checkpoint };
                self.under_way = Some(UnderWay { checkpoint: barrier.checkpoint, kind, began: self.clock.now(), started: now });
                self.save(barrier);
                self.passed = 0;
                self.delays.begin(gauge.workers());
                self.crew.tell_all(|| Command::Trigger(barrier));
            }
            Action::Store { checkpoint, end_of_input } => self.io.give(Task::Store { checkpoint, end_of_input }),
            Action::Commit { checkpoint } => self.io.give(Task::Commit { checkpoint }),
            Action::Retain { newest } => self.io.give(Task::Retain { newest }),
            Action::Discard { checkpoint } => self.io.give(Task::Discard { checkpoint }),
            Action::Saved { checkpoint } => {
                if self.given_up.contains_key(&checkpoint) {
                    info!(checkpoint, "savepoint {checkpoint} was complete before it was given up");
                }
                self.note(checkpoint, None, now);
                self.answer_savepoint(checkpoint, Ok(()));
            }
            Action::NotSaved { checkpoint, reason } => {
                self.note(checkpoint, Some(reason.clone()), now);
                self.answer_savepoint(checkpoint, Err(Error::storage(format!("savepoint {checkpoint} failed: {reason}"))));
            }
            Action::Finish { checkpoint } => self.end = Some(End::Finished(checkpoint)),
            Action::Stopped { checkpoint } => self.end = Some(End::Stopped(checkpoint)),
            Action::Fail { reason } => {
                let doing = self.io.doing().map_or_else(String::new, |doing| format!(" (under way: {doing})"));
                self.failure = Some(Error::storage(format!("{reason}{doing}")));
            }
        }
    }

    /// Tells the checkpoint thread where a savepoint goes, before any part of it comes.
    fn save(&mut self, barrier: Barrier) {
        let Barrier { checkpoint, purpose } = barrier;
        let (savepoint, stop) = (purpose == Purpose::Savepoint, purpose.stops());
        if savepoint && let Some(pending) = self.savepoints.pop_front() {
            self.saving.insert(checkpoint, pending);
        }
        let pending = if savepoint { self.saving.get(&checkpoint) } else { self.stop.as_ref().filter(|_| stop) };
        if let Some((pending, folder)) = pending.and_then(|pending| Some((pending, pending.folder.as_ref()?))) {
            let (folder, trigger) = (folder.clone(), pending.key.clone());
            self.io.give(Task::Save { checkpoint, folder, also_checkpoint: stop, trigger });
            self.saved_at = stop.then_some(checkpoint);
        }
    }

    fn answer_savepoint(&mut self, checkpoint: u64, saved: Result<()>) {
        let Some(pending) = self.saving.remove(&checkpoint) else { return };
        if saved.is_ok() && matches!(pending.request, Request::Savepoint { wait_committed: true, .. }) {
            self.committing.insert(checkpoint, pending);
            return;
        }
        let outcome = saved.map(|()| Outcome::saved(checkpoint, &pending.request, None));
        pending.answer_only(outcome);
    }

    /// A checkpoint has committed the output of all savepoints before it.
    fn answer_committed(&mut self, checkpoint: u64) {
        let later = self.committing.split_off(&checkpoint);
        for (savepoint, pending) in std::mem::replace(&mut self.committing, later) {
            let outcome = Outcome::saved(savepoint, &pending.request, Some(checkpoint));
            pending.answer_only(Ok(outcome));
        }
    }

    /// Writes down how the checkpoint under way, or a savepoint that was given up, has ended.
    fn note(&mut self, checkpoint: u64, failure: Option<String>, now: Timestamp) {
        let ended = self.given_up.remove(&checkpoint).or_else(|| self.under_way.take_if(|under_way| under_way.checkpoint == checkpoint));
        let Some(UnderWay { kind, began, started, .. }) = ended else { return };
        let duration_ms = now.0.saturating_sub(started.0).max(0).unsigned_abs();
        self.io.give(Task::Note(Verdict { checkpoint, kind, began: began.0, duration_ms, failure }));
    }

    /// Writes down what became of the checkpoints that were still under way when the attempt ended.
    pub(super) fn note_end(&mut self, end: &Result<End>) {
        let Err(error) = end else { return };
        let open: Vec<u64> = self.given_up.keys().copied().chain(self.under_way.as_ref().map(|under_way| under_way.checkpoint)).collect();
        for checkpoint in open {
            self.note(checkpoint, Some(format!("the job failed first: {}", error.chain())), self.clock.steady());
        }
    }

    /// Those who still wait for an answer.
    pub(super) fn take_waiting(&mut self) -> Waiting {
        Waiting {
            savepoints: std::mem::take(&mut self.savepoints),
            saving: std::mem::take(&mut self.saving),
            committing: std::mem::take(&mut self.committing),
            stop: self.stop.take(),
            saved_at: self.saved_at,
            stopped_reading: self.stopped_reading,
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
