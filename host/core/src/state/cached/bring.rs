//! Keys come into use: those of a batch together, since the store finds many rows faster than one after the other.

use tidemill_wit::columns::BlobsBuf;

use super::note::Note;
use super::rows::{Rows, Space, key_row};
use super::{CachedState, away};
use crate::Result;
use crate::detector::{Cells, KeyRef, SlotKeys};
use crate::time::Domain;

/// How many rows are asked for at once: `RocksDB` looks for so many side by side, and more would only lie about.
const ROWS: usize = 32;

/// The keys of a batch that are not in use, and where they are put.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// The slots of those that are to be looked for.
    pub(super) slots: Vec<u32>,
    /// The slots and places of those that the store had.
    pub(super) loaded: Vec<(u32, u32)>,
    row_keys: BlobsBuf,
    rows: Cells,
}

impl<R: Rows> CachedState<R> {
    /// Brings the keys of a batch into use.
    pub(super) fn bring(&mut self, slots: &SlotKeys) -> Result<()> {
        let known = self.memory.find_slots(slots);
        if self.away > 0 && !(known && self.looked) {
            self.load_where(slots, None, |memory, slot| memory.place(slot).is_none())?;
            for &(slot, id) in &self.missing.loaded {
                self.memory.set_place(slot, id);
            }
        }
        self.looked = true;
        Ok(())
    }

    /// Brings those of some keys into use that are not.
    pub(super) fn bring_all(&mut self, keys: &SlotKeys, seen: Option<i64>) -> Result<()> {
        self.load_where(keys, seen, |memory, slot| memory.find(keys.get(slot as usize)).is_none())
    }

    /// Brings one key into use that is not.
    pub(super) fn load(&mut self, key: KeyRef<'_>) -> Result<()> {
        let mut one = SlotKeys::default();
        one.push(key);
        self.bring_all(&one, None)
    }

    /// Brings the keys into use that `wanted` takes and the store has. Content that waits to be seen counts as renewed at `seen`.
    fn load_where(&mut self, keys: &SlotKeys, seen: Option<i64>, wanted: impl Fn(&super::MemoryState, u32) -> bool) -> Result<()> {
        let mut missing = std::mem::take(&mut self.missing);
        missing.slots.clear();
        missing.slots.extend((0..).take(keys.len()).filter(|slot| wanted(&self.memory, *slot)));
        missing.loaded.clear();
        let outcome = self.load_missing(keys, seen, &mut missing);
        self.missing = missing;
        outcome
    }

    fn load_missing(&mut self, keys: &SlotKeys, seen: Option<i64>, missing: &mut Missing) -> Result<()> {
        let Missing { slots, loaded, row_keys, rows } = missing;
        slots.sort_unstable_by(|a, b| {
            let [a, b] = [a, b].map(|slot| keys.get(*slot as usize));
            (a.group, a.bytes).cmp(&(b.group, b.bytes))
        });
        for slots in slots.chunks(ROWS) {
            row_keys.clear();
            for slot in slots {
                let key = keys.get(*slot as usize);
                key_row(key.group, key.bytes, &mut self.row_key);
                row_keys.push(&self.row_key);
            }
            self.rows.get_many(Space::Keys, row_keys, rows)?;
            for ((&slot, present), row) in slots.iter().zip(&rows.present).zip(rows.items.view().iter()) {
                let key = keys.get(slot as usize);
                // A key may be named twice.
                if *present == 1 && self.memory.find(key).is_none() {
                    loaded.push((slot, self.take_in(key, row, seen)?));
                }
            }
        }
        Ok(())
    }

    /// Puts the key of a row into memory.
    fn take_in(&mut self, key: KeyRef<'_>, row: &[u8], seen: Option<i64>) -> Result<u32> {
        let mut note = Note { stored: true, ..Note::default() };
        let (lives_until, content) = away::content(row)?;
        let id = self.memory.load(key, content, seen, &mut |domain, time| note.timers.add_stored(domain, time))?;
        self.memory.set_end_of_life(id, lives_until);
        self.memory.settle(id);
        self.away -= 1;
        for (domain, time) in note.timers.live() {
            let [event, processing] = &mut self.timers;
            let away = if domain == Domain::Event { event } else { processing };
            away.take(time);
        }
        *self.note(id) = note;
        self.resize(id);
        Ok(id)
    }
}
