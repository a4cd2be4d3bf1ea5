//! The checkpoint coordinator: a pure function from events to actions. The runtime performs the actions and reports back.
//!
//! One checkpoint is under way at a time, from its barrier to its commit, so checkpoint n + 1 is never stored before n is committed:
//! a restore of n + 1 would not know what n still has to commit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::Timestamp;
use crate::exchange::{Barrier, Purpose};

/// The longest pause between a checkpoint that failed and the next one at the end of input or for a stop.
const RETRY_PAUSE: i64 = 1_000;
/// The number of checkpoints in a row that may lack files before the next one counts as failed.
const MOST_VANISHED: u32 = 10;

/// When checkpoints are taken (Flink's `CheckpointingOptions`; all times in milliseconds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// From the start of one periodic checkpoint to the next.
    pub interval: i64,
    /// After which a checkpoint that has not been stored counts as failed, and one whose output has not been committed since fails the job.
    pub timeout: i64,
    /// The least time from the completion of one checkpoint to the start of the next periodic one.
    pub min_pause: i64,
    /// How many checkpoints in a row may fail before the job does.
    pub tolerable_failures: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { interval: 10_000, timeout: 600_000, min_pause: 0, tolerable_failures: 0 }
    }
}

/// What the coordinator is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time has passed.
    Tick,
    /// A worker's part of a checkpoint is durable.
    Acknowledged {
        /// The worker.
        worker: u32,
        /// The checkpoint.
        checkpoint: u64,
    },
    /// A worker has processed all its data to the end.
    EndOfInput {
        /// The worker.
        worker: u32,
    },
    /// A part of a checkpoint, or its manifest, could not be stored.
    Failed {
        /// The checkpoint.
        checkpoint: u64,
        /// What went wrong.
        reason: String,
    },
    /// A part of a checkpoint could not be stored since files that were written before are gone. The next checkpoint writes them again, so
    /// this is no failure that the job must tolerate, unless it happens again and again.
    Vanished {
        /// The checkpoint.
        checkpoint: u64,
        /// What is gone.
        reason: String,
    },
    /// The manifest is durable: the checkpoint exists.
    Stored {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// All committables of the checkpoint are committed.
    Committed {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// Nothing is left of a checkpoint that failed. Not reported for a savepoint that was complete before it was given up: for that one
    /// [`Event::Stored`] is.
    Discarded {
        /// The checkpoint.
        checkpoint: u64,
        /// Why something is left after all.
        left: Option<String>,
    },
    /// The user wants the job to stop at a checkpoint.
    Stop,
    /// As [`Stop`](Self::Stop), for good: all event time ends first.
    Drain,
    /// The user wants a savepoint, beside the checkpoints: it is the next to be taken.
    Savepoint,
    /// The user wants a checkpoint at once, without regard to the interval and the pause.
    Checkpoint,
}

/// What the runtime must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the barrier to all workers.
    Trigger(Barrier),
    /// Write the manifest; then report [`Event::Stored`] or [`Event::Failed`].
    Store {
        /// The checkpoint.
        checkpoint: u64,
        /// Whether it covers all input of a bounded job.
        end_of_input: bool,
    },
    /// Commit; then report [`Event::Committed`]. A failure to commit fails the job.
    Commit {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// Remove what checkpoints before this one no longer need.
    Retain {
        /// The newest checkpoint.
        newest: u64,
    },
    /// Remove what an unfinished checkpoint has written; then report [`Event::Discarded`]. Its committables stay with the next one. A
    /// savepoint that is complete by now stays.
    Discard {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// The savepoint exists.
    Saved {
        /// Its id.
        checkpoint: u64,
    },
    /// The savepoint could not be taken, and nothing is left of it. The job continues.
    NotSaved {
        /// Its id.
        checkpoint: u64,
        /// What went wrong.
        reason: String,
    },
    /// All input is processed and committed: the job is finished.
    Finish {
        /// The last checkpoint.
        checkpoint: u64,
    },
    /// The job has stopped at this checkpoint, and can be resumed.
    Stopped {
        /// The last checkpoint.
        checkpoint: u64,
    },
    /// Too many checkpoints have failed, or a commit does not end: the job must fail.
    Fail {
        /// What went wrong.
        reason: String,
    },
}

/// The state of the coordinator.
#[derive(Clone, Debug)]
pub struct Coordinator {
    options: Options,
    workers: u32,
    next: u64,
    current: Option<Current>,
    /// The job ends: nothing more begins.
    over: bool,
    ended: BTreeSet<u32>,
    /// The purpose of the job's last checkpoint, once a stop is wanted.
    stop: Option<Purpose>,
    /// How many savepoints are still to be taken.
    savepoints: u32,
    /// A checkpoint is wanted at once, until one completes.
    wanted: bool,
    failures: u32,
    /// How many checkpoints in a row were not stored since files were gone.
    vanished: u32,
    last_start: Timestamp,
    last_end: Timestamp,
    /// Not before this time another checkpoint follows a failed one.
    retry_at: Timestamp,
    lost: Option<Lost>,
    /// Savepoints that were given up, with the reason. Only the one who performs the actions knows whether such a savepoint was complete
    /// before, so nobody is told of its failure until nothing is left of it.
    given_up: BTreeMap<u64, String>,
}

/// The checkpoint under way.
#[derive(Clone, Debug)]
struct Current {
    barrier: Barrier,
    end_of_input: bool,
    acknowledged: BTreeSet<u32>,
    phase: Phase,
    started: Timestamp,
    phase_started: Timestamp,
}

/// How far a checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its barrier is on the way through the workers.
    Collecting,
    /// Its manifest is being written.
    Storing,
    /// It exists, and its output is being committed.
    Committing,
}

/// A checkpoint that is under way, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its id.
    pub checkpoint: u64,
    /// How far it has come.
    pub phase: Phase,
    /// When it began.
    pub since: Timestamp,
    /// The workers that have not answered.
    pub missing: Vec<u32>,
}

