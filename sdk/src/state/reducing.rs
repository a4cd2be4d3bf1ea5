//! One value per key, into which others of its type are reduced.

use std::marker::PhantomData;

use serde::de::DeserializeOwned;
use tidemill_wit::descriptor::{Descriptor, StateKind};

use super::State;
use super::cells::Cells;
use crate::detector::{FieldOptions, Handle, Ids};
use crate::effects::Writes;
use crate::function::KeyedProcessFunction;
use crate::schema::table_of;
use crate::{Context, Failure, Schema};

/// How two values become one (Flink's `ReduceFunction`). It must be associative: windows that merge reduce what is reduced already.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how two values of type `{T}` become one",
    label = "needs a reduce function",
    note = "write `impl ReduceFunction<{T}> for {Self}`, with `fn reduce(older: {T}, newer: {T}) -> {T}`"
)]
pub trait ReduceFunction<T> {
    /// Reduces two values, the older first, to one.
    fn reduce(older: T, newer: T) -> T;
}

/// One value per key, to which others are added by a function (Flink's `ReducingState`).
///
/// ```
/// use tidemill_sdk::{Detector, ReduceFunction, ReducingState};
///
/// struct Longest;
///
/// impl ReduceFunction<String> for Longest {
///     fn reduce(older: String, newer: String) -> String {
///         if newer.len() > older.len() { newer } else { older }
///     }
/// }
///
/// #[derive(Detector)]
/// struct Words {
///     longest: ReducingState<String, Longest>,
/// }
/// ```
pub struct ReducingState<T, F> {
    cells: Cells<T>,
    function: PhantomData<fn(F)>,
}

impl<T: Schema + DeserializeOwned, F: ReduceFunction<T>> ReducingState<T, F> {
    /// The reduced value of the current key; `None` before the first `add`.
    ///
    /// # Errors
    /// The stored value does not decode; the job fails.
    pub fn get<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<Option<&T>, Failure> {
        self.cells.read(&ctx.core).map(|value| value.as_ref())
    }

    /// Reduces a value into that of the current key; the first one is taken as it is.
    ///
    /// # Errors
    /// The stored value does not decode; the job fails.
    pub fn add<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>, value: T) -> Result<(), Failure> {
        let reduced = match self.cells.read(&ctx.core)?.take() {
            Some(older) => F::reduce(older, value),
            None => value,
        };
        self.cells.write(ctx.core.slot, Some(reduced));
        Ok(())
    }

    /// Removes the value of the current key.
    pub fn clear<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) {
        self.cells.write(ctx.core.slot, None);
    }
}

impl<T: Schema + DeserializeOwned, F: ReduceFunction<T>> Handle for ReducingState<T, F> {
    fn describe(options: &FieldOptions, descriptor: &mut Descriptor) {
        descriptor.states.push(options.state(StateKind::Reducing, table_of::<T>()));
    }

    fn create(options: &FieldOptions, ids: &mut Ids<'_>) -> Result<Self, String> {
        Ok(Self { cells: Cells::new(ids.value_state(options.name)), function: PhantomData })
    }

    fn begin(&mut self, slots: usize) {
        self.cells.begin(slots);
    }

    fn finish(&mut self, writes: &mut Writes) -> Result<(), Failure> {
        self.cells.finish(writes)
    }
}

impl<T, F> State for ReducingState<T, F> {}
