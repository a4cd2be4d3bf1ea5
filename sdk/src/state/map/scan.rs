//! Walking over all entries of a slot: what is stored, with the batch's own writes laid over it.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::Range;

use serde::de::DeserializeOwned;
use tidemill_wit::columns::BlobsBuf;
use tidemill_wit::descriptor::write_op;

use super::overlay::Overlay;
use super::{MapState, Schema};
use crate::Failure;
use crate::columns::Entries;
use crate::context::Core;
use crate::effects::Writes;
use crate::host::Host;
use crate::state::PAGE;

/// The value of an entry on the way.
pub(super) enum Seen<'a, V> {
    /// Read or written in this batch.
    Own(&'a V),
    /// As stored.
    Stored(&'a [u8]),
}

/// Called with an entry's key and value; says whether to go on.
type Visit<'f, V> = dyn FnMut(&[u8], Seen<'_, V>) -> Result<bool, Failure> + 'f;

impl<K, V: Schema + DeserializeOwned> MapState<K, V> {
    /// Visits the entries of the current slot in the order of their keys, as long as `visit` says so. `touch`: the visit is a read, which
    /// renews what has a time to live.
    pub(super) fn scan(&mut self, core: &mut Core<'_>, touch: bool, visit: &mut Visit<'_, V>) -> Result<(), Failure> {
        let slot = core.slot;
        let mut stored = Stored::new(core, self.id.column, self.overlay.cleared(slot));
        let touch = touch && self.overlay.begin_scan(slot);
        let overlay = &self.overlay;
        // Sorts as it goes, for less code in the component than a sort.
        let mut own: BinaryHeap<Reverse<(&[u8], usize)>> = overlay.chain(slot).map(|cell| Reverse((overlay.key(cell), cell))).collect();
        loop {
            let next_stored = stored.peek(core.host, slot, self.id.state);
            let order = match (own.peek(), &next_stored) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(Reverse((own, _))), Some((stored, _))) => own.cmp(stored),
            };
            let go_on = if order == Ordering::Greater {
                let (key, value) = next_stored.unwrap_or_default();
                if touch {
                    self.touched.push(slot, key);
                }
                visit(key, Seen::Stored(value))?
            } else {
                let Reverse((key, cell)) = own.pop().unwrap_or_default();
                overlay.value(cell).as_ref().map_or(Ok(true), |value| visit(key, Seen::Own(value)))?
            };
            // An entry of the batch's own hides the stored one.
            if order != Ordering::Less {
                stored.advance();
            }
            if !go_on {
                return Ok(());
            }
        }
    }
}

/// The stored entries of a slot, those that came with the batch or page by page from the host.
enum Stored<'b> {
    Whole { column: Entries<'b>, range: Range<usize> },
    Paged { page: Vec<(Vec<u8>, Vec<u8>)>, at: usize, more: bool },
}

impl<'b> Stored<'b> {
    fn new(core: &Core<'b>, column: usize, cleared: bool) -> Self {
        let column = core.batch.entries.get(column).copied().unwrap_or_default();
        match column.range(core.slot) {
            _ if cleared => Self::Whole { column, range: 0..0 },
            Some(range) => Self::Whole { column, range },
            None => Self::Paged { page: Vec::new(), at: 0, more: true },
        }
    }

    fn peek(&mut self, host: &mut dyn Host, slot: u32, state: u8) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Whole { column, range } => {
                (range.start < range.end).then(|| (column.key.get(range.start), column.value.get(range.start)))
            }
            Self::Paged { page, at, more } => {
                if *at == page.len() && *more {
                    let next = host.scan_entries(slot, state, page.last().map(|(key, _)| key.as_slice()), PAGE);
                    (*more, *at, *page) = (next.len() >= PAGE as usize, 0, next);
                }
                page.get(*at).map(|(key, value)| (key.as_slice(), value.as_slice()))
            }
        }
    }

    fn advance(&mut self) {
        match self {
            Self::Whole { range, .. } => range.start += 1,
            Self::Paged { at, .. } => *at += 1,
        }
    }
}

/// The stored entries that scans have read, those of a slot once.
#[derive(Default)]
pub(super) struct Touched {
    slots: Vec<u32>,
    keys: BlobsBuf,
}

impl Touched {
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.keys.clear();
    }

    fn push(&mut self, slot: u32, key: &[u8]) {
        self.slots.push(slot);
        self.keys.push(key);
    }

    /// Writes down each entry, unless the batch has a cell of its own for it or cleared the map.
    pub(super) fn finish<V>(&self, state: u8, overlay: &Overlay<V>, writes: &mut Writes) {
        for (&slot, key) in self.slots.iter().zip(self.keys.view().iter()) {
            if !overlay.cleared(slot) && overlay.find(slot, key).is_none() {
                writes.push(write_op::TOUCH, state, slot, key);
            }
        }
    }
}
