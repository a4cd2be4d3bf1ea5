//! The checkpoint coordinator: a pure function from events to actions. The runtime performs the actions and reports back.
//!
//! One checkpoint is under way at a time, from its barrier to its commit, so checkpoint n + 1 is never stored before n is committed
//! (DESIGN 7.4, rule 3).

use std::collections::BTreeSet;

use crate::Timestamp;
use crate::exchange::Barrier;

/// When checkpoints are taken (Flink's `CheckpointingOptions`; all times in milliseconds).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// From the start of one periodic checkpoint to the next.
    pub interval: i64,
    /// After which a checkpoint that has not completed counts as failed.
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
    /// The user wants the job to stop at a checkpoint.
    Stop,
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
    /// Remove what an unfinished checkpoint has written. Its committables stay with the next one.
    Discard {
        /// The checkpoint.
        checkpoint: u64,
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
    /// Too many checkpoints have failed: the job must fail.
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
    phase: Phase,
    ended: BTreeSet<u32>,
    stop: bool,
    failures: u32,
    last_start: Timestamp,
    last_end: Timestamp,
}

#[derive(Clone, Debug)]
enum Phase {
    Idle,
    Collecting { barrier: Barrier, started: Timestamp, acknowledged: BTreeSet<u32>, end_of_input: bool },
    Storing { checkpoint: u64, end_of_input: bool, stop: bool },
    Committing { checkpoint: u64, end_of_input: bool, stop: bool },
    Over,
}

impl Coordinator {
    /// For a job whose last checkpoint was `restored` (0: none).
    #[must_use]
    pub fn new(options: Options, workers: u32, restored: u64, now: Timestamp) -> Self {
        Self {
            options,
            workers,
            next: restored + 1,
            phase: Phase::Idle,
            ended: BTreeSet::new(),
            stop: false,
            failures: 0,
            last_start: now,
            last_end: Timestamp::MIN,
        }
    }

    /// Takes in an event. Events about checkpoints other than the current one are late and mean nothing.
    pub fn on_event(&mut self, event: Event, now: Timestamp) -> Vec<Action> {
        match event {
            Event::Tick => self.on_tick(now),
            Event::Acknowledged { worker, checkpoint } => self.on_acknowledged(worker, checkpoint),
            Event::EndOfInput { worker } => {
                self.ended.insert(worker);
                self.start_if_due(now)
            }
            Event::Failed { checkpoint, reason } => self.on_failed(checkpoint, &reason, now),
            Event::Stored { checkpoint } => self.on_stored(checkpoint),
            Event::Committed { checkpoint } => self.on_committed(checkpoint, now),
            Event::Stop => {
                self.stop = true;
                self.start_if_due(now)
            }
        }
    }

    /// The checkpoint under way.
    #[must_use]
    pub fn current(&self) -> Option<u64> {
        match &self.phase {
            Phase::Idle | Phase::Over => None,
            Phase::Collecting { barrier, .. } => Some(barrier.checkpoint),
            Phase::Storing { checkpoint, .. } | Phase::Committing { checkpoint, .. } => Some(*checkpoint),
        }
    }

    fn on_tick(&mut self, now: Timestamp) -> Vec<Action> {
        if let Phase::Collecting { barrier, started, .. } = &self.phase
            && now.0.saturating_sub(started.0) >= self.options.timeout
        {
            let reason = format!("it did not complete within {} ms", self.options.timeout);
            return self.on_failed(barrier.checkpoint, &reason, now);
        }
        self.start_if_due(now)
    }

    /// Starts a checkpoint if none is under way and one is due: at once at the end of input and for a stop, else by the clock.
    fn start_if_due(&mut self, now: Timestamp) -> Vec<Action> {
        let Phase::Idle = self.phase else { return Vec::new() };
        let all_ended = self.ended.len() >= self.workers as usize;
        let by_interval = now >= self.last_start.plus(self.options.interval);
        let by_pause = now >= self.last_end.plus(self.options.min_pause);
        if !(all_ended || self.stop || (by_interval && by_pause)) {
            return Vec::new();
        }
        let barrier = Barrier { checkpoint: self.next, stop: self.stop };
        self.next += 1;
        self.last_start = now;
        self.phase = Phase::Collecting { barrier, started: now, acknowledged: BTreeSet::new(), end_of_input: all_ended };
        vec![Action::Trigger(barrier)]
    }

    fn on_acknowledged(&mut self, worker: u32, id: u64) -> Vec<Action> {
        let Phase::Collecting { barrier, acknowledged, end_of_input, .. } = &mut self.phase else { return Vec::new() };
        if barrier.checkpoint != id {
            return Vec::new();
        }
        acknowledged.insert(worker);
        if acknowledged.len() < self.workers as usize {
            return Vec::new();
        }
        let (end_of_input, stop) = (*end_of_input, barrier.stop);
        self.phase = Phase::Storing { checkpoint: id, end_of_input, stop };
        vec![Action::Store { checkpoint: id, end_of_input }]
    }

    fn on_stored(&mut self, id: u64) -> Vec<Action> {
        match self.phase {
            Phase::Storing { checkpoint, end_of_input, stop } if checkpoint == id => {
                self.phase = Phase::Committing { checkpoint, end_of_input, stop };
                vec![Action::Commit { checkpoint }]
            }
            _ => Vec::new(),
        }
    }

    fn on_committed(&mut self, id: u64, now: Timestamp) -> Vec<Action> {
        let Phase::Committing { checkpoint, end_of_input, stop } = self.phase else { return Vec::new() };
        if checkpoint != id {
            return Vec::new();
        }
        self.failures = 0;
        self.last_end = now;
        let mut actions = vec![Action::Retain { newest: checkpoint }];
        if end_of_input {
            self.phase = Phase::Over;
            actions.push(Action::Finish { checkpoint });
        } else if stop {
            self.phase = Phase::Over;
            actions.push(Action::Stopped { checkpoint });
        } else {
            self.phase = Phase::Idle;
            actions.extend(self.start_if_due(now));
        }
        actions
    }

    fn on_failed(&mut self, id: u64, reason: &str, now: Timestamp) -> Vec<Action> {
        if self.current() != Some(id) || matches!(self.phase, Phase::Committing { .. }) {
            return Vec::new();
        }
        self.phase = Phase::Idle;
        self.failures += 1;
        let mut actions = vec![Action::Discard { checkpoint: id }];
        if self.failures > self.options.tolerable_failures {
            self.phase = Phase::Over;
            actions.push(Action::Fail { reason: format!("checkpoint {id} failed: {reason}") });
        } else {
            actions.extend(self.start_if_due(now));
        }
        actions
    }
}

#[cfg(test)]
mod tests;
