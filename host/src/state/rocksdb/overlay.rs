//! What is put and deleted while a database is being frozen, in front of the database: it must not change meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidemill_core::state::Space;

/// What a row takes beside its bytes: two vectors, their share of a node, what the allocator rounds up.
const ROW_BYTES: usize = 96;

/// The memory that all overlays share.
#[derive(Clone, Debug)]
pub(super) struct Room(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: usize,
    used: AtomicUsize,
}

impl Room {
    /// For so many bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(Inner { limit, used: AtomicUsize::new(0) }))
    }
}

/// Rows that were put (`Some`) or deleted, the last of each key. They hide those of the database.
#[derive(Debug)]
pub(super) struct Overlay {
    keys: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    timers: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: usize,
    room: Room,
}

impl Overlay {
    /// An empty one.
    pub(super) fn new(room: Room) -> Self {
        Self { keys: BTreeMap::new(), timers: BTreeMap::new(), bytes: 0, room }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.timers.is_empty()
    }

    /// Whether the memory for overlays is used up, and this one has some of it.
    pub(super) fn is_full(&self) -> bool {
        let Inner { limit, used } = &*self.room.0;
        self.bytes > 0 && used.load(Ordering::Relaxed) > *limit
    }

    /// The value of a row, `None` within if it is deleted. `None`: the database knows.
    pub(super) fn get(&self, space: Space, key: &[u8]) -> Option<Option<&[u8]>> {
        self.space(space).get(key).map(Option::as_deref)
    }

    /// Puts or deletes a row.
    pub(super) fn change(&mut self, space: Space, key: &[u8], value: Option<&[u8]>) {
        let rows = match space {
            Space::Keys => &mut self.keys,
            Space::Timers => &mut self.timers,
        };
        let before = match rows.get_mut(key) {
            Some(row) => row_bytes(key, std::mem::replace(row, value.map(<[u8]>::to_vec)).as_deref()),
            None => {
                rows.insert(key.to_vec(), value.map(<[u8]>::to_vec));
                0
            }
        };
        self.count(before, row_bytes(key, value));
    }

    /// The rows from `from` (inclusive) on.
    pub(super) fn range<'a>(&'a self, space: Space, from: &[u8]) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let rows = self.space(space).range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Unbounded));
        rows.map(|(key, value)| (&key[..], value.as_deref()))
    }

    /// Takes out some row.
    pub(super) fn pop(&mut self) -> Option<(Space, Vec<u8>, Option<Vec<u8>>)> {
        let keys = self.keys.pop_first().map(|(key, value)| (Space::Keys, key, value));
        let popped = keys.or_else(|| self.timers.pop_first().map(|(key, value)| (Space::Timers, key, value)))?;
        self.count(row_bytes(&popped.1, popped.2.as_deref()), 0);
        Some(popped)
    }

    fn space(&self, space: Space) -> &BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        match space {
            Space::Keys => &self.keys,
            Space::Timers => &self.timers,
        }
    }

    /// What took `before` bytes takes `after` bytes now.
    fn count(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes + after - before;
        let used = &self.room.0.used;
        _ = if after >= before {
            used.fetch_add(after - before, Ordering::Relaxed)
        } else {
            used.fetch_sub(before - after, Ordering::Relaxed)
        };
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        self.room.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn row_bytes(key: &[u8], value: Option<&[u8]>) -> usize {
    ROW_BYTES + key.len() + value.map_or(0, <[u8]>::len)
}
