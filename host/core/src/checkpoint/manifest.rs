//! What a checkpoint consists of: the one file whose presence makes a checkpoint exist. It is JSON, so that people can read it, followed by
//! one line with a checksum of it.

use serde::{Deserialize, Serialize};
use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate};
use tidemill_wit::schema::TypeTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::sink::Committable;
use crate::source::Split;
use crate::{Error, Result};

/// The format that is written. Older ones are read for ever.
pub const FORMAT: u32 = 1;

/// A completed checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this format.
    pub format: u32,
    /// The job's name.
    pub job: String,
    /// The checkpoint's number.
    pub checkpoint: u64,
    /// Which start from nothing over existing output the job is in; 0 is the first.
    pub incarnation: u32,
    /// The number of subtasks.
    pub parallelism: u32,
    /// The number of key groups.
    pub max_parallelism: u32,
    /// When it was completed, in milliseconds since the epoch.
    pub created: i64,
    /// Whether all input had been read: nothing follows this checkpoint.
    pub end_of_input: bool,
    /// The state files, of all workers.
    pub states: Vec<StateFile>,
    /// Where reading goes on.
    pub sources: Vec<SourceEntry>,
    /// What remains to be committed.
    pub sinks: Vec<SinkEntry>,
    /// The operators, with what their state means.
    pub operators: Vec<OperatorEntry>,
}

/// A file with the state of one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    /// Its name in the checkpoint's folder.
    pub name: String,
    /// The worker that wrote it.
    pub worker: u32,
    /// Its size.
    pub bytes: u64,
    /// XXH3 (64 bits) of its bytes, in hexadecimal.
    pub checksum: String,
    /// The checkpoint whose state this file changes; none if it holds everything.
    pub base: Option<u64>,
}

/// The splits of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceEntry {
    /// The source's uid.
    pub uid: String,
    /// All splits known, with their positions.
    pub splits: Vec<Split>,
}

/// The committables of a sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkEntry {
    /// The sink's uid.
    pub uid: String,
    /// What its writers prepared, of all subtasks.
    pub committables: Vec<Committable>,
}

/// An operator and the meaning of its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorEntry {
    /// The operator's uid.
    pub uid: String,
    /// The digest of its component.
    pub component: String,
    /// The type of its key: a [`TypeTable`] in hexadecimal; none for an operator without keys.
    pub key: Option<String>,
    /// Its states; a state's index here is its id in the state files.
    pub states: Vec<StateEntry>,
}

/// A keyed state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateEntry {
    /// The state's name.
    pub name: String,
    /// `value`, `list`, `map`, `reducing` or `aggregating`.
    pub kind: String,
    /// The type of the values: a [`TypeTable`] in hexadecimal.
    pub value: String,
    /// The type of a map's keys, likewise.
    pub entry_key: Option<String>,
    /// The time to live in milliseconds.
    pub ttl: Option<i64>,
    /// Whether reading renews the time to live, too.
    pub ttl_on_read: bool,
}

impl Manifest {
    /// The file's content.
    ///
    /// # Errors
    /// The manifest cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let failed = |error| Error::storage(format!("cannot describe checkpoint {}", self.checkpoint)).caused_by(error);
        let mut bytes = serde_json::to_vec_pretty(self).map_err(failed)?;
        bytes.push(b'\n');
        let trailer = trailer(&bytes);
        bytes.extend_from_slice(trailer.as_bytes());
        Ok(bytes)
    }

    /// Reads a file's content.
    ///
    /// # Errors
    /// The content is not what was written, or is of a version that this program does not know.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let cut = || Error::corrupt("the manifest is cut off");
        let end = bytes.strip_suffix(b"\n").ok_or_else(cut)?;
        let body_len = end.iter().rposition(|byte| *byte == b'\n').ok_or_else(cut)? + 1;
        let (body, found) = bytes.split_at_checked(body_len).ok_or_else(cut)?;
        if found != trailer(body).as_bytes() {
            return Err(Error::corrupt("the manifest is not what was written: its checksum is wrong"));
        }
        let invalid = |error| Error::corrupt("the manifest is not one of a checkpoint").caused_by(error);
        let version = serde_json::from_slice::<Version>(body).map_err(invalid)?;
        if version.format != FORMAT {
            let text = format!(
                "the manifest has the format {}, this program reads the format {FORMAT}: use the program that wrote it",
                version.format
            );
            return Err(Error::config(text));
        }
        serde_json::from_slice(body).map_err(invalid)
    }
}

