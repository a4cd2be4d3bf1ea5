//! Which files are being read: discovery must not take the successor of a file for a new one before the file's reader has looked at it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidemill_core::source::Split;

use super::found::stored;
use super::identity::{Identity, Key};

/// The files that readers have open, or will open again, and what has become of those that were replaced.
#[derive(Default)]
pub(super) struct Readers {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// How many readers each file has.
    live: HashMap<Key, usize>,
    /// Files that a copy has replaced while they were read, with that copy.
    copied: HashMap<Key, Identity>,
    /// Files of which a reader has found that they do not continue the file whose name they have.
    others: HashSet<Key>,
}

impl Readers {
    /// A file is read from now on.
    pub(super) fn begin(&self, key: Key) {
        let mut inner = self.inner();
        *inner.live.entry(key).or_default() += 1;
        // Inodes are used again: it is not the file that was replaced.
        inner.copied.remove(&key);
    }

    /// A file is read no more by one of those that have begun.
    pub(super) fn end(&self, key: Key) {
        self.inner().end(key);
    }

    /// Whether one of these files is read.
    pub(super) fn are_reading(&self, keys: &[Key]) -> bool {
        let inner = self.inner();
        keys.iter().any(|key| inner.live.contains_key(key))
    }

    /// The reader of a file reads on in a copy of it. False: another one reads that copy.
    pub(super) fn move_on(&self, from: Key, to: Identity) -> bool {
        let mut inner = self.inner();
        if inner.live.contains_key(&to.key()) {
            return false;
        }
        inner.end(from);
        inner.live.insert(to.key(), 1);
        // Inodes are used again: a file must not lead back to itself.
        inner.copied.remove(&to.key());
        inner.copied.insert(from, to);
        true
    }

    /// Gives splits the identities of the copies in which they are read on.
    pub(super) fn identify(&self, known: &mut [Split]) {
        let inner = self.inner();
        if inner.copied.is_empty() {
            return;
        }
        for split in known {
            let mut now = stored(split).and_then(|identity| inner.copied.get(&identity.key()));
            while let Some(copy) = now {
                split.identity = Some(copy.to_text());
                now = inner.copied.get(&copy.key());
            }
        }
    }

    /// A file that has the name of one that is read, and other content.
    pub(super) fn is_other(&self, key: Key) {
        self.inner().others.insert(key);
    }

    /// Whether [`is_other`](Self::is_other) was said of a file; forgets it.
    pub(super) fn take_other(&self, key: Key) -> bool {
        self.inner().others.remove(&key)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn end(&mut self, key: Key) {
        if let Some(count) = self.live.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.live.remove(&key);
            }
        }
    }
}
