//! A batch as it comes in: borrowed columns that mirror the records of `process.wit`.

use tidemill_wit::columns::Blobs;

/// What a batch touches: its distinct keys, numbered as slots, and their state before the batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The current watermark, in milliseconds.
    pub watermark: i64,
    /// The processing time of the whole batch, in milliseconds.
    pub processing_time: i64,
    /// The encoded keys; a slot is an index here. Empty for an operator without keys.
    pub keys: Blobs<'a>,
    /// One item per value state, in the order of the descriptor.
    pub values: &'a [Cells<'a>],
    /// One item per list or map state, in the order of the descriptor.
    pub entries: &'a [Entries<'a>],
}

/// A value state, one cell per slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cells<'a> {
    /// 1 where there is a value.
    pub present: &'a [u8],
    /// The encoded values; empty where there is none.
    pub items: Blobs<'a>,
}

/// A map or list state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entries<'a> {
    /// 1 if all entries of a slot are here, 0 if they must be read through [`Host`](crate::host::Host).
    pub whole: &'a [u8],
    /// Where a slot's entries end in `key` and `value`.
    pub ends: &'a [u32],
    /// Encoded map keys in their order; empty items for a list.
    pub key: Blobs<'a>,
    /// Encoded map values or list elements.
    pub value: Blobs<'a>,
}

/// Records in the order of arrival.
#[derive(Clone, Copy, Debug, Default)]
pub struct Elements<'a> {
    /// The slot of each record's key; empty for an operator without keys.
    pub slot: &'a [u32],
    /// Event times in milliseconds.
    pub timestamp: &'a [i64],
    /// Empty if every record has a timestamp, else 1 or 0 per record.
    pub timed: &'a [u8],
    /// The encoded records.
    pub payload: Blobs<'a>,
}

/// Due timers by time and slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timers<'a> {
    /// A code of [`time_domain`](tidemill_wit::descriptor::time_domain).
    pub domain: u8,
    /// The slot of each timer's key.
    pub slot: &'a [u32],
    /// When each timer is due, in milliseconds.
    pub timestamp: &'a [i64],
    /// A timer that is registered meanwhile, in this domain, for a time up to this fires in the same pass; none does if it is the least time.
    pub horizon: i64,
}

impl<'a> Cells<'a> {
    /// The encoded value of a slot.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&'a [u8]> {
        let slot = slot as usize;
        (self.present.get(slot) == Some(&1)).then(|| self.items.get(slot))
    }
}

impl Entries<'_> {
    /// The range of a slot's entries in `key` and `value`; `None` if the slot is not whole.
    #[inline]
    pub(crate) fn range(&self, slot: u32) -> Option<std::ops::Range<usize>> {
        let slot = slot as usize;
        if self.whole.get(slot) != Some(&1) {
            return None;
        }
        let start = slot.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0) as usize;
        Some(start..self.ends.get(slot).copied().unwrap_or(0) as usize)
    }

    /// The index of a map entry among a slot's whole entries.
    pub(crate) fn find(&self, range: std::ops::Range<usize>, key: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low.midpoint(high);
            match self.key.get(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

impl Elements<'_> {
    /// The event time of a record.
    #[inline]
    pub(crate) fn time(&self, row: usize) -> Option<i64> {
        let timed = self.timed.is_empty() || self.timed.get(row) == Some(&1);
        if timed { self.timestamp.get(row).copied() } else { None }
    }
}
