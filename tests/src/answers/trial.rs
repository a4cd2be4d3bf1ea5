//! A recorded call again, with another answer.

use std::sync::{Arc, Mutex, PoisonError};

use tidemill_core::Timestamp;
use tidemill_core::batch::Origin;
use tidemill_core::effects::{Effects, Writes};
use tidemill_core::exchange::{Edge, Observed, Outputs};
use tidemill_core::key_group::KeyGroup;
use tidemill_core::operator::{Env, Metrics, Observer, OnError, Operator, OperatorSettings};
use tidemill_core::schema::{KeyChecker, walk};
use tidemill_core::state::layout::{Entry, Item, Reader};
use tidemill_core::state::{KeyedState, MemoryState, Migration};
use tidemill_core::time::Domain;
use tidemill_wit::descriptor::{StateDescriptor, write_op};

use super::change::Bounds;
use super::record::{Input, Recorded, parameters};
use super::replay::{Next, Replay};

/// What the operator made of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was applied.
    Accepted,
    /// It was refused, and its one row became a dead letter or failed the job, with this reason.
    Refused(String),
    /// It was refused, and its rows went one by one, as timers always do.
    Repeated,
}

/// The operator of a recorded call, with the state that it had.
pub struct Trial<'a> {
    call: &'a Recorded,
    settings: Arc<OperatorSettings>,
    operator: Operator,
    outputs: Outputs,
    next: Next,
    seen: Arc<Seen>,
}

impl<'a> Trial<'a> {
    /// Sets the operator up.
    ///
    /// # Errors
    /// The state before the call cannot be restored.
    pub fn new(call: &'a Recorded, on_error: OnError) -> Result<Self, String> {
        let next = Next::default();
        let replay = Arc::new(Replay { factory: Arc::clone(&call.factory), next: next.clone() });
        let mut settings = OperatorSettings::new("trial", replay, parameters(&call.factory), 128);
        settings.on_error = on_error;
        let settings = Arc::new(settings);
        let seen = Arc::new(Seen::default());
        let mut outputs = Outputs::new(settings.dead_letter_lane() + 1);
        for lane in 0..=settings.dead_letter_lane() {
            outputs.connect(lane, Edge::Observed(Observed { subtask: 0, lane, observer: Arc::clone(&seen) as _ }));
        }
        let operator = operator(&settings, call)?;
        Ok(Self { call, settings, operator, outputs, next, seen })
    }

    /// What answers are checked against.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let descriptor = self.call.factory.descriptor();
        let broadcast = matches!(&self.call.input, Input::Batch(batch) if batch.broadcast);
        Bounds {
            rows: self.call.rows,
            slots: if broadcast { 1 } else { self.call.slots },
            timer_slots: self.call.slots,
            states: if broadcast { descriptor.broadcast_states.len() } else { descriptor.states.len() },
            lanes: descriptor.lanes.len(),
        }
    }

    /// Makes the call with this answer. The state is then what it was before all calls, or what the answer made of it.
    ///
    /// # Errors
    /// The operator broke a promise.
    pub fn call(&mut self, consumed: u32, effects: &Effects) -> Result<Verdict, String> {
        let before = self.operator.metrics();
        self.next.set(consumed, effects.clone());
        let ended = self.run();
        let seen = std::mem::take(&mut *self.seen.0.lock().unwrap_or_else(PoisonError::into_inner));
        let after = self.operator.metrics();
        if let Err(reason) = ended {
            return if seen.is_empty() { Ok(Verdict::Refused(reason)) } else { Err(format!("it failed, but emitted {seen:?}")) };
        }
        if seen == emissions(effects) && after.dead_letters == before.dead_letters && self.applied(before, after) {
            // Nothing emitted is what a refused answer of several rows leads to as well.
            return Ok(if self.refused_whole(effects, consumed) { Verdict::Repeated } else { Verdict::Accepted });
        }
        match seen.as_slice() {
            [] if self.call.rows > 1 || matches!(self.call.input, Input::Pass(..)) => Ok(Verdict::Repeated),
            [letter] if letter.lane == self.settings.dead_letter_lane() => Ok(Verdict::Refused(reason_of(&letter.payload)?)),
            other => Err(format!("it emitted {other:?} instead of {:?}", emissions(effects))),
        }
    }

    /// Goes back to the state before the call.
    ///
    /// # Errors
    /// The state cannot be restored.
    pub fn reset(&mut self) -> Result<(), String> {
        self.operator = operator(&self.settings, self.call)?;
        Ok(())
    }

    /// A snapshot of the state, which must restore to the same state, with as many keys and timers as are in it.
    ///
    /// # Errors
    /// It does not.
    pub fn snapshot(&mut self) -> Result<Vec<(KeyGroup, Vec<u8>)>, String> {
        let groups = snapshot(self.operator.state())?;
        let mut again = MemoryState::new(&self.settings.states);
        restore(&mut again, &groups, self.settings.states.len())?;
        if snapshot(&mut again)? != groups {
            return Err("a snapshot does not come back as it was".to_owned());
        }
        let (mut keys, mut timers) = (0, [0; 2]);
        for (group, bytes) in &groups {
            let mut reader = Reader::new(*group, bytes).map_err(|error| error.chain())?;
            while let Some(item) = reader.next().map_err(|error| error.chain())? {
                match item {
                    Item::Key(_) => keys += 1,
                    Item::Timer(Domain::Event, _) => timers[0] += 1,
                    Item::Timer(Domain::Processing, _) => timers[1] += 1,
                    Item::Entry(entry) => self.check_entry(&entry)?,
                    Item::Tombstone(_) => {}
                }
            }
        }
        let metrics = self.operator.metrics();
        let counted = (metrics.keys, metrics.event_timers_pending, metrics.processing_timers_pending);
        let [event, processing] = timers;
        if counted != (keys, event, processing) {
            return Err(format!("{counted:?} keys and timers are counted, but {:?} are there", (keys, event, processing)));
        }
        Ok(groups)
    }

    fn run(&mut self) -> Result<(), String> {
        let mut env = Env { now: Timestamp(5), outputs: &mut self.outputs };
        match &self.call.input {
            Input::Batch(batch) => self.operator.process(batch, &mut env).map_err(|error| error.chain()),
            Input::Pass(domain, horizon) => {
                self.operator.begin_pass(*domain, *horizon);
                while self.operator.continue_pass(&mut env).map_err(|error| error.chain())?.is_none() {}
                Ok(())
            }
        }
    }

    fn applied(&self, before: Metrics, after: Metrics) -> bool {
        match &self.call.input {
            Input::Batch(batch) => after.records_in == before.records_in + batch.len() as u64,
            Input::Pass(..) => after.timers_fired >= before.timers_fired + u64::from(self.call.rows),
        }
    }

    /// Whether an answer without outputs fails the checks that the operator makes.
    fn refused_whole(&self, effects: &Effects, consumed: u32) -> bool {
        let bounds = self.bounds();
        let descriptor = self.call.factory.descriptor();
        let broadcast = matches!(&self.call.input, Input::Batch(batch) if batch.broadcast);
        let states = if broadcast { &descriptor.broadcast_states } else { &descriptor.states };
        let kinds: Vec<_> = states.iter().map(|state| state.kind).collect();
        let shape = tidemill_core::effects::Shape {
            rows: bounds.rows as usize,
            slots: bounds.timer_slots,
            states: &kinds,
            lanes: bounds.lanes,
            broadcast,
        };
        consumed == 0 || consumed > bounds.rows || effects.check(&shape).is_err() || !fit(&effects.writes, states)
    }

    /// What is in the state is of its type, whatever was accepted.
    fn check_entry(&self, entry: &Entry<'_>) -> Result<(), String> {
        let state = self.settings.states.get(usize::from(entry.state)).ok_or("a snapshot has an unknown state")?;
        let checked = walk::check(&state.value, entry.value);
        let key = state.entry_key.as_ref().map_or(Ok(()), |key| KeyChecker::new(key).check(entry.key));
        checked.and(key).map_err(|reason| format!("what was accepted for state {} is not of its type: {reason}", state.name))
    }
}

