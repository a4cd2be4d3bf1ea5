//! What was changed before a barrier is written after it, a few keys at a time, as it was at the barrier. A worker stands still only to note
//! which keys these are.

use std::sync::{Arc, Mutex, PoisonError};

use super::CachedState;
use super::rows::{Layer, Rows};
use super::write::RowsOfKey;
use crate::checkpoint::manifest::FileFormat;
use crate::key_group::KeyGroup;
use crate::state::layout::{Item, Reader};
use crate::state::{Frozen, FrozenFile};
use crate::{Error, Result};

/// How many keys are written in one turn: in some milliseconds.
const KEYS_PER_TURN: usize = 1024;

/// A barrier that keys are still being written for.
pub(super) struct Held {
    frozen: Slot,
}

/// Where the frozen state is once all keys are written.
type Slot = Arc<Mutex<Option<Box<dyn Frozen>>>>;

impl<R: Rows> CachedState<R> {
    /// Begins to freeze the state as it is now. `None`: the store has nothing that can be frozen.
    pub(super) fn hold(&mut self) -> Result<Option<Box<dyn Frozen>>> {
        self.write_held()?;
        self.commit()?;
        if !self.rows.hold()? {
            self.write_all()?;
            self.write_summary()?;
            return Ok(None);
        }
        self.write_summary()?;
        self.memory.hold();
        let frozen = Slot::default();
        self.held = Some(Held { frozen: Arc::clone(&frozen) });
        Ok(Some(Box::new(FrozenLater { frozen })))
    }

    /// Writes some of the keys that were changed before the barrier; returns whether there are more.
    pub(super) fn write_some_held(&mut self) -> Result<bool> {
        if self.held.is_some() && self.rows.is_behind() {
            return Ok(true);
        }
        self.write_next_held()
    }

    fn write_next_held(&mut self) -> Result<bool> {
        let Some(Held { frozen }) = &self.held else { return Ok(false) };
        let frozen = Arc::clone(frozen);
        let more = self.memory.record_up_to(KEYS_PER_TURN);
        self.write_recorded()?;
        self.commit()?;
        if more {
            return Ok(true);
        }
        self.held = None;
        *frozen.lock().unwrap_or_else(PoisonError::into_inner) = self.rows.freeze()?;
        Ok(false)
    }

    /// Writes all that was changed before the barrier.
    pub(super) fn write_held(&mut self) -> Result<()> {
        while self.write_next_held()? {}
        Ok(())
    }

    /// Writes what memory has recorded, which it does before a key is no longer what it was at the barrier.
    pub(super) fn write_recorded(&mut self) -> Result<()> {
        if !self.memory.take_recorded(&mut self.recorded) {
            return Ok(());
        }
        let Self { memory, notes, staged, recorded, row_key, row, .. } = self;
        for (id, group, key, content) in recorded.iter() {
            let Some(note) = notes.get_mut(id as usize) else { continue };
            let mut lives_until = i64::MAX;
            if memory.expires() {
                let mut reader = Reader::of_key(group, content);
                while let Some(item) = reader.next()? {
                    if let Item::Entry(entry) = item {
                        lives_until = lives_until.min(memory.end_of(&entry));
                    }
                }
            }
            RowsOfKey { group, key, layer: Layer::Held, staged, row_key, row }.put(lives_until, content, note);
        }
        recorded.clear();
        if self.staged.is_full() { self.commit() } else { Ok(()) }
    }
}

/// A state that is frozen once its keys are written.
struct FrozenLater {
    frozen: Slot,
}

impl FrozenLater {
    fn with<T>(&self, ask: impl FnOnce(&mut dyn Frozen) -> Result<T>) -> Result<T> {
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *frozen {
            Some(frozen) => ask(&mut **frozen),
            None => Err(Error::storage("writing the keys of a checkpoint was given up")),
        }
    }
}

impl Frozen for FrozenLater {
    fn format(&self) -> FileFormat {
        FileFormat::Database
    }

    fn files(&mut self) -> Result<Vec<FrozenFile>> {
        self.with(|frozen| frozen.files())
    }

    fn groups(&mut self, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        self.with(|frozen| frozen.groups(each))
    }
}
