//! What tells one file from another, whatever its name.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::UNIX_EPOCH;

use xxhash_rust::xxh3::xxh3_64;

/// How many bytes at a file's begin are remembered.
const HEAD: usize = 1024;

/// A file as it was when it was found. It is stored with the split, so it holds no device number: those change when a machine restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    inode: u64,
    /// When the file was made, in nanoseconds since the epoch; 0 if the file system does not say. Inodes are used again.
    born: u64,
    /// How many bytes the file had, at most [`HEAD`].
    length: u64,
    /// The checksum of these bytes.
    head: u64,
}

impl Identity {
    pub(super) fn of(file: &File, metadata: &Metadata) -> io::Result<Self> {
        let length = metadata.len().min(HEAD as u64);
        Ok(Self { inode: metadata.ino(), born: born(metadata), length, head: head(file, length)?.unwrap_or_default() })
    }

    /// Whether a file of this metadata is certainly the one that this was taken of.
    pub(super) fn is_entry(&self, metadata: &Metadata) -> bool {
        self.born > 0 && self.inode == metadata.ino() && self.born == born(metadata)
    }

    /// Whether the file, perhaps under another name and longer by now, is the one that this was taken of. A copy is not.
    pub(super) fn is_same(&self, now: &Self, file: &File) -> io::Result<bool> {
        if self.inode != now.inode || self.born != now.born {
            return Ok(false);
        }
        // Without its birth only the content tells a file from an older one that had its inode.
        if self.born > 0 || self.length == 0 { Ok(true) } else { self.has_same_head(file) }
    }

    /// Whether the file begins as this one did: then it is that file or a copy, as far as one can tell.
    pub(super) fn has_same_head(&self, file: &File) -> io::Result<bool> {
        Ok(self.length > 0 && head(file, self.length)? == Some(self.head))
    }

    /// As a split stores it.
    pub(super) fn to_text(self) -> String {
        format!("{:x}-{:x}-{:x}-{:x}", self.inode, self.born, self.length, self.head)
    }

    pub(super) fn from_text(text: &str) -> Option<Self> {
        let numbers = text.split('-').map(|number| u64::from_str_radix(number, 16).ok()).collect::<Option<Vec<_>>>()?;
        let [inode, born, length, head] = numbers[..] else { return None };
        Some(Self { inode, born, length: length.min(HEAD as u64), head })
    }

    pub(super) fn inode(&self) -> u64 {
        self.inode
    }
}

fn born(metadata: &Metadata) -> u64 {
    let age = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    age.map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(0))
}

/// The checksum of the first bytes; none if there are fewer.
fn head(file: &File, length: u64) -> io::Result<Option<u64>> {
    let mut bytes = [0; HEAD];
    let Some(bytes) = usize::try_from(length).ok().and_then(|length| bytes.get_mut(..length)) else { return Ok(None) };
    match file.read_exact_at(bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        result => result.map(|()| Some(xxh3_64(bytes))),
    }
}
