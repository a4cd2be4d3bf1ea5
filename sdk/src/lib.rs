//! The guest SDK of Tidemill: write a detector as a [`KeyedProcessFunction`], one record at a time, and [`export!`] it as a WebAssembly
//! component. The same detector compiles natively, where `testing::Harness` drives it in unit tests.
//!
//! # Layout
//! In the order in which a batch passes through: [`columns`] come in, [`runner`] walks over the rows and calls the [`function`], whose
//! [`detector`] handles ([`state`], [`output`], [`table`], [`parameters`]) read and write through the [`context`]; [`timers`] holds the
//! timer pass; what was asked for leaves as [`effects`]. [`schema`] and [`ordered`] say how types are described and keys are encoded.

extern crate self as tidemill_sdk;

pub mod broadcast;
pub mod columns;
pub mod context;
pub mod detector;
pub mod duration;
pub mod effects;
mod encode;
pub mod export;
pub mod failure;
pub mod function;
#[cfg(target_arch = "wasm32")]
pub mod guest;
pub mod host;
pub mod ordered;
pub mod output;
pub mod parameters;
pub mod print;
pub mod runner;
pub mod schema;
pub mod state;
pub mod table;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod timers;
pub mod window;

pub use broadcast::{BroadcastContext, KeyedBroadcastProcessFunction};
pub use context::{AnyContext, Context, OpenContext};
pub use detector::Detector;
pub use duration::Duration;
pub use failure::Failure;
pub use function::KeyedProcessFunction;
pub use host::Level;
pub use output::SideOutput;
pub use parameters::Parameters;
pub use schema::Schema;
pub use state::{
    AggregateFunction, AggregatingState, BroadcastState, ListState, MapState, MergingAggregateFunction, ReduceFunction, ReducingState,
    ValueState,
};
pub use table::Table;
pub use tidemill_sdk_derive::{Detector, Schema};
pub use timers::{TimeDomain, Timer};

/// What the derive macros and [`export!`] expand to; not for use by hand.
#[doc(hidden)]
pub mod expansion {
    pub use tidemill_wit::descriptor::{Descriptor, TtlUpdate};
    pub use tidemill_wit::schema::{TableBuilder, Type};

    pub use crate::broadcast::BroadcastInput;
    pub use crate::detector::{FieldOptions, Handle, Ids};
    pub use crate::effects::Writes;
    pub use crate::schema::shape::{ContentOf, FieldOf, ShapeOf, VariantOf, default_bytes, named_type};
    pub use crate::state::is_state;
}
