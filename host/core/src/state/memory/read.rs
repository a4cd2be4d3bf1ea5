//! Reads of single cells.

use super::super::layout::Form;
use super::block::{self, Block, Cell, LARGE};
use super::large::Large;
use super::shape::Shape;
use super::slab::Slab;
use crate::detector::{Cells, Entries};
use crate::state::Scan;
use crate::time::Timestamp;

/// The cell of one state of one key, to be read.
#[derive(Clone, Copy)]
pub(super) struct CellRef<'a> {
    pub(super) block: &'a Block,
    pub(super) larges: &'a Slab<Large>,
    pub(super) cell: Cell,
    pub(super) shape: Shape,
}

/// An entry of a list (without key) or map.
pub(super) struct Found<'a> {
    pub(super) stamp: i64,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

impl<'a> CellRef<'a> {
    /// Adds the value to a column.
    #[inline]
    pub(super) fn copy_value(self, now: Timestamp, into: &mut Cells) {
        let found = self.value().filter(|(stamp, _)| !self.shape.life(now).is_over(*stamp));
        into.present.push(u8::from(found.is_some()));
        into.items.push(found.map_or(&[], |(_, value)| value));
    }

    /// Adds the entries to a column, if they are few.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "as in BlobsBuf")]
    pub(super) fn copy_entries(self, now: Timestamp, into: &mut Entries) {
        let life = self.shape.life(now);
        let mut whole = true;
        if self.cell.count == LARGE {
            whole = match self.large() {
                Some(Large::List(list)) => list.is_small(life),
                Some(Large::Map(map)) => map.is_small(life),
                _ => true,
            };
        }
        if whole {
            self.each(|entry| {
                if !life.is_over(entry.stamp) {
                    into.key.push(entry.key);
                    into.value.push(entry.value);
                }
            });
        }
        into.whole.push(u8::from(whole));
        into.ends.push(into.key.len() as u32);
    }

    /// The value with its stamp.
    #[inline]
    pub(super) fn value(self) -> Option<(i64, &'a [u8])> {
        match self.cell.count {
            0 => None,
            LARGE => match self.large() {
                Some(Large::Value(large)) => Some((large.stamp, &large.value)),
                _ => None,
            },
            _ => Some(block::value(self.block.body(self.cell), self.shape.stamped())),
        }
    }

    /// The number of entries, expired ones included.
    pub(super) fn len(self) -> usize {
        match self.large() {
            None => usize::from(self.cell.count),
            Some(Large::List(list)) => list.len(),
            Some(Large::Map(map)) => map.entries.len(),
            Some(Large::Value(_) | Large::Free) => 0,
        }
    }

    /// A live map entry, or a live list element by its index among the live ones.
    pub(super) fn get(self, entry: &[u8], now: Timestamp) -> Option<&'a [u8]> {
        let life = self.shape.life(now);
        if self.shape.form == Form::Map {
            return match self.large() {
                Some(Large::Map(map)) => map.entries.get(entry).filter(|found| !life.is_over(found.stamp)).map(|found| &found.value[..]),
                _ => self.live(None, now).find(|found| found.key == entry).map(|found| found.value),
            };
        }
        let index = u32::from_be_bytes(entry.try_into().ok()?) as usize;
        match self.large() {
            Some(Large::List(list)) if !life.ends() => list.get(index),
            _ => self.live(None, now).nth(index).map(|found| found.value),
        }
    }

    /// Passes up to `limit` live entries after `after` on.
    pub(super) fn scan(self, scan: &Scan<'_>, now: Timestamp, found: &mut dyn FnMut(&[u8], &[u8])) {
        match self.shape.form {
            Form::Value => {}
            Form::Map => self.live(scan.after, now).take(scan.limit).for_each(|entry| found(entry.key, entry.value)),
            Form::List => {
                let Some(from) = scan.after.map_or(Some(0), after_index) else { return };
                let mut pass = |(index, value): (usize, &[u8])| {
                    found(&u32::try_from(index).unwrap_or(u32::MAX).to_be_bytes(), value);
                };
                match self.large() {
                    Some(Large::List(list)) if !self.shape.stamped() => {
                        (from..list.len()).take(scan.limit).filter_map(|index| Some((index, list.get(index)?))).for_each(&mut pass);
                    }
                    _ => {
                        let values = self.live(None, now).map(|entry| entry.value).enumerate();
                        values.skip(from).take(scan.limit).for_each(&mut pass);
                    }
                }
            }
        }
    }

    /// Passes all entries on, expired ones included.
    #[inline]
    pub(super) fn each(self, mut found: impl FnMut(Found<'a>)) {
        if self.cell.count == LARGE {
            self.iter_after(None).for_each(found);
        } else {
            for entry in block::entries(self.block.body(self.cell), self.shape.stamped()) {
                found(Found { stamp: entry.stamp, key: entry.key, value: entry.value });
            }
        }
    }

    /// The entries after a map key, expired ones included.
    pub(super) fn iter_after(self, after: Option<&'a [u8]>) -> Box<dyn Iterator<Item = Found<'a>> + 'a> {
        match self.large() {
            None => {
                let entries = block::entries(self.block.body(self.cell), self.shape.stamped());
                let entries = entries.map(|entry| Found { stamp: entry.stamp, key: entry.key, value: entry.value });
                Box::new(entries.filter(move |entry| after.is_none_or(|after| entry.key > after)))
            }
            Some(Large::List(list)) => Box::new(list.iter().map(|(stamp, value)| Found { stamp, key: &[], value })),
            Some(Large::Map(map)) => {
                Box::new(map.iter_after(after).map(|(key, entry)| Found { stamp: entry.stamp, key, value: &entry.value }))
            }
            Some(Large::Value(_) | Large::Free) => Box::new(std::iter::empty()),
        }
    }

    fn live<'b>(self, after: Option<&'b [u8]>, now: Timestamp) -> impl Iterator<Item = Found<'b>>
    where
        'a: 'b,
    {
        let life = self.shape.life(now);
        let this: CellRef<'b> = self;
        this.iter_after(after).filter(move |found| !life.is_over(found.stamp))
    }

    fn large(self) -> Option<&'a Large> {
        if self.cell.count != LARGE {
            return None;
        }
        self.larges.get(block::place(self.block.body(self.cell)))
    }
}

/// The index that follows a list element's, if the entry key names one.
fn after_index(after: &[u8]) -> Option<usize> {
    Some(u32::from_be_bytes(after.try_into().ok()?) as usize + 1)
}