/// A checkpoint that has failed, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its id.
    pub checkpoint: u64,
    /// How far it had come.
    pub phase: Phase,
    /// How long ago it had begun, in milliseconds.
    pub age: i64,
    /// The workers that had not answered.
    pub missing: Vec<u32>,
    /// What went wrong.
    pub reason: String,
}

impl Coordinator {
    /// For a job whose last checkpoint was `restored` (0: none).
    #[must_use]
    pub fn new(options: Options, workers: u32, restored: u64, now: Timestamp) -> Self {
        Self {
            options,
            workers,
            next: restored + 1,
            current: None,
            over: false,
            ended: BTreeSet::new(),
            stop: None,
            savepoints: 0,
            wanted: false,
            failures: 0,
            vanished: 0,
            last_start: now,
            last_end: Timestamp::MIN,
            retry_at: Timestamp::MIN,
            lost: None,
            given_up: BTreeMap::new(),
        }
    }

    /// Takes in an event, at a time of a clock that never leaps. Events about checkpoints other than the current one are late and mean
    /// nothing, except for savepoints that were given up: each of them ends as [`Action::Saved`] or [`Action::NotSaved`].
    pub fn on_event(&mut self, event: Event, now: Timestamp) -> Vec<Action> {
        match event {
            Event::Tick => self.on_tick(now),
            Event::Acknowledged { worker, checkpoint } => self.on_acknowledged(worker, checkpoint, now),
            Event::EndOfInput { worker } => {
                self.ended.insert(worker);
                self.start_if_due(now)
            }
            Event::Failed { checkpoint, reason } => self.on_failed(checkpoint, reason, now),
            Event::Vanished { checkpoint, reason } => self.on_vanished(checkpoint, reason, now),
            Event::Stored { checkpoint } => self.on_stored(checkpoint, now),
            Event::Committed { checkpoint } => self.on_committed(checkpoint, now),
            Event::Discarded { checkpoint, left } => self.on_discarded(checkpoint, left),
            Event::Stop => {
                self.stop.get_or_insert(Purpose::Stop);
                self.start_if_due(now)
            }
            Event::Drain => {
                self.stop = Some(Purpose::Drain);
                self.start_if_due(now)
            }
            Event::Savepoint => {
                self.savepoints += 1;
                self.start_if_due(now)
            }
            Event::Checkpoint => {
                self.wanted = true;
                self.start_if_due(now)
            }
        }
    }

