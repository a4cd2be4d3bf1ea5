//! Under construction.
/// State in memory.
pub struct MemoryState;
