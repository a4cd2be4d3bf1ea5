//! A window over a file that only moves forward.

mod copy;
mod end;
mod open;

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::{Error, Result};

use super::handles::Handle;
use super::identity::{Identity, Key};
use super::mark::{EDGE, Mark, Print, read_exact};
use super::notices::shown;
use super::shared::{Left, Shared};

/// How much is read at once.
const CHUNK: usize = 256 << 10;

/// The bytes of a file from [`position`](Window::position) on, as far as they have been read.
pub(super) struct Window {
    shared: Arc<Shared>,
    key: Option<Key>,
    path: PathBuf,
    /// The name under which a copy of the file may appear: the path, unless that is stray.
    home: PathBuf,
    /// The copy of the split's file in which it is read on.
    copy: Option<Identity>,
    /// Device and inode: which file it is, for as long as this process lives.
    entry: (u64, u64),
    /// None while there are many files and this one rests; it is opened again when it is read.
    handle: Option<Handle>,
    follow: bool,
    /// `buffer[start..end]` is what was read and not yet consumed. Before it are up to [`EDGE`] bytes or more that were consumed, by which
    /// the file is recognised when more is read.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The offset of `buffer[start]` in the file.
    position: u64,
    /// The first bytes of the file, unless they are still in the buffer.
    head: Print,
    /// How many bytes the file had when it was last looked at.
    known: u64,
    /// What the file looked like when its content was last compared with what had been read.
    stamp: Stamp,
    /// The line at the position when the window was opened.
    line: Option<u64>,
    /// Whether the file had nothing new when what was read ahead was dropped.
    drained: bool,
    /// The file has a name that the pattern does not match: its end is the end of the split.
    stray: bool,
    /// Since when no path that matches leads to the file.
    lost: Option<Duration>,
    /// The file is gone: nothing more comes, though it was not opened.
    over: bool,
    /// The split has ended because the file is gone.
    ended: bool,
}

/// What a file's metadata say of its content. The time of the last change is set by the system alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { size: metadata.len(), modified, changed: (metadata.ctime(), metadata.ctime_nsec()) }
    }
}

/// What an attempt to read more found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// There is more behind what was not consumed.
    More,
    /// The end of the file, or of what is in it now if it is followed.
    Nothing,
    /// The file was overwritten: the window is at its begin, and what was not consumed is forgotten.
    Again,
}

impl Window {
    /// The file's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's identity, if it is a copy that has taken the place of the split's file.
    pub(super) fn identity(&self) -> Option<String> {
        self.copy.map(Identity::to_text)
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

    /// The number of the line at which the window was opened, counted from 1, if it is known.
    pub(super) fn line(&self) -> Option<u64> {
        self.line
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
        self.learn_head();
        (self.start, self.end, self.position) = (0, 0, position);
        self.load_edge()
    }

    /// What to remember of the position, which begins this line.
    pub(super) fn mark(&self, line: Option<u64>) -> Mark {
        let tail = Print::of(self.buffer.get(self.start.saturating_sub(EDGE)..self.start).unwrap_or(&[]));
        // It may have grown since, while nothing could be read.
        let size = self.handle.as_ref().and_then(|handle| handle.file.metadata().ok()).map_or(0, |metadata| metadata.len());
        Mark { known: self.known.max(self.read_to()).max(size), head: self.head_now(), tail, line }
    }

    /// Reads more, behind what was not consumed.
    pub(super) fn fill(&mut self) -> Result<Filled> {
        loop {
            if self.over || self.rests_at_end() {
                return Ok(Filled::Nothing);
            }
            // A file whose buffer was dropped gets none before there is more.
            if self.drained
                && self.handle.is_some()
                && let Some(filled) = self.check_end()?
            {
                return Ok(filled);
            }
            self.drained = false;
            self.make_room();
            if self.handle.is_none()
                && let Some(filled) = self.reopen()?
            {
                return Ok(filled);
            }
            let before = self.end;
            if self.read()? == 0 {
                if let Some(filled) = self.check_end()? {
                    return Ok(filled);
                }
            } else if self.is_unchanged(before)? {
                return Ok(Filled::More);
            } else {
                return self.replaced(&other_content(self.position));
            }
        }
    }

    /// At the end of a poll: lets go of what was read ahead, and of the file, if too many files are open. Returns whether it did; then
    /// [`bytes`](Self::bytes) is empty, and begins at the position when it is filled. `pending`: the poll found the file's end.
    pub(super) fn rest(&mut self, pending: bool) -> bool {
        if self.handle.is_none() || !self.shared.handles.are_many(pending) {
            return false;
        }
        self.known = self.known.max(self.read_to());
        self.drained = pending;
        self.learn_head();
        let edge = self.start.saturating_sub(EDGE)..self.start;
        if self.buffer.len() > edge.len() {
            self.buffer = self.buffer.get(edge).unwrap_or(&[]).to_vec();
            (self.start, self.end) = (self.buffer.len(), self.buffer.len());
        }
        // A file that lost its name could not be opened again.
        if self.shared.handles.are_scarce(pending) && self.is_named() {
            self.handle = None;
        }
        true
    }

    /// The offset up to which the file was read.
    fn read_to(&self) -> u64 {
        self.position + (self.end - self.start) as u64
    }

    fn read(&mut self) -> Result<usize> {
        let offset = self.read_to();
        let (Some(handle), Some(room)) = (&self.handle, self.buffer.get_mut(self.end..)) else { return Ok(0) };
        let count = loop {
            match handle.file.read_at(room, offset) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => break result.map_err(|error| failed("read", &self.path, &error))?,
            }
        };
        self.end += count;
        Ok(count)
    }

