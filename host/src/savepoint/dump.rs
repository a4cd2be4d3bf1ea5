//! The content of one state as JSON values.

use serde::Serialize;
use serde_json::Value;
use tidemill_core::checkpoint::manifest::{OperatorState, StoredState};
use tidemill_core::schema::key_text;
use tidemill_core::state::BroadcastStates;
use tidemill_core::state::layout::{Form, Item, Reader};
use tidemill_core::{Error, Result};

use super::{Piece, pieces};
use crate::codec::to_value;
use crate::spec::nearest::hint;
use crate::store::savepoint::Saved;

/// What to dump.
#[derive(Clone, Debug)]
pub struct Selection<'a> {
    /// The operator's uid.
    pub operator: &'a str,
    /// The state's name.
    pub state: &'a str,
    /// Only this key, as JSON; one that is no JSON stands for a string.
    pub key: Option<&'a str>,
}

/// A value, list element or map entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The key; none for broadcast state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Value>,
    /// The place of a list's element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u64>,
    /// The key of a map's entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Value>,
    /// The value.
    pub value: Value,
    /// When it was last renewed, in milliseconds, if the state has a time to live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewed: Option<i64>,
}

/// Calls `found` with the rows of a state, by key group, key and entry.
///
/// # Errors
/// There is no such operator or state, the savepoint is damaged, or `found` fails.
pub fn dump(saved: &Saved, selection: &Selection<'_>, found: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
    let known = || saved.manifest.operators.iter();
    let operator = known().find(|operator| operator.uid == selection.operator).ok_or_else(|| {
        let hint = hint(selection.operator, known().map(|operator| operator.uid.as_str()));
        Error::config(format!("{} has no operator `{}`{hint}", saved.name(), selection.operator))
    })?;
    let named = |states: &[StoredState]| states.iter().position(|state| state.name == selection.state);
    let place = named(&operator.states).map(Place::Keyed).or_else(|| named(&operator.broadcast_states).map(Place::Broadcast));
    let place = place.ok_or_else(|| {
        let names = operator.states.iter().chain(&operator.broadcast_states).map(|state| state.name.as_str());
        let hint = hint(selection.state, names);
        Error::config(format!("operator {} has no state `{}` in {}{hint}", operator.uid, selection.state, saved.name()))
    })?;
    let wanted = selection.key.map(|key| serde_json::from_str(key).unwrap_or_else(|_| Value::String(key.to_owned())));
    pieces(saved, &mut |uid, piece| match (piece, place) {
        _ if uid != operator.uid => Ok(()),
        (Piece::Group(group, bytes), Place::Keyed(index)) => {
            Group { operator, index, wanted: wanted.as_ref() }.dump(&mut Reader::new(group, bytes)?, found)
        }
        (Piece::Broadcast(bytes), Place::Broadcast(index)) => broadcast(operator, index, bytes, found),
        _ => Ok(()),
    })
}

/// Where a state is, by its index.
#[derive(Clone, Copy)]
enum Place {
    Keyed(usize),
    Broadcast(usize),
}

struct Group<'a> {
    operator: &'a OperatorState,
    index: usize,
    wanted: Option<&'a Value>,
}

impl Group<'_> {
    fn dump(&self, reader: &mut Reader<'_>, found: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
        let Some(state) = self.operator.states.get(self.index) else { return Ok(()) };
        let (mut key, mut index) = (None, 0);
        while let Some(item) = reader.next()? {
            match item {
                Item::Key(bytes) => {
                    key = Some(self.key(bytes)?).filter(|key| self.wanted.is_none_or(|wanted| wanted == key));
                    index = 0;
                }
                Item::Entry(entry) if usize::from(entry.state) == self.index && key.is_some() => {
                    found(Row {
                        key: key.clone(),
                        index: (entry.form == Form::List).then_some(index),
                        entry: if entry.form == Form::Map { Some(entry_key(state, entry.key)?) } else { None },
                        value: value(state, entry.value)?,
                        renewed: entry.stamp,
                    })?;
                    index += 1;
                }
                Item::Entry(_) | Item::Tombstone(_) | Item::Timer(..) => {}
            }
        }
        Ok(())
    }

    fn key(&self, bytes: &[u8]) -> Result<Value> {
        let Some(table) = &self.operator.key else { return Ok(Value::Null) };
        serde_json::from_str(&key_text(table, bytes)).map_err(|error| Error::corrupt("a key is not of its type").caused_by(error))
    }
}

fn broadcast(operator: &OperatorState, index: usize, bytes: &[u8], found: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
    let states = BroadcastStates::read(bytes, operator.broadcast_states.len())?;
    let (Some(state), Ok(id)) = (operator.broadcast_states.get(index), u8::try_from(index)) else { return Ok(()) };
    for (key, bytes) in states.scan(id, None) {
        found(Row { key: None, index: None, entry: Some(entry_key(state, key)?), value: value(state, bytes)?, renewed: None })?;
    }
    Ok(())
}

fn entry_key(state: &StoredState, bytes: &[u8]) -> Result<Value> {
    let Some(table) = &state.entry_key else { return Ok(Value::Null) };
    serde_json::from_str(&key_text(table, bytes))
        .map_err(|error| Error::corrupt(format!("a map key of state {} is not of its type", state.name)).caused_by(error))
}

fn value(state: &StoredState, bytes: &[u8]) -> Result<Value> {
    to_value(&state.value, bytes).map_err(|reason| Error::corrupt(format!("a value of state {} is not of its type: {reason}", state.name)))
}
