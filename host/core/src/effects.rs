//! What a call gives back: state writes, timer operations and outputs, as columns. They come from guests, so every number in them is
//! hostile until [`Effects::check`] has passed.

use std::sync::Arc;

use tidemill_wit::columns::{Blobs, BlobsBuf};
use tidemill_wit::descriptor::{StateKind, time_domain, timer_op, write_op};

/// The effects of one call. Nothing has happened yet: the operator applies them as one unit.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// State writes.
    pub writes: Writes,
    /// Timer registrations and deletions, in order.
    pub timers: TimerOps,
    /// Output records, in order.
    pub outputs: Outputs,
    /// What was added to which counters.
    pub counts: Vec<Count>,
}

/// A counter's name, and what was added to it.
pub type Count = (Arc<str>, u64);

/// State writes: at most one per value state and slot, and per map entry; a clear comes before what is put after it.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "columns as in process.wit, where they are described")]
pub struct Writes {
    pub op: Vec<u8>,
    pub state: Vec<u8>,
    pub slot: Vec<u32>,
    pub entry: BlobsBuf,
    pub value: BlobsBuf,
}

/// Timer operations.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "columns as in process.wit, where they are described")]
pub struct TimerOps {
    pub op: Vec<u8>,
    pub domain: Vec<u8>,
    pub slot: Vec<u32>,
    pub timestamp: Vec<i64>,
}

/// Output records.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "columns as in process.wit, where they are described")]
pub struct Outputs {
    pub lane: Vec<u8>,
    pub row: Vec<u32>,
    pub timestamp: Vec<i64>,
    pub timed: Vec<u8>,
    pub payload: BlobsBuf,
}

/// What effects are checked against.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// The number of rows in the call.
    pub rows: usize,
    /// The number of key slots in the call.
    pub slots: usize,
    /// The kinds of the declared states, by id.
    pub states: &'a [StateKind],
    /// The number of declared lanes.
    pub lanes: usize,
    /// Whether the rows are broadcast records: `states` are then the broadcast states, of which there is one map each, under slot 0.
    pub broadcast: bool,
}

impl Effects {
    /// Removes all effects, keeping the capacity.
    pub fn clear(&mut self) {
        let Self { writes, timers, outputs, counts } = self;
        counts.clear();
        writes.op.clear();
        writes.state.clear();
        writes.slot.clear();
        writes.entry.clear();
        writes.value.clear();
        timers.op.clear();
        timers.domain.clear();
        timers.slot.clear();
        timers.timestamp.clear();
        outputs.lane.clear();
        outputs.row.clear();
        outputs.timestamp.clear();
        outputs.timed.clear();
        outputs.payload.clear();
    }

    /// Checks everything that applying the effects relies on: equal lengths, ends in order, codes and ids in range, an operation that fits
    /// the state's kind.
    ///
    /// # Errors
    /// Names the column and what is wrong with it.
    pub fn check(&self, shape: &Shape<'_>) -> Result<(), String> {
        self.writes.check(shape)?;
        self.timers.check(shape)?;
        self.outputs.check(shape)
    }
}

impl Writes {
    fn check(&self, shape: &Shape<'_>) -> Result<(), String> {
        let len = self.op.len();
        equal("writes.state", self.state.len(), len)?;
        equal("writes.slot", self.slot.len(), len)?;
        blobs("writes.entry", self.entry.view(), len)?;
        blobs("writes.value", self.value.view(), len)?;
        below("writes.slot", &self.slot, if shape.broadcast { 1 } else { shape.slots })?;
        for (&op, &state) in self.op.iter().zip(&self.state) {
            let Some(kind) = shape.states.get(usize::from(state)) else {
                return Err(format!("writes.state names state {state}, but {} are declared", shape.states.len()));
            };
            let fits = match op {
                write_op::CLEAR | write_op::TOUCH => true,
                write_op::PUT => !kind.has_entries(),
                write_op::PUT_ENTRY | write_op::REMOVE_ENTRY => *kind == StateKind::Map,
                write_op::APPEND => *kind == StateKind::List,
                _ => false,
            };
            if !fits {
                return Err(format!("writes.op has code {op} for a state of kind {kind:?}"));
            }
        }
        Ok(())
    }
}

