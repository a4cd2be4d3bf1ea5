//! A detector: a pure function from (a batch of rows, the state they touch) to effects. WebAssembly guests and native code implement it.

use std::sync::Arc;
use std::time::Duration;

use tidemill_wit::columns::{Blobs, BlobsBuf};
use tidemill_wit::descriptor::{Descriptor, StateDescriptor};

use crate::Timestamp;
use crate::effects::Effects;
use crate::key_group::KeyGroup;
use crate::schema::OneForm;
use crate::state::{BroadcastStates, KeyedState, NoState};
use crate::table::Table;
use crate::time::Domain;

/// Makes instances of one detector. An instance holds no state between batches, so a new one can take over at any time.
pub trait DetectorFactory: Send + Sync {
    /// What the detector says about itself.
    fn descriptor(&self) -> &Descriptor;

    /// A new instance, opened with its parameters (encoded as the descriptor says).
    ///
    /// # Errors
    /// The detector refuses the parameters, or traps.
    fn open(&self, parameters: &[u8]) -> Result<Box<dyn Detector>, Failure>;
}

/// An instance of a detector. After a failure other than [`Failure::BadRecord`] and [`Failure::Fatal`] it is of no more use.
pub trait Detector: Send {
    /// The bytes of memory that the instance keeps until it is dropped. The caller replaces an instance that has grown far.
    fn memory(&self) -> u64 {
        0
    }

    /// Processes elements. Returns how many rows were consumed; the effects of a failed call mean nothing.
    ///
    /// # Errors
    /// See [`Failure`].
    fn process_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure>;

    /// Fires timers. Returns how many rows were consumed; the effects of a failed call mean nothing.
    ///
    /// # Errors
    /// See [`Failure`].
    fn on_timers(
        &mut self,
        context: &CallContext<'_>,
        timers: &Timers<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure>;

    /// Processes records of the broadcast input: the context has no keys, and the writes are of broadcast states. Returns how many rows were
    /// consumed; the effects of a failed call mean nothing.
    ///
    /// # Errors
    /// See [`Failure`]; also a detector without such an input.
    fn process_broadcast_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let _ = (context, elements, reads, effects);
        Err(Failure::Fatal("the detector takes no broadcast records".to_owned()))
    }
}

/// How a call can fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The detector says that a row is bad: the error policy decides.
    BadRecord {
        /// The row in the batch.
        row: u32,
        /// What is wrong with it.
        reason: String,
    },
    /// The detector says that the job must fail.
    Fatal(String),
    /// The call did not end in time.
    Deadline(String),
    /// The call has several rows and took longer than the caller's [patience](Reads::patience): nothing is wrong, fewer rows at once may do.
    CutShort,
    /// The call trapped, broke a limit or answered nonsense.
    Trap(String),
    /// The machine lacks something for an instance, such as memory: no fault of the detector.
    Machine(String),
}

/// What all rows of a call share: the time and the keys with their state.
#[derive(Clone, Copy, Debug)]
pub struct CallContext<'a> {
    /// The operator's watermark.
    pub watermark: Timestamp,
    /// The host's clock.
    pub processing_time: Timestamp,
    /// The distinct encoded keys of the batch.
    pub keys: Blobs<'a>,
    /// The state of those keys before the batch.
    pub prefetched: &'a Prefetched,
}

/// Elements in order of arrival.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// The key slot of each element; empty for an operator without keys.
    pub slot: &'a [u32],
    /// Event times.
    pub timestamp: &'a [i64],
    /// Empty if every element has an event time, else 1 or 0.
    pub timed: &'a [u8],
    /// The elements, encoded as the input type.
    pub payload: Blobs<'a>,
}

/// Due timers by time and slot.
#[derive(Clone, Copy, Debug)]
pub struct Timers<'a> {
    /// The clock on which they run.
    pub domain: Domain,
    /// The key slot of each timer.
    pub slot: &'a [u32],
    /// The time of each timer.
    pub timestamp: &'a [i64],
    /// A timer registered in the call for a time up to this fires in the call; none does if it is the least time.
    pub horizon: Timestamp,
}

/// The distinct keys of a batch; a key's index is its slot.
#[derive(Clone, Debug, Default)]
pub struct SlotKeys {
    /// The encoded keys.
    pub keys: BlobsBuf,
    /// Their hashes.
    pub hashes: Vec<u64>,
    /// Their key groups.
    pub groups: Vec<KeyGroup>,
}

impl SlotKeys {
    /// The number of slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are no slots.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The key of a slot.
    #[must_use]
    pub fn get(&self, slot: usize) -> KeyRef<'_> {
        KeyRef {
            bytes: self.keys.get(slot),
            hash: self.hashes.get(slot).copied().unwrap_or(0),
            group: self.groups.get(slot).copied().unwrap_or_default(),
        }
    }

    /// Appends a key.
    pub fn push(&mut self, key: KeyRef<'_>) {
        self.keys.push(key.bytes);
        self.hashes.push(key.hash);
        self.groups.push(key.group);
    }

    /// Removes all keys, keeping the capacity.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.hashes.clear();
        self.groups.clear();
    }
}

/// An encoded key with its hash and key group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef<'a> {
    /// The order-preserving encoding.
    pub bytes: &'a [u8],
    /// [`hash_key`](crate::key_group::hash_key) of the bytes.
    pub hash: u64,
    /// The key group of the hash.
    pub group: KeyGroup,
}

