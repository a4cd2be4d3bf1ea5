//! The layout of keyed state in checkpoints and savepoints: independent of the backend and deterministic (equal state gives equal bytes).
//!
//! One run of bytes per key group. Integers of fixed width are little-endian; `varint` is an unsigned LEB128 number of at most 32 bits in
//! its shortest form; `blob` is a varint length and that many bytes.
//!
//! ```text
//! group     := version:u8 = 1, group:u16, keys:u32, key*, checksum:u64      keys: the number of key blocks
//!                                                                           checksum: XXH3 of all bytes before it
//! key       := 0:u8, key:blob, state*, 0:u8, timers, timers                 the key's whole content: it replaces what it had before
//!            | 1:u8, key:blob                                               a tombstone: the key is removed (in a delta)
//! state     := tag:u8, state:u8, content                                    tag: 1 value, 2 list, 3 map, plus 0x80 if stamped
//! content   := stamp?, value:blob                                           value (also reducing and aggregating)
//!            | count:varint, (stamp?, value:blob)*                          list, in insertion order
//!            | count:varint, (stamp?, key:blob, value:blob)*                map, in ascending key order
//! stamp     := time:i64                                                     when it was last renewed; only in a stamped state
//! timers    := count:varint, time:i64*                                      ascending; first event time, then processing time
//! ```
//!
//! Key blocks ascend by key bytes, states by id, and a state without content is left out. A stamp of `i64::MIN` ([`FRESH`]) stands for
//! content that has not been seen under a TTL yet: it counts as renewed when it is first seen.

mod merge;
mod reader;
mod writer;

use tidemill_wit::descriptor::StateKind;

use crate::time::Domain;

pub use merge::merge;
pub use reader::Reader;
pub use writer::Writer;

/// The version of the layout.
pub const VERSION: u8 = 1;

/// The stamp of content that becomes subject to a TTL when it is first seen.
pub const FRESH: i64 = i64::MIN;

const CONTENT: u8 = 0;
const TOMBSTONE: u8 = 1;
const END_OF_STATES: u8 = 0;
const STAMPED: u8 = 0x80;
const HEADER: usize = 7;
const CHECKSUM: usize = 8;

/// How a state is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// One value.
    Value = 1,
    /// Elements in insertion order.
    List = 2,
    /// Entries in key order.
    Map = 3,
}

impl Form {
    /// The form in which states of this kind are stored.
    #[must_use]
    pub fn of(kind: StateKind) -> Self {
        match kind {
            StateKind::Value | StateKind::Reducing | StateKind::Aggregating => Self::Value,
            StateKind::List => Self::List,
            StateKind::Map => Self::Map,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Value, Self::List, Self::Map].into_iter().find(|form| *form as u8 == code)
    }
}

/// What a key group's bytes consist of, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A key begins: what follows up to the next key is its whole content.
    Key(&'a [u8]),
    /// A key is gone.
    Tombstone(&'a [u8]),
    /// A value, list element or map entry.
    Entry(Entry<'a>),
    /// A timer.
    Timer(Domain, i64),
}

/// A value, list element or map entry with the state that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The state's id.
    pub state: u8,
    /// The state's form.
    pub form: Form,
    /// When it was last renewed; `None` if the state had no TTL.
    pub stamp: Option<i64>,
    /// The key of a map entry, else empty.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

#[cfg(test)]
mod tests;
