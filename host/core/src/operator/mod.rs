//! The operator: one batch in, one call of the detector, its effects checked and applied as one unit.

mod failure;
mod settings;
mod slots;

use std::sync::Arc;

use tidemill_wit::columns::BlobsBuf;
use tidemill_wit::descriptor::StateKind;

pub use failure::OnError;
pub use settings::{BATCH_ROWS, Metrics, OperatorSettings};

use crate::batch::{Batch, Origin};
use crate::detector::{CallContext, Detector, Elements, Failure, Prefetched, Reads, SlotKeys, Timers};
use crate::effects::{Effects, Shape};
use crate::exchange::Outputs;
use crate::state::{BroadcastStates, DueTimers, KeyedState};
use crate::time::{Domain, Timestamp};
use crate::{Error, Result, schema};

/// One subtask of an operator: a detector instance with its keyed state and timers.
pub struct Operator {
    settings: Arc<OperatorSettings>,
    /// The index of the subtask.
    subtask: u32,
    detector: Box<dyn Detector>,
    reads: Reads,
    slots: slots::SlotTable,
    prefetched: Prefetched,
    effects: Effects,
    due: DueTimers,
    elements: BlobsBuf,
    watermark: Timestamp,
    /// The event-time pass that is going on: all timers up to this fire before anything else is processed.
    event_pass: Option<Timestamp>,
    processing_pass: Option<Timestamp>,
    /// How many timers a call gets at most: one while a bad timer is searched for.
    timers_at_once: usize,
    deadlines_in_a_row: u32,
    metrics: Metrics,
}

/// The time at which a batch is processed, and where its outputs go.
pub struct Env<'a> {
    /// Processing time.
    pub now: Timestamp,
    /// The subtask's outputs: the declared lanes, then the dead-letter lane.
    pub outputs: &'a mut Outputs,
}

impl Operator {
    /// A subtask with the given state, the first one.
    ///
    /// # Errors
    /// The detector cannot be opened.
    pub fn new(settings: Arc<OperatorSettings>, state: Box<dyn KeyedState>) -> Result<Self> {
        let detector = settings.open()?;
        let states = &settings.factory.descriptor().states;
        let with_entries = states.iter().filter(|state| state.kind.has_entries()).count();
        let prefetched =
            Prefetched { values: vec![Default::default(); states.len() - with_entries], entries: vec![Default::default(); with_entries] };
        let broadcast = BroadcastStates::new(settings.broadcast_kinds.len());
        let reads = Reads { state, broadcast, tables: Arc::clone(&settings.tables), ..Reads::default() };
        Ok(Self {
            timers_at_once: settings.batch_rows,
            settings,
            subtask: 0,
            detector,
            reads,
            slots: slots::SlotTable::default(),
            prefetched,
            effects: Effects::default(),
            due: DueTimers::default(),
            elements: BlobsBuf::default(),
            watermark: Timestamp::MIN,
            event_pass: None,
            processing_pass: None,
            deadlines_in_a_row: 0,
            metrics: Metrics::default(),
        })
    }

    /// The same as the subtask with this index. Only the first one tells of bad broadcast records, which all of them see.
    #[must_use]
    pub fn as_subtask(self, subtask: u32) -> Self {
        Self { subtask, ..self }
    }

