//! Flat columns, owned and borrowed.

/// A column of byte strings: item `i` is `bytes[ends[i - 1]..ends[i]]`, with `ends[-1] = 0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blobs<'a> {
    /// All items, one after the other.
    pub bytes: &'a [u8],
    /// The end of each item in `bytes`.
    pub ends: &'a [u32],
}

impl<'a> Blobs<'a> {
    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Item `index`; empty if there is no such item or the column is not [`valid`](Self::valid).
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> &'a [u8] {
        let start = match index.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or(0) as usize,
            None => 0,
        };
        let end = self.ends.get(index).copied().unwrap_or(0) as usize;
        self.bytes.get(start..end).unwrap_or(&[])
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (bytes, mut start) = (self.bytes, 0);
        self.ends.iter().map(move |&end| {
            let item = bytes.get(start..end as usize).unwrap_or(&[]);
            start = end as usize;
            item
        })
    }

    /// Whether the column has `len` items whose ends ascend and cover the bytes exactly. A column from outside must pass this before use.
    #[must_use]
    pub fn valid(&self, len: usize) -> bool {
        let ascending = self.ends.windows(2).fold(true, |ok, pair| ok & (pair.first() <= pair.last()));
        self.ends.len() == len && ascending && self.ends.last().copied().unwrap_or(0) as usize == self.bytes.len()
    }
}

/// An owned column of byte strings that keeps its capacity when cleared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobsBuf {
    /// All items, one after the other.
    pub bytes: Vec<u8>,
    /// The end of each item in `bytes`.
    pub ends: Vec<u32>,
}

impl BlobsBuf {
    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Removes all items, keeping the capacity.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// An empty column with room for one like this.
    #[must_use]
    pub fn with_same_capacity(&self) -> Self {
        Self { bytes: Vec::with_capacity(roomy(self.bytes.len())), ends: Vec::with_capacity(roomy(self.ends.len())) }
    }

    /// Appends an item.
    #[inline]
    pub fn push(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
        self.finish();
    }

    /// Whether so many bytes more fit: a column holds at most 4 GiB. One that has grown beyond that is not [`valid`](Blobs::valid).
    #[inline]
    #[must_use]
    pub fn fits(&self, more: usize) -> bool {
        self.bytes.len().checked_add(more).is_some_and(|len| u32::try_from(len).is_ok())
    }

    /// Ends an item whose bytes were appended to `bytes` directly. Who appends without a bound of its own asks [`fits`](Self::fits).
    #[inline]
    pub fn finish(&mut self) {
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    /// Drops bytes of an item that was begun but not finished.
    pub fn abandon(&mut self) {
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0) as usize);
    }

    /// Borrows the column.
    #[inline]
    #[must_use]
    pub fn view(&self) -> Blobs<'_> {
        Blobs { bytes: &self.bytes, ends: &self.ends }
    }

    /// Item `index`; empty if there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> &[u8] {
        self.view().get(index)
    }

    /// Replaces the content by a copy of `other`.
    pub fn copy_from(&mut self, other: Blobs<'_>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(other.bytes);
        self.ends.clear();
        self.ends.extend_from_slice(other.ends);
    }
}

/// Room for a column of about this length: some more, so that one that is a little longer need not move.
#[must_use]
pub fn roomy(len: usize) -> usize {
    len + len / 8
}

#[cfg(test)]
mod tests {
    use super::{Blobs, BlobsBuf};

    #[test]
    fn items_come_back() {
        let mut column = BlobsBuf::default();
        for item in [&b"a"[..], b"", b"bcd"] {
            column.push(item);
        }
        assert!(column.view().valid(3) && column.fits(1 << 20));
        #[cfg(target_pointer_width = "64")]
        assert!(!column.fits(1 << 32) && !column.fits(usize::MAX));
        assert_eq!(column.view().iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"bcd"]);
        assert_eq!((column.get(0), column.get(1), column.get(2), column.get(3)), (&b"a"[..], &b""[..], &b"bcd"[..], &b""[..]));
    }

    #[test]
    fn lying_columns_are_not_valid() {
        let bytes = b"abc";
        for (ends, len) in [(&[1u32, 3][..], 3), (&[2, 1, 3], 3), (&[1, 4], 2), (&[1, 2], 2), (&[], 0)] {
            assert!(!Blobs { bytes, ends }.valid(len), "{ends:?}");
        }
        assert_eq!(Blobs { bytes, ends: &[2, 1] }.get(1), b"");
    }
}
