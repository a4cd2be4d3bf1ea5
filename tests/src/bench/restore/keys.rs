//! The keys of the bench.

use tidemill_core::Result;
use tidemill_core::Timestamp;
use tidemill_core::detector::{KeyRef, SlotKeys};
use tidemill_core::effects::{TimerOps, Writes};
use tidemill_core::key_group::{hash_key, key_group, subtask_of};
use tidemill_core::state::KeyedState;
use tidemill_core::time::Domain;
use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate, timer_op, write_op};
use tidemill_wit::schema::{Type, TypeTable};

use crate::stored::KEY_GROUPS;

/// The length of a key in bytes.
pub(super) const LENGTH: usize = 60;
/// How many keys are written at once.
const BATCH: usize = 1024;

/// The states of the operator: one number.
pub(super) fn states() -> Vec<StateDescriptor> {
    vec![StateDescriptor {
        name: "count".to_owned(),
        kind: StateKind::Value,
        value: TypeTable::of(Type::U64),
        entry_key: None,
        ttl: None,
        ttl_update: TtlUpdate::OnCreateAndWrite,
    }]
}

/// The key of a number: letters and digits as identifiers have them, in no order.
pub(super) fn key(number: u64, into: &mut Vec<u8>) {
    use std::io::Write;
    into.clear();
    let hash = |seed: u64| hash_key(&[number.to_le_bytes(), seed.to_le_bytes()].concat());
    // Writing to a vector does not fail.
    let _ = write!(into, "item-{:016x}{:016x}{:016x}{number:07}", hash(1), hash(2), hash(3));
    into.resize(LENGTH, b'x');
}

/// A batch of one subtask.
#[derive(Default)]
struct Batch {
    slots: SlotKeys,
    writes: Writes,
    timers: TimerOps,
}

impl Batch {
    fn push(&mut self, key: KeyRef<'_>, number: u64) {
        let slot = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(key);
        self.writes.op.push(write_op::PUT);
        self.writes.state.push(0);
        self.writes.slot.push(slot);
        self.writes.entry.push(&[]);
        self.writes.value.push(&number.to_le_bytes());
        self.timers.op.push(timer_op::REGISTER);
        self.timers.domain.push(Domain::Event as u8);
        self.timers.slot.push(slot);
        self.timers.timestamp.push(i64::try_from(key.hash >> 24).unwrap_or(0));
    }

    fn apply(&mut self, state: &mut dyn KeyedState) -> Result<()> {
        let Self { slots, writes, timers } = std::mem::take(self);
        state.apply(&slots, &writes, &timers, Timestamp(1))
    }
}

/// Writes all keys.
pub(super) fn fill(subtasks: &mut [Box<dyn KeyedState>], keys: u64) -> Result<()> {
    let parallelism = u32::try_from(subtasks.len()).unwrap_or(1);
    let mut batches: Vec<Batch> = subtasks.iter().map(|_| Batch::default()).collect();
    let mut bytes = Vec::new();
    for number in 0..keys {
        key(number, &mut bytes);
        let hash = hash_key(&bytes);
        let group = key_group(hash, KEY_GROUPS);
        let owner = subtask_of(group, KEY_GROUPS, parallelism) as usize;
        let (Some(batch), Some(state)) = (batches.get_mut(owner), subtasks.get_mut(owner)) else { continue };
        batch.push(KeyRef { bytes: &bytes, hash, group }, number);
        if batch.slots.len() == BATCH {
            batch.apply(&mut **state)?;
        }
    }
    batches.iter_mut().zip(subtasks).try_for_each(|(batch, state)| batch.apply(&mut **state))
}
