//! One value per key.

use serde::de::DeserializeOwned;
use tidemill_wit::descriptor::{Descriptor, StateDescriptor, StateKind, write_op};

use super::{State, decode};
use crate::context::Core;
use crate::detector::{FieldOptions, Handle, Ids, StateId};
use crate::effects::Writes;
use crate::function::KeyedProcessFunction;
use crate::schema::table_of;
use crate::{Context, Failure, Schema};

/// One value per key (Flink's `ValueState`).
pub struct ValueState<T> {
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

#[expect(clippy::indexing_slicing, reason = "`begin` makes a cell per slot, and the runner checks all slots of a batch first")]
impl<T: Schema + DeserializeOwned> ValueState<T> {
    /// The value of the current key; `None` if it has none.
    ///
    /// # Errors
    /// The stored value does not decode; the job fails.
    #[inline]
    pub fn value<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<Option<&T>, Failure> {
        self.read(&ctx.core).map(|value| value.as_ref())
    }

    /// The value of the current key, to be changed in place; `None` if it has none. It counts as written.
    ///
    /// # Errors
    /// The stored value does not decode; the job fails.
    #[inline]
    pub fn value_mut<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<Option<&mut T>, Failure> {
        if let Some(value) = self.read(&ctx.core)?.take() {
            self.cells[ctx.core.slot as usize] = Cell::Written(Some(value));
        }
        match &mut self.cells[ctx.core.slot as usize] {
            Cell::Written(value) => Ok(value.as_mut()),
            Cell::Unread | Cell::Read(_) => Ok(None),
        }
    }

    /// Sets the value of the current key.
    #[inline]
    pub fn update<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>, value: T) {
        self.write(ctx.core.slot, Some(value));
    }

    /// Removes the value of the current key.
    pub fn clear<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) {
        self.write(ctx.core.slot, None);
    }

    #[inline]
    fn read(&mut self, core: &Core<'_>) -> Result<&mut Option<T>, Failure> {
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

    #[inline]
    fn write(&mut self, slot: u32, value: Option<T>) {
        if let Cell::Unread = std::mem::replace(&mut self.cells[slot as usize], Cell::Written(value)) {
            self.used.push(slot);
        }
    }
}

#[expect(clippy::indexing_slicing, reason = "`used` holds slots that have cells")]
impl<T: Schema + DeserializeOwned> Handle for ValueState<T> {
    fn describe(options: &FieldOptions, descriptor: &mut Descriptor) {
        descriptor.states.push(StateDescriptor {
            name: options.name.to_owned(),
            kind: StateKind::Value,
            value: table_of::<T>(),
            entry_key: None,
            ttl: options.ttl,
            ttl_update: options.ttl_update,
        });
    }

    fn create(options: &FieldOptions, ids: &mut Ids<'_>) -> Result<Self, String> {
        Ok(Self { id: ids.value_state(options.name), cells: Vec::new(), used: Vec::new() })
    }

    fn begin(&mut self, slots: usize) {
        for slot in self.used.drain(..) {
            self.cells[slot as usize] = Cell::Unread;
        }
        if self.cells.len() < slots {
            self.cells.resize_with(slots, Cell::default);
        }
    }

    fn finish(&mut self, writes: &mut Writes) -> Result<(), Failure> {
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

impl<T> State for ValueState<T> {}
