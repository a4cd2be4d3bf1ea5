//! What files hold, by numbers that names stand for.

use std::collections::BTreeMap;

use super::file::Content;

/// The first number of a scratch file's content.
const SCRATCH: usize = usize::MAX / 2;

/// All contents. Those of scratch files are numbered on their own: which of several threads makes one first changes no other number.
#[derive(Default)]
pub(super) struct Contents {
    by_number: BTreeMap<usize, Content>,
    durable: usize,
    scratch: usize,
}

impl Contents {
    /// Adds an empty one.
    pub(super) fn add(&mut self, scratch: bool) -> usize {
        let (first, count) = if scratch { (SCRATCH, &mut self.scratch) } else { (0, &mut self.durable) };
        let number = first + *count;
        *count += 1;
        self.by_number.insert(number, Content::default());
        number
    }

    pub(super) fn get(&mut self, number: usize) -> Option<&mut Content> {
        self.by_number.get_mut(&number)
    }

    /// Those that a crash may change.
    pub(super) fn durable(&mut self) -> impl Iterator<Item = &mut Content> {
        self.by_number.range_mut(..SCRATCH).map(|(_, content)| content)
    }
}
