//! Brings the files of stored state to this machine.

use std::path::Path;

use tidemill_core::checkpoint::manifest::StoredDatabase;
use tidemill_core::{Error, Result};

use crate::side_by_side::side_by_side;
use crate::store::CheckpointStore;

/// Brings the files to a folder, some at a time.
///
/// # Errors
/// A file is missing or not what was written, or cannot be copied.
pub(super) fn fetch(store: &CheckpointStore, stored: &StoredDatabase, folder: &Path) -> Result<()> {
    // No backend names a file with a folder.
    if let Some(file) = stored.files.iter().find(|file| file.name.contains(['/', '\\']) || file.name.starts_with("..")) {
        return Err(Error::corrupt(format!("a checkpoint names the file {}, which no state has", file.name)));
    }
    let count = u32::try_from(stored.files.len()).unwrap_or(u32::MAX);
    let fetched = side_by_side(count, |number| match stored.files.get(number as usize) {
        Some(file) => store.fetch(file, &folder.join(&file.name)),
        None => Ok(()),
    });
    fetched.map(drop)
}

/// What was being done when an error came up.
pub(super) fn restoring(stored: &StoredDatabase, error: Error) -> Error {
    let StoredDatabase { operator, worker, .. } = stored;
    error.while_doing(format!("restoring the state of operator {operator} that worker {worker} has stored"))
}
