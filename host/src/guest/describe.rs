//! A component's description of itself, checked.

use std::collections::HashSet;

use tidemill_core::schema::validate;
use tidemill_wit::descriptor::{Descriptor, LaneDescriptor, StateDescriptor, StateKind, TableDescriptor, TtlUpdate};
use tidemill_wit::schema::TypeTable;

use super::generated::tidemill::process::types;

/// Ids are one byte in the columns, and codes are compared with the number of lanes in one byte.
const MOST: usize = 255;
const LONGEST_NAME: usize = 255;

/// The descriptor, if everything in it that the host relies on is right.
pub(super) fn checked(answer: types::Descriptor) -> Result<Descriptor, String> {
    encoding(&answer.encoding)?;
    named("detector", std::iter::once(answer.name.as_str()))?;
    named("state", answer.states.iter().map(|state| state.name.as_str()))?;
    named("lane", answer.lanes.iter().map(|lane| lane.name.as_str()))?;
    named("broadcast state", answer.broadcast_states.iter().map(|state| state.name.as_str()))?;
    named("table", answer.tables.iter().map(|table| table.name.as_str()))?;
    let descriptor = Descriptor {
        name: answer.name,
        version: answer.version,
        input: table("the input", &answer.input)?,
        key: if answer.key.is_empty() { None } else { Some(table("the key", &answer.key)?) },
        parameters: table("the parameters", &answer.parameters)?,
        states: answer.states.into_iter().map(state).collect::<Result<_, _>>()?,
        lanes: answer.lanes.into_iter().map(lane).collect::<Result<_, _>>()?,
        tables: answer.tables.into_iter().map(reference).collect::<Result<_, _>>()?,
        broadcast: if answer.broadcast.is_empty() { None } else { Some(table("the broadcast input", &answer.broadcast)?) },
        broadcast_states: answer.broadcast_states.into_iter().map(broadcast_state).collect::<Result<_, _>>()?,
    };
    if descriptor.lanes.first().is_none_or(|first| first.name != "main") {
        return Err("its first lane is not named \"main\"".to_owned());
    }
    if descriptor.lanes.iter().any(|lane| lane.name == "dead-letter") {
        return Err("it declares a lane named \"dead-letter\", which is the host's".to_owned());
    }
    if descriptor.key.is_none() && !descriptor.states.is_empty() {
        return Err("it declares state, but no key to keep it under".to_owned());
    }
    if let (None, Some(state)) = (&descriptor.broadcast, descriptor.broadcast_states.first()) {
        return Err(format!("it declares the broadcast state {:?}, but no broadcast input whose records could write it", state.name));
    }
    if let Some(both) = descriptor.broadcast_states.iter().find(|state| descriptor.states.iter().any(|keyed| keyed.name == state.name)) {
        return Err(format!("a broadcast state has the name {:?}, which a keyed state has too", both.name));
    }
    Ok(descriptor)
}

/// Checks how a guest wants its payloads and values. Another encoding than postcard begins here: the descriptor would carry it, and the
/// columns of a call (`Columns` and `rows` in `instance.rs`) and what [`imports`](super::imports) reads and returns would be encoded by it. The
/// rest of the host works on postcard (`tidemill_core::schema`).
fn encoding(name: &str) -> Result<(), String> {
    match name {
        "postcard" => Ok(()),
        "json" => Err("encoding json is not supported yet: encode payloads and values as \"postcard\"".to_owned()),
        other => Err(format!("its encoding is {other:?}, but this Tidemill knows only \"postcard\"")),
    }
}

fn named<'a>(noun: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = HashSet::new();
    for name in names {
        if name.is_empty() {
            return Err(format!("a {noun} has an empty name"));
        }
        if name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(format!("a {noun} has a name that is longer than {LONGEST_NAME} bytes or has control characters"));
        }
        if !seen.insert(name) {
            return Err(format!("a {noun} has the name {name:?}, which another has too"));
        }
    }
    if seen.len() > MOST {
        return Err(format!("it declares {} {noun}s, the most is {MOST}", seen.len()));
    }
    Ok(())
}

