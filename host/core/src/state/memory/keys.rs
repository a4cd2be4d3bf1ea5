//! The keys: an index from hashes to places.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use tidemill_wit::columns::BlobsBuf;

use super::block::Block;
use super::changes::Changes;
use super::own_timers::OwnTimers;
use super::slab::Slab;
use crate::detector::{KeyRef, SlotKeys};
use crate::key_group::{KeyGroup, hash_key};

/// The place of a key that is not there.
pub(super) const NONE: u32 = u32::MAX;

/// A key with all that belongs to it.
#[derive(Debug, Default)]
pub(in crate::state) struct Key {
    pub(super) block: Block,
    pub(super) timers: OwnTimers,
    pub(in crate::state) group: KeyGroup,
    /// The processing time in milliseconds before which nothing of the key expires.
    pub(super) lives_until: i64,
}

impl Key {
    /// The key's bytes.
    pub(in crate::state) fn bytes(&self) -> &[u8] {
        self.block.key()
    }
}

/// All keys.
pub(super) struct Keys {
    index: HashTable<Place>,
    pub(super) slab: Slab<Key>,
    states: usize,
    /// The keys that have vanished, if anybody wants to know.
    pub(super) removed: Option<Removed>,
    /// What is to be recorded of them, if anything is.
    pub(super) changes: Option<Box<Changes>>,
}

/// Keys that have vanished.
#[derive(Debug, Default)]
pub(in crate::state) struct Removed {
    /// Where they were.
    pub(in crate::state) places: Vec<(u32, KeyGroup)>,
    pub(in crate::state) keys: BlobsBuf,
}

impl Removed {
    pub(in crate::state) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(in crate::state) fn clear(&mut self) {
        self.places.clear();
        self.keys.clear();
    }
}

/// Where a key lies. The tag is half of the hash: nearly always enough to tell keys apart without looking at them.
#[derive(Clone, Copy, Debug)]
struct Place {
    tag: u32,
    id: u32,
}

impl Keys {
    pub(super) fn new(states: usize) -> Self {
        Self { index: HashTable::new(), slab: Slab::default(), states, removed: None, changes: None }
    }

    /// Finds for each slot the place that its key has if it is there at all, judged by the hash alone: no key is touched, so that the
    /// cache misses of all lookups overlap.
    pub(super) fn candidates(&self, slots: &SlotKeys, into: &mut Vec<u32>) {
        into.clear();
        into.extend(slots.hashes.iter().map(|&hash| {
            let tag = tag(hash);
            self.index.find(spread(tag), |place| place.tag == tag).map_or(NONE, |place| place.id)
        }));
    }

    /// Loads the keys of these places into the cache.
    pub(super) fn warm(&self, ids: impl Iterator<Item = u32>) {
        let sum = ids.filter_map(|id| self.slab.get(id)).fold(0u8, |sum, key| sum ^ key.block.warm());
        std::hint::black_box(sum);
    }

    /// The place of a key, given a guess.
    #[inline]
    pub(super) fn find(&self, key: KeyRef<'_>, guess: u32) -> Option<u32> {
        if self.holds(guess, key.bytes) {
            return Some(guess);
        }
        let tag = tag(key.hash);
        self.index.find(spread(tag), |place| place.tag == tag && self.holds(place.id, key.bytes)).map(|place| place.id)
    }

    /// The place of a key, which is put there if it is not.
    pub(super) fn find_or_insert(&mut self, key: KeyRef<'_>) -> u32 {
        let Self { index, slab, states, changes, .. } = self;
        let tag = tag(key.hash);
        let same = |place: &Place| place.tag == tag && slab.get(place.id).is_some_and(|found| found.block.holds(key.bytes));
        match index.entry(spread(tag), same, |place| spread(place.tag)) {
            Entry::Occupied(found) => found.get().id,
            Entry::Vacant(vacant) => {
                let id = slab.insert(Key {
                    block: Block::new(key.bytes, *states),
                    timers: OwnTimers::default(),
                    group: key.group,
                    lives_until: i64::MAX,
                });
                vacant.insert(Place { tag, id });
                if let Some(changes) = changes {
                    changes.came(id);
                }
                id
            }
        }
    }

    /// Removes a key that has nothing left; returns whether it has.
    pub(super) fn remove_if_empty(&mut self, id: u32) -> bool {
        let Some(key) = self.slab.get(id) else { return false };
        if key.block.is_free() || !key.timers.is_empty() || !key.block.is_empty() {
            return false;
        }
        let tag = tag(hash_key(key.block.key()));
        if let Ok(found) = self.index.find_entry(spread(tag), |place| place.id == id) {
            found.remove();
        }
        if let (Some(removed), Some(key)) = (&mut self.removed, self.slab.get(id)) {
            removed.places.push((id, key.group));
            removed.keys.push(key.block.key());
        }
        if let (Some(changes), Some(key)) = (&mut self.changes, self.slab.get(id)) {
            changes.went(id, key.group, key.bytes());
        }
        self.slab.remove(id);
        true
    }

    /// Something of a key expires at this time, if nothing does earlier.
    #[inline]
    pub(super) fn shorten(&mut self, id: u32, lives_until: i64) {
        if let Some(key) = self.slab.get_mut(id) {
            key.lives_until = key.lives_until.min(lives_until);
        }
    }

    /// All keys with their places.
    pub(super) fn in_use(&self) -> impl Iterator<Item = (u32, &Key)> {
        (0..).zip(self.slab.iter()).filter(|(_, key)| !key.block.is_free())
    }

    /// The bytes of a key in use.
    #[inline]
    pub(super) fn key(&self, id: u32) -> &[u8] {
        self.slab.get(id).map_or(&[], |key| key.block.key())
    }

    #[inline]
    fn holds(&self, id: u32, key: &[u8]) -> bool {
        self.slab.get(id).is_some_and(|found| found.block.holds(key))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half: the upper one decides the key group, so it varies little here")]
fn tag(hash: u64) -> u32 {
    hash as u32
}

/// The table takes its bucket from the lower bits and its fingerprint from the upper ones.
fn spread(tag: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(tag)
}
