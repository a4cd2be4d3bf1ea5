//! Numbers the distinct keys of a batch as slots.

use std::sync::Arc;

use crate::batch::Batch;
use crate::detector::{KeyRef, SlotKeys};
use crate::key_group::key_group;

/// Finds the slot of each record's key; keeps its memory from batch to batch.
#[derive(Debug, Default)]
pub(super) struct SlotTable {
    /// Open addressing by the key's hash: slot + 1, or 0.
    places: Vec<u32>,
    /// The slot of each record.
    pub(super) slot: Vec<u32>,
}

impl SlotTable {
    /// Fills `keys` and `slot` for the records `rows` of a keyed batch, in order of first appearance.
    #[expect(clippy::indexing_slicing, reason = "places are masked by a length that is a power of two")]
    #[expect(clippy::cast_possible_truncation, reason = "batches are far below 4 billion rows, and only hash bits are cut")]
    pub(super) fn assign(&mut self, batch: &Batch, rows: std::ops::Range<usize>, max_parallelism: u32, keys: &mut Arc<SlotKeys>) {
        let keys = unshared(keys);
        self.slot.clear();
        let capacity = (rows.len() * 2).next_power_of_two().max(16);
        self.places.clear();
        self.places.resize(capacity, 0);
        let mask = capacity - 1;
        for row in rows {
            let (bytes, hash) = (batch.key.get(row), batch.hash.get(row).copied().unwrap_or(0));
            let mut place = hash as usize & mask;
            let slot = loop {
                match self.places[place] {
                    0 => {
                        let slot = keys.len() as u32;
                        keys.push(KeyRef { bytes, hash, group: key_group(hash, max_parallelism) });
                        self.places[place] = slot + 1;
                        break slot;
                    }
                    taken => {
                        let slot = taken - 1;
                        if keys.hashes.get(slot as usize) == Some(&hash) && keys.keys.get(slot as usize) == bytes {
                            break slot;
                        }
                        place = (place + 1) & mask;
                    }
                }
            };
            self.slot.push(slot);
        }
    }
}

/// The keys, empty and unshared: a call may have kept a reference, then new ones are made.
pub(super) fn unshared(keys: &mut Arc<SlotKeys>) -> &mut SlotKeys {
    if Arc::get_mut(keys).is_none() {
        *keys = Arc::default();
    }
    let keys = Arc::make_mut(keys);
    keys.clear();
    keys
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::SlotTable;
    use crate::batch::{Batch, Origin};
    use crate::detector::SlotKeys;
    use crate::key_group::hash_key;

    #[test]
    fn equal_keys_share_a_slot() {
        let mut batch = Batch::default();
        for key in ["b", "a", "b", "c", "a"] {
            batch.push(b"", None, Origin::NONE);
            batch.key.push(key.as_bytes());
            // One hash for all: the table must compare the keys.
            batch.hash.push(hash_key(b"same"));
        }
        let (mut table, mut keys) = (SlotTable::default(), Arc::<SlotKeys>::default());
        table.assign(&batch, 0..5, 128, &mut keys);
        assert_eq!(table.slot, [0, 1, 0, 2, 1]);
        assert_eq!(keys.keys.view().iter().collect::<Vec<_>>(), [b"b", b"a", b"c"]);
        table.assign(&batch, 1..2, 128, &mut keys);
        assert_eq!((table.slot.as_slice(), keys.len()), (&[0][..], 1));
    }
}
