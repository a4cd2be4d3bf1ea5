//! What a component says about itself, and the codes that its columns use.

use crate::schema::TypeTable;

/// A component's answer to `describe`: everything the host must know to connect, encode and check it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// The detector's name.
    pub name: String,
    /// The detector's version, free text.
    pub version: String,
    /// The type of a record that comes in.
    pub input: TypeTable,
    /// The type of the operator's key: a tuple, or one plain type. `None` for an operator without keys, which may not declare state.
    pub key: Option<TypeTable>,
    /// The type of the parameters.
    pub parameters: TypeTable,
    /// The keyed states; a state's index here is its id in the columns.
    pub states: Vec<StateDescriptor>,
    /// The outputs; a lane's index here is its id in the columns, and the first is `main`.
    pub lanes: Vec<LaneDescriptor>,
    /// The reference tables.
    pub tables: Vec<TableDescriptor>,
    /// The type of a record of the broadcast input, which reaches every subtask. `None`: the detector has no such input.
    pub broadcast: Option<TypeTable>,
    /// The broadcast states: maps of which every subtask holds the same copy. A state's index here is its id in the columns of calls with
    /// broadcast records. They have no time to live.
    pub broadcast_states: Vec<StateDescriptor>,
}

/// A keyed state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDescriptor {
    /// The name under which the state is stored.
    pub name: String,
    /// What kind of state it is.
    pub kind: StateKind,
    /// The type of the value, the list element or the map value.
    pub value: TypeTable,
    /// The type of a map's keys.
    pub entry_key: Option<TypeTable>,
    /// How long a value or entry lives after it was last renewed, in milliseconds of processing time. `None`: for ever.
    pub ttl: Option<i64>,
    /// What renews it.
    pub ttl_update: TtlUpdate,
}

/// Flink's kinds of keyed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StateKind {
    /// One value.
    Value = 0,
    /// Elements in insertion order.
    List = 1,
    /// Entries in key order.
    Map = 2,
    /// One value, to which others are added by a function.
    Reducing = 3,
    /// An accumulator, to which inputs of another type are added.
    Aggregating = 4,
}

impl StateKind {
    /// The kind with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Value, Self::List, Self::Map, Self::Reducing, Self::Aggregating].into_iter().find(|kind| *kind as u8 == code)
    }

    /// Whether the state has entries (lists and maps) rather than one value.
    #[must_use]
    pub fn has_entries(self) -> bool {
        matches!(self, Self::List | Self::Map)
    }
}

/// What renews the time to live of a value or entry (Flink's `StateTtlConfig.UpdateType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TtlUpdate {
    /// Writing it.
    #[default]
    OnCreateAndWrite = 0,
    /// Writing or reading it.
    OnReadAndWrite = 1,
}

/// An output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneDescriptor {
    /// `main`, or the name of a side output.
    pub name: String,
    /// The type of its records.
    pub schema: TypeTable,
}

/// A reference table: immutable rows that are looked up by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDescriptor {
    /// The name by which the job spec gives it a file.
    pub name: String,
    /// The type of a row.
    pub row: TypeTable,
    /// The type of the key.
    pub key: TypeTable,
    /// The job spec may leave it out; it is then empty.
    pub optional: bool,
}

/// Codes of the column `writes.op`.
pub mod write_op {
    /// Put the value of a value state.
    pub const PUT: u8 = 0;
    /// Clear a state of any kind.
    pub const CLEAR: u8 = 1;
    /// Put a map entry.
    pub const PUT_ENTRY: u8 = 2;
    /// Remove a map entry.
    pub const REMOVE_ENTRY: u8 = 3;
    /// Append a list element.
    pub const APPEND: u8 = 4;
    /// Renew the time to live after a read.
    pub const TOUCH: u8 = 5;
    /// The number of codes.
    pub const COUNT: u8 = 6;
}

/// Codes of the column `timer-ops.op`.
pub mod timer_op {
    /// Register a timer.
    pub const REGISTER: u8 = 0;
    /// Delete a timer.
    pub const DELETE: u8 = 1;
    /// The number of codes.
    pub const COUNT: u8 = 2;
}

/// Codes of the column `timer-ops.domain`.
pub mod time_domain {
    /// Event time.
    pub const EVENT: u8 = 0;
    /// Processing time.
    pub const PROCESSING: u8 = 1;
    /// The number of codes.
    pub const COUNT: u8 = 2;
}
