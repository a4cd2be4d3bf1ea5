//! Folders of this machine for state in use. What is in them is never needed after a crash: state comes from checkpoints.

use std::path::{Path, PathBuf};

use tidemill_core::{Error, Result};

/// A folder that is removed when it is no longer needed.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Whether it is one of the operating system's.
    pub(super) real: bool,
}

impl Folder {
    /// A folder of the operating system's, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&path).map_err(|error| Error::storage(format!("creating {}", path.display())).caused_by(error))?;
        Ok(Self { path, real: true })
    }

    /// A folder of the operating system's.
    #[cfg(feature = "rocksdb")]
    pub(super) fn real(path: PathBuf) -> Self {
        Self { path, real: true }
    }

    /// A folder that somebody else removes.
    #[cfg(feature = "rocksdb")]
    pub(super) fn lent(path: PathBuf) -> Self {
        Self { path, real: false }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed when the job starts again.
        if self.real {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Makes a folder for state in use, or empties it.
///
/// # Errors
/// It cannot be made or emptied.
pub(super) fn empty(dir: &Path) -> Result<()> {
    let doing = |what: &str, error| Error::config(format!("{what} the folder for live state {}", dir.display())).caused_by(error);
    std::fs::create_dir_all(dir).map_err(|error| doing("creating", error))?;
    // Not the folder itself: it may be a disk of its own, or a link to one.
    let empty = || std::fs::read_dir(dir)?.try_for_each(|entry| remove(&entry?.path()));
    empty().map_err(|error| doing("emptying", error))
}

fn remove(path: &Path) -> std::io::Result<()> {
    if path.symlink_metadata()?.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
}
