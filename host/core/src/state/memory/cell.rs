//! Writes to one cell.

use std::cmp::Ordering;
use std::ops::Range;

use super::super::layout::Form;
use super::super::{PREFETCH_BYTES, PREFETCH_ENTRIES};
use super::block::{self, Block, Cell, LARGE};
use super::large::{Large, List, Map, Stamped};
use super::shape::{Life, Shape};
use super::slab::Slab;

/// How many entries of a large map are looked at in one step of expiry.
const EXPIRE_ENTRIES: usize = 1024;

/// The cell of one state of one key, to be written.
pub(super) struct CellMut<'a> {
    pub(super) block: &'a mut Block,
    pub(super) larges: &'a mut Slab<Large>,
    pub(super) state: usize,
    pub(super) shape: Shape,
    /// The stamp of what is written.
    pub(super) stamp: i64,
    /// By which expired content is told.
    pub(super) life: Life,
}

impl CellMut<'_> {
    /// Puts a value.
    pub(super) fn put(&mut self, value: &[u8]) {
        let mut cell = self.cell();
        let stamp = self.stamp;
        if cell.count == LARGE {
            if let Some(Large::Value(large)) = self.large(cell)
                && value.len() > PREFETCH_BYTES / 2
            {
                large.value.clear();
                large.value.extend_from_slice(value);
                large.stamp = stamp;
                return;
            }
            self.clear();
            cell = self.cell();
        }
        if value.len() > PREFETCH_BYTES {
            self.spill(Large::Value(Stamped { stamp, value: value.to_vec() }));
            return;
        }
        let stamp = self.stored_stamp();
        let body = self.block.edit(cell, 0..cell.size, block::value_size(stamp.is_some(), value), 1);
        block::write_value(body, stamp, value);
    }

    /// Removes all content.
    pub(super) fn clear(&mut self) {
        let cell = self.cell();
        if cell.count == LARGE {
            self.larges.remove(block::place(self.block.body(cell)));
        }
        self.block.edit(cell, 0..cell.size, 0, 0);
    }

    /// Puts a map entry.
    pub(super) fn put_entry(&mut self, key: &[u8], value: &[u8]) {
        let cell = self.cell();
        let stamp = self.stamp;
        if let Some(Large::Map(map)) = self.large(cell) {
            map.put(stamp, key, value);
            return;
        }
        let range = self.find(cell, key).unwrap_or_else(|before| before..before);
        if !self.insert(cell, range, key, value) {
            if self.expire_small(cell) {
                return self.put_entry(key, value);
            }
            let mut map = Map::default();
            for entry in block::entries(self.block.body(cell), self.shape.stamped()) {
                map.put(entry.stamp, entry.key, entry.value);
            }
            map.put(stamp, key, value);
            self.spill(Large::Map(map));
        }
    }

    /// Removes a map entry.
    pub(super) fn remove_entry(&mut self, key: &[u8]) {
        let cell = self.cell();
        if let Some(Large::Map(map)) = self.large(cell) {
            map.remove(key);
            self.settle(cell);
        } else if let Ok(range) = self.find(cell, key) {
            self.block.edit(cell, range, 0, cell.count - 1);
        }
    }

    /// Appends a list element.
    pub(super) fn append(&mut self, value: &[u8]) {
        let cell = self.cell();
        let stamp = self.stamp;
        if let Some(Large::List(list)) = self.large(cell) {
            list.push(stamp, value);
            return;
        }
        if !self.insert(cell, cell.size..cell.size, &[], value) {
            if self.expire_small(cell) {
                return self.append(value);
            }
            let mut list = List::default();
            for entry in block::entries(self.block.body(cell), self.shape.stamped()) {
                list.push(entry.stamp, entry.value);
            }
            list.push(stamp, value);
            self.spill(Large::List(list));
        }
    }

    /// Renews what a guest has read, where reads renew, unless it has expired: the value, the map entry, the list element with this index
    /// among the live ones, or, without an index, all elements. Guests report every read, since the job spec decides what renews.
    pub(super) fn touch(&mut self, entry: &[u8]) {
        if !self.shape.renewed_by_reads {
            return;
        }
        if self.shape.form == Form::List && entry.is_empty() {
            return self.touch_all();
        }
        let cell = self.cell();
        let index = entry.first_chunk().map_or(usize::MAX, |bytes| u32::from_be_bytes(*bytes) as usize);
        let (stamp, life) = (self.stamp, self.life);
        if cell.count == LARGE {
            let renewed = match self.large(cell) {
                Some(Large::Value(value)) => Some(&mut value.stamp),
                Some(Large::Map(map)) => map.entries.get_mut(entry).map(|found| &mut found.stamp),
                Some(Large::List(list)) => list.stamps_mut().iter_mut().filter(|stamp| !life.is_over(**stamp)).nth(index),
                Some(Large::Free) | None => None,
            };
            if let Some(renewed) = renewed.filter(|stamp| !life.is_over(**stamp)) {
                *renewed = stamp;
            }
            return;
        }
        if self.shape.form == Form::Value {
            if cell.count == 1 && !life.is_over(block::value(self.block.body(cell), true).0) {
                block::restamp_value(self.block.body_mut(cell), stamp);
            }
            return;
        }
        let mut live = block::entries(self.block.body(cell), true).filter(|found| !life.is_over(found.stamp));
        let found = if self.shape.form == Form::Map { live.find(|found| found.key == entry) } else { live.nth(index) };
        let at = found.map(|found| found.range.start);
        drop(live);
        if let Some(at) = at {
            block::restamp_entry(self.block.body_mut(cell), at, stamp);
        }
    }

    /// Renews all elements of a list.
    fn touch_all(&mut self) {
        let cell = self.cell();
        let (stamp, life) = (self.stamp, self.life);
        if cell.count == LARGE {
            if let Some(Large::List(list)) = self.large(cell) {
                list.stamps_mut().iter_mut().filter(|stamp| !life.is_over(**stamp)).for_each(|renewed| *renewed = stamp);
            }
            return;
        }
        let live = block::entries(self.block.body(cell), true).filter(|found| !life.is_over(found.stamp));
        let places: Vec<_> = live.map(|found| found.range.start).collect();
        for at in places {
            block::restamp_entry(self.block.body_mut(cell), at, stamp);
        }
    }

    /// Removes what has expired; of a large map, only among a number of entries after `after`. Returns where to go on.
    pub(super) fn expire(&mut self, after: Option<&[u8]>) -> Option<Box<[u8]>> {
        let cell = self.cell();
        let (life, form) = (self.life, self.shape.form);
        let mut go_on = None;
        match self.large(cell) {
            Some(Large::Value(value)) if life.is_over(value.stamp) => self.clear(),
            Some(Large::List(list)) => {
                list.expire(life);
                self.settle(cell);
            }
            Some(Large::Map(map)) => {
                go_on = map.expire(life, after, EXPIRE_ENTRIES);
                self.settle(cell);
            }
            Some(Large::Value(_) | Large::Free) => {}
            None if form == Form::Value => {
                if cell.count == 1 && life.is_over(block::value(self.block.body(cell), true).0) {
                    self.clear();
                }
            }
            None => {
                self.expire_small(cell);
            }
        }
        go_on
    }

    /// Removes expired content of a large list or map that reads would pass over again and again.
    pub(super) fn trim(&mut self) {
        let (cell, life) = (self.cell(), self.life);
        match self.large(cell) {
            Some(Large::List(list)) => list.trim(life),
            Some(Large::Map(map)) => map.trim(life),
            _ => return,
        }
        self.settle(cell);
    }

    fn cell(&self) -> Cell {
        self.block.cell(self.state)
    }

    #[inline]
    fn large(&mut self, cell: Cell) -> Option<&mut Large> {
        if cell.count != LARGE {
            return None;
        }
        self.larges.get_mut(block::place(self.block.body(cell)))
    }

    /// The stamp as it is stored: only in a state with a TTL.
    fn stored_stamp(&self) -> Option<i64> {
        self.shape.stamped().then_some(self.stamp)
    }

    /// Finds an entry in a map's cell: where it lies, or where it would.
    #[inline]
    fn find(&self, cell: Cell, key: &[u8]) -> Result<Range<usize>, usize> {
        for entry in block::entries(self.block.body(cell), self.shape.stamped()) {
            match entry.key.cmp(key) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(entry.range),
                Ordering::Greater => return Err(entry.range.start),
            }
        }
        Err(cell.size)
    }

    /// Puts an entry in the place of another or between two, if the cell can hold it.
    #[inline]
    fn insert(&mut self, cell: Cell, range: Range<usize>, key: &[u8], value: &[u8]) -> bool {
        let stamp = self.stored_stamp();
        let stamped = stamp.is_some();
        let others = usize::from(cell.count) - usize::from(!range.is_empty());
        let bytes = block::entry_bytes(cell.size - range.len(), others, stamped) + key.len() + value.len();
        if others >= PREFETCH_ENTRIES || bytes > PREFETCH_BYTES {
            return false;
        }
        let count = if range.is_empty() { cell.count + 1 } else { cell.count };
        block::write_entry(self.block.edit(cell, range, block::entry_size(stamped, key, value), count), stamp, key, value);
        true
    }

    /// Removes expired entries from the block; returns whether there were any.
    fn expire_small(&mut self, cell: Cell) -> bool {
        let mut count = cell.count;
        if self.shape.stamped() {
            let (life, mut from) = (self.life, 0);
            loop {
                // Removing an entry moves those after it, so the search goes on from its place.
                let cell = self.cell();
                let body = self.block.body(cell).get(from..).unwrap_or(&[]);
                let Some(entry) = block::entries(body, true).find(|entry| life.is_over(entry.stamp)) else { break };
                let range = from + entry.range.start..from + entry.range.end;
                from = range.start;
                count -= 1;
                self.block.edit(cell, range, 0, count);
            }
        }
        count < cell.count
    }

    /// Moves the content out of the block.
    fn spill(&mut self, large: Large) {
        let place = self.larges.insert(large);
        let cell = self.cell();
        self.block.edit(cell, 0..cell.size, 4, LARGE).copy_from_slice(&place.to_le_bytes());
    }

    /// Moves content that has become small back into the block. At half the limits: at the limits it might go to and fro.
    fn settle(&mut self, cell: Cell) {
        let fits = match self.large(cell) {
            Some(Large::Map(map)) => map.fits(),
            Some(Large::List(list)) => list.fits(),
            _ => false,
        };
        if !fits {
            return;
        }
        let large = self.larges.remove(block::place(self.block.body(cell)));
        self.block.edit(cell, 0..cell.size, 0, 0);
        let now = self.stamp;
        match large {
            Large::Map(map) => {
                for (key, entry) in map.iter_after(None) {
                    self.stamp = entry.stamp;
                    self.put_entry(key, &entry.value);
                }
            }
            Large::List(list) => {
                for (stamp, value) in list.iter() {
                    self.stamp = stamp;
                    self.append(value);
                }
            }
            Large::Value(_) | Large::Free => {}
        }
        self.stamp = now;
    }
}