    /// Processes a batch of records.
    ///
    /// # Errors
    /// The job must fail: see [`OnError`].
    pub fn process(&mut self, batch: &Batch, env: &mut Env<'_>) -> Result<()> {
        self.metrics.records_in += batch.len() as u64;
        let late = |row: &usize| !batch.broadcast && batch.time_of(*row).is_some_and(|time| time <= self.watermark.0);
        self.metrics.late_records += (0..batch.len()).filter(late).count() as u64;
        let mut rows = 0..batch.len();
        // After a failure whose row is not known, the rest of the batch goes one by one until the bad row is found.
        let mut limit = self.settings.batch_rows;
        while !rows.is_empty() {
            let part = rows.start..rows.end.min(rows.start + limit);
            match self.call_elements(batch, part.clone(), env) {
                Ok(consumed) => rows.start += consumed,
                Err(failure) => {
                    let bad = match self.after_failure(failure)? {
                        Failure::BadRecord { row, reason } if (row as usize) < part.len() => (row as usize, reason),
                        Failure::Fatal(reason) => return Err(self.fatal(&reason)),
                        Failure::Trap(reason) | Failure::Deadline(reason) if part.len() == 1 => (0, reason),
                        Failure::BadRecord { row, .. } if part.len() == 1 => (0, format!("the component named row {row} of 1 as bad")),
                        Failure::Trap(_) | Failure::Deadline(_) | Failure::BadRecord { .. } => {
                            limit = 1;
                            continue;
                        }
                    };
                    (rows.start, limit) = self.pass_bad_row(batch, part, bad, env)?;
                }
            }
        }
        // Twice as many places as there can be new keys, so that what expires is removed faster than keys arrive.
        (0..=batch.len() / 32).try_for_each(|_| self.reads.state.expire(env.now))?;
        env.outputs.flush();
        Ok(())
    }

