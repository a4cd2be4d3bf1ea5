//! What checkpoints and file sinks need of a disk, as a trait, so that a simulated disk can lose, tear and refuse writes.

use std::io;
use std::path::{Path, PathBuf};

/// A file system. Only what was synced survives a crash: a file's bytes after [`DiskFile::sync`], its name after
/// [`sync_dir`](Disk::sync_dir) of its folder.
pub trait Disk: Send + Sync {
    /// Creates a file, or empties an existing one.
    ///
    /// # Errors
    /// The operating system's.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Reads a whole file.
    ///
    /// # Errors
    /// The operating system's.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Reads a whole file part by part, so that it may be larger than memory.
    ///
    /// # Errors
    /// The operating system's, or that of `each`.
    fn read_parts(&self, path: &Path, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        each(&self.read(path)?)
    }
    /// Gives a file, which nobody changes any more, a second name: a path of this machine, whose file system may be another.
    ///
    /// # Errors
    /// The operating system's. Then the file must be copied.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Renames a file within a folder, replacing what has the name.
    ///
    /// # Errors
    /// The operating system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file; one that does not exist counts as removed.
    ///
    /// # Errors
    /// The operating system's.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder and what is in it; one that does not exist counts as removed.
    ///
    /// # Errors
    /// The operating system's.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// The entries of a folder, sorted; none if it does not exist.
    ///
    /// # Errors
    /// The operating system's.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// Creates a folder and its parents, durably.
    ///
    /// # Errors
    /// The operating system's.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// The operating system's.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// A file that is being written.
pub trait DiskFile: Send {
    /// Appends bytes.
    ///
    /// # Errors
    /// The operating system's, such as a full disk.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes the bytes written so far durable.
    ///
    /// # Errors
    /// The operating system's.
    fn sync(&mut self) -> io::Result<()>;
}