impl OperatorEntry {
    /// Describes an operator.
    #[must_use]
    pub fn new(uid: &str, component: &str, key: Option<&TypeTable>, states: &[StateDescriptor]) -> Self {
        let states = states.iter().map(StateEntry::new).collect();
        Self { uid: uid.to_owned(), component: component.to_owned(), key: key.map(type_to_text), states }
    }

    /// The type of the operator's key.
    ///
    /// # Errors
    /// The text is not a type.
    pub fn key_type(&self) -> Result<Option<TypeTable>> {
        self.key.as_deref().map(|text| type_from_text(&format!("the key of operator `{}`", self.uid), text)).transpose()
    }

    /// The states as their component described them.
    ///
    /// # Errors
    /// A text is not a type or no kind of state.
    pub fn descriptors(&self) -> Result<Vec<StateDescriptor>> {
        let named = |state: &StateEntry| {
            state.descriptor().map_err(|error| error.while_doing(format!("reading the states of operator `{}`", self.uid)))
        };
        self.states.iter().map(named).collect()
    }
}

impl StateEntry {
    fn new(state: &StateDescriptor) -> Self {
        Self {
            name: state.name.clone(),
            kind: kind_name(state.kind).to_owned(),
            value: type_to_text(&state.value),
            entry_key: state.entry_key.as_ref().map(type_to_text),
            ttl: state.ttl,
            ttl_on_read: state.ttl_update == TtlUpdate::OnReadAndWrite,
        }
    }

    fn descriptor(&self) -> Result<StateDescriptor> {
        let kind = KINDS.into_iter().find(|kind| kind_name(*kind) == self.kind);
        let kind = kind.ok_or_else(|| Error::corrupt(format!("state `{}` has the unknown kind `{}`", self.name, self.kind)))?;
        let what = format!("state `{}`", self.name);
        Ok(StateDescriptor {
            name: self.name.clone(),
            kind,
            value: type_from_text(&what, &self.value)?,
            entry_key: self.entry_key.as_deref().map(|text| type_from_text(&what, text)).transpose()?,
            ttl: self.ttl,
            ttl_update: if self.ttl_on_read { TtlUpdate::OnReadAndWrite } else { TtlUpdate::OnCreateAndWrite },
        })
    }
}

/// XXH3 (64 bits) in hexadecimal, as manifests write checksums.
#[must_use]
pub fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

/// The part of a manifest that every version has.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

const KINDS: [StateKind; 5] = [StateKind::Value, StateKind::List, StateKind::Map, StateKind::Reducing, StateKind::Aggregating];

fn kind_name(kind: StateKind) -> &'static str {
    match kind {
        StateKind::Value => "value",
        StateKind::List => "list",
        StateKind::Map => "map",
        StateKind::Reducing => "reducing",
        StateKind::Aggregating => "aggregating",
    }
}

/// The last line, JSON as well, so that tools for JSON get through the file.
fn trailer(body: &[u8]) -> String {
    format!("{{\"xxh3\": \"{}\"}}\n", checksum(body))
}

fn type_to_text(table: &TypeTable) -> String {
    table.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn type_from_text(what: &str, text: &str) -> Result<TypeTable> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    let bytes = pairs.collect::<Option<Vec<u8>>>();
    let bytes = bytes.ok_or_else(|| Error::corrupt(format!("the type of {what} is not hexadecimal")))?;
    TypeTable::from_bytes(&bytes).map_err(|reason| Error::corrupt(format!("the type of {what} cannot be read: {reason}")))
}

#[cfg(test)]
mod tests;
