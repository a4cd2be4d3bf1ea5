//! Checkpoints: what they consist of, and their files.

pub mod manifest;
pub mod snapshot;
