//! Sources, one module per system.

pub mod file;
