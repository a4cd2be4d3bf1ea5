//! Breaks the contract as its parameters say: for tests of what the host refuses. Written against the contract alone, since the SDK would
//! not let it.
//!
//! A record is `{key: string}`, by whose field it is keyed; without an attack it is emitted as it came.

mod attack;
#[cfg(target_arch = "wasm32")]
mod component;
pub mod tables;

pub use attack::{Answer, Attack, Parameters};
