//! An accumulator per key, to which inputs of another type are added.

use serde::de::DeserializeOwned;
use tidemill_wit::descriptor::{Descriptor, StateKind};

use super::State;
use super::cells::Cells;
use crate::detector::{FieldOptions, Handle, Ids};
use crate::effects::Writes;
use crate::function::KeyedProcessFunction;
use crate::schema::table_of;
use crate::{Context, Failure, Schema};

/// How inputs become a result by way of an accumulator (Flink's `AggregateFunction`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an aggregate function",
    label = "needs an aggregate function",
    note = "write `impl AggregateFunction for {Self}`, with the types Input, Accumulator and Output"
)]
pub trait AggregateFunction {
    /// What is added.
    type Input;
    /// What is stored.
    type Accumulator: Schema + DeserializeOwned;
    /// What is read.
    type Output;

    /// The accumulator of no inputs.
    fn create_accumulator() -> Self::Accumulator;

    /// Adds an input.
    fn add(accumulator: &mut Self::Accumulator, input: Self::Input);

    /// The result of what was added so far.
    fn get_result(accumulator: &Self::Accumulator) -> Self::Output;
}

/// An aggregate function whose accumulators can be merged, which windows that merge need (`merge` of Flink's `AggregateFunction`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how two of its accumulators become one",
    label = "needs to merge",
    note = "windows can merge: write `impl MergingAggregateFunction for {Self}`, with `fn merge`"
)]
pub trait MergingAggregateFunction: AggregateFunction {
    /// The accumulator of all that was added to either.
    fn merge(older: Self::Accumulator, newer: Self::Accumulator) -> Self::Accumulator;
}

/// An accumulator per key, to which inputs are added by a function and whose result is read (Flink's `AggregatingState`).
///
/// ```
/// use tidemill_sdk::{AggregateFunction, AggregatingState, Detector};
///
/// struct Average;
///
/// impl AggregateFunction for Average {
///     type Input = i64;
///     type Accumulator = (i64, i64);
///     type Output = f64;
///
///     fn create_accumulator() -> (i64, i64) {
///         (0, 0)
///     }
///
///     fn add((sum, count): &mut (i64, i64), input: i64) {
///         *sum += input;
///         *count += 1;
///     }
///
///     fn get_result((sum, count): &(i64, i64)) -> f64 {
///         *sum as f64 / *count as f64
///     }
/// }
///
/// #[derive(Detector)]
/// struct Prices {
///     average: AggregatingState<Average>,
/// }
/// ```
pub struct AggregatingState<F: AggregateFunction> {
    cells: Cells<F::Accumulator>,
}

impl<F: AggregateFunction> AggregatingState<F> {
    /// The result of what was added for the current key; `None` before the first `add`.
    ///
    /// # Errors
    /// The stored accumulator does not decode; the job fails.
    pub fn get<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<Option<F::Output>, Failure> {
        Ok(self.cells.read(&ctx.core)?.as_ref().map(F::get_result))
    }

    /// Adds an input to the accumulator of the current key.
    ///
    /// # Errors
    /// The stored accumulator does not decode; the job fails.
    pub fn add<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>, input: F::Input) -> Result<(), Failure> {
        let mut accumulator = self.cells.read(&ctx.core)?.take().unwrap_or_else(F::create_accumulator);
        F::add(&mut accumulator, input);
        self.cells.write(ctx.core.slot, Some(accumulator));
        Ok(())
    }

    /// Removes the accumulator of the current key.
    pub fn clear<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) {
        self.cells.write(ctx.core.slot, None);
    }
}

impl<F: AggregateFunction> Handle for AggregatingState<F> {
    fn describe(options: &FieldOptions, descriptor: &mut Descriptor) {
        descriptor.states.push(options.state(StateKind::Aggregating, table_of::<F::Accumulator>()));
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

impl<F: AggregateFunction> State for AggregatingState<F> {}