    /// Moves what is left to the front, with the edge before it. The buffer grows while one record fills it, and shrinks when that record is
    /// gone.
    fn make_room(&mut self) {
        self.learn_head();
        let keep = self.start.saturating_sub(EDGE);
        self.buffer.copy_within(keep..self.end, 0);
        (self.start, self.end) = (self.start - keep, self.end - keep);
        if self.buffer.len() > CHUNK && self.end < CHUNK / 2 {
            self.buffer.truncate(CHUNK);
            self.buffer.shrink_to_fit();
        } else if self.buffer.len() - self.end < CHUNK / 4 {
            self.buffer.resize((self.buffer.len() * 2).max(CHUNK), 0);
        }
    }

    /// Reads the bytes before the position, which was found to be right, into the buffer.
    fn load_edge(&mut self) -> Result<()> {
        let length = self.position.min(EDGE as u64);
        let (Some(handle), Ok(room)) = (&self.handle, usize::try_from(length)) else { return Ok(()) };
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        let bytes = self.buffer.get_mut(..room).unwrap_or(&mut []);
        if read_exact(&handle.file, bytes, self.position - length).map_err(|error| failed("read", &self.path, &error))? {
            (self.start, self.end) = (room, room);
        }
        Ok(())
    }

    /// Whether `buffer[0]` is the first byte of the file.
    fn has_begin(&self) -> bool {
        self.position == self.start as u64
    }

    /// The print of the file's first bytes, once they are read; none while they are few, since then they are all before the position.
    fn head_now(&self) -> Print {
        if self.head.is_empty() && self.has_begin() && self.start >= EDGE {
            Print::of(self.buffer.get(..EDGE).unwrap_or(&[]))
        } else {
            self.head
        }
    }

    fn learn_head(&mut self) {
        self.head = self.head_now();
    }

    /// Whether the file still has what is in `buffer[..upto]`, as far as its edges tell.
    fn is_unchanged(&self, upto: usize) -> Result<bool> {
        let Some(Handle { file, .. }) = &self.handle else { return Ok(true) };
        self.is_in(file, upto).map_err(|error| failed("read", &self.path, &error))
    }

    /// Whether a file has what is in `buffer[..upto]`, as far as its edges tell.
    fn is_in(&self, file: &File, upto: usize) -> std::io::Result<bool> {
        let begin = self.position - self.start as u64;
        if !self.head.is_at(0, file)? || !self.is_at(begin, upto.saturating_sub(EDGE)..upto, file)? {
            return Ok(false);
        }
        Ok(begin > 0 || self.is_at(0, 0..upto.min(EDGE), file)?)
    }

    /// Whether the file has a part of the buffer, whose first byte is at `begin`.
    fn is_at(&self, begin: u64, part: std::ops::Range<usize>, file: &File) -> std::io::Result<bool> {
        let mut now = [0; EDGE];
        let offset = begin + part.start as u64;
        let (Some(read), Some(now)) = (self.buffer.get(part.clone()), now.get_mut(..part.len())) else { return Ok(true) };
        Ok(read_exact(file, now, offset)? && read == now)
    }

    /// The file has other content: an error, or the window begins again.
    fn replaced(&mut self, how: &str) -> Result<Filled> {
        self.shared.replaced(&self.path, how)?;
        (self.start, self.end, self.position) = (0, 0, 0);
        (self.head, self.known, self.stamp, self.drained) = (Print::default(), 0, Stamp::default(), false);
        Ok(Filled::Again)
    }
}

impl Drop for Window {
    /// Leaves word of how far it came, for the next attempt, and for the case that the file comes back.
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let name = self.shared.name(&self.path).to_string_lossy().into_owned();
        let mark = self.ended.then(|| self.mark(None).to_text());
        let known = self.known.max(self.read_to());
        self.shared.left().insert(key, Left { name, position: self.position, known, mark, ended: self.ended });
        // ORDER: after the word is left, which discovery looks for when nobody reads the file.
        self.shared.readers.end(key);
    }
}

fn other_content(position: u64) -> String {
    format!("has other content than what was read of it, up to byte {position}")
}

fn shorter(size: u64, read: u64) -> String {
    format!("has {size} bytes, fewer than the {read} that were already read")
}

fn failed(action: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::connector(format!("cannot {action} the file `{}`: {error}", shown(path)))
}
