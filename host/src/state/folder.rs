//! Folders of this machine for state in use. What is in them is never needed after a crash: state comes from checkpoints.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::disk::Disk;
use tidemill_core::{Error, Result};

/// A folder that is removed when it is no longer needed.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Where it is, if it is removed with this.
    disk: Option<Arc<dyn Disk>>,
}

impl Folder {
    /// A folder that is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn create(disk: Arc<dyn Disk>, path: PathBuf) -> Result<Self> {
        disk.create_local_dir(&path).map_err(|error| Error::storage(format!("creating {}", path.display())).caused_by(error))?;
        Ok(Self::on(disk, path))
    }

    /// A folder that is there, or that somebody else makes.
    pub(super) fn on(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        Self { path, disk: Some(disk) }
    }

    /// A folder that somebody else removes, or that is in the memory of a library.
    #[cfg(feature = "rocksdb")]
    pub(super) fn lent(path: PathBuf) -> Self {
        Self { path, disk: None }
    }

    /// The disk that it is on, if it is removed with this.
    #[cfg(feature = "rocksdb")]
    pub(super) fn disk(&self) -> Option<&Arc<dyn Disk>> {
        self.disk.as_ref()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed when the job starts again.
        if let Some(disk) = &self.disk {
            _ = disk.remove_dir(&self.path);
        }
    }
}

/// Makes a folder for state in use, or empties it.
///
/// # Errors
/// It cannot be made or emptied.
pub(super) fn empty(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let doing = |what: &str, error| Error::config(format!("{what} the folder for live state {}", dir.display())).caused_by(error);
    disk.create_local_dir(dir).map_err(|error| doing("creating", error))?;
    // Not the folder itself: it may be a disk of its own, or a link to one.
    let entries = disk.list(dir).map_err(|error| doing("emptying", error))?;
    entries.iter().try_for_each(|entry| remove(disk, entry)).map_err(|error| doing("emptying", error))
}

fn remove(disk: &dyn Disk, path: &Path) -> std::io::Result<()> {
    match disk.remove_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => disk.remove(path),
        removed => removed,
    }
}
