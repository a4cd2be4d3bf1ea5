//! Where live state is held: in memory, by the engine itself, or in `RocksDB`, if this build has it.

mod fetch;
mod folder;
mod memory;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tidemill_core::Result;
use tidemill_core::checkpoint::manifest::{FileFormat, StoredDatabase};
use tidemill_core::disk::Disk;
use tidemill_core::state::{MemoryBackend, StateBackend, StoredGroups};

pub use self::memory::{MemoryFiles, StoredKeyGroups};
use crate::disk::RealDisk;
use crate::spec::job;
use crate::store::CheckpointStore;

/// Whether this build has `RocksDB`.
pub const HAS_ROCKSDB: bool = cfg!(feature = "rocksdb");

/// What is said where a build without `RocksDB` is asked for it.
pub const NO_ROCKSDB: &str = "the state backend rocksdb is not in this build; use memory, or build tidemill with `--features rocksdb`";

/// The backend that a job spec names. What it needs on this machine's disk goes into `dir`, which is emptied: state comes from checkpoints
/// alone.
///
/// # Errors
/// The folder cannot be made or emptied, or the build does not have the backend.
pub fn backend(spec: job::StateBackend, dir: &Path) -> Result<Arc<dyn StateBackend>> {
    match spec {
        job::StateBackend::Memory => Ok(Arc::new(MemoryFiles::in_folder(Arc::new(RealDisk), dir)?)),
        #[cfg(feature = "rocksdb")]
        job::StateBackend::Rocksdb { memory } => Ok(Arc::new(rocksdb::RocksBackend::in_folder(dir, memory)?)),
        #[cfg(not(feature = "rocksdb"))]
        job::StateBackend::Rocksdb { .. } => Err(tidemill_core::Error::config(NO_ROCKSDB)),
    }
}

/// The same for short runs of tests, with nothing on the machine's disk. State in memory is recorded in files of `disk` however little there
/// is, if `in_files` says so, or else written whole at the barrier as little state is.
///
/// # Errors
/// The build does not have the backend.
pub fn backend_on(disk: &Arc<dyn Disk>, spec: job::StateBackend, in_files: bool) -> Result<Arc<dyn StateBackend>> {
    match spec {
        #[cfg(feature = "rocksdb")]
        job::StateBackend::Rocksdb { memory } => Ok(Arc::new(rocksdb::RocksBackend::in_memory(memory)?)),
        #[cfg(not(feature = "rocksdb"))]
        job::StateBackend::Rocksdb { .. } => Err(tidemill_core::Error::config(NO_ROCKSDB)),
        job::StateBackend::Memory if in_files => {
            let dir = format!("state-{:016x}", fastrand::u64(..));
            Ok(Arc::new(MemoryFiles::in_folder(Arc::clone(disk), Path::new(&dir))?.even_if_small()))
        }
        job::StateBackend::Memory => Ok(Arc::new(MemoryBackend)),
    }
}

/// State of a checkpoint that is in files of its backend, of these key groups. Any backend can restore it: it is passed on group by group.
///
/// # Errors
/// The build cannot read it.
pub fn stored(store: &CheckpointStore, database: &StoredDatabase, groups: Range<u32>, checkpoint: u64) -> Result<Arc<dyn StoredGroups>> {
    if database.format == FileFormat::KeyGroups {
        return Ok(Arc::new(StoredKeyGroups::new(store.clone(), database.clone(), groups, &store.scratch())));
    }
    #[cfg(feature = "rocksdb")]
    return {
        let _ = checkpoint;
        Ok(Arc::new(rocksdb::StoredFiles::new(store.clone(), database.clone(), groups)))
    };
    #[cfg(not(feature = "rocksdb"))]
    {
        let _ = (store, groups);
        Err(tidemill_core::Error::config(format!(
            "checkpoint {checkpoint} holds the state of operator {} in files of RocksDB, which this build cannot read: take a savepoint \
             with a build that has the feature rocksdb, and start from it",
            database.operator
        )))
    }
}
