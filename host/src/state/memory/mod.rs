//! State in memory, with checkpoints that cost what has changed: files of key groups, of which the first has all keys and each other what
//! has changed since.

mod file;
mod journal;
mod stored;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_core::Result;
use tidemill_core::disk::Disk;
use tidemill_core::state::{KeyedState, MemoryState, StateBackend};
use tidemill_wit::descriptor::StateDescriptor;

use self::journal::FileJournal;
use super::folder;

pub use self::stored::StoredKeyGroups;

/// Keeps state in memory, and what is recorded of it in a folder.
pub struct MemoryFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    even_if_small: bool,
    /// How many states have been made: a restarted worker's does not take the place of the old one, which may not be gone yet.
    made: AtomicU64,
}

impl MemoryFiles {
    /// With files in a folder, which is emptied first.
    ///
    /// # Errors
    /// The folder cannot be made or emptied.
    pub fn in_folder(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self> {
        folder::empty(&*disk, dir)?;
        Ok(Self { disk, dir: dir.to_owned(), even_if_small: false, made: AtomicU64::new(0) })
    }

    /// Little state, too, goes into files of its own, instead of being written whole at the barrier.
    #[must_use]
    pub fn even_if_small(mut self) -> Self {
        self.even_if_small = true;
        self
    }
}

impl StateBackend for MemoryFiles {
    fn open(&self, _operator: &str, subtask: u32, states: &[StateDescriptor]) -> Result<Box<dyn KeyedState>> {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let journal = FileJournal::new(Arc::clone(&self.disk), self.dir.join(format!("{made}-{subtask}")));
        let state = MemoryState::new(states).with_journal(Box::new(journal));
        Ok(Box::new(if self.even_if_small { state.even_if_small() } else { state }))
    }
}

#[cfg(test)]
mod tests;
