//! Random programs for `guests/probe`.

mod ops;

pub use ops::{Dice, KEYS, ops};
