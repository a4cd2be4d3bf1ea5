//! Where the keys of the last batch lie, so that its writes need not search for them again.

use super::keys::{Keys, NONE};
use crate::detector::SlotKeys;

/// The place of each slot's key.
#[derive(Debug, Default)]
pub(super) struct Places {
    ids: Vec<u32>,
    /// The hashes of the keys that the places were found for: who asks for others gets no answer.
    hashes: Vec<u64>,
}

impl Places {
    /// Finds the places of a batch's keys. All keys are loaded into the cache before the first one is looked at: that overlaps the misses,
    /// which cost more than everything else here.
    pub(super) fn find(&mut self, slots: &SlotKeys, keys: &Keys) {
        self.hashes.clear();
        self.hashes.extend_from_slice(&slots.hashes);
        keys.candidates(slots, &mut self.ids);
        keys.warm(self.ids.iter().copied());
        for (slot, id) in self.ids.iter_mut().enumerate() {
            // No place is sure; another one may be that of a key with the same tag.
            if *id != NONE {
                *id = keys.find(slots.get(slot), *id).unwrap_or(NONE);
            }
        }
    }

    /// Finds the places unless they are known already.
    pub(super) fn ensure(&mut self, slots: &SlotKeys, keys: &Keys) {
        if !self.are_of(slots) {
            self.find(slots, keys);
        }
    }

    /// Whether the places are those of this batch.
    pub(super) fn are_of(&self, slots: &SlotKeys) -> bool {
        self.hashes == slots.hashes
    }

    /// Keys have been removed or have come: nothing is known any more.
    pub(super) fn forget(&mut self) {
        self.hashes.clear();
        self.ids.clear();
    }

    /// The place of a slot's key, or [`NONE`].
    #[inline]
    pub(super) fn get(&self, slot: u32) -> u32 {
        self.ids.get(slot as usize).copied().unwrap_or(NONE)
    }

    /// The key of this slot lies here now, or no longer anywhere.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, id: u32) {
        if let Some(place) = self.ids.get_mut(slot as usize) {
            *place = id;
        }
    }
}
