//! The subtask of an operator between its input and its outputs.

use std::collections::VecDeque;
use std::time::Duration;

use super::input::{Input, Next};
use super::{Events, OperatorStatistics, Stopwatch, Turn};
use crate::align::Outcome;
use crate::batch::Batch;
use crate::exchange::{Barrier, Element, Outputs, Receiver};
use crate::operator::{Cursor, Env, Operator};
use crate::state::Frozen;
use crate::time::Domain;
use crate::{Result, Timestamp};

/// The records of a batch belong to one moment of processing time, but not for longer than this: timers that become due meanwhile fire before
/// the rest.
const MOMENT: Duration = Duration::from_millis(50);
/// So many changes of time and status are kept for the end of a pass.
const PENDING: usize = 64;

/// The subtask of an operator.
pub struct OperatorTask {
    operator: Operator,
    input: Input,
    outputs: Outputs,
    /// The batch that is being processed, a part a turn.
    batch: Option<(Batch, Cursor)>,
    /// Whether the pass that is going on was begun before the last checkpoint and is only finished now.
    restored_pass: bool,
    /// A change of status that is told after the pass that came with it.
    status_after_pass: Option<bool>,
    /// What came in during a pass, in front of a barrier perhaps: it follows the pass.
    pending: VecDeque<Outcome>,
    /// As [`pending`](Self::pending): the end.
    end_pending: bool,
    /// Whether processing-time timers wait, due or not.
    held: bool,
    /// Whether something is left to be done of what was frozen.
    freezing: bool,
    stopwatch: Stopwatch,
    /// By the stopwatch, when the batch (or its rest) began, or when the input was looked at last.
    moment: Duration,
    /// How many records may wait on each channel, as last told.
    share: usize,
}

/// A timer pass that is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassProgress {
    /// The clock whose timers fire.
    pub domain: Domain,
    /// Up to which time they fire.
    pub horizon: Timestamp,
    /// The time of the last one that fired.
    pub at: Option<Timestamp>,
}

impl OperatorTask {
    /// Connects an operator.
    #[must_use]
    pub fn new(operator: Operator, channels: Vec<Receiver>, outputs: Outputs) -> Self {
        let restored_pass = operator.pass().is_some();
        Self {
            operator,
            input: Input::new(channels),
            outputs,
            batch: None,
            restored_pass,
            status_after_pass: None,
            pending: VecDeque::new(),
            end_pending: false,
            held: false,
            freezing: false,
            stopwatch: || Duration::ZERO,
            moment: Duration::ZERO,
            share: usize::MAX,
        }
    }

    /// Measures by this what calls take: from now on few records wait in front of an operator that is slow.
    pub(super) fn measure_by(&mut self, stopwatch: Stopwatch) {
        self.stopwatch = stopwatch;
        self.operator.measure_by(stopwatch, self.input.channels());
        self.limit_input();
    }

    pub(super) fn run(&mut self, now: Timestamp, events: &mut Events) -> Result<Turn> {
        let turn = self.turn(now, events)?;
        self.freezing = self.operator.state().go_on_freezing()?;
        Ok(if self.freezing { Turn::Worked } else { turn })
    }

    fn turn(&mut self, now: Timestamp, events: &mut Events) -> Result<Turn> {
        if self.outputs.blocked() {
            return Ok(Turn::Waiting(None));
        }
        if self.operator.pass().is_some() {
            return self.run_pass(now, events);
        }
        if self.batch.is_some() {
            return self.go_on_with_batch(now);
        }
        if let Some(outcome) = self.pending.pop_front() {
            self.progress(outcome);
            return Ok(Turn::Worked);
        }
        if std::mem::take(&mut self.end_pending) {
            self.end(events);
            return Ok(Turn::Worked);
        }
        let timers_due = self.timers_are_due(now);
        // Timers that become due again as fast as they fire must not keep records and barriers out.
        if timers_due && self.since_moment() < MOMENT {
            self.fire_due(now);
            return Ok(Turn::Worked);
        }
        self.moment = (self.stopwatch)();
        match self.input.next() {
            None if timers_due => self.fire_due(now),
            None => {
                self.operator.expire(now)?;
                self.operator.drop_what_has_grown()?;
                return Ok(Turn::Waiting(self.operator.next_processing_timer().map(|time| time.plus(1))));
            }
            Some(Next::Batch(batch)) => {
                let cursor = self.operator.begin(&batch, now);
                self.batch = Some((batch, cursor));
                return self.run_part(now);
            }
            Some(Next::Outcome(outcome)) => self.progress(outcome),
            Some(Next::Barrier(barrier)) => self.pass_on(barrier, events),
            Some(Next::End) => self.end(events),
        }
        Ok(Turn::Worked)
    }

    fn since_moment(&self) -> Duration {
        (self.stopwatch)().saturating_sub(self.moment)
    }

    /// Flink fires a processing-time timer once the clock is past it.
    fn fire_due(&mut self, now: Timestamp) {
        self.operator.begin_pass(Domain::Processing, now.minus(1));
    }

    fn timers_are_due(&self, now: Timestamp) -> bool {
        !self.held && self.operator.next_processing_timer().is_some_and(|time| time < now)
    }

