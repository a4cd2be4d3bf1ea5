//! Content that is too large for a key's block.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::super::{PREFETCH_BYTES, PREFETCH_ENTRIES};
use super::shape::Life;

/// The content of one large cell. The default is a free place.
#[derive(Debug, Default)]
pub(super) enum Large {
    #[default]
    Free,
    Value(Stamped),
    List(List),
    Map(Map),
}

/// A value with the time at which it was last renewed.
#[derive(Debug)]
pub(super) struct Stamped {
    pub(super) stamp: i64,
    pub(super) value: Vec<u8>,
}

/// Elements in insertion order.
#[derive(Debug, Default)]
pub(super) struct List {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    stamps: Vec<i64>,
}

/// Entries in key order.
#[derive(Debug, Default)]
pub(super) struct Map {
    pub(super) entries: BTreeMap<Box<[u8]>, Stamped>,
    /// The bytes of all keys and values.
    bytes: usize,
}

impl List {
    pub(super) fn push(&mut self, stamp: i64, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        self.stamps.push(stamp);
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, &[u8])> {
        let mut start = 0;
        self.ends.iter().zip(&self.stamps).map(move |(&end, &stamp)| {
            let value = self.bytes.get(start..end).unwrap_or(&[]);
            start = end;
            (stamp, value)
        })
    }

    pub(super) fn stamps_mut(&mut self) -> &mut [i64] {
        &mut self.stamps
    }

    /// The element at a place in the list.
    pub(super) fn get(&self, place: usize) -> Option<&[u8]> {
        let start = match place.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..*self.ends.get(place)?)
    }

    /// Whether this may be prefetched whole.
    pub(super) fn is_small(&self, life: Life) -> bool {
        small(self.len(), self.bytes.len(), life, self.iter().map(|(stamp, value)| (stamp, value.len())))
    }

    /// Whether this is well within what a block holds.
    pub(super) fn fits(&self) -> bool {
        self.len() <= PREFETCH_ENTRIES / 2 && self.bytes.len() <= PREFETCH_BYTES / 2
    }

    /// Removes expired elements if they are at least half of those before the first that fill a prefetch.
    pub(super) fn trim(&mut self, life: Life) {
        let (mut live, mut expired) = (0, 0);
        for &stamp in &self.stamps {
            if life.is_over(stamp) {
                expired += 1;
            } else {
                live += 1;
                if live > PREFETCH_ENTRIES {
                    break;
                }
            }
        }
        if expired > self.len() / 2 {
            self.expire(life);
        }
    }

    /// Removes expired elements once they are the larger part: all that live are copied.
    pub(super) fn expire(&mut self, life: Life) {
        if self.stamps.iter().filter(|&&stamp| life.is_over(stamp)).count() <= self.len() / 2 {
            return;
        }
        let mut kept = Self::default();
        for (stamp, value) in self.iter().filter(|(stamp, _)| !life.is_over(*stamp)) {
            kept.push(stamp, value);
        }
        *self = kept;
    }
}

impl Map {
    pub(super) fn put(&mut self, stamp: i64, key: &[u8], value: &[u8]) {
        match self.entries.get_mut(key) {
            Some(entry) => {
                self.bytes = self.bytes - entry.value.len() + value.len();
                entry.stamp = stamp;
                entry.value.clear();
                entry.value.extend_from_slice(value);
            }
            None => {
                self.bytes += key.len() + value.len();
                self.entries.insert(key.into(), Stamped { stamp, value: value.to_vec() });
            }
        }
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= key.len() + entry.value.len();
        }
    }

    pub(super) fn iter_after(&self, after: Option<&[u8]>) -> impl Iterator<Item = (&[u8], &Stamped)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries.range::<[u8], _>((from, Bound::Unbounded)).map(|(key, entry)| (&key[..], entry))
    }

    /// Whether this may be prefetched whole.
    pub(super) fn is_small(&self, life: Life) -> bool {
        let sizes = self.entries.iter().map(|(key, entry)| (entry.stamp, key.len() + entry.value.len()));
        small(self.entries.len(), self.bytes, life, sizes)
    }

    /// Whether this is well within what a block holds.
    pub(super) fn fits(&self) -> bool {
        self.entries.len() <= PREFETCH_ENTRIES / 2 && self.bytes <= PREFETCH_BYTES / 2
    }

    /// Removes the expired entries before those that fill a prefetch, so that they are not passed over again and again.
    pub(super) fn trim(&mut self, life: Life) {
        let mut live = 0;
        let before = self.iter_after(None).take_while(|(_, entry)| {
            live += usize::from(!life.is_over(entry.stamp));
            live <= PREFETCH_ENTRIES
        });
        let expired: Vec<Box<[u8]>> = before.filter(|(_, entry)| life.is_over(entry.stamp)).map(|(key, _)| key.into()).collect();
        expired.iter().for_each(|key| self.remove(key));
    }

    /// Removes the expired ones of the `limit` entries after `after`. Returns the last one looked at if there are more.
    pub(super) fn expire(&mut self, life: Life, after: Option<&[u8]>, limit: usize) -> Option<Box<[u8]>> {
        let mut entries = self.iter_after(after);
        let mut last = None;
        let mut expired: Vec<Box<[u8]>> = Vec::new();
        for (key, entry) in entries.by_ref().take(limit) {
            if life.is_over(entry.stamp) {
                expired.push(key.into());
            }
            last = Some(key);
        }
        let more = if entries.next().is_some() { last.map(Into::into) } else { None };
        drop(entries);
        expired.iter().for_each(|key| self.remove(key));
        more
    }
}

/// Whether live entries, of these stamps and sizes, are within what is prefetched.
fn small(count: usize, bytes: usize, life: Life, entries: impl Iterator<Item = (i64, usize)>) -> bool {
    if !life.ends() {
        return count <= PREFETCH_ENTRIES && bytes <= PREFETCH_BYTES;
    }
    let (mut live, mut live_bytes) = (0, 0);
    for (_, size) in entries.filter(|(stamp, _)| !life.is_over(*stamp)) {
        live += 1;
        live_bytes += size;
        if live > PREFETCH_ENTRIES || live_bytes > PREFETCH_BYTES {
            return false;
        }
    }
    true
}