fn state(answer: types::StateDescriptor) -> Result<StateDescriptor, String> {
    let what = format!("the state {:?}", answer.name);
    let Some(kind) = StateKind::from_code(answer.kind) else {
        return Err(format!("{what} is of unknown kind {}", answer.kind));
    };
    if (kind == StateKind::Map) == answer.key_schema.is_empty() {
        return Err(format!("{what} is of kind {kind:?}, but a map must have a key type and others must not"));
    }
    let ttl_update = match answer.ttl_update {
        code if code == TtlUpdate::OnCreateAndWrite as u8 => TtlUpdate::OnCreateAndWrite,
        code if code == TtlUpdate::OnReadAndWrite as u8 => TtlUpdate::OnReadAndWrite,
        code => return Err(format!("{what} has the unknown ttl-update {code}")),
    };
    if answer.ttl < 0 {
        return Err(format!("{what} has a time to live of {} ms", answer.ttl));
    }
    let entry_key = if answer.key_schema.is_empty() { None } else { Some(table(&format!("the key of {what}"), &answer.key_schema)?) };
    let ttl = (answer.ttl > 0).then_some(answer.ttl);
    Ok(StateDescriptor { value: table(&what, &answer.schema)?, name: answer.name, kind, entry_key, ttl, ttl_update })
}

fn broadcast_state(answer: types::StateDescriptor) -> Result<StateDescriptor, String> {
    let state = state(answer)?;
    if state.kind != StateKind::Map || state.ttl.is_some() {
        return Err(format!("the broadcast state {:?} must be a map without a time to live", state.name));
    }
    Ok(state)
}

fn lane(answer: types::LaneDescriptor) -> Result<LaneDescriptor, String> {
    Ok(LaneDescriptor { schema: table(&format!("the lane {:?}", answer.name), &answer.schema)?, name: answer.name })
}

fn reference(answer: types::TableDescriptor) -> Result<TableDescriptor, String> {
    let what = format!("the table {:?}", answer.name);
    let key = table(&format!("the key of {what}"), &answer.key_schema)?;
    let optional = match answer.optional {
        0 => false,
        1 => true,
        code => return Err(format!("{what} has the unknown code {code} for whether it is optional")),
    };
    Ok(TableDescriptor { row: table(&what, &answer.schema)?, name: answer.name, key, optional })
}

