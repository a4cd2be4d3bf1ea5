//! What a batch has read and written of a map, entry by entry.
#![expect(clippy::indexing_slicing, reason = "`begin` makes a head per slot, the runner checks all slots, and chains link existing cells")]

use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use serde::Serialize;
use tidemill_wit::descriptor::write_op;

use crate::effects::Writes;

/// Up to this many entries of a slot are found by walking its chain; beyond it they are hashed.
const WALK: u32 = 8;
const NONE: u32 = u32::MAX;

pub(super) struct Overlay<V> {
    /// One per slot, perhaps more.
    heads: Vec<Head>,
    /// The slots whose heads are in use, each once.
    used: Vec<u32>,
    cells: Vec<Cell<V>>,
    /// The keys of the cells.
    keys: Vec<u8>,
    /// The cells of slots with long chains.
    index: HashTable<u32>,
}

#[derive(Clone, Copy)]
struct Head {
    /// The last cell made.
    first: u32,
    len: u32,
    /// What was stored before the batch is gone.
    cleared: bool,
    /// All that is stored has been read.
    scanned: bool,
}

struct Cell<V> {
    slot: u32,
    /// The next cell of the slot.
    next: u32,
    key: Range<u32>,
    value: Option<V>,
    mark: Mark,
}

/// What the batch has done to an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Read,
    Written,
    /// Whatever it was, a clear has undone it.
    Cleared,
}

impl<V> Overlay<V> {
    pub(super) fn begin(&mut self, slots: usize) {
        for slot in self.used.drain(..) {
            self.heads[slot as usize] = Head::UNUSED;
        }
        if self.heads.len() < slots {
            self.heads.resize(slots, Head::UNUSED);
        }
        self.cells.clear();
        self.keys.clear();
        self.index.clear();
    }

    /// The cell of an entry, if the batch has touched it.
    #[inline]
    pub(super) fn find(&self, slot: u32, key: &[u8]) -> Option<usize> {
        let head = self.heads[slot as usize];
        if head.len > WALK {
            return self.index.find(hash(slot, key), |&cell| self.is(cell, slot, key)).map(|&cell| cell as usize);
        }
        self.chain(slot).find(|&cell| self.key(cell) == key)
    }

    #[inline]
    pub(super) fn insert(&mut self, slot: u32, key: &[u8], value: Option<V>, mark: Mark) -> usize {
        self.touch(slot);
        let cell = self.cells.len();
        let start = narrow(self.keys.len());
        self.keys.extend_from_slice(key);
        let head = &mut self.heads[slot as usize];
        self.cells.push(Cell { slot, next: head.first, key: start..narrow(self.keys.len()), value, mark });
        head.first = narrow(cell);
        head.len += 1;
        if head.len > WALK {
            self.index(slot, cell);
        }
        cell
    }

    #[inline]
    pub(super) fn set(&mut self, slot: u32, key: &[u8], value: Option<V>) {
        match self.find(slot, key) {
            // After a clear there is nothing left to remove.
            Some(cell) if value.is_none() && self.cleared(slot) => {
                self.cells[cell].value = None;
                self.cells[cell].mark = Mark::Cleared;
            }
            Some(cell) => {
                self.cells[cell].value = value;
                self.cells[cell].mark = Mark::Written;
            }
            None if value.is_none() && self.cleared(slot) => {}
            None => {
                self.insert(slot, key, value, Mark::Written);
            }
        }
    }

    pub(super) fn clear_slot(&mut self, slot: u32) {
        self.touch(slot);
        let mut next = self.heads[slot as usize].first;
        while next != NONE {
            let cell = &mut self.cells[next as usize];
            (cell.value, cell.mark) = (None, Mark::Cleared);
            next = cell.next;
        }
        self.heads[slot as usize].cleared = true;
    }

    /// Notes that all that is stored is read; whether for the first time.
    pub(super) fn begin_scan(&mut self, slot: u32) -> bool {
        self.touch(slot);
        !std::mem::replace(&mut self.heads[slot as usize].scanned, true)
    }