    /// The checkpoint under way.
    #[must_use]
    pub fn current(&self) -> Option<u64> {
        self.current.as_ref().map(|current| current.barrier.checkpoint)
    }

    /// How far the checkpoint under way has come, for the log.
    #[must_use]
    pub fn waiting(&self) -> Option<Waiting> {
        self.current.as_ref().map(|current| Waiting {
            checkpoint: current.barrier.checkpoint,
            phase: current.phase,
            since: current.started,
            missing: self.missing(current),
        })
    }

    fn missing(&self, current: &Current) -> Vec<u32> {
        (0..self.workers).filter(|worker| !current.acknowledged.contains(worker)).collect()
    }

    /// Takes what is to be said of the last checkpoint that failed.
    pub fn take_lost(&mut self) -> Option<Lost> {
        self.lost.take()
    }

    fn on_tick(&mut self, now: Timestamp) -> Vec<Action> {
        let timeout = self.options.timeout;
        let late = |since: Timestamp| now.0.saturating_sub(since.0) >= timeout;
        match &self.current {
            Some(current) if current.phase == Phase::Committing && late(current.phase_started) => {
                let id = current.barrier.checkpoint;
                self.lose(format!("its output was not committed within {timeout} ms"), now);
                self.over = true;
                vec![Action::Fail { reason: format!("checkpoint {id} is durable, but its output was not committed within {timeout} ms") }]
            }
            Some(current) if current.phase != Phase::Committing && late(current.started) => {
                self.on_failed(current.barrier.checkpoint, format!("it did not complete within {timeout} ms"), now)
            }
            _ => self.start_if_due(now),
        }
    }

    /// Starts a checkpoint if none is under way and one is due: at once for a savepoint, which goes first, at the end of input, for a stop and
    /// if the user wants one, else by the clock.
    fn start_if_due(&mut self, now: Timestamp) -> Vec<Action> {
        let all_ended = self.ended.len() >= self.workers as usize;
        let by_interval = now >= self.last_start.plus(self.options.interval);
        let by_pause = now >= self.last_end.plus(self.options.min_pause);
        let at_once = (all_ended || self.stop.is_some() || self.wanted) && now >= self.retry_at;
        let savepoint = self.savepoints > 0;
        if self.current.is_some() || self.over || !(savepoint || at_once || (by_interval && by_pause)) {
            return Vec::new();
        }
        let purpose = match self.stop {
            _ if savepoint => Purpose::Savepoint,
            Some(purpose) => purpose,
            None => Purpose::Checkpoint,
        };
        let barrier = Barrier { checkpoint: self.next, purpose };
        self.next += 1;
        // The user's savepoints do not move the time of the job's checkpoints.
        match savepoint {
            true => self.savepoints -= 1,
            false => self.last_start = now,
        }
        self.current = Some(Current {
            barrier,
            end_of_input: all_ended,
            acknowledged: BTreeSet::new(),
            phase: Phase::Collecting,
            started: now,
            phase_started: now,
        });
        vec![Action::Trigger(barrier)]
    }

    fn on_acknowledged(&mut self, worker: u32, id: u64, now: Timestamp) -> Vec<Action> {
        let workers = self.workers as usize;
        let Some(current) = self.current_in(Phase::Collecting, id) else { return Vec::new() };
        current.acknowledged.insert(worker);
        if current.acknowledged.len() < workers {
            return Vec::new();
        }
        current.enter(Phase::Storing, now);
        vec![Action::Store { checkpoint: id, end_of_input: current.end_of_input }]
    }

    fn on_stored(&mut self, id: u64, now: Timestamp) -> Vec<Action> {
        if self.given_up.remove(&id).is_some() {
            // It was complete before it could be given up.
            return vec![Action::Saved { checkpoint: id }];
        }
        let Some(current) = self.current_in(Phase::Storing, id) else { return Vec::new() };
        if current.barrier.purpose == Purpose::Savepoint {
            self.current = None;
            let mut actions = vec![Action::Saved { checkpoint: id }];
            actions.extend(self.start_if_due(now));
            return actions;
        }
        current.enter(Phase::Committing, now);
        vec![Action::Commit { checkpoint: id }]
    }

