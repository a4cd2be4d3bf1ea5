//! A key with the small cells of all its states in one allocation, so that a key costs one cache miss, not one per state.
//!
//! ```text
//! block := key length:u32, key, cell*              one cell per declared state
//! cell  := count:u16, size:u16, body               size: of the body; count: of the entries, or 1 for a value, 0 if absent
//! body  := stamp?, value                           value state
//!        | (key length:u16, value length:u16, stamp?, key, value)*     list (without keys) and map (in key order)
//!        | place:u32                               if count is LARGE: the content lies in a slab of its own
//! ```
//! Stamps (i64) are there only in states with a TTL.

#![expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "offsets and sizes come from this module alone")]

use std::ops::Range;

use super::super::layout::FRESH;

/// The count of a cell whose content lies elsewhere.
pub(super) const LARGE: u16 = u16::MAX;

const KEY: usize = 4;
const CELL: usize = 4;
const ENTRY: usize = 4;
const STAMP: usize = 8;

/// A key and its cells. The default is a free place without a key.
#[derive(Debug, Default)]
pub(super) struct Block(Vec<u8>);

/// Where a cell lies in its block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// Where the cell begins.
    at: usize,
    pub(super) count: u16,
    pub(super) size: usize,
}

/// An entry in a cell's body.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    /// Where it lies in the body.
    pub(super) range: Range<usize>,
    pub(super) stamp: i64,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

impl Block {
    pub(super) fn new(key: &[u8], states: usize) -> Self {
        let mut bytes = Vec::new();
        reserve(&mut bytes, KEY + key.len() + (CELL + STAMP) * states);
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.resize(bytes.len() + CELL * states, 0);
        Self(bytes)
    }

    /// Whether this is a free place.
    pub(super) fn is_free(&self) -> bool {
        self.0.is_empty()
    }

    /// How many bytes are allocated.
    pub(super) fn bytes(&self) -> usize {
        self.0.capacity()
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.0[KEY..self.cells()]
    }

    /// Whether this block holds this key.
    #[inline]
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        !self.is_free() && self.key() == key
    }

    /// Whether no state has content.
    pub(super) fn is_empty(&self) -> bool {
        self.0[self.cells()..].iter().all(|&byte| byte == 0)
    }

    /// A number that needs the first cache lines of the block, to load them early.
    #[inline]
    pub(super) fn warm(&self) -> u8 {
        match self.0.last() {
            Some(last) => last ^ self.0[0] ^ self.0[(self.0.len() - 1).min(64)],
            None => 0,
        }
    }

    #[inline]
    pub(super) fn first_cell(&self) -> Cell {
        self.cell_at(self.cells())
    }

    /// The cell of the state after that of `cell`, which is not the last.
    #[inline]
    pub(super) fn cell_after(&self, cell: Cell) -> Cell {
        self.cell_at(cell.at + CELL + cell.size)
    }

    #[inline]
    pub(super) fn cell(&self, state: usize) -> Cell {
        (0..state).fold(self.first_cell(), |cell, _| self.cell_after(cell))
    }

    #[inline]
    pub(super) fn body(&self, cell: Cell) -> &[u8] {
        &self.0[cell.at + CELL..cell.at + CELL + cell.size]
    }

    #[inline]
    pub(super) fn body_mut(&mut self, cell: Cell) -> &mut [u8] {
        &mut self.0[cell.at + CELL..cell.at + CELL + cell.size]
    }

    /// Sets the count of a cell, replaces a range of its body by `size` bytes and returns those, to be filled.
    #[inline]
    pub(super) fn edit(&mut self, cell: Cell, range: Range<usize>, size: usize, count: u16) -> &mut [u8] {
        let (start, end) = (cell.at + CELL + range.start, cell.at + CELL + range.end);
        let (len, new_end) = (self.0.len(), start + size);
        if new_end > end {
            reserve(&mut self.0, new_end - end);
            self.0.resize(len + (new_end - end), 0);
            self.0.copy_within(end..len, new_end);
        } else if new_end < end {
            self.0.copy_within(end.., new_end);
            self.0.truncate(len - (end - new_end));
        }
        let body = cell.size - range.len() + size;
        self.0[cell.at..cell.at + 2].copy_from_slice(&count.to_le_bytes());
        self.0[cell.at + 2..cell.at + CELL].copy_from_slice(&(body as u16).to_le_bytes());
        &mut self.0[start..new_end]
    }

    #[inline]
    fn cells(&self) -> usize {
        KEY + u32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]) as usize
    }

    #[inline]
    fn cell_at(&self, at: usize) -> Cell {
        match self.0.get(at..at + CELL) {
            Some(&[a, b, c, d]) => Cell { at, count: u16::from_le_bytes([a, b]), size: u16::from_le_bytes([c, d]) as usize },
            _ => Cell { at, count: 0, size: 0 },
        }
    }
}

