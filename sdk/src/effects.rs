//! What a batch asks for: owned, reusable columns that mirror the record `effects` of `process.wit`.

use tidemill_wit::columns::BlobsBuf;
use tidemill_wit::descriptor::write_op;

/// All effects of a batch. Nothing has happened until the host applies them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// State writes.
    pub writes: Writes,
    /// Timer registrations and deletions, in order.
    pub timers: TimerOps,
    /// Output records, in order.
    pub outputs: Outputs,
}

/// Final state writes: at most one per value state and slot, and per map entry; a clear comes before what is put after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Codes of [`write_op`].
    pub op: Vec<u8>,
    /// State ids.
    pub state: Vec<u8>,
    /// Key slots.
    pub slot: Vec<u32>,
    /// Encoded map keys; empty where the write is not of a map entry.
    pub entry: BlobsBuf,
    /// Encoded values; empty where nothing is put.
    pub value: BlobsBuf,
}

/// Timer registrations and deletions, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimerOps {
    /// Codes of [`timer_op`](tidemill_wit::descriptor::timer_op).
    pub op: Vec<u8>,
    /// Codes of [`time_domain`](tidemill_wit::descriptor::time_domain).
    pub domain: Vec<u8>,
    /// Key slots.
    pub slot: Vec<u32>,
    /// Times in milliseconds.
    pub timestamp: Vec<i64>,
}

/// Output records, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Lane ids.
    pub lane: Vec<u8>,
    /// The element or timer that caused the record.
    pub row: Vec<u32>,
    /// Event times in milliseconds; 0 where there is none.
    pub timestamp: Vec<i64>,
    /// Empty if every record has a timestamp, else 1 or 0 per record.
    pub timed: Vec<u8>,
    /// The encoded records.
    pub payload: BlobsBuf,
}

impl Effects {
    /// Removes everything, keeping the capacity.
    pub fn clear(&mut self) {
        let (writes, timers, outputs) = (&mut self.writes, &mut self.timers, &mut self.outputs);
        for column in [&mut writes.op, &mut writes.state, &mut timers.op, &mut timers.domain, &mut outputs.lane, &mut outputs.timed] {
            column.clear();
        }
        for column in [&mut writes.slot, &mut timers.slot, &mut outputs.row] {
            column.clear();
        }
        for column in [&mut timers.timestamp, &mut outputs.timestamp] {
            column.clear();
        }
        for column in [&mut writes.entry, &mut writes.value, &mut outputs.payload] {
            column.clear();
        }
    }
}

impl Writes {
    /// Begins a write of an entry whose key is appended already, or that has none; what is appended to `value` next is its value.
    #[inline]
    fn begin(&mut self, op: u8, state: u8, slot: u32, entry: &[u8]) {
        self.op.push(op);
        self.state.push(state);
        self.slot.push(slot);
        self.entry.push(entry);
    }

    /// Adds a write without a value.
    #[inline]
    pub(crate) fn push(&mut self, op: u8, state: u8, slot: u32, entry: &[u8]) {
        self.begin(op, state, slot, entry);
        self.value.finish();
    }

    /// Adds a write with a value.
    ///
    /// # Errors
    /// The value does not encode.
    #[inline]
    pub(crate) fn push_value<T: serde::Serialize>(&mut self, op: u8, state: u8, slot: u32, entry: &[u8], value: &T) -> Result<(), String> {
        debug_assert!([write_op::PUT, write_op::PUT_ENTRY, write_op::APPEND].contains(&op), "op {op} has no value");
        self.begin(op, state, slot, entry);
        crate::encode::append(value, &mut self.value.bytes)?;
        self.value.finish();
        Ok(())
    }
}

impl TimerOps {
    #[inline]
    pub(crate) fn push(&mut self, op: u8, domain: u8, slot: u32, timestamp: i64) {
        self.op.push(op);
        self.domain.push(domain);
        self.slot.push(slot);
        self.timestamp.push(timestamp);
    }
}

impl Outputs {
    /// Adds the record whose bytes were appended to `payload`.
    #[inline]
    pub(crate) fn finish(&mut self, lane: u8, row: u32, timestamp: Option<i64>) {
        if timestamp.is_none() && self.timed.is_empty() {
            self.timed.resize(self.lane.len(), 1);
        }
        self.lane.push(lane);
        self.row.push(row);
        self.timestamp.push(timestamp.unwrap_or(0));
        self.payload.finish();
        if timestamp.is_none() || !self.timed.is_empty() {
            self.timed.push(u8::from(timestamp.is_some()));
        }
    }
}
