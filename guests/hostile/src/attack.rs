//! The answers to a batch, as flat as the contract has them.

use serde::{Deserialize, Serialize};
use tidemill_wit::columns::BlobsBuf;
use tidemill_wit::descriptor::write_op;

/// What the job spec says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// What to do wrong.
    pub attack: Attack,
    /// Only do so in a batch that has a record with this key; empty: in every batch.
    pub only: String,
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attack {
    /// Nothing.
    #[default]
    None,
    /// A state write for a slot that the batch does not have.
    WrongSlot,
    /// An output on a lane that is not declared.
    WrongLane,
    /// A column that is longer than the others.
    UnequalColumns,
    /// An item that ends before it begins.
    BackwardEnds,
    /// An item that ends beyond the bytes of its column.
    EndsPastBytes,
    /// More rows consumed than there were.
    ConsumedTooLarge,
    /// An output of 1 GiB.
    HugeOutput,
}

/// An answer: one write of the state `seen` at most, outputs, and how many rows were consumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The slot of the write.
    pub write_slot: Option<u32>,
    /// The columns of the outputs.
    pub lane: Vec<u8>,
    /// See [`lane`](Self::lane).
    pub row: Vec<u32>,
    /// See [`lane`](Self::lane).
    pub timestamp: Vec<i64>,
    /// See [`lane`](Self::lane).
    pub payload: BlobsBuf,
    /// The number of rows.
    pub consumed: u32,
}

impl Attack {
    /// The attacks by the names that they have in a job spec, in the order of their codes.
    pub const NAMES: [&str; 8] =
        ["none", "wrong-slot", "wrong-lane", "unequal-columns", "backward-ends", "ends-past-bytes", "consumed-too-large", "huge-output"];

    /// Makes an honest answer a wrong one.
    pub fn spoil(self, answer: &mut Answer) {
        match self {
            Self::None => {}
            Self::WrongSlot => answer.write_slot = Some(1_000_000),
            Self::WrongLane => answer.emit(7, b"lost"),
            Self::UnequalColumns => answer.row.push(0),
            Self::BackwardEnds => {
                answer.emit(0, b"backward");
                answer.emit(0, b"");
                let end = answer.payload.ends.len() - 1;
                answer.payload.ends.swap_remove(end - 1);
                answer.payload.ends.push(0);
            }
            Self::EndsPastBytes => {
                answer.emit(0, b"short");
                answer.payload.ends.pop();
                answer.payload.ends.push(1 << 30);
            }
            Self::ConsumedTooLarge => answer.consumed += 1,
            Self::HugeOutput => answer.emit(0, &vec![0; 1 << 30]),
        }
    }
}

impl Answer {
    /// Adds an output of row 0.
    pub fn emit(&mut self, lane: u8, payload: &[u8]) {
        self.lane.push(lane);
        self.row.push(0);
        self.timestamp.push(0);
        self.payload.push(payload);
    }

    /// The column `op` of the writes.
    #[must_use]
    pub fn write_op(&self) -> &'static [u8] {
        if self.write_slot.is_some() { &[write_op::PUT] } else { &[] }
    }
}
