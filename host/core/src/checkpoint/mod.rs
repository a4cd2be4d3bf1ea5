//! Checkpoints: when they are taken, what they consist of, how they are laid out.

#[cfg(feature = "json")]
mod check;

pub mod coordinator;
pub mod manifest;
pub mod snapshot;

pub use coordinator::{Action, Coordinator, Event, Lost, Options, Phase, Waiting};
