//! What a batch has read and written of a state that has one value per key.
#![expect(
    clippy::indexing_slicing,
    reason = "`begin` makes a cell per slot, the runner checks all slots of a batch first, and `used` holds some"
)]

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_wit::descriptor::write_op;

use super::decode;
use crate::Failure;
use crate::context::Core;
use crate::detector::StateId;
use crate::effects::Writes;

/// A cell per slot: decoded at the first use, written down once.
pub(super) struct Cells<T> {
    id: StateId,
    /// One per slot, perhaps more.
    cells: Vec<Cell<T>>,
    /// The slots whose cells are not `Unread`, each once.
    used: Vec<u32>,
}

#[derive(Default)]
enum Cell<T> {
    #[default]
    Unread,
    Read(Option<T>),
    Written(Option<T>),
}

impl<T> Cells<T> {
    pub(super) fn new(id: StateId) -> Self {
        Self { id, cells: Vec::new(), used: Vec::new() }
    }

    /// The value of the current slot. Taking it away must be followed by a write.
    #[inline]
    pub(super) fn read(&mut self, core: &Core<'_>) -> Result<&mut Option<T>, Failure>
    where
        T: DeserializeOwned,
    {
        let cell = &mut self.cells[core.slot as usize];
        if matches!(cell, Cell::Unread) {
            let column = core.batch.values.get(self.id.column).copied().unwrap_or_default();
            *cell = Cell::Read(column.get(core.slot).map(|bytes| decode(self.id, bytes)).transpose()?);
            self.used.push(core.slot);
        }
        match cell {
            Cell::Read(value) | Cell::Written(value) => Ok(value),
            Cell::Unread => Err(Failure::fatal("a cell that was just read is not")),
        }
    }

    /// The value of the current slot, to be changed in place; if there is one, it counts as written.
    #[inline]
    pub(super) fn read_mut(&mut self, core: &Core<'_>) -> Result<Option<&mut T>, Failure>
    where
        T: DeserializeOwned,
    {
        if let Some(value) = self.read(core)?.take() {
            self.cells[core.slot as usize] = Cell::Written(Some(value));
        }
        match &mut self.cells[core.slot as usize] {
            Cell::Written(value) => Ok(value.as_mut()),
            Cell::Unread | Cell::Read(_) => Ok(None),
        }
    }

    #[inline]
    pub(super) fn write(&mut self, slot: u32, value: Option<T>) {
        if let Cell::Unread = std::mem::replace(&mut self.cells[slot as usize], Cell::Written(value)) {
            self.used.push(slot);
        }
    }

    pub(super) fn begin(&mut self, slots: usize) {
        for slot in self.used.drain(..) {
            self.cells[slot as usize] = Cell::Unread;
        }
        if self.cells.len() < slots {
            self.cells.resize_with(slots, Cell::default);
        }
    }

    pub(super) fn finish(&mut self, writes: &mut Writes) -> Result<(), Failure>
    where
        T: Serialize,
    {
        for &slot in &self.used {
            match &self.cells[slot as usize] {
                Cell::Written(Some(value)) => {
                    writes.push_value(write_op::PUT, self.id.state, slot, &[], value).map_err(Failure::Fatal)?;
                }
                Cell::Written(None) => writes.push(write_op::CLEAR, self.id.state, slot, &[]),
                Cell::Read(Some(_)) => writes.push(write_op::TOUCH, self.id.state, slot, &[]),
                Cell::Read(None) | Cell::Unread => {}
            }
        }
        Ok(())
    }
}