impl TimerOps {
    fn check(&self, shape: &Shape<'_>) -> Result<(), String> {
        let len = self.op.len();
        equal("timers.domain", self.domain.len(), len)?;
        equal("timers.slot", self.slot.len(), len)?;
        equal("timers.timestamp", self.timestamp.len(), len)?;
        codes("timers.op", &self.op, timer_op::COUNT)?;
        codes("timers.domain", &self.domain, time_domain::COUNT)?;
        below("timers.slot", &self.slot, shape.slots)
    }
}

impl Outputs {
    fn check(&self, shape: &Shape<'_>) -> Result<(), String> {
        let len = self.lane.len();
        equal("outputs.row", self.row.len(), len)?;
        equal("outputs.timestamp", self.timestamp.len(), len)?;
        if !self.timed.is_empty() {
            equal("outputs.timed", self.timed.len(), len)?;
            codes("outputs.timed", &self.timed, 2)?;
        }
        blobs("outputs.payload", self.payload.view(), len)?;
        codes("outputs.lane", &self.lane, u8::try_from(shape.lanes).unwrap_or(u8::MAX))?;
        below("outputs.row", &self.row, shape.rows)
    }
}

fn equal(column: &str, found: usize, expected: usize) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{column} has {found} items instead of {expected}")) }
}

fn blobs(column: &str, found: Blobs<'_>, expected: usize) -> Result<(), String> {
    equal(column, found.len(), expected)?;
    if found.valid(expected) { Ok(()) } else { Err(format!("the ends of {column} do not ascend to its {} bytes", found.bytes.len())) }
}

fn codes(column: &str, found: &[u8], count: u8) -> Result<(), String> {
    match found.iter().find(|&&code| code >= count) {
        Some(code) => Err(format!("{column} has {code}, but must be below {count}")),
        None => Ok(()),
    }
}

fn below(column: &str, found: &[u32], count: usize) -> Result<(), String> {
    match found.iter().find(|&&id| id as usize >= count) {
        Some(id) => Err(format!("{column} has {id}, but must be below {count}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tidemill_wit::descriptor::{StateKind, write_op};

    use super::{Effects, Shape};

    const BROADCAST: Shape<'_> = Shape { rows: 1, slots: 0, states: &[StateKind::Map], lanes: 1, broadcast: true };

    fn write(op: u8, state: u8, slot: u32) -> Effects {
        let mut effects = Effects::default();
        effects.writes.op.push(op);
        effects.writes.state.push(state);
        effects.writes.slot.push(slot);
        effects.writes.entry.push(b"a");
        effects.writes.value.push(b"b");
        effects
    }

    #[test]
    fn broadcast_records_write_entries_of_broadcast_states_only() {
        for op in [write_op::PUT_ENTRY, write_op::REMOVE_ENTRY, write_op::CLEAR] {
            assert_eq!(write(op, 0, 0).check(&BROADCAST), Ok(()));
        }
        let refused = |effects: Effects| effects.check(&BROADCAST).unwrap_err();
        assert_eq!(refused(write(write_op::PUT, 0, 0)), "writes.op has code 0 for a state of kind Map");
        assert_eq!(refused(write(write_op::APPEND, 0, 0)), "writes.op has code 4 for a state of kind Map");
        assert_eq!(refused(write(write_op::PUT_ENTRY, 1, 0)), "writes.state names state 1, but 1 are declared");
        assert_eq!(refused(write(write_op::PUT_ENTRY, 0, 1)), "writes.slot has 1, but must be below 1");
        let without_key = Shape { broadcast: false, ..BROADCAST };
        assert!(write(write_op::PUT_ENTRY, 0, 0).check(&without_key).is_err(), "a call without keys writes nothing else");
    }

    #[test]
    fn broadcast_records_set_no_timers() {
        let mut effects = Effects::default();
        effects.timers.op.push(0);
        effects.timers.domain.push(0);
        effects.timers.slot.push(0);
        effects.timers.timestamp.push(0);
        assert_eq!(effects.check(&BROADCAST), Err("timers.slot has 0, but must be below 0".to_owned()));
    }
}
