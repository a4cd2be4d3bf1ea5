//! Changes of rows that wait to be committed. They go to the store in the order of their keys: it finds the place of a row much faster if
//! it is close behind the one before.

#![expect(clippy::indexing_slicing, reason = "ranges come from this module alone")]

use super::rows::{Layer, Rows, Space};
use crate::Result;

/// More than this is not kept together.
const BYTES: usize = 256 << 10;

/// Rows to be put and deleted.
#[derive(Debug, Default)]
pub(super) struct Staged {
    bytes: Vec<u8>,
    changes: Vec<Change>,
}

/// Where the key and the value of a row lie; a row without value is deleted.
#[derive(Clone, Copy, Debug)]
struct Change {
    layer: Layer,
    space: Space,
    start: usize,
    key: usize,
    value: Option<usize>,
}

impl Staged {
    pub(super) fn put(&mut self, layer: Layer, space: Space, key: &[u8], value: &[u8]) {
        self.change(layer, space, key, Some(value));
    }

    pub(super) fn delete(&mut self, layer: Layer, space: Space, key: &[u8]) {
        self.change(layer, space, key, None);
    }

    /// Whether it is time to commit.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() > BYTES
    }

    /// Passes all on and commits it.
    pub(super) fn commit(&mut self, rows: &mut impl Rows) -> Result<()> {
        let Self { bytes, changes } = self;
        let key = |change: &Change| &bytes[change.start..change.key];
        // Of two changes of one row, the later one counts.
        changes.sort_unstable_by(|a, b| (a.space, key(a), a.start).cmp(&(b.space, key(b), b.start)));
        for change in &*changes {
            match change.value {
                Some(end) => rows.put(change.layer, change.space, key(change), &bytes[change.key..end]),
                None => rows.delete(change.layer, change.space, key(change)),
            }
        }
        changes.clear();
        bytes.clear();
        rows.commit()
    }

    fn change(&mut self, layer: Layer, space: Space, key: &[u8], value: Option<&[u8]>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let key = self.bytes.len();
        self.bytes.extend_from_slice(value.unwrap_or(&[]));
        self.changes.push(Change { layer, space, start, key, value: value.map(|_| self.bytes.len()) });
    }
}

#[cfg(test)]
mod tests {
    use super::{Layer, Space, Staged};

    #[test]
    fn it_is_full_beyond_a_quarter_of_a_mebibyte() {
        let mut staged = Staged::default();
        staged.put(Layer::Live, Space::Keys, &[1; 144], &[2; 262_000]);
        assert!(!staged.is_full());
        staged.delete(Layer::Live, Space::Keys, &[1]);
        assert!(staged.is_full());
    }
}