    /// Removes some of what has expired, while there is nothing else to do.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn expire(&mut self, now: Timestamp) -> Result<()> {
        self.reads.state.expire(now)
    }

    /// Applies the rows before the bad one, then hands the bad one to the error policy. Returns the row to go on with, and how many rows the
    /// next call may get.
    fn pass_bad_row(
        &mut self,
        batch: &Batch,
        part: std::ops::Range<usize>,
        bad: (usize, String),
        env: &mut Env<'_>,
    ) -> Result<(usize, usize)> {
        let (offset, reason) = bad;
        let mut start = part.start;
        let bad = part.start + offset;
        while start < bad {
            match self.call_elements(batch, start..bad, env) {
                Ok(consumed) => start += consumed,
                // Another failure among the rows before, which says nothing of a row: one by one from here.
                Err(failure) => {
                    return match self.after_failure(failure)? {
                        Failure::Fatal(reason) => Err(self.fatal(&reason)),
                        Failure::BadRecord { .. } | Failure::Trap(_) | Failure::Deadline(_) => Ok((start, 1)),
                    };
                }
            }
        }
        self.bad_record(batch, bad, &reason, env)?;
        Ok((bad + 1, self.settings.batch_rows))
    }

    /// Calls the detector with the records `rows` and applies the effects.
    fn call_elements(&mut self, batch: &Batch, rows: std::ops::Range<usize>, env: &mut Env<'_>) -> Result<usize, Failure> {
        let keyed = self.settings.keyed && !batch.broadcast;
        if keyed {
            self.slots.assign(batch, rows.clone(), self.settings.max_parallelism, &mut self.reads.slots);
        } else {
            slots::unshared(&mut self.reads.slots);
        }
        let len = rows.len();
        let whole = rows == (0..batch.len());
        if !whole {
            self.elements.clear();
            rows.clone().for_each(|row| self.elements.push(batch.payload.get(row)));
        }
        let slots = self.before_call(env.now)?;
        let elements = Elements {
            slot: if keyed { &self.slots.slot } else { &[] },
            timestamp: batch.timestamp.get(rows.clone()).unwrap_or(&[]),
            timed: batch.timed.get(rows.clone()).unwrap_or(&[]),
            payload: if whole { batch.payload.view() } else { self.elements.view() },
        };
        let context = call_context(self.watermark, env.now, &slots, &self.prefetched);
        let outcome = if batch.broadcast {
            self.detector.process_broadcast_elements(&context, &elements, &mut self.reads, &mut self.effects)
        } else {
            self.detector.process_elements(&context, &elements, &mut self.reads, &mut self.effects)
        };
        drop(slots);
        let consumed = self.after_call(outcome, len, batch.broadcast)?;
        if batch.broadcast {
            self.reads.broadcast.apply(&std::mem::take(&mut self.effects.writes));
        }
        self.apply(env, |row| batch.origin.get(rows.start + row).copied().unwrap_or(Origin::NONE))?;
        Ok(consumed)
    }

    /// Begins to fire the timers up to `horizon`; [`continue_pass`](Self::continue_pass) does it, batch by batch.
    pub fn begin_pass(&mut self, domain: Domain, horizon: Timestamp) {
        match domain {
            Domain::Event => {
                self.watermark = self.watermark.max(horizon);
                self.event_pass = Some(horizon);
            }
            Domain::Processing => self.processing_pass = Some(horizon),
        }
    }

    /// Whether a pass is going on, and in which domain.
    #[must_use]
    pub fn pass(&self) -> Option<(Domain, Timestamp)> {
        let event = self.event_pass.map(|horizon| (Domain::Event, horizon));
        event.or_else(|| self.processing_pass.map(|horizon| (Domain::Processing, horizon)))
    }

    /// Fires one batch of the pass. Returns the pass's domain and horizon if it has ended.
    ///
    /// # Errors
    /// The job must fail: see [`OnError`].
    pub fn continue_pass(&mut self, env: &mut Env<'_>) -> Result<Option<(Domain, Timestamp)>> {
        let Some((domain, horizon)) = self.pass() else { return Ok(None) };
        self.reads.state.due_timers(domain, horizon, self.timers_at_once, &mut self.due)?;
        if self.due.slot.is_empty() {
            self.timers_at_once = self.settings.batch_rows;
            match domain {
                Domain::Event => self.event_pass = None,
                Domain::Processing => self.processing_pass = None,
            }
            return Ok(Some((domain, horizon)));
        }
        let due = std::mem::take(&mut self.due);
        let outcome = self.fire(domain, &due, env);
        self.due = due;
        env.outputs.flush();
        outcome.map(|()| None)
    }

    /// Fires due timers. If the call fails, the pass goes on one by one until the bad timer is found.
    fn fire(&mut self, domain: Domain, due: &DueTimers, env: &mut Env<'_>) -> Result<()> {
        let Err(failure) = self.call_timers(domain, due, env) else { return Ok(()) };
        match self.after_failure(failure)? {
            Failure::Fatal(reason) => Err(self.fatal(&reason)),
            _ if due.slot.len() > 1 => {
                self.timers_at_once = 1;
                Ok(())
            }
            Failure::BadRecord { reason, .. } | Failure::Trap(reason) | Failure::Deadline(reason) => {
                self.timers_at_once = self.settings.batch_rows;
                self.bad_timer(domain, due, &reason, env)
            }
        }
    }

    fn call_timers(&mut self, domain: Domain, due: &DueTimers, env: &mut Env<'_>) -> Result<(), Failure> {
        match Arc::get_mut(&mut self.reads.slots) {
            Some(slots) => slots.clone_from(&due.slots),
            None => self.reads.slots = Arc::new(due.slots.clone()),
        }
        let slots = self.before_call(env.now)?;
        let context = call_context(self.watermark, env.now, &slots, &self.prefetched);
        let timers = Timers { domain, slot: &due.slot, timestamp: &due.timestamp, horizon: due.horizon };
        let outcome = self.detector.on_timers(&context, &timers, &mut self.reads, &mut self.effects);
        drop(slots);
        let consumed = self.after_call(outcome, due.slot.len(), false)?;
        self.reads.state.remove_timers(domain, due, consumed).map_err(fatal)?;
        self.metrics.timers_fired += consumed as u64;
        self.apply(env, |_| Origin::NONE)
    }

    fn before_call(&mut self, now: Timestamp) -> Result<Arc<SlotKeys>, Failure> {
        self.effects.clear();
        self.reads.processing_time = now;
        if self.settings.keyed {
            let slots = Arc::clone(&self.reads.slots);
            self.reads.state.prefetch(&slots, now, &mut self.prefetched).map_err(fatal)?;
            return Ok(slots);
        }
        Ok(Arc::clone(&self.reads.slots))
    }

    /// Everything that a guest answers is checked here, before any of it is used.
    fn after_call(&mut self, outcome: Result<u32, Failure>, rows: usize, broadcast: bool) -> Result<usize, Failure> {
        let consumed = outcome? as usize;
        self.deadlines_in_a_row = 0;
        if consumed == 0 || consumed > rows {
            return Err(Failure::Trap(format!("the component says that it consumed {consumed} of {rows} rows")));
        }
        let slots = if self.settings.keyed { self.reads.slots.len() } else { 0 };
        let states = if broadcast { &self.settings.broadcast_kinds } else { &self.settings.kinds };
        let shape = Shape { rows, slots, states, lanes: self.settings.lanes.len(), broadcast };
        self.effects.check(&shape).map_err(|reason| Failure::Trap(format!("the component's answer is not valid: {reason}")))?;
        for (&lane, payload) in self.effects.outputs.lane.iter().zip(self.effects.outputs.payload.view().iter()) {
            let Some(lane) = self.settings.lanes.get(usize::from(lane)) else { continue };
            schema::check(&lane.schema, payload)
                .map_err(|reason| Failure::Trap(format!("a record on lane {} does not fit its type: {reason}", lane.name)))?;
        }
        Ok(consumed)
    }

    fn apply(&mut self, env: &mut Env<'_>, origin: impl Fn(usize) -> Origin) -> Result<(), Failure> {
        let Effects { writes, timers, outputs } = &self.effects;
        if self.settings.keyed {
            self.reads.state.apply(&self.reads.slots, writes, timers, env.now).map_err(fatal)?;
        }
        for (index, payload) in outputs.payload.view().iter().enumerate() {
            let at = |column: &[u32]| column.get(index).copied().unwrap_or(0) as usize;
            let lane = outputs.lane.get(index).copied().unwrap_or(0);
            let time = match outputs.timed.get(index) {
                Some(0) => None,
                _ => outputs.timestamp.get(index).copied(),
            };
            env.outputs.push(usize::from(lane), payload, time, origin(at(&outputs.row))).map_err(fatal)?;
        }
        Ok(())
    }

    /// The subtask's state, for snapshots and restores.
    pub fn state(&mut self) -> &mut dyn KeyedState {
        self.reads.state.as_mut()
    }

    /// The subtask's broadcast states, for snapshots and restores.
    pub fn broadcast_state(&mut self) -> &mut BroadcastStates {
        &mut self.reads.broadcast
    }

    /// The time of the next processing-time timer.
    #[must_use]
    pub fn next_processing_timer(&self) -> Option<Timestamp> {
        self.reads.state.next_timer(Domain::Processing)
    }

    /// The operator's uid and settings.
    #[must_use]
    pub fn settings(&self) -> &OperatorSettings {
        &self.settings
    }

    /// The watermark.
    #[must_use]
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// After a pass that a restore finished: watermarks are not part of state, they begin again at the minimum (CONFORMANCE 1.2).
    pub fn forget_watermark(&mut self) {
        self.watermark = Timestamp::MIN;
    }

    /// What has been counted.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics {
            keys: self.reads.state.key_count(),
            event_timers_pending: self.reads.state.timer_count(Domain::Event),
            processing_timers_pending: self.reads.state.timer_count(Domain::Processing),
            ..self.metrics
        }
    }
}

fn call_context<'a>(watermark: Timestamp, now: Timestamp, slots: &'a SlotKeys, prefetched: &'a Prefetched) -> CallContext<'a> {
    CallContext { watermark, processing_time: now, keys: slots.keys.view(), prefetched }
}

/// An error of the host during a call fails the job: the record is not to blame.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn fatal(error: Error) -> Failure {
    Failure::Fatal(error.chain())
}

/// The kinds of the declared states, by id.
fn kinds(states: &[tidemill_wit::descriptor::StateDescriptor]) -> Vec<StateKind> {
    states.iter().map(|state| state.kind).collect()
}

#[cfg(test)]
mod tests;
