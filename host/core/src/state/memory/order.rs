//! Sorts keys by (key group, key bytes) with few looks at the keys: each costs a cache miss.

use super::keys::Keys;
use crate::key_group::KeyGroup;

/// How many bytes of a key are looked at at once.
const BYTES: usize = 13;

/// After how many bytes keys are compared whole, so that long ones that differ late need no deep recursion.
const DEEP: usize = 8 * BYTES;

/// A key to be sorted, with the row that it came from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ranked {
    /// From the top: the key group, the next bytes of the key, and how many these are, one more if there are others after them.
    rank: u128,
    pub(super) id: u32,
    pub(super) row: u32,
}

impl Ranked {
    /// A key as it is sorted by [`sort`] with the same `skip`.
    #[inline]
    pub(super) fn new(keys: &Keys, skip: usize, group: KeyGroup, id: u32) -> Self {
        Self { rank: rank(group, keys.key(id).get(skip..).unwrap_or(&[])), id, row: 0 }
    }

    /// The same for a row.
    pub(super) fn of_row(self, row: u32) -> Self {
        Self { row, ..self }
    }

    pub(super) fn group(&self) -> KeyGroup {
        KeyGroup((self.rank >> 112) as u16)
    }

    fn goes_on(&self) -> bool {
        self.rank & 0xff > BYTES as u128
    }
}

/// The number of first bytes that all of these keys share.
pub(super) fn common_bytes<'a>(mut keys: impl Iterator<Item = &'a [u8]>) -> usize {
    let first = keys.next().unwrap_or(&[]);
    keys.fold(first.len(), |common, key| first.iter().take(common).zip(key).take_while(|(a, b)| a == b).count())
}

/// Sorts by (key group, key bytes), given that the keys of a group share their first `skip` bytes.
pub(super) fn sort(skip: usize, keys: &Keys, ranked: &mut [Ranked]) {
    ranked.sort_unstable_by_key(|ranked| ranked.rank);
    for tied in ranked.chunk_by_mut(|a, b| a.rank == b.rank) {
        if tied.len() == 1 || !tied.first().is_some_and(Ranked::goes_on) {
            continue;
        }
        if skip > DEEP {
            tied.sort_unstable_by(|a, b| keys.key(a.id).cmp(keys.key(b.id)));
            continue;
        }
        let skip = skip + BYTES;
        keys.warm(tied.iter().map(|ranked| ranked.id));
        for ranked in &mut *tied {
            ranked.rank = rank(ranked.group(), keys.key(ranked.id).get(skip..).unwrap_or(&[]));
        }
        sort(skip, keys, tied);
    }
}

/// Ranks a key by its group and the bytes given. Zeros stand for bytes that it does not have, and their number settles what that leaves open.
#[inline]
fn rank(group: KeyGroup, bytes: &[u8]) -> u128 {
    let count = bytes.len().min(BYTES + 1);
    let first = match bytes.first_chunk::<16>() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut first = [0; 16];
            first.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            u128::from_be_bytes(first)
        }
    };
    u128::from(group.0) << 112 | first >> 24 << 8 | count as u128
}

#[cfg(test)]
mod tests {
    use super::{Ranked, common_bytes, sort};
    use crate::detector::KeyRef;
    use crate::key_group::{KeyGroup, hash_key};
    use crate::state::memory::keys::Keys;

    #[test]
    fn keys_of_all_lengths_are_in_order() {
        let mut expected: Vec<(KeyGroup, Vec<u8>)> = Vec::new();
        for group in [KeyGroup(7), KeyGroup(300)] {
            for len in [0, 1, 12, 13, 14, 26, 27, 150, 400] {
                for last in [None, Some(0), Some(1), Some(255)] {
                    expected.push((group, vec![0; len].into_iter().chain(last).collect()));
                }
            }
        }
        expected.sort();
        expected.dedup();
        let mut keys = Keys::new(1);
        let mut ranked: Vec<Ranked> = Vec::new();
        // One key cannot be in two groups, so each is told apart by what follows.
        for (row, (group, bytes)) in expected.iter().enumerate().rev() {
            let mut keyed = bytes.clone();
            keyed.push(u8::from(group.0 > 7));
            let id = keys.find_or_insert(KeyRef { bytes: &keyed, hash: hash_key(&keyed), group: *group });
            ranked.push(Ranked::new(&keys, 0, *group, id).of_row(u32::try_from(row).unwrap()));
        }
        let mut by_comparison = ranked.clone();
        by_comparison.sort_by(|a, b| (a.group(), keys.key(a.id)).cmp(&(b.group(), keys.key(b.id))));
        sort(0, &keys, &mut ranked);
        assert_eq!(ranked.iter().map(|key| key.row).collect::<Vec<_>>(), by_comparison.iter().map(|key| key.row).collect::<Vec<_>>());
    }

    /// More looks than there is stack for.
    #[test]
    fn long_keys_that_differ_late_need_no_deep_recursion() {
        let long: Vec<Vec<u8>> = [2, 1].into_iter().map(|last| vec![0; 4 << 20].into_iter().chain([last]).collect()).collect();
        let mut keys = Keys::new(1);
        let ranked = |bytes: &Vec<u8>| {
            let id = keys.find_or_insert(KeyRef { bytes, hash: hash_key(bytes), group: KeyGroup(0) });
            Ranked::new(&keys, 1, KeyGroup(0), id)
        };
        let mut ranked: Vec<Ranked> = long.iter().map(ranked).collect();
        sort(1, &keys, &mut ranked);
        assert_eq!(ranked.iter().map(|key| keys.key(key.id).last()).collect::<Vec<_>>(), [Some(&1), Some(&2)]);
    }

    #[test]
    fn common_bytes_are_those_of_all() {
        let check = |keys: &[&[u8]], expected| assert_eq!(common_bytes(keys.iter().copied()), expected, "{keys:?}");
        check(&[], 0);
        check(&[b"abc"], 3);
        check(&[b"abcd", b"abc", b"abx"], 2);
        check(&[b"abc", b"", b"abc"], 0);
    }
}
