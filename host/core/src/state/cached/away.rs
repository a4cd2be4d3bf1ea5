//! Keys are put away, and rows of keys that have vanished go.

use super::CachedState;
use super::note::Note;
use super::rows::{Layer, Rows, Space, key_row};
use crate::state::KeyedState;
use crate::{Error, Result};

/// How many bytes stand before a row's content.
const LIVES_UNTIL: usize = 8;

/// Takes a row apart: the time before which nothing of it expires, and the content.
pub(super) fn content(row: &[u8]) -> Result<(i64, &[u8])> {
    let (time, content) = row.split_first_chunk::<LIVES_UNTIL>().ok_or_else(|| Error::corrupt("a row of the state store is cut off"))?;
    Ok((i64::from_be_bytes(*time), content))
}

impl<R: Rows> CachedState<R> {
    /// The note of a key in use.
    #[expect(clippy::indexing_slicing, reason = "grown to hold it")]
    pub(super) fn note(&mut self, id: u32) -> &mut Note {
        let id = id as usize;
        if id >= self.notes.len() {
            self.notes.resize_with(id + 1, Note::default);
        }
        &mut self.notes[id]
    }

    /// A key in use may take more or fewer bytes than before.
    pub(super) fn resize(&mut self, id: u32) {
        let size = u32::try_from(self.memory.size(id)).unwrap_or(u32::MAX);
        let before = std::mem::replace(&mut self.note(id).size, size);
        // Workers share the count, so that a change of it costs more than all else here.
        if before != size {
            self.share.change(before as usize, size as usize);
        }
    }

    /// Removes the rows of keys that have vanished. What was recorded of them is written before.
    pub(super) fn forget_removed(&mut self) -> Result<()> {
        self.write_recorded()?;
        let Self { memory, notes, staged, share, row_key, .. } = self;
        let Some(removed) = memory.removed() else { return Ok(()) };
        for (&(id, group), key) in removed.places.iter().zip(removed.keys.view().iter()) {
            let Some(note) = notes.get_mut(id as usize).map(std::mem::take) else { continue };
            share.change(note.size as usize, 0);
            if note.stored {
                key_row(group, key, row_key);
                staged.delete(Layer::Live, Space::Keys, row_key);
            }
            for timer in note.timers.stored() {
                super::rows::timer_row(timer.domain, timer.time, group, key, row_key);
                staged.delete(Layer::Live, Space::Timers, row_key);
            }
        }
        removed.clear();
        Ok(())
    }

    /// Puts keys away, those first that were not used lately, until the memory suffices.
    pub(super) fn put_away(&mut self) -> Result<()> {
        while self.share.is_over() && self.memory.key_count() > 0 {
            let id = self.hand;
            self.hand = if id + 1 < self.memory.places() { id + 1 } else { 0 };
            if self.memory.key_at(id).is_none() {
                continue;
            }
            let note = self.note(id);
            if let Some(fewer) = note.uses.checked_sub(1) {
                note.uses = fewer;
                continue;
            }
            self.memory.keep(id);
            self.write_recorded()?;
            if self.memory.is_changed(id) {
                self.write(id);
            }
            self.unload(id);
        }
        Ok(())
    }

    fn unload(&mut self, id: u32) {
        let note = std::mem::take(self.note(id));
        self.share.change(note.size as usize, 0);
        let Self { memory, timers, row_key, .. } = self;
        let Some(key) = memory.key_at(id) else { return };
        for (domain, time) in note.timers.live() {
            super::rows::timer_row(domain, time, key.group, key.bytes(), row_key);
            let [event, processing] = &mut *timers;
            let away = if domain == crate::time::Domain::Event { event } else { processing };
            away.add(row_key);
        }
        memory.unload(id);
        self.away += 1;
        self.looked = false;
    }
}
