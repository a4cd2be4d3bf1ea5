//! The column batch: how records travel from the source to the guest and on to the sink.

use tidemill_wit::columns::{Blobs, BlobsBuf, roomy};

/// Where a record came from: the source record that caused it. Records that a timer emits have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The index of the source in the job; [`Origin::NONE`] has `u32::MAX`.
    pub source: u32,
    /// The split's id within its source.
    pub split: u32,
    /// The record's position in the split: a byte offset, or what else the source counts in.
    pub position: u64,
}

impl Origin {
    /// No source record: a timer was the cause.
    pub const NONE: Self = Self { source: u32::MAX, split: 0, position: 0 };

    /// No source record: a timer at this time was the cause.
    #[must_use]
    pub const fn timer(time: i64) -> Self {
        Self { position: time.cast_unsigned(), ..Self::NONE }
    }

    /// The time of the timer that was the cause, if none was a source record.
    #[must_use]
    pub const fn timer_time(self) -> Option<i64> {
        if self.source == Self::NONE.source { Some(self.position.cast_signed()) } else { None }
    }
}

/// Records as columns of equal length. A batch on its way to a keyed operator also has the encoded key and its hash for each record;
/// elsewhere `key` and `hash` are empty.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The records, encoded as their type table says.
    pub payload: BlobsBuf,
    /// Event times in milliseconds; meaningless where `timed` is 0.
    pub timestamp: Vec<i64>,
    /// Empty if every record has an event time, else 1 or 0 per record.
    pub timed: Vec<u8>,
    /// Where the records came from.
    pub origin: Vec<Origin>,
    /// The encoded keys, or none.
    pub key: BlobsBuf,
    /// The hashes of the keys, or none.
    pub hash: Vec<u64>,
    /// Whether every subtask of the receiver gets the records, as its broadcast input.
    pub broadcast: bool,
}

impl Batch {
    /// The number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.timestamp.len()
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.timestamp.is_empty()
    }

    /// An empty batch with room for one like this.
    #[must_use]
    pub fn with_same_capacity(&self) -> Self {
        Self {
            payload: self.payload.with_same_capacity(),
            timestamp: Vec::with_capacity(roomy(self.timestamp.len())),
            timed: Vec::with_capacity(roomy(self.timed.len())),
            origin: Vec::with_capacity(roomy(self.origin.len())),
            key: self.key.with_same_capacity(),
            hash: Vec::with_capacity(roomy(self.hash.len())),
            broadcast: self.broadcast,
        }
    }

    /// The event time of record `row`, if it has one.
    #[must_use]
    pub fn time_of(&self, row: usize) -> Option<i64> {
        match self.timed.get(row) {
            Some(0) => None,
            _ => self.timestamp.get(row).copied(),
        }
    }

    /// Appends a record without key.
    pub fn push(&mut self, payload: &[u8], time: Option<i64>, origin: Origin) {
        self.payload.push(payload);
        self.push_head(time, origin);
    }

    /// Appends time and origin of a record whose payload was appended already.
    pub fn push_head(&mut self, time: Option<i64>, origin: Origin) {
        if time.is_none() && self.timed.is_empty() {
            self.timed.resize(self.timestamp.len(), 1);
        }
        if time.is_none() || !self.timed.is_empty() {
            self.timed.push(u8::from(time.is_some()));
        }
        self.timestamp.push(time.unwrap_or(0));
        self.origin.push(origin);
    }

    /// Whether a record of so many bytes, with a key of so many, still fits: a column holds at most 4 GiB.
    #[inline]
    #[must_use]
    pub fn fits(&self, payload: usize, key: usize) -> bool {
        self.payload.fits(payload) && self.key.fits(key)
    }

    /// The payload column.
    #[must_use]
    pub fn payloads(&self) -> Blobs<'_> {
        self.payload.view()
    }

    /// Removes all records, keeping the capacity.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.timestamp.clear();
        self.timed.clear();
        self.origin.clear();
        self.key.clear();
        self.hash.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Origin};

    #[test]
    fn records_without_time_are_told_apart() {
        let mut batch = Batch::default();
        batch.push(b"a", Some(1), Origin::NONE);
        assert!(batch.timed.is_empty());
        batch.push(b"b", None, Origin::NONE);
        batch.push(b"c", Some(3), Origin::NONE);
        assert_eq!((0..3).map(|row| batch.time_of(row)).collect::<Vec<_>>(), [Some(1), None, Some(3)]);
        assert!(batch.fits(1 << 20, 0) && !batch.fits(1 << 32, 0) && !batch.fits(0, 1 << 32));
    }
}
