//! What all subtasks of an operator share.

use std::sync::Arc;
use std::time::Duration;

use tidemill_wit::descriptor::{StateDescriptor, StateKind};

use super::written::WriteChecker;
use super::{OnError, kinds};
use crate::batch::Origin;
use crate::detector::{Detector, DetectorFactory, Failure};
use crate::schema::Checker;
use crate::source::SplitNames;
use crate::table::Table;
use crate::{Error, Kind, Result};

/// How many rows a call gets at most.
pub const BATCH_ROWS: usize = 1024;

/// What all subtasks of an operator share.
pub struct OperatorSettings {
    /// The operator's uid in the job spec.
    pub uid: String,
    /// Makes detector instances.
    pub factory: Arc<dyn DetectorFactory>,
    /// The encoded parameters.
    pub parameters: Vec<u8>,
    /// The reference tables, in the order of the descriptor.
    pub tables: Arc<[Table]>,
    /// The keyed states, with what the job spec changes of their declaration.
    pub states: Vec<StateDescriptor>,
    /// Whether the operator has keys.
    pub keyed: bool,
    /// The number of key groups.
    pub max_parallelism: u32,
    /// How many rows a call gets at most.
    pub batch_rows: usize,
    /// What happens to bad records.
    pub on_error: OnError,
    /// Whether the event-time timers that are left fire when all input has ended, as in Flink; else they stay pending.
    pub fire_at_end: bool,
    /// The names of all splits, for messages and the dead-letter lane.
    pub splits: Arc<SplitNames>,
    /// Sees every record that leaves, for tests.
    pub observer: Option<Arc<dyn Observer>>,
    /// Processing-time timers fire one by one, each in a call of its own: then an observer of several subtasks knows by the origins of records
    /// in which order one subtask alone would have emitted them. Records of event-time timers tell by their times.
    pub clock_timers_singly: bool,
    /// By lane, its name and what checks its records.
    pub(super) lanes: Vec<(String, Checker)>,
    pub(super) kinds: Vec<StateKind>,
    pub(super) broadcast_kinds: Vec<StateKind>,
    /// What checks the writes of calls with keys, and of those with broadcast records.
    pub(super) writes: WriteChecker,
    pub(super) broadcast_writes: WriteChecker,
}

impl OperatorSettings {
    /// Settings with defaults: no tables, [`BATCH_ROWS`], bad records fail the job.
    #[must_use]
    pub fn new(uid: impl Into<String>, factory: Arc<dyn DetectorFactory>, parameters: Vec<u8>, max_parallelism: u32) -> Self {
        let descriptor = factory.descriptor();
        Self {
            uid: uid.into(),
            keyed: descriptor.key.is_some(),
            lanes: descriptor.lanes.iter().map(|lane| (lane.name.clone(), Checker::new(&lane.schema))).collect(),
            kinds: kinds(&descriptor.states),
            broadcast_kinds: kinds(&descriptor.broadcast_states),
            writes: WriteChecker::new(&descriptor.states),
            broadcast_writes: WriteChecker::new(&descriptor.broadcast_states),
            states: descriptor.states.clone(),
            factory,
            parameters,
            tables: Arc::from([]),
            max_parallelism,
            batch_rows: BATCH_ROWS,
            on_error: OnError::Fail,
            fire_at_end: true,
            splits: Arc::default(),
            observer: None,
            clock_timers_singly: false,
        }
    }

    /// The lane to which bad records go: after the declared ones.
    #[must_use]
    pub fn dead_letter_lane(&self) -> usize {
        self.lanes.len()
    }

    /// A new instance.
    ///
    /// # Errors
    /// The detector refuses its parameters, or traps.
    pub fn open(&self) -> Result<Box<dyn Detector>> {
        self.factory.open(&self.parameters).map_err(|failure| {
            let (kind, reason) = match failure {
                Failure::BadRecord { reason, .. } | Failure::Fatal(reason) | Failure::Trap(reason) | Failure::Deadline(reason) => {
                    (Kind::Guest, reason)
                }
                Failure::CutShort => (Kind::Guest, "it was cut short".to_owned()),
                Failure::Machine(reason) => (Kind::Machine, reason),
            };
            Error::new(kind, format!("opening operator {}: {reason}", self.uid))
        })
    }
}

/// What the calls of an operator's subtask have taken so far, to tell which operator is slow and how slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Records in calls.
    pub records: u64,
    /// What calls with records have taken; zero if nobody measures.
    pub record_time: Duration,
    /// Timers in calls.
    pub timers: u64,
    /// What calls with timers have taken.
    pub timer_time: Duration,
}

impl Effort {
    /// What has been added since an earlier moment.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            records: self.records.saturating_sub(before.records),
            record_time: self.record_time.saturating_sub(before.record_time),
            timers: self.timers.saturating_sub(before.timers),
            timer_time: self.timer_time.saturating_sub(before.timer_time),
        }
    }

    /// Both times together.
    #[must_use]
    pub fn time(self) -> Duration {
        self.record_time + self.timer_time
    }
}

/// Sees every record that leaves an operator, in the order of emission over all lanes of a subtask.
pub trait Observer: Send + Sync {
    /// Takes in a record: the subtask and the lane that it leaves by, what it is, its event time and what caused it.
    fn emitted(&self, subtask: u32, lane: usize, payload: &[u8], time: Option<i64>, origin: Origin);
}

/// What a subtask has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Records that came in.
    pub records_in: u64,
    /// Records that were at or behind the watermark when they came in. They are processed all the same, as in Flink.
    pub late_records: u64,
    /// Timers that fired.
    pub timers_fired: u64,
    /// Bad records and timers that went to the dead-letter lane.
    pub dead_letters: u64,
    /// Keys with state or timers.
    pub keys: u64,
    /// Pending event-time timers.
    pub event_timers_pending: u64,
    /// Pending processing-time timers.
    pub processing_timers_pending: u64,
}