    fn on_committed(&mut self, id: u64, now: Timestamp) -> Vec<Action> {
        let Some(current) = self.current_in(Phase::Committing, id) else { return Vec::new() };
        let (end_of_input, stop) = (current.end_of_input, current.barrier.purpose.stops());
        self.current = None;
        (self.failures, self.vanished, self.wanted) = (0, 0, false);
        self.last_end = now;
        self.over = end_of_input || stop;
        let mut actions = vec![Action::Retain { newest: id }];
        if end_of_input {
            actions.push(Action::Finish { checkpoint: id });
        } else if stop {
            actions.push(Action::Stopped { checkpoint: id });
        } else {
            actions.extend(self.start_if_due(now));
        }
        actions
    }

    fn on_discarded(&mut self, id: u64, left: Option<String>) -> Vec<Action> {
        let Some(reason) = self.given_up.remove(&id) else { return Vec::new() };
        let reason = match left {
            None => reason,
            Some(left) => format!("{reason}; and what was written of it could not be removed: {left}"),
        };
        vec![Action::NotSaved { checkpoint: id, reason }]
    }

    /// As [`on_failed`](Self::on_failed), but the job does not fail by it, and another checkpoint follows as soon as it may.
    fn on_vanished(&mut self, id: u64, reason: String, now: Timestamp) -> Vec<Action> {
        let is_checkpoint =
            self.current.as_ref().is_some_and(|current| current.barrier.checkpoint == id && current.barrier.purpose != Purpose::Savepoint);
        if !is_checkpoint || self.vanished >= MOST_VANISHED {
            return self.on_failed(id, reason, now);
        }
        self.vanished += 1;
        self.wanted = true;
        self.fail(id, reason, now, false)
    }

    fn on_failed(&mut self, id: u64, reason: String, now: Timestamp) -> Vec<Action> {
        self.fail(id, reason, now, true)
    }

    /// Ends the checkpoint under way, unless it exists. `counts`: the job must tolerate it.
    fn fail(&mut self, id: u64, reason: String, now: Timestamp, counts: bool) -> Vec<Action> {
        let failed = self.current.as_ref().filter(|current| current.barrier.checkpoint == id && current.phase != Phase::Committing);
        let Some(savepoint) = failed.map(|current| current.barrier.purpose == Purpose::Savepoint) else { return Vec::new() };
        let mut actions = vec![Action::Discard { checkpoint: id }];
        if savepoint {
            self.given_up.insert(id, reason.clone());
        } else {
            self.failures += u32::from(counts);
        }
        if counts && self.failures > self.options.tolerable_failures {
            self.over = true;
            actions.push(Action::Fail { reason: format!("checkpoint {id} failed: {reason}") });
        }
        self.lose(reason, now);
        // Where the next one would follow at once, a short trouble of the disk would use up all failures that are tolerated.
        self.retry_at = now.plus(self.options.interval.min(RETRY_PAUSE).max(self.options.min_pause));
        actions.extend(self.start_if_due(now));
        actions
    }

    /// The current checkpoint is no more.
    fn lose(&mut self, reason: String, now: Timestamp) {
        if let Some(current) = self.current.take() {
            self.lost = Some(Lost {
                checkpoint: current.barrier.checkpoint,
                phase: current.phase,
                age: now.0.saturating_sub(current.started.0),
                missing: self.missing(&current),
                reason,
            });
        }
    }

    fn current_in(&mut self, phase: Phase, id: u64) -> Option<&mut Current> {
        self.current.as_mut().filter(|current| current.phase == phase && current.barrier.checkpoint == id)
    }
}

impl Current {
    fn enter(&mut self, phase: Phase, now: Timestamp) {
        self.phase = phase;
        self.phase_started = now;
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Collecting => "collecting",
            Self::Storing => "storing",
            Self::Committing => "committing",
        })
    }
}

#[cfg(test)]
mod tests;
