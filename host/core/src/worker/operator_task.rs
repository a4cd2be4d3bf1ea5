//! The subtask of an operator between its input and its outputs.

use super::input::{Input, Next};
use super::{Events, OperatorStatistics, Turn};
use crate::align::Outcome;
use crate::batch::Batch;
use crate::exchange::{Element, Outputs, Receiver};
use crate::operator::{Cursor, Env, Operator};
use crate::state::Frozen;
use crate::time::Domain;
use crate::{Result, Timestamp};

/// The subtask of an operator.
pub struct OperatorTask {
    operator: Operator,
    input: Input,
    outputs: Outputs,
    /// The batch that is being processed, a part a turn: nothing else happens until it is done.
    batch: Option<(Batch, Cursor)>,
    /// Whether the pass that is going on was begun before the last checkpoint and is only finished now.
    restored_pass: bool,
    /// A change of status that is told after the pass that came with it.
    status_after_pass: Option<bool>,
    /// Whether processing-time timers wait, due or not.
    held: bool,
    /// Whether something is left to be done of what was frozen.
    freezing: bool,
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
            held: false,
            freezing: false,
        }
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
        if self.batch.is_some() {
            return self.run_part(now);
        }
        if self.operator.pass().is_some() {
            return self.run_pass(now, events);
        }
        if !self.held && self.operator.next_processing_timer().is_some_and(|time| time < now) {
            // Flink fires a processing-time timer once the clock is past it.
            self.operator.begin_pass(Domain::Processing, now.minus(1));
            return Ok(Turn::Worked);
        }
        match self.input.next() {
            None => {
                self.operator.expire(now)?;
                return Ok(Turn::Waiting(self.operator.next_processing_timer().map(|time| time.plus(1))));
            }
            Some(Next::Batch(batch)) => {
                let cursor = self.operator.begin(&batch, now);
                self.batch = Some((batch, cursor));
                return self.run_part(now);
            }
            Some(Next::Outcome(outcome)) => self.progress(outcome),
            Some(Next::Barrier(barrier)) => {
                self.outputs.broadcast(&Element::Barrier(barrier));
                events.barrier = Some(barrier);
            }
            Some(Next::End) => {
                self.outputs.broadcast(&Element::End);
                events.ended = true;
            }
        }
        Ok(Turn::Worked)
    }

    /// Processes one part of the batch; what came of it must have drained before the next. Neither a timer nor a barrier comes in between:
    /// a batch's records belong to one moment, and the barrier that follows them covers all of them.
    fn run_part(&mut self, now: Timestamp) -> Result<Turn> {
        if let Some((batch, cursor)) = &mut self.batch {
            self.operator.process_part(batch, cursor, &mut Env { now, outputs: &mut self.outputs })?;
            if cursor.is_done() {
                self.batch = None;
            }
        }
        Ok(Turn::Worked)
    }

    /// Fires one batch of timers. A barrier may come in between, so that a long pass does not hold up a checkpoint; records may not.
    fn run_pass(&mut self, now: Timestamp, events: &mut Events) -> Result<Turn> {
        if let Some(barrier) = self.input.next_barrier() {
            self.outputs.broadcast(&Element::Barrier(barrier));
            events.barrier = Some(barrier);
            return Ok(Turn::Worked);
        }
        let ended = self.operator.continue_pass(&mut Env { now, outputs: &mut self.outputs })?;
        if let Some((Domain::Event, horizon)) = ended {
            if std::mem::take(&mut self.restored_pass) {
                self.operator.forget_watermark();
            } else {
                self.outputs.broadcast(&Element::Watermark(horizon));
            }
            if let Some(idle) = self.status_after_pass.take() {
                self.outputs.broadcast(&Element::Status(idle));
            }
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
            Some(watermark) => {
                self.operator.begin_pass(Domain::Event, watermark);
                self.status_after_pass = idle;
            }
            None => {
                if let Some(idle) = idle {
                    self.outputs.broadcast(&Element::Status(idle));
                }
            }
        }
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
        }
    }
}
