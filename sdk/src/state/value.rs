//! One value per key.

use serde::de::DeserializeOwned;
use tidemill_wit::descriptor::{Descriptor, StateKind};

use super::State;
use super::cells::Cells;
use crate::detector::{FieldOptions, Handle, Ids};
use crate::effects::Writes;
use crate::function::KeyedProcessFunction;
use crate::schema::table_of;
use crate::{Context, Failure, Schema};

/// One value per key (Flink's `ValueState`).
pub struct ValueState<T> {
    cells: Cells<T>,
}

impl<T: Schema + DeserializeOwned> ValueState<T> {
    /// The value of the current key; `None` if it has none.
    ///
    /// # Errors
    /// The stored value does not decode; the job fails.
    #[inline]
    pub fn value<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<Option<&T>, Failure> {
        self.cells.read(&ctx.core).map(|value| value.as_ref())
    }

    /// The value of the current key, to be changed in place; `None` if it has none. It counts as written.
    ///
    /// # Errors
    /// The stored value does not decode; the job fails.
    #[inline]
    pub fn value_mut<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<Option<&mut T>, Failure> {
        self.cells.read_mut(&ctx.core)
    }

    /// Sets the value of the current key.
    #[inline]
    pub fn update<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>, value: T) {
        self.cells.write(ctx.core.slot, Some(value));
    }

    /// Removes the value of the current key.
    pub fn clear<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) {
        self.cells.write(ctx.core.slot, None);
    }
}

impl<T: Schema + DeserializeOwned> Handle for ValueState<T> {
    fn describe(options: &FieldOptions, descriptor: &mut Descriptor) {
        descriptor.states.push(options.state(StateKind::Value, table_of::<T>()));
    }

    fn create(options: &FieldOptions, ids: &mut Ids<'_>) -> Result<Self, String> {
        Ok(Self { cells: Cells::new(ids.value_state(options.name)) })
    }

    fn begin(&mut self, slots: usize) {
        self.cells.begin(slots);
    }

    fn finish(&mut self, writes: &mut Writes) -> Result<(), Failure> {
        self.cells.finish(writes)
    }
}

impl<T> State for ValueState<T> {}
