//! What the user sees of a running job.

use std::time::Duration;

use tidemill_core::Timestamp;

/// Where a running job stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The sources, in the order of the spec.
    pub sources: Vec<SourceProgress>,
    /// The operators, in the order of the graph.
    pub operators: Vec<OperatorProgress>,
    /// The lanes that have carried records, or that something reads.
    pub lanes: Vec<LaneProgress>,
    /// The sinks, in the order of the spec.
    pub sinks: Vec<LaneProgress>,
    /// The last completed checkpoint.
    pub checkpoint: Option<CheckpointProgress>,
    /// The checkpoint that took longest since the process began.
    pub slowest_checkpoint: Option<CheckpointProgress>,
    /// How many checkpoints have completed and failed since the process began.
    pub checkpoints: (u64, u64),
    /// How often the job has restarted.
    pub restarts: u32,
    /// The checkpoint from which the process took the job up; `None`: it began from nothing.
    pub resumed_from: Option<u64>,
    /// Records read from all sources since the job's first start.
    pub records_in: u64,
    /// Records read from all sources since the process began.
    pub records_in_now: u64,
    /// How long the process has run.
    pub elapsed: Duration,
}

/// Where a source stands.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceProgress {
    /// Its uid.
    pub uid: String,
    /// Records read since the process began, valid or not. Those that are read again after a failure are counted again.
    pub records_in: u64,
    /// Records of the last second.
    pub records_per_second: f64,
    /// Records that do not fit, since the last restart: they went to the lane `invalid`.
    pub invalid: u64,
    /// Whether something reads that lane; else they are dropped.
    pub invalid_is_read: bool,
    /// The watermark, the least over its subtasks; `None` before the first.
    pub watermark: Option<Timestamp>,
}

/// Where an operator stands.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorProgress {
    /// Its uid.
    pub uid: String,
    /// Keys with state or timers.
    pub keys: u64,
    /// Pending event-time timers.
    pub event_timers: u64,
    /// Pending processing-time timers.
    pub processing_timers: u64,
    /// Records that came in since the process began, as those of a source.
    pub records_in: u64,
    /// Records that were behind the watermark when they came in.
    pub late: u64,
    /// Bad records and timers, since the last restart: they went to the dead-letter lane.
    pub dead_letters: u64,
    /// Whether something reads that lane; else they are dropped.
    pub dead_letters_are_read: bool,
    /// Records that left, over all lanes, since the last restart.
    pub records_out: u64,
    /// The watermark, the least over its subtasks; `None` before the first.
    pub watermark: Option<Timestamp>,
    /// What its component has counted since the last restart, by name.
    pub counters: Vec<(String, u64)>,
}

/// How many records have passed.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneProgress {
    /// `UID` or `UID.lane`.
    pub name: String,
    /// Records since the process began, as those of a source.
    pub records: u64,
}

/// A completed checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointProgress {
    /// Its id.
    pub id: u64,
    /// From its barrier to its commit.
    pub duration: Duration,
    /// From its barrier until the barrier had passed the last worker: channels wait for each other meanwhile.
    pub aligned: Duration,
    /// The length of its state files.
    pub bytes: u64,
}
