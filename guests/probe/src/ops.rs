//! What a record can ask for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidemill_sdk::{Duration, Schema};

use crate::variant::{Key, no_tag};

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Input {
    /// Its key.
    pub key: Key,
    /// What to do, in order.
    pub ops: Vec<Op>,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Said {
    /// The key of the record or timer.
    pub key: Key,
    /// The text.
    pub say: String,
}

/// Something to do. To say a text is to emit it on the lane `main`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Say this.
    Emit(String),
    /// Emit a text on a lane.
    Side {
        /// Which one.
        lane: Lane,
        /// The text.
        say: String,
    },
    /// Say the parameter `greeting`.
    Greet,
    /// Say the event time of the record, or the time of the timer.
    SayTimestamp,
    /// Say the watermark.
    SayWatermark,
    /// Say the processing time.
    SayProcessingTime,

    /// Register an event-time timer.
    EventTimer(i64),
    /// Register an event-time timer so long after the time of the record or timer.
    EventTimerIn(Duration),
    /// Delete an event-time timer; its script stays.
    DeleteEventTimer(i64),
    /// Register a processing-time timer.
    ProcessingTimer(i64),
    /// Register a processing-time timer so long after the processing time.
    ProcessingTimerIn(Duration),
    /// Delete a processing-time timer; its script stays.
    DeleteProcessingTimer(i64),
    /// Register an event-time timer, and keep ops for it.
    EventTimerDo {
        /// When it is due.
        at: i64,
        /// What to do then.
        ops: Vec<Op>,
    },
    /// Register a processing-time timer, and keep ops for it.
    ProcessingTimerDo {
        /// When it is due.
        at: i64,
        /// What to do then.
        ops: Vec<Op>,
    },

    /// Set the value.
    Put(i64),
    /// Say the value.
    Get,
    /// Read the value, add to it (to 0 if there is none) and set it.
    Add(i64),
    /// Clear the value.
    ClearValue,
    /// Set the note, as far as the variant's has these fields: the op is the same in all variants, so that scripts keep their type.
    Note {
        /// A text.
        text: String,
        /// A number.
        #[serde(default)]
        count: u32,
        /// Another text.
        #[serde(default = "no_tag")]
        tag: String,
    },
    /// Say the note.
    GetNote,
    /// Clear the note.
    ClearNote,

    /// Add to the list.
    ListAdd(String),
    /// Add all of these to the list.
    ListAddAll(Vec<String>),
    /// Replace the list.
    ListUpdate(Vec<String>),
    /// Say the list.
    ListGet,
    /// Clear the list.
    ListClear,

    /// Put entries into the map.
    MapPut(BTreeMap<String, i64>),
    /// Remove an entry.
    MapRemove(String),
    /// Clear the map.
    MapClear,
    /// Say an entry.
    MapGet(String),
    /// Say whether there is such an entry.
    MapContains(String),
    /// Say whether the map is empty.
    MapIsEmpty,
    /// Say how many entries there are.
    MapLen,
    /// Say the keys.
    MapKeys,
    /// Say the entries.
    MapEntries,

    /// Add to the sum.
    SumAdd(i64),
    /// Say the sum.
    GetSum,
    /// Clear the sum.
    SumClear,
    /// Add to the average.
    AverageAdd(i64),
    /// Say the average.
    GetAverage,
    /// Clear the average.
    AverageClear,

    /// Say what the table `names` has under this id.
    Lookup(String),

    /// The record is bad.
    Fail(String),
    /// The job must fail.
    Fatal(String),
    /// Execute an unreachable instruction.
    Trap,
    /// Never end.
    Loop,
    /// Use up the stack.
    Recurse,
    /// Grow the memory by so many MiB.
    Allocate(u32),
    /// Do this, then trap.
    UnreachableAfter(Vec<Op>),
}

/// A lane, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// The one on which texts are said.
    Main,
    /// A side output.
    Late,
    /// Another one.
    Other,
}
