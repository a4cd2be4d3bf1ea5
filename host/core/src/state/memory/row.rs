//! Single keys as bytes, for a store that takes those that are not in use.

use super::super::layout::{Entry, FRESH, Item, Reader, Writer};
use super::block::LARGE;
use super::keys::{NONE, Removed};
use super::shape::Shape;
use super::{Key, MemoryState};
use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::time::{Domain, Timestamp};
use crate::{Error, Result};

/// What a key costs besides its block: its place, its share of the index and the notes of who counts.
const OVERHEAD: usize = 144;
/// What a timer costs.
const TIMER: usize = 40;
/// What an entry of a large map costs besides its bytes.
const MAP_ENTRY: usize = 96;

impl MemoryState {
    /// From now on, keys that vanish are noted.
    pub(in crate::state) fn note_removed(&mut self) {
        self.keys.removed = Some(Removed::default());
    }

    /// The keys that have vanished since the last call, for the caller to drain.
    pub(in crate::state) fn removed(&mut self) -> Option<&mut Removed> {
        self.keys.removed.as_mut().filter(|removed| !removed.is_empty())
    }

    /// Finds the places of a batch's keys, unless they are known; returns whether they were.
    pub(in crate::state) fn find_slots(&mut self, slots: &SlotKeys) -> bool {
        let known = self.places.are_of(slots);
        if !known {
            self.places.find(slots, &self.keys);
        }
        known
    }

    /// The place of a slot's key after [`find_slots`](Self::find_slots).
    #[inline]
    pub(in crate::state) fn place(&self, slot: u32) -> Option<u32> {
        Some(self.places.get(slot)).filter(|id| *id != NONE)
    }

    /// The key of this slot lies here now.
    pub(in crate::state) fn set_place(&mut self, slot: u32, id: u32) {
        self.places.set(slot, id);
    }

    /// The place of a key.
    pub(in crate::state) fn find(&self, key: KeyRef<'_>) -> Option<u32> {
        self.keys.find(key, NONE)
    }

    /// The key at a place, if there is one.
    pub(in crate::state) fn key_at(&self, id: u32) -> Option<&Key> {
        self.keys.slab.get(id).filter(|key| !key.block.is_free())
    }

    /// How many places there are, in use or not.
    pub(in crate::state) fn places(&self) -> u32 {
        u32::try_from(self.keys.slab.places()).unwrap_or(u32::MAX)
    }

    /// Whether restored content waits to be seen for the first time.
    pub(in crate::state) fn has_unseen(&self) -> bool {
        self.unseen
    }

    /// Content that waits to be seen for the first time is seen now.
    pub(in crate::state) fn see(&mut self, now: Timestamp) {
        self.first_seen(now);
    }

    /// Fills the columns with the state of keys of which [`find_slots`](Self::find_slots) has found the places.
    pub(in crate::state) fn copy(&mut self, slots: &SlotKeys, now: Timestamp, into: &mut Prefetched) {
        self.copy_found(slots, now, into);
    }

    /// Whether a stored entry is in the form in which the state that it names is held, and needs nothing to be done when it is first seen.
    pub(in crate::state) fn is_as_held(&self, entry: &Entry<'_>) -> bool {
        let as_held = |shape: &Shape| shape.form == entry.form && shape.stamped() == entry.stamp.is_some() && entry.stamp != Some(FRESH);
        self.shapes.get(usize::from(entry.state)).is_some_and(as_held)
    }

    /// When an entry that is as it is held expires.
    pub(in crate::state) fn end_of(&self, entry: &Entry<'_>) -> i64 {
        let shape = self.shapes.get(usize::from(entry.state));
        shape.zip(entry.stamp).map_or(i64::MAX, |(shape, stamp)| shape.life(Timestamp::MIN).end_of(stamp))
    }

    /// Whether any state has a TTL.
    pub(in crate::state) fn expires(&self) -> bool {
        self.shapes.iter().any(|shape| shape.stamped())
    }

    /// About how many bytes a key takes.
    pub(in crate::state) fn size(&self, id: u32) -> usize {
        let Some(key) = self.key_at(id) else { return 0 };
        let mut size = OVERHEAD + key.block.bytes() + key.timers.len() * TIMER;
        let mut cell = key.block.first_cell();
        for _ in &self.shapes {
            if cell.count == LARGE {
                size += self.larges.get(super::block::place(key.block.body(cell))).map_or(0, |large| large.bytes(MAP_ENTRY));
            }
            cell = key.block.cell_after(cell);
        }
        size
    }

    /// Adds a key that is not here from what [`save`](Self::save) wrote, and passes its timers on. Content that waits to be seen for the
    /// first time counts as renewed at `seen`.
    ///
    /// # Errors
    /// The bytes are not what was written.
    pub(in crate::state) fn load(
        &mut self,
        key: KeyRef<'_>,
        content: &[u8],
        seen: Option<i64>,
        timer: &mut dyn FnMut(Domain, i64),
    ) -> Result<u32> {
        let id = self.keys.find_or_insert(key);
        let mut reader = Reader::of_key(key.group, content);
        while let Some(item) = reader.next()? {
            match item {
                Item::Key(_) | Item::Tombstone(_) => {}
                Item::Entry(entry) => self.load_entry(id, &entry, seen)?,
                Item::Timer(domain, time) => {
                    self.register(domain, time, id);
                    timer(domain, time);
                }
            }
        }
        Ok(id)
    }

    fn load_entry(&mut self, id: u32, entry: &Entry<'_>, seen: Option<i64>) -> Result<()> {
        let state = usize::from(entry.state);
        if self.shapes.get(state).is_none_or(|shape| shape.form != entry.form) {
            return Err(Error::corrupt(format!("a stored key holds state {state} as {:?}, which is not how it is declared", entry.form)));
        }
        let stamp = match entry.stamp {
            Some(FRESH) => seen.or(entry.stamp),
            stamp => stamp,
        };
        self.restore_entry(id, state, &Entry { stamp, ..*entry });
        Ok(())
    }

    /// Writes the content of a key.
    pub(in crate::state) fn save(&self, id: u32, writer: &mut Writer) {
        writer.begin_key();
        self.write_content(id, writer);
    }

    /// When something of a key may expire, judged anew.
    pub(in crate::state) fn end_of_life(&mut self, id: u32, now: Timestamp) -> i64 {
        if !self.expires() {
            return i64::MAX;
        }
        self.note_end_of_life(id, now);
        self.keys.slab.get(id).map_or(i64::MAX, |key| key.lives_until)
    }

    /// Says when something of a key may expire.
    pub(in crate::state) fn set_end_of_life(&mut self, id: u32, lives_until: i64) {
        if let Some(key) = self.keys.slab.get_mut(id) {
            key.lives_until = lives_until;
        }
    }

    /// Takes a key with its timers away without a note.
    pub(in crate::state) fn unload(&mut self, id: u32) {
        self.empty(id);
        let noted = self.keys.removed.take();
        self.keys.remove_if_empty(id);
        self.keys.removed = noted;
        self.places.forget();
    }

    /// Removes all expired content of a key.
    pub(in crate::state) fn expire_key(&mut self, id: u32, now: Timestamp) {
        for state in 0..self.shapes.len() {
            let mut after = None;
            while let Some(mut cell) = self.cell_mut(id, state, now).filter(|cell| cell.shape.stamped()) {
                after = cell.expire(after.as_deref());
                if after.is_none() {
                    break;
                }
            }
        }
        if self.keys.remove_if_empty(id) {
            self.places.forget();
        }
    }
}
