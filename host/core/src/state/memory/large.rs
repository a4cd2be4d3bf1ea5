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

impl Large {
    /// About how many bytes the content takes, given what a map's entry costs besides its key and value.
    pub(super) fn bytes(&self, map_entry: usize) -> usize {
        match self {
            Self::Free => 0,
            Self::Value(value) => value.value.capacity(),
            Self::List(list) => list.bytes.capacity() + list.len() * 16,
            Self::Map(map) => map.bytes + map.entries.len() * map_entry,
        }
    }
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

    /// Removes expired elements if those before a full prefetch alone are the larger part.
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

#[cfg(test)]
mod tests {
    use super::{Large, Life, List, Map};
    use crate::state::layout::Form;
    use crate::state::memory::shape::Shape;
    use crate::state::{PREFETCH_BYTES, PREFETCH_ENTRIES};
    use crate::time::Timestamp;

    const OVER: i64 = 90;
    const LIVE: i64 = 91;

    fn life(ttl: Option<i64>) -> Life {
        Shape { form: Form::List, ttl, renewed_by_reads: false, column: 0 }.life(Timestamp(100))
    }

    fn ten() -> Life {
        life(Some(10))
    }

    /// A list and a map whose elements have these numbers, stamps and sizes, the keys of four bytes included.
    fn both(parts: &[(usize, i64, usize)]) -> (List, Map) {
        let (mut list, mut map) = (List::default(), Map::default());
        for &(count, stamp, size) in parts {
            for _ in 0..count {
                let key = u32::try_from(list.len()).unwrap().to_be_bytes();
                list.push(stamp, &vec![7; size]);
                map.put(stamp, &key, &vec![7; size - key.len()]);
            }
        }
        (list, map)
    }

    #[test]
    fn its_bytes_follow_what_is_put_and_removed() {
        let (mut list, mut map) = (List::default(), Map::default());
        (0..3).for_each(|_| list.push(LIVE, &[]));
        assert_eq!(Large::List(list).bytes(100), 3 * 16);
        for (key, value) in [("a", "1234567890"), ("b", "12"), ("a", "123")] {
            map.put(LIVE, key.as_bytes(), value.as_bytes());
        }
        assert_eq!(map.bytes, 4 + 3);
        map.remove(b"a");
        map.remove(b"c");
        assert_eq!(Large::Map(map).bytes(100), 3 + 100);
        assert_eq!(Large::Free.bytes(100), 0);
    }

    #[test]
    fn at_half_the_limits_it_fits_a_block() {
        let (entries, bytes) = (PREFETCH_ENTRIES / 2, PREFETCH_BYTES / 2);
        for (parts, fits) in
            [([(entries, LIVE, 4)], true), ([(entries + 1, LIVE, 4)], false), ([(1, LIVE, bytes)], true), ([(1, LIVE, bytes + 1)], false)]
        {
            let (list, map) = both(&parts);
            assert_eq!((list.fits(), map.fits()), (fits, fits), "{parts:?}");
        }
    }

    #[test]
    fn within_the_limits_its_live_entries_are_prefetched() {
        let (entries, bytes) = (PREFETCH_ENTRIES, PREFETCH_BYTES);
        for (parts, with_ttl, without) in [
            ([(entries, LIVE, 4), (0, OVER, 4)], true, true),
            ([(entries + 1, LIVE, 4), (0, OVER, 4)], false, false),
            ([(1, LIVE, bytes), (0, OVER, 4)], true, true),
            ([(1, LIVE, bytes + 1), (0, OVER, 4)], false, false),
            ([(entries, LIVE, 4), (1, OVER, 4)], true, false),
            ([(1, LIVE, bytes), (1, OVER, 4)], true, false),
        ] {
            let (list, map) = both(&parts);
            assert_eq!((list.is_small(ten()), map.is_small(ten())), (with_ttl, with_ttl), "{parts:?}");
            assert_eq!((list.is_small(life(None)), map.is_small(life(None))), (without, without), "{parts:?}");
        }
    }

    #[test]
    fn a_list_is_copied_only_if_more_than_half_has_expired() {
        for (over, left) in [(3, 10), (5, 10), (6, 4)] {
            let (mut list, _) = both(&[(over, OVER, 4), (10 - over, LIVE, 4)]);
            list.expire(ten());
            assert_eq!(list.len(), left);
        }
    }

    #[test]
    fn only_what_lies_before_a_full_prefetch_is_trimmed() {
        for (parts, of_list, of_map) in [
            ([(1, LIVE, 4), (9, OVER, 4)], 1, 1),
            ([(PREFETCH_ENTRIES, LIVE, 4), (70, OVER, 4)], PREFETCH_ENTRIES, PREFETCH_ENTRIES),
            ([(PREFETCH_ENTRIES + 1, LIVE, 4), (70, OVER, 4)], PREFETCH_ENTRIES + 71, PREFETCH_ENTRIES + 71),
            ([(3, OVER, 4), (7, LIVE, 4)], 10, 7),
        ] {
            let (mut list, mut map) = both(&parts);
            list.trim(ten());
            map.trim(ten());
            assert_eq!((list.len(), map.entries.len()), (of_list, of_map), "{parts:?}");
        }
    }
}
