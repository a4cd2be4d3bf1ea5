//! Elements per key, in the order in which they were added.

use serde::de::DeserializeOwned;
use tidemill_wit::descriptor::{Descriptor, StateKind, write_op};

use super::{PAGE, State, decode};
use crate::context::Core;
use crate::detector::{FieldOptions, Handle, Ids, StateId};
use crate::effects::Writes;
use crate::function::KeyedProcessFunction;
use crate::schema::table_of;
use crate::{Context, Failure, Schema};

/// Elements per key, in the order in which they were added (Flink's `ListState`).
pub struct ListState<T> {
    id: StateId,
    /// One per slot, perhaps more.
    cells: Vec<Cell<T>>,
    /// The slots whose cells are in use, each once.
    used: Vec<u32>,
}

struct Cell<T> {
    in_use: bool,
    /// What was stored before the batch is gone.
    cleared: bool,
    /// `items` begins with the stored elements: that many.
    stored: Option<usize>,
    items: Vec<T>,
}

#[expect(clippy::indexing_slicing, reason = "`begin` makes a cell per slot, and the runner checks all slots of a batch first")]
impl<T: Schema + DeserializeOwned> ListState<T> {
    /// The elements of the current key.
    ///
    /// # Errors
    /// A stored element does not decode; the job fails.
    pub fn get<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<&[T], Failure> {
        let slot = ctx.core.slot;
        if self.cell(slot).stored.is_none() {
            let mut items = Vec::new();
            read(self.id, &mut ctx.core, &mut items)?;
            let cell = &mut self.cells[slot as usize];
            cell.stored = Some(items.len());
            items.append(&mut cell.items);
            cell.items = items;
        }
        Ok(&self.cells[slot as usize].items)
    }

    /// Appends an element.
    pub fn add<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>, item: T) {
        self.cell(ctx.core.slot).items.push(item);
    }

    /// Appends elements, all or none.
    pub fn add_all<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>, items: impl IntoIterator<Item = T>) {
        self.cell(ctx.core.slot).items.extend(items);
    }

    /// Replaces all elements.
    pub fn update<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>, items: impl IntoIterator<Item = T>) {
        self.clear(ctx);
        self.add_all(ctx, items);
    }

    /// Removes all elements.
    pub fn clear<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) {
        let cell = self.cell(ctx.core.slot);
        (cell.cleared, cell.stored) = (true, Some(0));
        cell.items.clear();
    }

    fn cell(&mut self, slot: u32) -> &mut Cell<T> {
        let cell = &mut self.cells[slot as usize];
        if !cell.in_use {
            cell.in_use = true;
            self.used.push(slot);
        }
        cell
    }
}

/// Appends the stored elements of the current slot.
fn read<T: DeserializeOwned>(id: StateId, core: &mut Core<'_>, items: &mut Vec<T>) -> Result<(), Failure> {
    let column = core.batch.entries.get(id.column).copied().unwrap_or_default();
    if let Some(range) = column.range(core.slot) {
        items.reserve(range.len());
        for entry in range {
            items.push(decode(id, column.value.get(entry))?);
        }
        return Ok(());
    }
    let mut after = None;
    loop {
        let page = core.host.scan_entries(core.slot, id.state, after.as_deref(), PAGE);
        for (_, bytes) in &page {
            items.push(decode(id, bytes)?);
        }
        if page.len() < PAGE as usize {
            return Ok(());
        }
        after = page.into_iter().next_back().map(|(key, _)| key);
    }
}

#[expect(clippy::indexing_slicing, reason = "`used` holds slots that have cells")]
impl<T: Schema + DeserializeOwned> Handle for ListState<T> {
    fn describe(options: &FieldOptions, descriptor: &mut Descriptor) {
        descriptor.states.push(options.state(StateKind::List, table_of::<T>()));
    }

    fn create(options: &FieldOptions, ids: &mut Ids<'_>) -> Result<Self, String> {
        Ok(Self { id: ids.entry_state(options.name), cells: Vec::new(), used: Vec::new() })
    }

    fn begin(&mut self, slots: usize) {
        for slot in self.used.drain(..) {
            let cell = &mut self.cells[slot as usize];
            (cell.in_use, cell.cleared, cell.stored) = (false, false, None);
            cell.items.clear();
        }
        if self.cells.len() < slots {
            self.cells.resize_with(slots, Cell::default);
        }
    }

    fn finish(&mut self, writes: &mut Writes) -> Result<(), Failure> {
        for &slot in &self.used {
            let cell = &self.cells[slot as usize];
            let stored = cell.stored.unwrap_or(0);
            if cell.cleared {
                writes.push(write_op::CLEAR, self.id.state, slot, &[]);
            } else if stored > 0 {
                writes.push(write_op::TOUCH, self.id.state, slot, &[]);
            }
            for item in cell.items.iter().skip(stored) {
                writes.push_value(write_op::APPEND, self.id.state, slot, &[], item).map_err(Failure::Fatal)?;
            }
        }
        Ok(())
    }
}

/// Not derived, so that elements need no default.
impl<T> Default for Cell<T> {
    fn default() -> Self {
        Self { in_use: false, cleared: false, stored: None, items: Vec::new() }
    }
}

impl<T> State for ListState<T> {}