/// A value's stamp and bytes.
#[inline]
pub(super) fn value(body: &[u8], stamped: bool) -> (i64, &[u8]) {
    if stamped { (time(body), &body[STAMP..]) } else { (FRESH, body) }
}

/// The size of a value's body.
pub(super) fn value_size(stamped: bool, value: &[u8]) -> usize {
    value.len() + if stamped { STAMP } else { 0 }
}

/// Fills a value's body.
#[inline]
pub(super) fn write_value(body: &mut [u8], stamp: Option<i64>, value: &[u8]) {
    let at = match stamp {
        Some(stamp) => {
            body[..STAMP].copy_from_slice(&stamp.to_le_bytes());
            STAMP
        }
        None => 0,
    };
    body[at..].copy_from_slice(value);
}

/// The entries in a body, in order.
#[inline]
pub(super) fn entries(body: &[u8], stamped: bool) -> impl Iterator<Item = Entry<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let header = body.get(at..at + ENTRY)?;
        let (keys, values) = (u16::from_le_bytes([header[0], header[1]]) as usize, u16::from_le_bytes([header[2], header[3]]) as usize);
        let start = at + ENTRY + if stamped { STAMP } else { 0 };
        let stamp = if stamped { time(&body[at + ENTRY..]) } else { FRESH };
        let (middle, end) = (start + keys, start + keys + values);
        let entry = Entry { range: at..end, stamp, key: &body[start..middle], value: &body[middle..end] };
        at = end;
        Some(entry)
    })
}

/// The size of an entry.
pub(super) fn entry_size(stamped: bool, key: &[u8], value: &[u8]) -> usize {
    ENTRY + key.len() + value_size(stamped, value)
}

/// The bytes of keys and values in a body of `count` entries.
pub(super) fn entry_bytes(size: usize, count: usize, stamped: bool) -> usize {
    size - count * entry_size(stamped, &[], &[])
}

/// Fills an entry's bytes.
#[inline]
pub(super) fn write_entry(bytes: &mut [u8], stamp: Option<i64>, key: &[u8], value: &[u8]) {
    bytes[..2].copy_from_slice(&(key.len() as u16).to_le_bytes());
    bytes[2..ENTRY].copy_from_slice(&(value.len() as u16).to_le_bytes());
    let at = match stamp {
        Some(stamp) => {
            bytes[ENTRY..ENTRY + STAMP].copy_from_slice(&stamp.to_le_bytes());
            ENTRY + STAMP
        }
        None => ENTRY,
    };
    bytes[at..at + key.len()].copy_from_slice(key);
    bytes[at + key.len()..].copy_from_slice(value);
}

/// Overwrites a value's stamp.
pub(super) fn restamp_value(body: &mut [u8], stamp: i64) {
    body[..STAMP].copy_from_slice(&stamp.to_le_bytes());
}

/// Overwrites the stamp of the entry at this place in the body.
pub(super) fn restamp_entry(body: &mut [u8], at: usize, stamp: i64) {
    body[at + ENTRY..at + ENTRY + STAMP].copy_from_slice(&stamp.to_le_bytes());
}

/// The place that a cell of count [`LARGE`] names.
pub(super) fn place(body: &[u8]) -> u32 {
    u32::from_le_bytes([body[0], body[1], body[2], body[3]])
}

fn time(bytes: &[u8]) -> i64 {
    bytes.first_chunk().copied().map_or(FRESH, i64::from_le_bytes)
}

/// Makes room in smaller steps than doubling: there are many blocks, and most stop growing soon.
fn reserve(bytes: &mut Vec<u8>, more: usize) {
    let needed = bytes.len() + more;
    if needed > bytes.capacity() {
        let room = (needed + needed / 8).next_multiple_of(16) + 8;
        bytes.reserve_exact(room - bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::Block;

    #[test]
    fn a_block_takes_what_its_cells_need() {
        let mut block = Block::new(b"key", 2);
        let mut sizes = [0usize; 2];
        for (round, (state, size)) in [(0, 5), (1, 300), (0, 900), (1, 0), (0, 900), (1, 40), (0, 1), (0, 0)].into_iter().enumerate() {
            let cell = block.cell(state);
            block.edit(cell, 0..cell.size, size, 1).fill(7);
            sizes[state] = size;
            let needed = 4 + 3 + 2 * 4 + sizes[0] + sizes[1];
            assert_eq!(block.0.len(), needed, "round {round}");
            assert_eq!([block.cell(0).size, block.cell(1).size], sizes);
            // An eighth more than is needed, in steps of 16 bytes, and 8 for the allocator's own.
            let allocated = [56, 376, 1_384][round.min(2)];
            assert_eq!(block.bytes(), allocated, "round {round}: {needed} bytes are needed");
        }
    }
}
