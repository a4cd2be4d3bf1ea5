//! A window over a file that only moves forward.

use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::source::Split;
use tidemill_core::{Error, Result};

use super::handles::{Handle, Handles};
use super::{FileSourceConfig, changed, discover, splits};

/// How much is read at once.
const CHUNK: usize = 256 << 10;

/// The bytes of a file from [`position`](Window::position) on, as far as they have been read.
pub(super) struct Window {
    config: Arc<FileSourceConfig>,
    handles: Handles,
    path: PathBuf,
    /// Device and inode: which file it is, for as long as this process lives.
    entry: (u64, u64),
    /// None while there are many files and this one rests; it is opened again when it is read.
    handle: Option<Handle>,
    follow: bool,
    buffer: Vec<u8>,
    /// `buffer[start..end]` is what was read and not yet consumed.
    start: usize,
    end: usize,
    /// The offset of `buffer[start]` in the file.
    position: u64,
}

impl Window {
    /// Opens a split's file at its position, which must be the begin of a line or the end of the file.
    pub(super) fn open(config: &Arc<FileSourceConfig>, handles: &Handles, split: &Split) -> Result<Self> {
        let path = config.base.join(&split.name);
        let position = split.position;
        let handle = handles.open(&path).map_err(|error| failed("open", &path, &error))?;
        let metadata = handle.file.metadata().map_err(|error| failed("open", &path, &error))?;
        splits::check(split, &path, &handle.file, config.follow)?;
        let size = metadata.len();
        if size < position {
            return Err(shorter(&path, size, position));
        }
        if position > 0 && position < size {
            let mut before = [0];
            handle.file.read_exact_at(&mut before, position - 1).map_err(|error| failed("read", &path, &error))?;
            if !matches!(before, [b'\n' | b'\r']) {
                return Err(changed(&path, &format!("has no line that begins at byte {position}, where reading stopped")));
            }
        }
        let mut window = Self {
            config: Arc::clone(config),
            handles: handles.clone(),
            path,
            entry: (metadata.dev(), metadata.ino()),
            handle: Some(handle),
            follow: config.follow,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            position,
        };
        window.seek(position)?;
        Ok(window)
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
        if let Some(handle) = &mut self.handle {
            handle.file.seek(SeekFrom::Start(position)).map_err(|error| failed("read", &self.path, &error))?;
        }
        (self.start, self.end, self.position) = (0, 0, position);
        Ok(())
    }

    /// Reads more, behind what was not consumed. False at the end of the file, or of what is in it now if it is followed.
    pub(super) fn fill(&mut self) -> Result<bool> {
        loop {
            if self.rests_at_end() {
                return Ok(false);
            }
            self.make_room();
            if self.read()? > 0 {
                return Ok(true);
            }
            if !self.check_end()? {
                return Ok(false);
            }
        }
    }

    /// At the end of a poll: lets go of the file, and of what was read ahead, if too many files are open. Returns whether it did; then
    /// [`bytes`](Self::bytes) is empty, and begins at the position when it is filled. `pending`: the poll found the file's end.
    pub(super) fn rest(&mut self, pending: bool) -> bool {
        // A file that lost its name could not be opened again.
        if self.handle.is_none() || !self.handles.are_scarce(pending) || !self.is_named() {
            return false;
        }
        self.handle = None;
        self.buffer = Vec::new();
        (self.start, self.end) = (0, 0);
        true
    }

    /// Whether the file is closed and has nothing new.
    fn rests_at_end(&self) -> bool {
        let unchanged = |now: fs::Metadata| (now.dev(), now.ino()) == self.entry && now.len() == self.position;
        self.follow && self.handle.is_none() && fs::metadata(&self.path).is_ok_and(unchanged)
    }

    fn read(&mut self) -> Result<usize> {
        if self.handle.is_none() {
            self.reopen()?;
        }
        let (Some(handle), Some(room)) = (&mut self.handle, self.buffer.get_mut(self.end..)) else { return Ok(0) };
        let count = loop {
            match handle.file.read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result.map_err(|error| failed("read", &self.path, &error))?,
            }
        };
        self.end += count;
        Ok(count)
    }

    fn reopen(&mut self) -> Result<()> {
        if !self.is_named()
            && self.follow
            && let Some(path) = self.new_path()?
        {
            self.path = path;
        }
        let failed = |error: std::io::Error| failed("open", &self.path, &error);
        let mut handle = self.handles.open(&self.path).map_err(failed)?;
        let metadata = handle.file.metadata().map_err(failed)?;
        if (metadata.dev(), metadata.ino()) != self.entry {
            let (before, now, read) = (self.entry.1, metadata.ino(), self.position);
            return Err(changed(
                &self.path,
                &format!(
                    "was replaced: it is file number {now} on its disk, but the one of which {read} bytes were read was number {before}"
                ),
            ));
        }
        handle.file.seek(SeekFrom::Start(self.position)).map_err(failed)?;
        self.handle = Some(handle);
        Ok(())
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

    /// At the end of the file, which must not have become shorter. Returns whether to read once more: if another file has taken the place
    /// of a followed one, this one now ends, with what was written to it just before.
    fn check_end(&mut self) -> Result<bool> {
        let Some(handle) = &self.handle else { return Ok(false) };
        let read = self.position + (self.end - self.start) as u64;
        let size = handle.file.metadata().map_err(|error| failed("read", &self.path, &error))?.len();
        if size < read {
            return Err(shorter(&self.path, size, read));
        }
        let replaced = |now: fs::Metadata| (now.dev(), now.ino()) != self.entry;
        if !self.follow || !fs::metadata(&self.path).is_ok_and(replaced) {
            return Ok(false);
        }
        match self.new_path()? {
            Some(path) => self.path = path,
            None => self.follow = false,
        }
        Ok(true)
    }

    /// Whether the path still leads to the file.
    fn is_named(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.entry)
    }

    /// The path that the file has now, if it was renamed to one that the pattern matches.
    fn new_path(&self) -> Result<Option<PathBuf>> {
        let listed = discover::files(&self.config.pattern, true)?;
        let mine = listed.into_iter().find(|file| (file.metadata.dev(), file.metadata.ino()) == self.entry);
        Ok(mine.map(|file| PathBuf::from(file.path)))
    }
}

fn failed(action: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::connector(format!("cannot {action} the file `{}`: {error}", path.display()))
}

fn shorter(path: &Path, size: u64, read: u64) -> Error {
    changed(
        path,
        &format!(
            "has {size} bytes, fewer than the {read} that were already read (is it cut while it is written? rotate logs by renaming them)"
        ),
    )
}