    /// Whether what was stored before the batch is gone.
    pub(super) fn cleared(&self, slot: u32) -> bool {
        self.heads[slot as usize].cleared
    }

    /// The cells of a slot.
    pub(super) fn chain(&self, slot: u32) -> impl Iterator<Item = usize> {
        let mut next = self.heads[slot as usize].first;
        std::iter::from_fn(move || {
            let cell = (next != NONE).then_some(next as usize)?;
            next = self.cells[cell].next;
            Some(cell)
        })
    }

    pub(super) fn key(&self, cell: usize) -> &[u8] {
        let range = &self.cells[cell].key;
        &self.keys[range.start as usize..range.end as usize]
    }

    pub(super) fn value(&self, cell: usize) -> &Option<V> {
        &self.cells[cell].value
    }

    pub(super) fn value_mut(&mut self, cell: usize) -> &mut Option<V> {
        &mut self.cells[cell].value
    }

    pub(super) fn mark(&mut self, cell: usize, mark: Mark) {
        self.cells[cell].mark = mark;
    }

    /// Writes down what is different after the batch, and what was read.
    pub(super) fn finish(&self, state: u8, writes: &mut Writes) -> Result<(), String>
    where
        V: Serialize,
    {
        for &slot in &self.used {
            if self.cleared(slot) {
                writes.push(write_op::CLEAR, state, slot, &[]);
            }
            for cell in self.chain(slot) {
                match (self.cells[cell].mark, &self.cells[cell].value) {
                    (Mark::Written, Some(value)) => writes.push_value(write_op::PUT_ENTRY, state, slot, self.key(cell), value)?,
                    (Mark::Written, None) => writes.push(write_op::REMOVE_ENTRY, state, slot, self.key(cell)),
                    (Mark::Read, Some(_)) => writes.push(write_op::TOUCH, state, slot, self.key(cell)),
                    (Mark::Read, None) | (Mark::Cleared, _) => {}
                }
            }
        }
        Ok(())
    }

    fn touch(&mut self, slot: u32) {
        let head = &self.heads[slot as usize];
        if head.first == NONE && !head.cleared && !head.scanned {
            self.used.push(slot);
        }
    }

    /// Adds a cell of a slot with a long chain to the index; all cells of the slot, when the chain has just become long.
    fn index(&mut self, slot: u32, cell: usize) {
        let cells: Vec<usize> = if self.heads[slot as usize].len == WALK + 1 { self.chain(slot).collect() } else { vec![cell] };
        for cell in cells {
            let (table, cells, keys) = (&mut self.index, &self.cells, &self.keys);
            let hash_of = |&cell: &u32| {
                let cell: &Cell<V> = &cells[cell as usize];
                hash(cell.slot, &keys[cell.key.start as usize..cell.key.end as usize])
            };
            let cell = narrow(cell);
            table.insert_unique(hash_of(&cell), cell, hash_of);
        }
    }

    fn is(&self, cell: u32, slot: u32, key: &[u8]) -> bool {
        self.cells[cell as usize].slot == slot && self.key(cell as usize) == key
    }
}

impl Head {
    const UNUSED: Self = Self { first: NONE, len: 0, cleared: false, scanned: false };
}

/// Not derived, so that values need no default.
impl<V> Default for Overlay<V> {
    fn default() -> Self {
        Self { heads: Vec::new(), used: Vec::new(), cells: Vec::new(), keys: Vec::new(), index: HashTable::new() }
    }
}

fn hash(slot: u32, key: &[u8]) -> u64 {
    FixedState::with_seed(u64::from(slot)).hash_one(key)
}

/// A batch's own memory is far below 4 GiB: a guest's address space ends there.
#[expect(clippy::cast_possible_truncation, reason = "see above")]
fn narrow(index: usize) -> u32 {
    index as u32
}
