//! Brings the files of stored state to this machine.

use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidemill_core::checkpoint::manifest::StoredDatabase;
use tidemill_core::{Error, Result};

use crate::store::CheckpointStore;

/// How many files are fetched at one time.
const FETCHES: usize = 4;

/// Brings the files to a folder, some at a time: to check them takes a processor as long as a fast disk to read them.
///
/// # Errors
/// A file is missing or not what was written, or cannot be copied.
pub(super) fn fetch(store: &CheckpointStore, stored: &StoredDatabase, folder: &Path) -> Result<()> {
    // No backend names a file with a folder.
    if let Some(file) = stored.files.iter().find(|file| file.name.contains(['/', '\\']) || file.name.starts_with("..")) {
        return Err(Error::corrupt(format!("a checkpoint names the file {}, which no state has", file.name)));
    }
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(file) = stored.files.get(next.fetch_add(1, Ordering::Relaxed)) {
            store.fetch(file, &folder.join(&file.name))?;
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(FETCHES);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(Error::storage("checking files stopped"))))
    })
}

/// What was being done when an error came up.
pub(super) fn restoring(stored: &StoredDatabase, error: Error) -> Error {
    let StoredDatabase { operator, worker, .. } = stored;
    error.while_doing(format!("restoring the state of operator {operator} that worker {worker} has stored"))
}
