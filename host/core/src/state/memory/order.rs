//! Sorts keys by (key group, key bytes) with few looks at the keys.

use std::cmp::Ordering;

use super::keys::Keys;
use crate::key_group::KeyGroup;

/// A key to be sorted, with the row that it came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    /// The first bytes of the key as a big-endian number.
    prefix: u128,
    group: KeyGroup,
    pub(super) id: u32,
    pub(super) row: u32,
}

impl Ranked {
    pub(super) fn new(keys: &Keys, group: KeyGroup, id: u32, row: u32) -> Self {
        Self { prefix: prefix(keys.key(id)), group, id, row }
    }
}

/// Sorts by (key group, key bytes).
pub(super) fn sort(keys: &Keys, ranked: &mut [Ranked]) {
    ranked.sort_unstable_by(|a, b| {
        let by_prefix = a.group.cmp(&b.group).then(a.prefix.cmp(&b.prefix));
        match by_prefix {
            Ordering::Equal if a.id != b.id => keys.key(a.id).cmp(keys.key(b.id)),
            decided => decided,
        }
    });
}

fn prefix(key: &[u8]) -> u128 {
    match key.first_chunk() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut first = [0; 16];
            first.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
            u128::from_be_bytes(first)
        }
    }
}
