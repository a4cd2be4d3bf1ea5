//! What a job spec says, once it is read: plain data with every default filled in and every path made usable.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tidemill_core::key_group::default_max_parallelism;
use tidemill_wit::descriptor::TtlUpdate;

use super::error::{At, Place, SpecError};
use crate::guest::Limits;
use crate::source::file::{OnGone, OnReplaced};

/// The most workers of a job: each is a thread of this machine, with a queue to every other.
pub const MAX_WORKERS: u32 = 512;

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// The spec's file, as the user named it.
    pub file: String,
    /// The folder of the spec, from the root: relative paths start from it.
    pub folder: PathBuf,
    /// The job's name.
    pub name: String,
    /// The number of workers.
    pub parallelism: u32,
    /// The number of key groups, if the spec names it.
    pub max_parallelism: Option<u32>,
    /// Where live state is held.
    pub state: StateBackend,
    /// When checkpoints are taken and how long they are kept.
    pub checkpoints: Checkpoints,
    /// What follows a failure.
    pub restart: Restart,
    /// The folder for checkpoints and local state, if the spec names it.
    pub data_dir: Option<PathBuf>,
    /// Where records come from.
    pub sources: Vec<Source>,
    /// What is done with them.
    pub operators: Vec<Operator>,
    /// Where they go.
    pub sinks: Vec<Sink>,
}

impl JobSpec {
    /// The number of key groups: as the spec says, or the default for its parallelism.
    #[must_use]
    pub fn max_parallelism(&self) -> u32 {
        self.max_parallelism.unwrap_or_else(|| default_max_parallelism(self.parallelism))
    }

    /// An error about something at a place of this spec, for checks that need more than the spec.
    pub fn error(&self, at: &Place, message: impl Into<String>) -> SpecError {
        SpecError::one(&*self.file, at.clone(), message)
    }
}

/// Where live state is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateBackend {
    /// In the memory of the process.
    #[default]
    Memory,
    /// In `RocksDB`: what is used in memory, everything on local disk.
    Rocksdb {
        /// How many bytes of memory it takes in the whole process.
        memory: u64,
    },
}

impl StateBackend {
    /// How much memory `RocksDB` takes if nobody says: 512 MiB.
    pub const ROCKSDB_MEMORY: u64 = 512 << 20;
    /// The least that it can work with: 8 MiB.
    pub const ROCKSDB_LEAST_MEMORY: u64 = 8 << 20;
}

/// When checkpoints are taken and how long they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    /// From the start of one checkpoint to that of the next.
    pub interval: Duration,
    /// How long one may take before it counts as failed.
    pub timeout: Duration,
    /// The least time from the end of one checkpoint to the start of the next.
    pub min_pause: Duration,
    /// How many may fail in a row before the job fails.
    pub tolerable_failures: u32,
    /// How many completed checkpoints are kept; at least one.
    pub retain: u32,
    /// What becomes of the checkpoints when the job is stopped.
    pub on_cancel: Retention,
    /// What becomes of the checkpoints when the job has finished.
    pub on_finish: Retention,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(600),
            min_pause: Duration::ZERO,
            tolerable_failures: 0,
            retain: 1,
            on_cancel: Retention::Keep,
            on_finish: Retention::Keep,
        }
    }
}

/// What becomes of checkpoints that are no longer needed to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// They stay.
    Keep,
    /// They are deleted.
    Delete,
}

/// What follows a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum Restart {
    /// Restarts from the last checkpoint with delays that grow.
    ExponentialDelay {
        /// The first delay.
        initial: Duration,
        /// The longest delay.
        max: Duration,
        /// By how much each delay is longer than the one before; at least 1.
        multiplier: f64,
        /// The part of a delay, from 0 to 1, by which it varies at random in both directions.
        jitter: f64,
        /// How many restarts in a row are tried; `None`: any number.
        attempts: Option<u32>,
    },
    /// Restarts from the last checkpoint with equal delays.
    FixedDelay {
        /// The delay.
        delay: Duration,
        /// How many restarts are tried; `None`: any number.
        attempts: Option<u32>,
    },
    /// The job fails.
    None,
}

impl Default for Restart {
    fn default() -> Self {
        Self::ExponentialDelay {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            multiplier: 1.5,
            jitter: 0.1,
            attempts: None,
        }
    }
}

/// Where records come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The name by which the job and its checkpoints know it.
    pub uid: At<String>,
    /// The system that it reads.
    pub connector: SourceConnector,
    /// The most records per second, over all subtasks.
    pub max_rate: Option<u64>,
    /// The path of the field that holds a record's event time, in milliseconds since the epoch.
    pub timestamp: Option<At<String>>,
    /// How the watermark follows from event times.
    pub watermark: Watermark,
    /// What becomes of records that do not fit, if the spec says it.
    pub on_invalid: Option<At<OnInvalid>>,
    /// How many records that do not fit the job stands, if the spec says it.
    pub max_invalid: Option<At<u64>>,
}

/// What becomes of a source's records that do not fit the type of its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnInvalid {
    /// The first one fails the job.
    Fail,
    /// They go to the lane `invalid`.
    Lane,
}

