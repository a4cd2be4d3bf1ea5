//! Sinks, one module per system.

pub mod file;
