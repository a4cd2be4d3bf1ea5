//! Snapshots: what a detector must find again after a crash, or in its next version.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_wit::descriptor::StateDescriptor;

use super::store::Item;
use super::{Harness, PendingTimer};
use crate::failure::BatchFailure;
use crate::function::KeyedProcessFunction;
use crate::runner::Runner;

/// All state and timers of a harness at one moment, as a checkpoint has them.
#[derive(Clone)]
pub struct Snapshot {
    states: Vec<StateDescriptor>,
    items: BTreeMap<(u8, Vec<u8>, Vec<u8>), Item>,
    timers: BTreeSet<PendingTimer>,
}

impl<D: KeyedProcessFunction> Harness<D> {
    /// Takes a snapshot, when the records that wait for a full batch have run.
    ///
    /// # Errors
    /// The batch ran and failed.
    pub fn snapshot(&mut self) -> Result<Snapshot, BatchFailure> {
        self.flush()?;
        Ok(Snapshot { states: self.store.states.clone(), items: self.store.items.clone(), timers: self.timers.clone() })
    }

    /// Goes back to a snapshot, as after a crash: a new instance is opened, state and timers are as they were, and the watermark is at its
    /// minimum until the next one. Records that wait for a full batch are gone. The clock goes on; a timer that it is past fires the next
    /// time it is moved, also to where it is. Outputs and reference tables stay.
    ///
    /// The snapshot may be of another version of the detector: states are found by their names.
    ///
    /// # Errors
    /// The detector cannot be opened, or it does not declare a state of the snapshot, or not with the same kind and types.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        let places = snapshot.states.iter().map(|state| self.place_of(state)).collect::<Result<Vec<_>, _>>()?;
        let place = |old: u8| places.get(usize::from(old)).copied().unwrap_or_default();
        let mut runner = Runner::new();
        runner.open(&self.parameters, &mut self.store)?;
        self.runner = runner;
        let items = snapshot.items.iter().map(|((state, key, entry), item)| ((place(*state), key.clone(), entry.clone()), item.clone()));
        self.store.items = items.collect();
        self.timers = snapshot.timers.clone();
        self.waiting.clear();
        self.watermark = i64::MIN;
        Ok(())
    }

    /// The id of the state that a state of a snapshot belongs to.
    fn place_of(&self, old: &StateDescriptor) -> Result<u8, String> {
        let found = self.store.states.iter().zip(0u8..).find(|(state, _)| state.name == old.name);
        let Some((state, id)) = found else {
            return Err(format!("the snapshot has the state {}, which the detector does not declare", old.name));
        };
        if (state.kind, &state.value, &state.entry_key) != (old.kind, &old.value, &old.entry_key) {
            return Err(format!("the state {} of the snapshot is of another kind or type than the detector declares", old.name));
        }
        Ok(id)
    }
}
