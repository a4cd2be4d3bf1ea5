//! A set of places.

/// Places as bits. Grows as needed.
#[derive(Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// All places below `end`.
    pub(super) fn below(end: usize) -> Self {
        let mut words = vec![u64::MAX; end / 64];
        words.extend(Some((1 << (end % 64)) - 1).filter(|last| *last != 0));
        Self { words }
    }

    #[inline]
    pub(super) fn insert(&mut self, id: u32) {
        let at = id as usize / 64;
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        if let Some(word) = self.words.get_mut(at) {
            *word |= 1 << (id % 64);
        }
    }

    /// Removes a place; returns whether it was in the set.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> bool {
        let Some(word) = self.words.get_mut(id as usize / 64) else { return false };
        let bit = 1 << (id % 64);
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// Removes and returns the first place at or after `from`.
    pub(super) fn take_from(&mut self, from: u32) -> Option<u32> {
        let first = from as usize / 64;
        let mut mask = u64::MAX << (from % 64);
        for (at, word) in self.words.iter_mut().enumerate().skip(first) {
            let found = *word & mask;
            mask = u64::MAX;
            if found != 0 {
                let bit = found.trailing_zeros();
                *word &= !(1 << bit);
                return u32::try_from(at * 64).ok().map(|start| start + bit);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn places_come_and_go() {
        for end in [0, 1, 63, 64, 65, 200] {
            let mut bits = Bits::below(end);
            let mut taken = Vec::new();
            while let Some(id) = bits.take_from(taken.last().copied().unwrap_or(0)) {
                taken.push(id);
            }
            assert_eq!(taken, (0..u32::try_from(end).unwrap()).collect::<Vec<_>>());
        }
        let mut bits = Bits::default();
        assert!(!bits.remove(1_000) && bits.take_from(0).is_none());
        for id in [1_000, 7, 64, 7] {
            bits.insert(id);
        }
        assert!(bits.remove(64) && !bits.remove(64) && !bits.remove(65));
        assert_eq!([bits.take_from(8), bits.take_from(1_000), bits.take_from(0), bits.take_from(0)], [Some(1_000), None, Some(7), None]);
    }
}
