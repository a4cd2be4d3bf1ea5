//! What tells one file from another, whatever its name.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use super::mark::{Print, read_exact};

/// How many bytes at a file's begin are remembered.
pub(super) const HEAD: usize = 1024;

/// A file, for as long as the process lives: its inode, and when it was made.
pub(super) type Key = (u64, u64);

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
        let mut bytes = [0; HEAD];
        let bytes = bytes.get_mut(..usize::try_from(length).unwrap_or(HEAD)).unwrap_or(&mut []);
        let head = if read_exact(file, bytes, 0)? { xxhash_rust::xxh3::xxh3_64(bytes) } else { 0 };
        Ok(Self { inode: metadata.ino(), born: born(metadata), length, head })
    }

    /// Whether a file of this metadata is certainly the one that this was taken of. `named`: it has the name of that one. A file system that
    /// does not say when a file was made may give an inode to another file; under the same name that is taken for the same file, with
    /// other content.
    pub(super) fn is_entry(&self, metadata: &Metadata, named: bool) -> bool {
        self.key() == key(metadata) && (self.born > 0 || named)
    }

    /// Whether the file, perhaps under another name and longer by now, is the one that this was taken of. A copy is not.
    pub(super) fn is_same(&self, metadata: &Metadata, file: &File) -> io::Result<bool> {
        // Without its birth only the content tells a file from an older one that had its inode.
        Ok(self.key() == key(metadata) && (self.born > 0 || self.length == 0 || self.has_same_head(file)?))
    }

    /// Whether the file begins as this one did: then it is that file or a copy, as far as one can tell.
    pub(super) fn has_same_head(&self, file: &File) -> io::Result<bool> {
        Ok(self.length > 0 && self.head().is_at(0, file)?)
    }

    /// The first bytes, as far as they were there.
    pub(super) fn head(&self) -> Print {
        Print::stored(self.length, self.head)
    }

    /// Whether this file may be another one that was given the same inode, since the file system does not say when files were made.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.born == 0
    }

    /// Whether the file was empty.
    pub(super) fn was_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn key(&self) -> Key {
        (self.inode, self.born)
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
}

/// What tells a file of this metadata from others.
pub(super) fn key(metadata: &Metadata) -> Key {
    (metadata.ino(), born(metadata))
}

fn born(metadata: &Metadata) -> u64 {
    let age = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    age.map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(0))
}
