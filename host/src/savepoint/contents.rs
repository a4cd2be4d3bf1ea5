//! What a savepoint holds, in numbers.

use serde::Serialize;
use tidemill_core::checkpoint::manifest::StoredState;
use tidemill_core::schema::describe;
use tidemill_core::state::BroadcastStates;
use tidemill_core::state::layout::{Item, Reader};
use tidemill_core::time::Domain;
use tidemill_core::{Error, Result};

use super::{Piece, pieces};
use crate::store::savepoint::Saved;

/// What a savepoint holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// Its operators.
    pub operators: Vec<OperatorContents>,
}

/// What an operator has stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OperatorContents {
    /// Its uid.
    pub uid: String,
    /// The sha-256 of its component.
    pub component: String,
    /// The type of its key.
    pub key: Option<String>,
    /// The keys that have state or timers.
    pub keys: u64,
    /// Pending event-time timers.
    pub event_timers: u64,
    /// Pending processing-time timers.
    pub processing_timers: u64,
    /// The length of its key groups and broadcast states.
    pub bytes: u64,
    /// Its states, broadcast ones last.
    pub states: Vec<StateContents>,
}

/// What is stored of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StateContents {
    /// Its name.
    pub name: String,
    /// Its kind; `broadcast` for a broadcast state.
    pub kind: String,
    /// The type of its value, element or map value.
    pub value: String,
    /// The type of its map keys.
    pub entry_key: Option<String>,
    /// The keys that have it.
    pub keys: u64,
    /// Its values, elements or map entries.
    pub entries: u64,
    /// The length of its values and map keys.
    pub bytes: u64,
}

impl Contents {
    /// Reads all of it, checking every file.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn read(saved: &Saved) -> Result<Self> {
        let describe_operator = |operator: &tidemill_core::checkpoint::manifest::OperatorState| OperatorContents {
            uid: operator.uid.clone(),
            component: operator.component.clone(),
            key: operator.key.as_ref().map(describe),
            states: operator
                .states
                .iter()
                .map(|state| StateContents::of(state, state.kind_name()))
                .chain(operator.broadcast_states.iter().map(|state| StateContents::of(state, "broadcast".to_owned())))
                .collect(),
            ..OperatorContents::default()
        };
        let mut contents = Self { operators: saved.manifest.operators.iter().map(describe_operator).collect() };
        pieces(saved, &mut |uid, piece| {
            let stored = saved.manifest.operators.iter().find(|operator| operator.uid == uid);
            let counted = contents.operators.iter_mut().find(|operator| operator.uid == uid);
            let (Some(stored), Some(counted)) = (stored, counted) else {
                return Err(Error::corrupt("the manifest does not describe this operator"));
            };
            match piece {
                Piece::Group(group, bytes) => counted.group(&mut Reader::new(group, bytes)?, bytes.len()),
                Piece::Broadcast(bytes) => counted.broadcast(bytes, stored.broadcast_states.len()),
            }
        })?;
        Ok(contents)
    }
}

impl OperatorContents {
    fn group(&mut self, reader: &mut Reader<'_>, bytes: usize) -> Result<()> {
        self.bytes += bytes as u64;
        let mut last = None;
        while let Some(item) = reader.next()? {
            match item {
                Item::Key(_) => (self.keys, last) = (self.keys + 1, None),
                Item::Tombstone(_) => {}
                Item::Timer(Domain::Event, _) => self.event_timers += 1,
                Item::Timer(Domain::Processing, _) => self.processing_timers += 1,
                Item::Entry(entry) => {
                    let state = self.states.get_mut(usize::from(entry.state));
                    let state = state.ok_or_else(|| Error::corrupt("there is a state that the manifest does not describe"))?;
                    state.entries += 1;
                    state.bytes += (entry.key.len() + entry.value.len()) as u64;
                    if last.replace(entry.state) != Some(entry.state) {
                        state.keys += 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn broadcast(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        self.bytes += bytes.len() as u64;
        let first = self.states.len().saturating_sub(count);
        for (index, state) in (0u8..).zip(self.states.iter_mut().skip(first)) {
            for (key, value) in BroadcastStates::read(bytes, count)?.scan(index, None) {
                state.entries += 1;
                state.bytes += (key.len() + value.len()) as u64;
            }
        }
        Ok(())
    }
}

impl StateContents {
    fn of(state: &StoredState, kind: String) -> Self {
        Self {
            name: state.name.clone(),
            kind,
            value: describe(&state.value),
            entry_key: state.entry_key.as_ref().map(describe),
            ..Self::default()
        }
    }
}
