//! The interface that a detector implements.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Context, Detector, Failure, OpenContext, Schema, Timer};

/// A function over a keyed stream, in the shape of Flink's `KeyedProcessFunction`: it is called per record and per timer, and sees the
/// state of that record's or timer's key only.
///
/// Between batches an instance holds nothing but its parameters and what `open` prepared: what must be remembered belongs in a state.
pub trait KeyedProcessFunction: Detector {
    /// The key: the fields that the job spec names in `key_by`, in their order, as a tuple; one field may stand bare. `()` for an operator
    /// without keys, which may not have states or timers.
    type Key: Schema + DeserializeOwned + 'static;
    /// A record that comes in. It may borrow from the batch, which spares a copy of every string.
    type Input<'a>: Schema + Deserialize<'a>;
    /// A record of the lane `main`. It may borrow from the input. `()` if there is none.
    type Output<'a>: Schema;

    /// Called once, before the first batch, when the parameters are known.
    ///
    /// # Errors
    /// The detector cannot work with these parameters; the job does not start.
    fn open(&mut self, ctx: &mut OpenContext<'_>) -> Result<(), Failure> {
        let _ = ctx;
        Ok(())
    }

    /// Called for every record.
    ///
    /// # Errors
    /// The record is bad, or the job must fail. Nothing that the call did takes effect.
    fn process_element(&mut self, element: Self::Input<'_>, ctx: &mut Context<'_, Self>) -> Result<(), Failure>;

    /// Called for every timer that is due.
    ///
    /// # Errors
    /// The timer is bad, or the job must fail. Nothing that the call did takes effect.
    fn on_timer(&mut self, timer: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let _ = (timer, ctx);
        Ok(())
    }
}