/// Whether the values and map keys that are written are of their types.
fn fit(writes: &Writes, states: &[StateDescriptor]) -> bool {
    let rows = writes.op.iter().zip(&writes.state).zip(writes.entry.view().iter()).zip(writes.value.view().iter());
    rows.map(|(((&op, &state), entry), value)| (op, states.get(usize::from(state)), entry, value)).all(|(op, state, entry, value)| {
        let Some(state) = state else { return true };
        let puts = matches!(op, write_op::PUT | write_op::PUT_ENTRY | write_op::APPEND);
        let key = state.entry_key.as_ref().filter(|_| matches!(op, write_op::PUT_ENTRY | write_op::REMOVE_ENTRY | write_op::TOUCH));
        (!puts || walk::check(&state.value, value).is_ok()) && key.is_none_or(|key| KeyChecker::new(key).check(entry).is_ok())
    })
}

fn operator(settings: &Arc<OperatorSettings>, call: &Recorded) -> Result<Operator, String> {
    let mut state = MemoryState::new(&settings.states);
    restore(&mut state, &call.groups, settings.states.len())?;
    let mut operator = Operator::new(Arc::clone(settings), Box::new(state)).map_err(|error| error.chain())?;
    let ids: Vec<_> = (0..).map(Some).take(call.factory.descriptor().broadcast_states.len()).collect();
    operator.broadcast_state().restore(&call.broadcast, &ids, &Migration::default()).map_err(|error| error.chain())?;
    Ok(operator)
}

fn snapshot(state: &mut dyn KeyedState) -> Result<Vec<(KeyGroup, Vec<u8>)>, String> {
    let mut groups = Vec::new();
    state.snapshot(&mut |group, bytes| groups.push((group, bytes.to_vec()))).map_err(|error| error.chain())?;
    Ok(groups)
}

fn restore(state: &mut dyn KeyedState, groups: &[(KeyGroup, Vec<u8>)], states: usize) -> Result<(), String> {
    let ids: Vec<_> = (0..).map(Some).take(states).collect();
    groups.iter().try_for_each(|(group, bytes)| state.restore(*group, bytes, &ids)).map_err(|error| error.chain())
}

/// What an answer emits if it is accepted.
fn emissions(effects: &Effects) -> Vec<Emission> {
    let outputs = &effects.outputs;
    let rows = outputs.payload.view().iter().zip(&outputs.lane).zip(&outputs.timestamp).enumerate();
    rows.map(|(row, ((payload, &lane), &time))| Emission {
        lane: usize::from(lane),
        payload: payload.to_vec(),
        time: (outputs.timed.get(row) != Some(&0)).then_some(time),
    })
    .collect()
}

fn reason_of(letter: &[u8]) -> Result<String, String> {
    let (_, reason): (String, String) =
        postcard::take_from_bytes(letter).map(|(head, _)| head).map_err(|error| format!("a dead letter: {error}"))?;
    Ok(reason)
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Emission {
    lane: usize,
    payload: Vec<u8>,
    time: Option<i64>,
}

#[derive(Default)]
struct Seen(Mutex<Vec<Emission>>);

impl Observer for Seen {
    fn emitted(&self, _: u32, lane: usize, payload: &[u8], time: Option<i64>, _: Origin) {
        let emission = Emission { lane, payload: payload.to_vec(), time };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(emission);
    }
}
