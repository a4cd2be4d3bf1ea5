//! State in memory whose checkpoints are files, however little there is.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tidemill::state::{MemoryFiles, StoredKeyGroups};
use tidemill::store::CheckpointStore;
use tidemill_core::Result;
use tidemill_core::checkpoint::manifest::StoredDatabase;
use tidemill_core::disk::Disk;
use tidemill_core::state::{StateBackend, StoredGroups};

/// Makes such state for one process. Each has a folder of its own: threads of the one before may still be writing.
///
/// # Errors
/// The folder cannot be made.
pub fn files_backend(disk: &Arc<dyn Disk>, process: u64) -> Result<Arc<dyn StateBackend>, String> {
    let dir = format!("/job/state/scratch/{process}");
    let backend = MemoryFiles::in_folder(Arc::clone(disk), Path::new(&dir)).map_err(|error| error.chain())?;
    Ok(Arc::new(backend.even_if_small()))
}

/// Reads what was stored of such state.
///
/// # Errors
/// None: what is wrong is found when it is read.
pub fn open_stored(store: &CheckpointStore, stored: &StoredDatabase, of: Range<u32>, _: u64) -> Result<Arc<dyn StoredGroups>> {
    Ok(Arc::new(StoredKeyGroups::new(store.clone(), stored.clone(), of, &store.scratch())))
}
