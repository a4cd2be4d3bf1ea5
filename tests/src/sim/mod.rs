//! Whole jobs in simulation: the real engine, checkpoints, recovery and sinks, on virtual time and a disk that crashes.

pub mod day;
pub mod job;
pub mod life;
pub mod source;