    /// Processes the next part of the batch. Once its moment is over the rest belongs to another one, and timers that have become due go first.
    fn go_on_with_batch(&mut self, now: Timestamp) -> Result<Turn> {
        if self.since_moment() >= MOMENT
            && let Some((_, cursor)) = &mut self.batch
        {
            cursor.renew(now);
            self.moment = (self.stopwatch)();
            if self.timers_are_due(now) {
                self.fire_due(now);
                return Ok(Turn::Worked);
            }
        }
        self.run_part(now)
    }

    fn pass_on(&mut self, barrier: Barrier, events: &mut Events) {
        self.outputs.broadcast(&Element::Barrier(barrier));
        events.barrier = Some(barrier);
    }

    fn end(&mut self, events: &mut Events) {
        self.outputs.broadcast(&Element::End);
        events.ended = true;
    }

    /// Processes one part of the batch; what came of it must have drained before the next. No barrier comes in between: the one that follows
    /// the batch covers all of its records. Nor does a timer within its moment.
    fn run_part(&mut self, now: Timestamp) -> Result<Turn> {
        if let Some((batch, cursor)) = &mut self.batch {
            self.operator.process_part(batch, cursor, &mut Env { now, outputs: &mut self.outputs })?;
            if cursor.is_done() {
                self.batch = None;
            }
        }
        self.limit_input();
        Ok(Turn::Worked)
    }

    /// Tells the senders how many records may wait here.
    fn limit_input(&mut self) {
        let share = self.operator.share(self.outputs.room());
        if share != self.share {
            self.share = share;
            self.input.limit(share);
        }
    }

    /// Fires one batch of timers. A barrier may come in between, so that a long pass does not hold up a checkpoint; records may not.
    fn run_pass(&mut self, now: Timestamp, events: &mut Events) -> Result<Turn> {
        // A barrier that follows a batch covers it, so it waits for the rest of one that was interrupted.
        while self.batch.is_none() && self.pending.len() < PENDING {
            match self.input.next_control() {
                Some(Next::Outcome(outcome)) => self.pending.push_back(outcome),
                Some(Next::End) => self.end_pending = true,
                Some(Next::Barrier(barrier)) => {
                    self.pass_on(barrier, events);
                    return Ok(Turn::Worked);
                }
                Some(Next::Batch(_)) | None => break,
            }
        }
        let ended = self.operator.continue_pass(&mut Env { now, outputs: &mut self.outputs })?;
        match ended {
            Some((Domain::Event, horizon)) => {
                if std::mem::take(&mut self.restored_pass) {
                    self.operator.forget_watermark();
                } else {
                    self.outputs.broadcast(&Element::Watermark(horizon));
                }
                if let Some(idle) = self.status_after_pass.take() {
                    self.outputs.broadcast(&Element::Status(idle));
                }
            }
            Some((Domain::Processing, _)) if self.batch.is_some() => self.moment = (self.stopwatch)(),
            _ => {}
        }
        Ok(Turn::Worked)
    }

    /// A new watermark fires timers; it goes on downstream only after they have fired.
    fn progress(&mut self, outcome: Outcome) {
        if let Some(false) = outcome.idle {
            self.outputs.broadcast(&Element::Status(false));
        }
        let idle = outcome.idle.filter(|idle| *idle);
        match outcome.watermark {
            Some(Timestamp::MAX) if !self.operator.settings().fire_at_end => {
                self.operator.end_without_timers();
                self.outputs.broadcast(&Element::Watermark(Timestamp::MAX));
            }
            Some(watermark) => {
                self.operator.begin_pass(Domain::Event, watermark);
                self.status_after_pass = idle;
                return;
            }
            None => {}
        }
        if let Some(idle) = idle {
            self.outputs.broadcast(&Element::Status(idle));
        }
    }

    /// The event time up to which all timers must fire before anything else, if a barrier came before they had: a restore goes on with that.
    /// Processing-time timers that are due fire after a restore anyway.
    pub(super) fn unfinished_pass(&self) -> Option<Timestamp> {
        let now = self.operator.pass().and_then(|(domain, horizon)| (domain == Domain::Event).then_some(horizon));
        let fires = |time: &Timestamp| *time < Timestamp::MAX || self.operator.settings().fire_at_end;
        self.pending.iter().filter_map(|outcome| outcome.watermark).filter(fires).chain(now).max()
    }

    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    pub(super) fn is_aligning(&self) -> bool {
        self.input.is_aligning()
    }

    /// Freezes the state, if the backend does that.
    pub(super) fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>> {
        let frozen = self.operator.state().freeze()?;
        self.freezing = frozen.is_some();
        Ok(frozen)
    }

    /// Whether something is left to be done in its turns of what was frozen.
    pub(super) fn is_freezing(&self) -> bool {
        self.freezing
    }

    /// The operator, for snapshots.
    pub(super) fn operator(&mut self) -> &mut Operator {
        &mut self.operator
    }

    pub(super) fn statistics(&self) -> OperatorStatistics {
        OperatorStatistics {
            metrics: self.operator.metrics(),
            lanes: self.outputs.records().collect(),
            counters: self.operator.counters(),
            dead_letter_samples: self.operator.dead_letter_samples().clone(),
            watermark: self.operator.watermark(),
            effort: self.operator.effort(),
            queued: (self.input.queued() + self.batch.as_ref().map_or(0, |(_, cursor)| cursor.left())) as u64,
            pass: self.operator.pass().map(|(domain, horizon)| PassProgress { domain, horizon, at: self.operator.pass_at() }),
        }
    }
}
