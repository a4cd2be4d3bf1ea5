//! Keyed state. A handle keeps a typed cell per key slot, or per entry, of the running batch: decoded at the first use, written down once
//! when the batch ends.
//!
//! Every read of something that exists is reported as a touch, unless it is written as well: whether that renews a time to live is for the
//! job spec to say, which the guest does not see.

mod aggregating;
mod broadcast;
mod cells;
mod list;
mod map;
mod reducing;
mod value;

pub use aggregating::{AggregateFunction, AggregatingState, MergingAggregateFunction};
pub use broadcast::BroadcastState;
pub use list::ListState;
pub use map::MapState;
pub use reducing::{ReduceFunction, ReducingState};
pub use value::ValueState;

use serde::de::DeserializeOwned;

use crate::Failure;
use crate::detector::StateId;
use crate::encode::type_name;

/// A handle of a keyed state, which may have `#[state(..)]` options.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a state, so #[state(..)] does not apply to it",
    note = "states are ValueState, ListState, MapState, ReducingState, AggregatingState and those of windows; a side output is renamed by #[output(name = \"..\")], \
            a table by #[table(name = \"..\")]"
)]
pub trait State {}

/// Holds only for states.
#[doc(hidden)]
pub const fn is_state<T: State>() {}

/// How many entries are read at a time from the host.
const PAGE: u32 = 256;

/// Decodes a stored value. The host has brought it to the declared type, so it must fit.
fn decode<T: DeserializeOwned>(id: StateId, bytes: &[u8]) -> Result<T, Failure> {
    postcard::from_bytes(bytes)
        .map_err(|error| Failure::Fatal(format!("state {} does not decode as {}: {error}", id.name, type_name::<T>())))
}

#[cfg(test)]
mod tests;
