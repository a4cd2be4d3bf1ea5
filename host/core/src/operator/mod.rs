//! The operator: a part of a batch in, one call of the detector, its effects checked and applied as one unit.

mod counters;
mod failure;
mod growth;
mod pace;
mod part;
mod reach;
mod settings;
mod site;
mod slots;
mod written;

use std::sync::Arc;
use std::time::Duration;

use tidemill_wit::columns::BlobsBuf;
use tidemill_wit::descriptor::StateKind;

use failure::CallError;
pub use failure::OnError;
pub use part::Cursor;
pub use settings::{BATCH_ROWS, Effort, Metrics, Observer, OperatorSettings};

use self::counters::Counters;
use self::growth::Growth;
use self::pace::{Pace, Weight};
use self::reach::Reach;
use crate::Result;
use crate::batch::{Batch, Origin};
use crate::detector::{CallContext, Detector, Elements, Failure, Prefetched, Reads, SlotKeys, Timers};
use crate::effects::{Count, Effects, Shape};
use crate::exchange::Outputs;
use crate::sample::Samples;
use crate::state::{BroadcastStates, DueTimers, KeyedState};
use crate::time::{Domain, Timestamp};
use crate::worker::Stopwatch;

/// One subtask of an operator: a detector instance with its keyed state and timers.
pub struct Operator {
    settings: Arc<OperatorSettings>,
    /// The index of the subtask.
    subtask: u32,
    detector: Box<dyn Detector>,
    growth: Growth,
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
    row_pace: Pace,
    timer_pace: Pace,
    timer_reach: Reach,
    /// By which calls are measured: how batches and passes are cut follows it, never what comes of them.
    stopwatch: Stopwatch,
    effort: Effort,
    /// The time of the last timer that fired in the pass that is going on.
    pass_at: Option<Timestamp>,
    /// While a bad timer is searched for, or after one that did not end, timers fire one by one, each in a call of its own.
    timers_singly: bool,
    deadlines_in_a_row: u32,
    metrics: Metrics,
    counters: Counters,
    dead_letter_samples: Samples,
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
        let keys = Reads::keys_of(settings.factory.descriptor());
        let reads = Reads { state, broadcast, tables: Arc::clone(&settings.tables), keys, ..Reads::default() };
        Ok(Self {
            row_pace: Pace::new(settings.batch_rows),
            timer_pace: Pace::new(settings.batch_rows),
            timer_reach: Reach::unlimited(),
            stopwatch: || Duration::ZERO,
            effort: Effort::default(),
            pass_at: None,
            timers_singly: false,
            settings,
            subtask: 0,
            growth: Growth::new(detector.memory()),
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
            counters: Counters::default(),
            dead_letter_samples: Samples::default(),
        })
    }

    /// The same as the subtask with this index. Only the first one tells of bad broadcast records, which all of them see.
    #[must_use]
    pub fn as_subtask(self, subtask: u32) -> Self {
        Self { subtask, ..self }
    }

    /// Replaces the settings between two batches: what bad records lead to, the batch size, the tables. The detector and its parameters must be
    /// the same.
    pub fn configure(&mut self, settings: Arc<OperatorSettings>) {
        (self.row_pace, self.timer_pace) = (Pace::new(settings.batch_rows), Pace::new(settings.batch_rows));
        self.reads.tables = Arc::clone(&settings.tables);
        self.settings = settings;
    }

    /// Measures calls by this, and begins with small ones. `channels`: from how many records come.
    pub fn measure_by(&mut self, stopwatch: Stopwatch, channels: usize) {
        self.stopwatch = stopwatch;
        self.row_pace.begin_small();
        self.row_pace.feed_from(channels);
        self.timer_pace.begin_small();
        self.timer_reach.begin_small();
    }

    /// How many records may wait on each channel in front of the operator, if so many may wait behind it; [`usize::MAX`] without a limit.
    #[must_use]
    pub fn share(&self, room: usize) -> usize {
        self.row_pace.share(room)
    }

    /// Replaces the instance if it has grown far.
    ///
    /// # Errors
    /// No other can be opened.
    pub fn drop_what_has_grown(&mut self) -> Result<()> {
        if self.growth.is_far(self.detector.memory()) && self.growth.is_due((self.stopwatch)()) {
            self.reopen()?;
            // What it gave out may have been as large.
            (self.effects, self.elements) = Default::default();
        }
        Ok(())
    }

    /// Goes on with another instance.
    fn reopen(&mut self) -> Result<()> {
        let began = (self.stopwatch)();
        self.detector = self.settings.open()?;
        let now = (self.stopwatch)();
        self.growth.replaced(self.detector.memory(), now, now.saturating_sub(began));
        Ok(())
    }

    /// Removes some of what has expired, while there is nothing else to do.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn expire(&mut self, now: Timestamp) -> Result<()> {
        self.reads.state.expire(now)
    }

    /// Calls the detector with the records `rows` and applies the effects.
    fn call_elements(&mut self, batch: &Batch, rows: std::ops::Range<usize>, env: &mut Env<'_>) -> Result<usize, CallError> {
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
        self.reads.patience = self.row_pace.patience().filter(|_| len > 1);
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
        let mut singly = self.timers_singly || (self.settings.clock_timers_singly && domain == Domain::Processing);
        let most = if singly { 1 } else { self.timer_pace.rows_into(env.outputs.room()) };
        self.reads.state.due_timers(domain, horizon, most, &mut self.due)?;
        if !singly && self.due.horizon == Timestamp::MIN {
            // A call cannot say that only timers at the least time may join it: that horizon stands for none.
            singly = true;
            self.reads.state.due_timers(domain, horizon, 1, &mut self.due)?;
        }
        if self.due.slot.is_empty() {
            self.timers_singly = false;
            self.reads.lines.settle();
            self.pass_at = None;
            match domain {
                Domain::Event => self.event_pass = None,
                Domain::Processing => self.processing_pass = None,
            }
            return Ok(Some((domain, horizon)));
        }
        let mut due = std::mem::take(&mut self.due);
        if singly {
            // A timer registered meanwhile has a call of its own, so that neither is blamed for the other.
            due.horizon = Timestamp::MIN;
        } else if let Some(&last) = due.timestamp.last() {
            due.horizon = self.timer_reach.limit(last, due.horizon);
        }
        let outcome = self.fire(domain, &due, env);
        self.due = due;
        env.outputs.flush();
        outcome?;
        self.drop_what_has_grown()?;
        Ok(None)
    }

    /// Fires due timers. If the call fails, the pass goes on one by one until the bad timer is found.
    fn fire(&mut self, domain: Domain, due: &DueTimers, env: &mut Env<'_>) -> Result<()> {
        let began = (self.stopwatch)();
        let outcome = self.call_timers(domain, due, env);
        let took = (self.stopwatch)().saturating_sub(began);
        self.effort.timers += due.slot.len() as u64;
        self.effort.timer_time += took;
        let failure = match outcome {
            Ok(()) => {
                self.after_timers(due, took);
                return Ok(());
            }
            Err(CallError::Host(error)) => return Err(self.host_failure(error)),
            Err(CallError::Detector(failure)) => self.after_failure(failure)?,
        };
        if failure == Failure::CutShort {
            self.reads.lines.again();
            self.timer_pace.was_cut_short();
            self.timer_reach.was_cut_short();
            // One that registers itself for its own time again and again: each in a call of its own, so that barriers come in between.
            self.timers_singly |= due.slot.len() == 1;
            return Ok(());
        }
        self.reads.lines.again();
        if !self.timers_singly {
            self.timer_pace.shrink(due.slot.len());
            self.timers_singly = true;
            return Ok(());
        }
        self.timers_singly = false;
        self.reads.lines.settle();
        let site = self.site_of_timer(domain, due, &failure);
        match failure {
            Failure::Fatal(reason) => Err(self.fatal(&self.timer_at(domain, due), &reason).at(site)),
            Failure::BadRecord { reason, .. } | Failure::Trap(reason) | Failure::Deadline(reason) | Failure::Machine(reason) => {
                self.bad_timer(domain, due, &reason, site, env)
            }
            Failure::CutShort => Ok(()),
        }
    }

    fn call_timers(&mut self, domain: Domain, due: &DueTimers, env: &mut Env<'_>) -> Result<(), CallError> {
        match Arc::get_mut(&mut self.reads.slots) {
            Some(slots) => slots.clone_from(&due.slots),
            None => self.reads.slots = Arc::new(due.slots.clone()),
        }
        self.reads.patience = self.timer_pace.patience().filter(|_| due.horizon > Timestamp::MIN);
        let slots = self.before_call(env.now)?;
        let context = call_context(self.watermark, env.now, &slots, &self.prefetched);
        let timers = Timers { domain, slot: &due.slot, timestamp: &due.timestamp, horizon: due.horizon };
        let outcome = self.detector.on_timers(&context, &timers, &mut self.reads, &mut self.effects);
        drop(slots);
        let consumed = self.after_call(outcome, due.slot.len(), false)?;
        self.reads.state.remove_timers(domain, due, consumed)?;
        self.metrics.timers_fired += consumed as u64;
        self.apply(env, |row| Origin::timer(due.timestamp.get(row).copied().unwrap_or(0)))?;
        Ok(())
    }

    fn after_timers(&mut self, due: &DueTimers, took: Duration) {
        self.pass_at = due.timestamp.last().copied().map(Timestamp);
        let weight = self.weight(took);
        // Timers come in whole timestamps, so fewer than asked for may be all that fit.
        let cut = self.pass().is_some_and(|(_, horizon)| due.horizon < horizon);
        self.timer_pace.after(due.slot.len(), cut, weight);
        if due.horizon > Timestamp::MIN {
            self.timer_reach.after(cut, weight);
        }
    }

    fn before_call(&mut self, now: Timestamp) -> Result<Arc<SlotKeys>, CallError> {
        self.effects.clear();
        self.reads.lines.begin();
        self.reads.processing_time = now;
        let slots = Arc::clone(&self.reads.slots);
        if self.settings.keyed {
            self.reads.state.prefetch(&slots, now, &mut self.prefetched)?;
            if !(slots.keys.fits(0) && self.prefetched.fits()) {
                // Less at once may fit; a single row that does not is a bad one.
                return Err(Failure::Trap("the state of its keys is larger than 4 GiB".to_owned()).into());
            }
        }
        Ok(slots)
    }

    /// Effects and the number of rows are checked here, before any of it is used.
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
        let written = if broadcast { &self.settings.broadcast_writes } else { &self.settings.writes };
        written.check(&mut self.effects.writes).map_err(Failure::Trap)?;
        for (&lane, payload) in self.effects.outputs.lane.iter().zip(self.effects.outputs.payload.view().iter()) {
            let Some((name, checker)) = self.settings.lanes.get(usize::from(lane)) else { continue };
            let refused = |reason| Failure::Trap(format!("a record on lane {name} does not fit its type: {reason}"));
            checker.check(payload).map_err(refused)?;
        }
        Ok(consumed)
    }

    fn apply(&mut self, env: &mut Env<'_>, origin: impl Fn(usize) -> Origin) -> Result<()> {
        let Effects { writes, timers, outputs, .. } = &self.effects;
        if self.settings.keyed {
            self.reads.state.apply(&self.reads.slots, writes, timers, env.now)?;
        }
        for (index, payload) in outputs.payload.view().iter().enumerate() {
            let at = |column: &[u32]| column.get(index).copied().unwrap_or(0) as usize;
            let lane = outputs.lane.get(index).copied().unwrap_or(0);
            let time = match outputs.timed.get(index) {
                Some(0) => None,
                _ => outputs.timestamp.get(index).copied(),
            };
            let origin = origin(at(&outputs.row));
            env.outputs.push(usize::from(lane), payload, time, origin).map_err(|error| self.output_failure(error, origin))?;
        }
        self.counters.add(&mut self.effects.counts);
        Ok(())
    }

    /// What the last call took in and gave out.
    fn weight(&self, took: Duration) -> Weight {
        let outputs = &self.effects.outputs;
        Weight { records: outputs.lane.len(), output: outputs.payload.bytes.len(), state: self.prefetched.bytes(), took }
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

    /// After a pass that a restore finished: watermarks are not part of state, they begin again at the minimum, as in Flink.
    pub fn forget_watermark(&mut self) {
        self.watermark = Timestamp::MIN;
    }

    /// What the detector has counted in calls whose effects were applied, by name.
    #[must_use]
    pub fn counters(&self) -> Vec<Count> {
        self.counters.read()
    }

    /// Examples of the records and timers that went to the dead-letter lane.
    #[must_use]
    pub fn dead_letter_samples(&self) -> &Samples {
        &self.dead_letter_samples
    }

    /// What calls have taken.
    #[must_use]
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// How far the pass that is going on has come: the time of its last timer that fired.
    #[must_use]
    pub fn pass_at(&self) -> Option<Timestamp> {
        self.pass_at
    }

    /// The watermark has come to the end of time, and no timer fires at that.
    pub fn end_without_timers(&mut self) {
        self.watermark = Timestamp::MAX;
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

/// The kinds of the declared states, by id.
fn kinds(states: &[tidemill_wit::descriptor::StateDescriptor]) -> Vec<StateKind> {
    states.iter().map(|state| state.kind).collect()
}

#[cfg(test)]
mod tests;
