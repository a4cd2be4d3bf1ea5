//! State in memory whose checkpoints are files, however little there is. The local files are real, since what befalls them is of no
//! interest: the machine's are made anew at every start.

use std::ops::Range;
use std::sync::Arc;

use tempfile::TempDir;
use tidemill::state::{MemoryFiles, StoredKeyGroups};
use tidemill::store::CheckpointStore;
use tidemill_core::checkpoint::manifest::StoredDatabase;
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::{KeyedState, StateBackend, StoredGroups};
use tidemill_core::{Error, Result};
use tidemill_wit::descriptor::StateDescriptor;

/// Makes such state, in a folder of its own.
pub struct FilesBackend {
    backend: MemoryFiles,
    _dir: TempDir,
}

impl FilesBackend {
    /// With a folder for local files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let backend = MemoryFiles::in_folder(dir.path()).map_err(|error| error.chain())?;
        Ok(Self { backend: backend.even_if_small(), _dir: dir })
    }
}

impl StateBackend for FilesBackend {
    fn open(&self, operator: &str, subtask: u32, states: &[StateDescriptor]) -> Result<Box<dyn KeyedState>> {
        self.backend.open(operator, subtask, states)
    }
}

/// Reads what was stored of such state.
///
/// # Errors
/// There is no place for local files.
pub fn open_stored(store: &CheckpointStore, stored: &StoredDatabase, of: Range<u32>, _: u64) -> Result<Arc<dyn StoredGroups>> {
    let dir = tempfile::tempdir().map_err(|error| Error::storage("making a folder").caused_by(error))?;
    let stored = StoredKeyGroups::new(store.clone(), stored.clone(), of, dir.path());
    Ok(Arc::new(InFolder { stored, _dir: dir }))
}

struct InFolder {
    stored: StoredKeyGroups,
    _dir: TempDir,
}

impl StoredGroups for InFolder {
    fn groups(&self) -> Range<u32> {
        self.stored.groups()
    }

    fn read(&self, range: Range<u32>, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        self.stored.read(range, each)
    }
}
