//! The file system that checkpoints, state and file sinks use, as a trait, so that a simulated disk can lose, tear and refuse writes.

use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

/// How many bytes [`Disk::read_parts`] reads at once.
const PART: usize = 1 << 20;

/// A file system. Only what was synced survives a crash: a file's bytes after [`DiskFile::sync`], its name after
/// [`sync_dir`](Disk::sync_dir) of its folder.
pub trait Disk: Send + Sync {
    /// Creates an empty file. A file that has the name already is unlinked: it keeps its content under its other names.
    ///
    /// INVARIANT: no existing file is ever opened for writing. The name of a local file may be a hard link to a file of a checkpoint, and
    /// emptying the one would empty the other.
    ///
    /// # Errors
    /// The operating system's.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading.
    ///
    /// # Errors
    /// The operating system's.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskReader>>;
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
        let (mut file, mut part) = (self.open(path)?, vec![0; PART]);
        loop {
            let read = match file.read(&mut part) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            match part.get(..read).filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => each(bytes)?,
                None => return Ok(()),
            }
        }
    }
    /// Reads a whole file, which has at most `most` bytes.
    ///
    /// # Errors
    /// The operating system's, or that the file is longer ([`io::ErrorKind::FileTooLarge`]): no more is read of it.
    fn read_at_most(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_parts(path, &mut |part| {
            if (bytes.len() + part.len()) as u64 > most {
                let text = format!("`{}` has more than {most} bytes", path.display());
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
            }
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(bytes)
    }
    /// The length of a file.
    ///
    /// # Errors
    /// The operating system's, such as that there is none.
    fn length(&self, path: &Path) -> io::Result<u64> {
        self.open(path)?.seek(io::SeekFrom::End(0))
    }
    /// Gives a sealed file a second name: a path of this machine, whose file system may be another.
    ///
    /// # Errors
    /// The operating system's, such as that the name is taken, or that the file must be copied since `to` is on another file system.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// The path of something that exists, absolute and without symbolic links.
    ///
    /// # Errors
    /// The operating system's.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
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
    /// Creates a folder and its parents for files that nobody needs after a crash.
    ///
    /// # Errors
    /// The operating system's.
    fn create_local_dir(&self, dir: &Path) -> io::Result<()>;
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
    /// Makes the bytes written so far durable, and the seal.
    ///
    /// # Errors
    /// The operating system's.
    fn sync(&mut self) -> io::Result<()>;
    /// Makes the file read-only for everybody (mode 0444): nothing is written to it any more, under any of its names.
    ///
    /// # Errors
    /// The operating system's.
    fn seal(&mut self) -> io::Result<()>;
}

/// A file that is being read.
pub trait DiskReader: Read + Seek + Send {}

impl<T: Read + Seek + Send> DiskReader for T {}
