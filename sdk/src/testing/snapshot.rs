//! Snapshots: what a detector must find again after a crash, or in its next version.

use tidemill_core::key_group::KeyGroup;
use tidemill_core::schema::Transcoder;
use tidemill_core::state::layout::{FRESH, Item, Reader, Writer};
use tidemill_core::state::migrate::Change;
use tidemill_core::state::{KeyedState, MemoryState, Migration};
use tidemill_wit::descriptor::StateDescriptor;

use super::{Harness, new_operator};
use crate::failure::BatchFailure;
use crate::function::KeyedProcessFunction;

/// All state and timers of a harness at one moment, as a checkpoint has them.
#[derive(Clone)]
pub struct Snapshot {
    states: Vec<StateDescriptor>,
    groups: Vec<(KeyGroup, Vec<u8>)>,
    broadcast_states: Vec<StateDescriptor>,
    broadcast: Vec<u8>,
}

/// Today's id of each state of a snapshot, and how their values change.
type Places = (Vec<Option<u8>>, Migration);

impl Snapshot {
    /// How many values, entries and elements have not expired at this processing time.
    pub(super) fn live_items(&self, now: i64) -> tidemill_core::Result<usize> {
        let mut live = 0;
        for (group, bytes) in &self.groups {
            let mut reader = Reader::new(*group, bytes)?;
            while let Some(item) = reader.next()? {
                let Item::Entry(entry) = item else { continue };
                let ttl = self.states.get(usize::from(entry.state)).and_then(|state| state.ttl);
                let renewed = entry.stamp.filter(|stamp| *stamp != FRESH);
                let expired = ttl.zip(renewed).is_some_and(|(ttl, renewed)| renewed.saturating_add(ttl) <= now);
                live += usize::from(!expired);
            }
        }
        Ok(live)
    }

    /// Where a detector with these states finds the snapshot's.
    fn places(old: &[StateDescriptor], now: &[StateDescriptor]) -> Result<Places, String> {
        let (mut ids, mut changes) = (Vec::new(), Vec::new());
        for old in old {
            let (id, transcoder) = place_of(old, now)?;
            ids.push(Some(id));
            changes.push(Change { name: old.name.clone(), transcoder: Some(transcoder).filter(|transcoder| !transcoder.is_identity()) });
        }
        Ok((ids, Migration::new(changes)))
    }

    fn state(&self, now: &[StateDescriptor]) -> Result<MemoryState, String> {
        let (ids, migration) = Self::places(&self.states, now)?;
        let (mut state, mut writer) = (MemoryState::new(now), Writer::default());
        for (group, bytes) in &self.groups {
            let bytes = migration.group(*group, bytes, &mut writer).map_err(|error| error.to_string())?;
            state.restore(*group, bytes, &ids).map_err(|error| error.to_string())?;
        }
        Ok(state)
    }
}

impl<D: KeyedProcessFunction> Harness<D> {
    /// Takes a snapshot, when the records that wait for a full batch have run.
    ///
    /// # Errors
    /// The batch ran and failed.
    pub fn snapshot(&mut self) -> Result<Snapshot, BatchFailure> {
        self.flush()?;
        let (mut groups, mut broadcast) = (Vec::new(), Vec::new());
        let taken = self.operator.state().snapshot(&mut |group, bytes| groups.push((group, bytes.to_vec())));
        taken.map_err(|error| BatchFailure::Fatal(error.chain()))?;
        self.operator.broadcast_state().snapshot(&mut broadcast);
        let descriptor = self.descriptor();
        let (states, broadcast_states) = (descriptor.states.clone(), descriptor.broadcast_states.clone());
        Ok(Snapshot { states, groups, broadcast_states, broadcast })
    }

    /// Goes back to a snapshot, as after a crash: a new instance is opened, state and timers are as they were, and the watermark is at its
    /// minimum until the next one. Records that wait for a full batch are gone. The clock goes on; a timer that it is past fires the next
    /// time it is moved, also to where it is. Outputs, counters and reference tables stay.
    ///
    /// The snapshot may be of another version of the detector: states are found by their names, and their values are brought to the declared
    /// types as in a job: fields may be added with a default, removed, renamed with an alias, reordered and widened.
    ///
    /// # Errors
    /// The detector cannot be opened, or it does not declare a state of the snapshot, or not with the same kind and fitting types.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), String> {
        let descriptor = self.descriptor();
        let state = snapshot.state(&descriptor.states)?;
        let (ids, migration) = Snapshot::places(&snapshot.broadcast_states, &descriptor.broadcast_states)?;
        let mut operator = new_operator(&self.factory, &self.parameters, state)?;
        operator.broadcast_state().restore(&snapshot.broadcast, &ids, &migration).map_err(|error| error.to_string())?;
        (self.operator, self.changed) = (operator, true);
        self.waiting.clear();
        self.collect();
        Ok(())
    }
}

/// The id of the state that a state of a snapshot belongs to, and how its values change.
fn place_of(old: &StateDescriptor, now: &[StateDescriptor]) -> Result<(u8, Transcoder), String> {
    let Some((state, id)) = now.iter().zip(0u8..).find(|(state, _)| state.name == old.name) else {
        return Err(format!("the snapshot has the state {}, which the detector does not declare", old.name));
    };
    if (state.kind, &state.entry_key) != (old.kind, &old.entry_key) {
        return Err(format!("the state {} of the snapshot is of another kind or type than the detector declares", old.name));
    }
    let transcoder = Transcoder::new(&old.value, &state.value)
        .map_err(|why| format!("the state {} of the snapshot is of another type than the detector declares: {why}", old.name))?;
    Ok((id, transcoder))
}
