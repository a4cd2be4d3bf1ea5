//! A window over a file that only moves forward.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use tidemill_core::{Error, Result};

use super::changed;

/// How much is read at once.
const CHUNK: usize = 256 << 10;

/// The bytes of a file from [`position`](Window::position) on, as far as they have been read.
pub(super) struct Window {
    file: File,
    path: PathBuf,
    follow: bool,
    buffer: Vec<u8>,
    /// `buffer[start..end]` is what was read and not yet consumed.
    start: usize,
    end: usize,
    /// The offset of `buffer[start]` in the file.
    position: u64,
}

impl Window {
    /// Opens a file at a position, which must be the begin of a line or the end of the file.
    pub(super) fn open(path: &Path, position: u64, follow: bool) -> Result<Self> {
        let failed = |action: &str, error: std::io::Error| failed(action, path, &error);
        let mut file = File::open(path).map_err(|error| failed("open", error))?;
        let size = file.metadata().map_err(|error| failed("open", error))?.len();
        if size < position {
            return Err(changed(path, &format!("has {size} bytes, fewer than the {position} that were already read")));
        }
        if position > 0 && position < size {
            let mut before = [0];
            file.read_exact_at(&mut before, position - 1).map_err(|error| failed("read", error))?;
            if !matches!(before, [b'\n' | b'\r']) {
                return Err(changed(path, &format!("has no line that begins at byte {position}, where reading stopped")));
            }
        }
        file.seek(SeekFrom::Start(position)).map_err(|error| failed("read", error))?;
        Ok(Self { file, path: path.to_owned(), follow, buffer: Vec::new(), start: 0, end: 0, position })
    }

    /// The file's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file may still grow, so that its end is not the end of the split.
    pub(super) fn follow(&self) -> bool {
        self.follow
    }

    /// The offset in the file of the first byte that was not consumed.
    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// What was read and not consumed.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or(&[])
    }

    /// Moves forward within what was read.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.position += count as u64;
    }

    /// Moves to an offset, forgetting what was read.
    pub(super) fn seek(&mut self, position: u64) -> Result<()> {
        self.file.seek(SeekFrom::Start(position)).map_err(|error| failed("read", &self.path, &error))?;
        (self.start, self.end, self.position) = (0, 0, position);
        Ok(())
    }

    /// Reads more, behind what was not consumed. False at the end of the file.
    pub(super) fn fill(&mut self) -> Result<bool> {
        self.make_room();
        let room = self.buffer.get_mut(self.end..).unwrap_or(&mut []);
        let count = loop {
            match self.file.read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result.map_err(|error| failed("read", &self.path, &error))?,
            }
        };
        self.end += count;
        if count == 0 {
            self.check_end()?;
        }
        Ok(count > 0)
    }

    /// Moves what is left to the front. The buffer grows while one record fills it, and shrinks when that record is gone.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() > CHUNK && self.end < CHUNK / 2 {
            self.buffer.truncate(CHUNK);
            self.buffer.shrink_to_fit();
        } else if self.buffer.len() - self.end < CHUNK / 4 {
            self.buffer.resize((self.buffer.len() * 2).max(CHUNK), 0);
        }
    }

    /// At the end of the file: it must not have become shorter, nor have been exchanged while it is followed.
    fn check_end(&self) -> Result<()> {
        let read = self.position + (self.end - self.start) as u64;
        let opened = self.file.metadata().map_err(|error| failed("read", &self.path, &error))?;
        if opened.len() < read {
            return Err(changed(&self.path, &format!("shrank to {} bytes after {read} were read", opened.len())));
        }
        match fs::metadata(&self.path) {
            Ok(now) if self.follow && (now.dev(), now.ino()) != (opened.dev(), opened.ino()) => {
                Err(changed(&self.path, &format!("was replaced by another file after {read} bytes were read")))
            }
            _ => Ok(()),
        }
    }
}

fn failed(action: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::connector(format!("cannot {action} the file `{}`: {error}", path.display()))
}
