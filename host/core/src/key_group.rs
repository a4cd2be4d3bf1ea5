//! Key groups: the units in which keyed state is spread over subtasks (Flink's `KeyGroupRangeAssignment`).

use std::ops::Range;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The largest max parallelism, as in Flink.
pub const MAX_PARALLELISM_LIMIT: u32 = 32_768;

/// A key group's number, below the job's max parallelism.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyGroup(pub u16);

/// The stable hash of an encoded key: XXH3, 64 bits. It decides where state is stored, so it may never change.
#[inline]
#[must_use]
pub fn hash_key(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The key group of a key with this hash.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "below max_parallelism, which is at most 32,768")]
pub fn key_group(hash: u64, max_parallelism: u32) -> KeyGroup {
    // The upper half by multiplication: no division on the hot path, and the lower bits stay free for hash tables.
    KeyGroup((((hash >> 32) * u64::from(max_parallelism)) >> 32) as u16)
}

/// The subtask that owns a key group.
#[inline]
#[must_use]
pub fn subtask_of(group: KeyGroup, max_parallelism: u32, parallelism: u32) -> u32 {
    u32::from(group.0) * parallelism / max_parallelism.max(1)
}

/// The key groups of a subtask: from `ceil(i * max / p)` to `floor(((i + 1) * max - 1) / p)`, inclusive.
#[must_use]
pub fn range_of(subtask: u32, max_parallelism: u32, parallelism: u32) -> Range<u32> {
    let (i, max, p) = (u64::from(subtask), u64::from(max_parallelism), u64::from(parallelism.max(1)));
    let bound = |n: u64| u32::try_from((n * max).div_ceil(p)).unwrap_or(u32::MAX);
    bound(i)..bound(i + 1)
}

/// Flink's default max parallelism: one and a half times the parallelism, rounded up to a power of two, at least 128, at most 32,768.
#[must_use]
pub fn default_max_parallelism(parallelism: u32) -> u32 {
    let scaled = u64::from(parallelism) + u64::from(parallelism / 2);
    u32::try_from(scaled.next_power_of_two().clamp(128, u64::from(MAX_PARALLELISM_LIMIT))).unwrap_or(MAX_PARALLELISM_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::{KeyGroup, default_max_parallelism, hash_key, key_group, range_of, subtask_of};

    #[test]
    fn default_max_parallelism_is_flinks() {
        for (p, expected) in
            [(1, 128), (85, 128), (86, 256), (170, 256), (171, 256), (172, 512), (200, 512), (1000, 2048), (21_846, 32_768)]
        {
            assert_eq!(default_max_parallelism(p), expected, "parallelism {p}");
        }
    }

    #[test]
    fn ranges_are_flinks_and_agree_with_the_owner() {
        let inclusive = |p| (0..p).map(|i| range_of(i, 128, p)).map(|r| (r.start, r.end - 1)).collect::<Vec<_>>();
        assert_eq!(inclusive(3), [(0, 42), (43, 85), (86, 127)]);
        assert_eq!(inclusive(7), [(0, 18), (19, 36), (37, 54), (55, 73), (74, 91), (92, 109), (110, 127)]);
        for p in 1..=128 {
            for group in 0..128u16 {
                let owner = subtask_of(KeyGroup(group), 128, p);
                assert!(range_of(owner, 128, p).contains(&u32::from(group)));
            }
        }
    }

    #[test]
    fn hash_and_group_never_change() {
        let golden = [("", 22), ("a", 115), ("hello", 74), ("store-17/SKU-00042", 106)];
        let found = golden.map(|(key, _)| (key, key_group(hash_key(key.as_bytes()), 128).0));
        assert_eq!(found, golden);
    }
}