fn table(what: &str, bytes: &[u8]) -> Result<TypeTable, String> {
    let table = TypeTable::from_bytes(bytes).map_err(|why| format!("the type of {what} cannot be read: {why}"))?;
    // Everything that walks types later relies on it.
    validate(&table).map_err(|why| format!("the type of {what} is not sound: {why}"))?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use tidemill_wit::schema::{Type, TypeTable};

    use super::types;

    fn answer() -> types::Descriptor {
        let table = TypeTable::of(Type::I64).to_bytes();
        let lane = |name: &str| types::LaneDescriptor { name: name.to_owned(), schema: table.clone() };
        let (schema, key_schema) = (table.clone(), table.clone());
        types::Descriptor {
            name: "echo".to_owned(),
            version: "1".to_owned(),
            encoding: "postcard".to_owned(),
            input: table.clone(),
            key: table.clone(),
            parameters: table.clone(),
            states: vec![state("seen", 0), state("lines", 2)],
            lanes: vec![lane("main"), lane("late")],
            tables: vec![types::TableDescriptor { name: "stock".to_owned(), schema, key_schema, optional: 0 }],
            broadcast: table.clone(),
            broadcast_states: vec![state("rules", 2)],
        }
    }

    fn state(name: &str, kind: u8) -> types::StateDescriptor {
        let schema = TypeTable::of(Type::I64).to_bytes();
        let key_schema = if kind == 2 { schema.clone() } else { Vec::new() };
        types::StateDescriptor { name: name.to_owned(), kind, schema, key_schema, ttl: 0, ttl_update: 0 }
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut types::Descriptor), expected: &str) {
        let mut changed = answer();
        change(&mut changed);
        let why = super::checked(changed).unwrap_err();
        assert!(why.contains(expected), "{why}");
    }

    #[test]
    fn an_honest_description_passes() {
        let descriptor = super::checked(answer()).unwrap();
        assert_eq!((descriptor.states.len(), descriptor.lanes.len(), descriptor.tables.len()), (2, 2, 1));
        assert_eq!((descriptor.broadcast.is_some(), descriptor.broadcast_states.len()), (true, 1));
        let without_key = types::Descriptor { key: Vec::new(), states: Vec::new(), ..answer() };
        assert_eq!(super::checked(without_key).unwrap().key, None);
    }

    #[test]
    fn a_wrong_description_is_refused_in_words() {
        refused(|d| d.encoding = "json".to_owned(), "encoding json is not supported yet: ");
        refused(|d| d.encoding = "cbor".to_owned(), "its encoding is \"cbor\"");
        refused(|d| d.name.clear(), "a detector has an empty name");
        refused(|d| d.input = vec![99], "the type of the input cannot be read");
        refused(|d| d.key = vec![0, 19, 3], "the type of the key cannot be read: the type table refers to type 3");
        refused(|d| d.parameters.clear(), "the type of the parameters cannot be read");
        refused(|d| d.lanes.clear(), "first lane");
        refused(|d| d.lanes.reverse(), "first lane");
        refused(|d| d.lanes[1].name = "dead-letter".to_owned(), "\"dead-letter\"");
        refused(|d| d.lanes[1].name = "main".to_owned(), "a lane has the name \"main\", which another has too");
        refused(|d| d.key.clear(), "declares state, but no key");
        refused(|d| d.tables[0].key_schema.clear(), "the key of the table \"stock\"");
        refused(|d| d.tables[0].optional = 2, "the table \"stock\" has the unknown code 2");
        refused(|d| d.tables[0].name = "a\nb".to_owned(), "control characters");
        refused(|d| d.states = (0..256).map(|i| state(&i.to_string(), 0)).collect(), "it declares 256 states, the most is 255");
    }

    #[test]
    fn a_wrong_state_is_refused_in_words() {
        refused(|d| d.states[0].kind = 9, "the state \"seen\" is of unknown kind 9");
        refused(|d| d.states[0].key_schema = vec![0, 0], "of kind Value, but a map must");
        refused(|d| d.states[1].key_schema.clear(), "of kind Map, but a map must");
        refused(|d| d.states[1].key_schema = vec![0], "the key of the state \"lines\"");
        refused(|d| d.states[0].ttl = -1, "time to live of -1 ms");
        refused(|d| d.states[0].ttl_update = 2, "unknown ttl-update 2");
        refused(|d| d.states[1].name = "seen".to_owned(), "which another has too");
    }

    #[test]
    fn a_wrong_broadcast_state_is_refused_in_words() {
        refused(|d| d.broadcast.clear(), "the broadcast state \"rules\", but no broadcast input");
        refused(|d| d.broadcast = vec![99], "the type of the broadcast input cannot be read");
        refused(|d| d.broadcast_states[0] = state("rules", 0), "the broadcast state \"rules\" must be a map without a time to live");
        refused(|d| d.broadcast_states[0].ttl = 1, "must be a map without a time to live");
        refused(|d| d.broadcast_states[0].name = "seen".to_owned(), "which a keyed state has too");
        refused(|d| d.broadcast_states.push(state("rules", 2)), "a broadcast state has the name \"rules\", which another has too");
    }

    #[test]
    fn deep_and_large_types_are_refused() {
        let deep = |levels: usize| [vec![0], vec![16; levels], vec![0]].concat();
        refused(|d| d.input = deep(10_000_000), "the type table has 10000002 bytes, more than 1048576");
        refused(|d| d.input = deep(100_000), "the type of the input cannot be read");
    }
}