/// The state of a batch's keys as columns: one column per state, one cell per slot.
#[derive(Clone, Debug, Default)]
pub struct Prefetched {
    /// One per value, reducing or aggregating state, in the order of the descriptor.
    pub values: Vec<Cells>,
    /// One per list or map state, in the order of the descriptor.
    pub entries: Vec<Entries>,
}

/// A column of optional values.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    /// 1 or 0 per slot.
    pub present: Vec<u8>,
    /// The values; empty where absent.
    pub items: BlobsBuf,
}

impl Cells {
    /// Removes all cells, keeping the capacity.
    pub fn clear(&mut self) {
        self.present.clear();
        self.items.clear();
    }
}

/// The entries of a list or map per slot.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// 1 if all entries of the slot are here, 0 if they must be read lazily.
    pub whole: Vec<u8>,
    /// The end of each slot's entries in `key` and `value`.
    pub ends: Vec<u32>,
    /// Entry keys in order; empty items for a list.
    pub key: BlobsBuf,
    /// Entry values.
    pub value: BlobsBuf,
}

impl Prefetched {
    /// The bytes of all cells.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let values = self.values.iter().map(|cells| cells.items.bytes.len());
        let entries = self.entries.iter().map(|entries| entries.key.bytes.len() + entries.value.bytes.len());
        values.chain(entries).sum()
    }

    /// Whether every column is within what a column can hold.
    #[must_use]
    pub fn fits(&self) -> bool {
        let entries = |entries: &Entries| entries.key.fits(0) && entries.value.fits(0) && u32::try_from(entries.key.len()).is_ok();
        self.values.iter().all(|cells| cells.items.fits(0)) && self.entries.iter().all(entries)
    }

    /// Removes all cells, keeping the capacity.
    pub fn clear(&mut self) {
        for cells in &mut self.values {
            cells.clear();
        }
        for entries in &mut self.entries {
            entries.whole.clear();
            entries.ends.clear();
            entries.key.clear();
            entries.value.clear();
        }
    }
}

/// What a detector may read while it runs, as of the start of the batch. It owns its parts, so that a guest's store can hold it during a
/// call without a borrow.
pub struct Reads {
    /// The subtask's keyed state.
    pub state: Box<dyn KeyedState>,
    /// The broadcast states: read by any call, written by broadcast records.
    pub broadcast: BroadcastStates,
    /// The keys that the slots of the call stand for.
    pub slots: Arc<SlotKeys>,
    /// The reference tables, in the order of the descriptor.
    pub tables: Arc<[Table]>,
    /// The processing time of the batch, for TTL.
    pub processing_time: Timestamp,
    /// The one form of keys of keyed states, of broadcast states and of tables.
    pub keys: [OneForm; 3],
    /// The lines that the detector writes to the log.
    pub lines: Lines,
    /// After which time the caller would rather have the call end with [`Failure::CutShort`] and give it fewer rows; `None`: never.
    pub patience: Option<Duration>,
}

impl Reads {
    /// What keys of a detector's states and tables have for their one form.
    #[must_use]
    pub fn keys_of(descriptor: &Descriptor) -> [OneForm; 3] {
        let of = |states: &[StateDescriptor]| OneForm::new(states.iter().map(|state| state.entry_key.as_ref()));
        [of(&descriptor.states), of(&descriptor.broadcast_states), OneForm::new(descriptor.tables.iter().map(|table| Some(&table.key)))]
    }
}

/// Counts the lines that a detector writes to the log, so that those of rows which are processed again, after a call that failed, are written
/// once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines {
    /// In this call.
    said: u64,
    /// So many of the next lines were written before.
    repeated: u64,
}

impl Lines {
    /// Takes in a line. Returns whether it is new.
    pub fn add(&mut self) -> bool {
        self.said += 1;
        let is_new = self.repeated == 0;
        self.repeated = self.repeated.saturating_sub(1);
        is_new
    }

    /// Begins a call.
    pub(crate) fn begin(&mut self) {
        self.said = 0;
    }

    /// The call has failed: its rows come again, and a detector says of them what it has said.
    pub(crate) fn again(&mut self) {
        self.repeated += std::mem::take(&mut self.said);
    }

    /// What comes next has not been processed before.
    pub(crate) fn settle(&mut self) {
        self.repeated = 0;
    }
}

impl Default for Reads {
    fn default() -> Self {
        Self {
            state: Box::new(NoState),
            broadcast: BroadcastStates::default(),
            slots: Arc::default(),
            tables: Arc::from([]),
            processing_time: Timestamp(0),
            keys: Default::default(),
            lines: Lines::default(),
            patience: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn lines_of_rows_that_come_again_are_not_new() {
        let mut lines = Lines::default();
        let call = |lines: &mut Lines, count: u32| {
            lines.begin();
            (0..count).filter(|_| lines.add()).count()
        };
        assert_eq!(call(&mut lines, 3), 3);
        lines.again();
        // Row by row: the third one of them fails again, and is settled.
        assert_eq!((call(&mut lines, 1), call(&mut lines, 2), call(&mut lines, 1)), (0, 0, 1));
        lines.again();
        lines.settle();
        assert_eq!(call(&mut lines, 2), 2);
    }
}
