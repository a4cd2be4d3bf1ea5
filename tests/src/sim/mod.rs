//! Whole jobs in simulation: the real engine, checkpoints, recovery and sinks, on virtual time and a disk that crashes.

pub mod broken;
pub mod day;
pub mod faulty_disk;
pub mod files;
pub mod job;
pub mod life;
pub mod moody;
pub mod output;
pub mod pauses;
pub mod saving;
pub mod schedule;
pub mod source;
pub mod stopwatch;
pub mod stored;
pub mod trouble;