impl Source {
    /// What becomes of records that do not fit, if something reads the lane `invalid` or nothing does. Silent loss is no default.
    #[must_use]
    pub fn on_invalid(&self, is_read: bool) -> OnInvalid {
        match &self.on_invalid {
            Some(said) => said.value,
            None if is_read || self.max_invalid.is_some() => OnInvalid::Lane,
            None => OnInvalid::Fail,
        }
    }
}

/// A system that a source reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceConnector {
    /// Files.
    File(FileSource),
}

/// Files to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSource {
    /// A pattern for the paths of the files, from the root.
    pub pattern: At<String>,
    /// The folder of the spec: the names of files below it are relative, so that it can be moved.
    pub base: PathBuf,
    /// How records are written in them.
    pub format: Format,
    /// Whether to wait for more at the end of a file, and for new files.
    pub follow: bool,
    /// The longest record that is read.
    pub max_record_bytes: u64,
    /// What follows when a file was overwritten or cut.
    pub on_replaced: OnReplaced,
    /// What follows when a file is gone that was not read to its end.
    pub on_gone: OnGone,
}

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JSON object a line.
    Json,
    /// Comma-separated values with a header line.
    Csv,
}

impl Format {
    /// What the names of files of this format end with, without the dot.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Json => "jsonl",
            Self::Csv => "csv",
        }
    }
}

/// How the watermark follows from event times. All lengths in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// By how much a record may be behind the newest one of its split.
    pub bounded_out_of_orderness: i64,
    /// After how long without records a split no longer holds the watermark back; `None`: never.
    pub idle_timeout: Option<i64>,
    /// With which other sources the source stays together in event time.
    pub alignment: Option<Alignment>,
}

/// A source that waits for others that are behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// The name of the group of sources.
    pub group: String,
    /// How far, in milliseconds, the source may be ahead of the slowest one of the group.
    pub max_drift: i64,
}

/// One output of a source or operator, as an input of something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The uid of the source or operator.
    pub uid: String,
    /// The lane's name.
    pub lane: String,
    /// Where the input is named.
    pub at: Place,
}

/// What is done with records.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// The name by which the job and its checkpoints know it.
    pub uid: At<String>,
    /// The streams that it reads, all of one type.
    pub inputs: Vec<Stream>,
    /// The streams whose records reach every subtask, all of one type.
    pub broadcast: Vec<Stream>,
    /// The paths of the fields that make the key; `None`: the operator has no keys.
    pub key_by: Option<At<Vec<At<String>>>>,
    /// The component's file.
    pub component: At<PathBuf>,
    /// The component's parameters.
    pub parameters: Parameters,
    /// The rows for the component's reference tables.
    pub tables: Vec<Table>,
    /// Changes to what the component declares for its states.
    pub states: Vec<StateOverride>,
    /// What follows a record that the component cannot handle.
    pub on_error: OnError,
    /// Whether the event-time timers that are left fire when the input ends, as in Flink; else they stay.
    pub fire_at_end: bool,
    /// What one instance of the component may use.
    pub limits: Limits,
}

/// A component's parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// The values, a JSON object; durations are still strings.
    pub value: Value,
    /// Where the parameters stand, or the operator's place if there are none.
    pub at: Place,
    /// Where each one stands.
    pub fields: Vec<At<String>>,
}

/// The rows of a reference table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name that the component gives it.
    pub name: At<String>,
    /// Where the rows are.
    pub rows: TableRows,
    /// The fields that make the key, in order.
    pub key: At<Vec<String>>,
}

/// Where the rows of a reference table are.
#[derive(Clone, Debug, PartialEq)]
pub enum TableRows {
    /// In a CSV or JSON lines file.
    File(At<PathBuf>),
    /// In the spec.
    Inline(Vec<At<Value>>),
}

/// Changes to what a component declares for a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateOverride {
    /// The state's name.
    pub name: At<String>,
    /// The time to live; `None`: as declared.
    pub ttl: Option<Ttl>,
    /// What renews it.
    pub ttl_update: Option<TtlUpdate>,
}

/// How long what a state holds lives after it was last renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// For so many milliseconds.
    After(i64),
    /// For ever, whatever the component declares.
    Never,
}

impl Ttl {
    /// Milliseconds, or nothing if it lives for ever.
    #[must_use]
    pub fn millis(self) -> Option<i64> {
        match self {
            Self::After(millis) => Some(millis),
            Self::Never => None,
        }
    }
}

/// What follows a record that a component cannot handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The job fails and restarts from its last checkpoint.
    #[default]
    Fail,
    /// The record goes to the lane `dead-letter`, and the job goes on.
    DeadLetter,
}

/// Where records go.
#[derive(Clone, Debug, PartialEq)]
pub struct Sink {
    /// The name by which the job and its checkpoints know it.
    pub uid: At<String>,
    /// The streams that it writes, all of one type.
    pub inputs: Vec<Stream>,
    /// The system that it writes to.
    pub connector: SinkConnector,
}

/// A system that a sink writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkConnector {
    /// Files.
    File(FileSink),
}

/// Files to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSink {
    /// The folder.
    pub dir: At<PathBuf>,
    /// How records are written.
    pub format: Format,
}
