//! Whether what a manifest names is there: somebody may remove files while the job runs.

use std::io::ErrorKind;
use std::path::Path;

use tidemill_core::checkpoint::manifest::Manifest;
use tidemill_core::disk::Disk;
use tidemill_core::{Error, Result};

use super::CheckpointStore;
use super::savepoint::SavepointFolder;

impl CheckpointStore {
    /// Whether the store has a file with this length.
    ///
    /// # Errors
    /// The disk does not tell.
    pub fn has(&self, path: &str, bytes: u64) -> Result<bool> {
        is_there(&*self.disk, &self.dir.join(path), bytes)
    }

    /// The paths of the files that the manifest of a checkpoint names and that are not there with the length that was written.
    ///
    /// # Errors
    /// The disk does not tell.
    pub fn missing(&self, manifest: &Manifest) -> Result<Vec<String>> {
        missing(&*self.disk, &self.dir, manifest)
    }
}

impl SavepointFolder {
    /// The paths of the files that the manifest of the savepoint names and that are not there with the length that was written.
    ///
    /// # Errors
    /// The disk does not tell.
    pub fn missing(&self, manifest: &Manifest) -> Result<Vec<String>> {
        missing(&*self.disk, &self.dir, manifest)
    }
}

fn missing(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<Vec<String>> {
    let stored = manifest.databases.iter().flat_map(|database| &database.files).map(|file| (&file.path, file.bytes));
    let mut missing = Vec::new();
    for (path, bytes) in manifest.files.iter().map(|file| (&file.path, file.bytes)).chain(stored) {
        if !is_there(disk, &dir.join(path), bytes)? {
            missing.push(path.clone());
        }
    }
    Ok(missing)
}

fn is_there(disk: &dyn Disk, path: &Path, bytes: u64) -> Result<bool> {
    match disk.length(path) {
        Ok(found) => Ok(found == bytes),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidInput) => Ok(false),
        Err(error) => Err(Error::storage(format!("looking for {}", path.display())).caused_by(error)),
    }
}
