//! A harness for unit tests of detectors: the engine's own operator with state in memory, and clocks that stand until they are moved. What
//! a test finds out about order, state, timers and watermarks holds in a job at parallelism 1 as well.
//!
//! ```
//! use tidemill_sdk::testing::Harness;
//! use tidemill_sdk::{Context, Detector, Failure, KeyedProcessFunction, ValueState};
//!
//! #[derive(Detector)]
//! struct Count {
//!     count: ValueState<u64>,
//! }
//!
//! impl KeyedProcessFunction for Count {
//!     type Key = String;
//!     type Input<'a> = &'a str;
//!     type Output<'a> = u64;
//!
//!     fn process_element(&mut self, _: &str, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
//!         let count = self.count.value(ctx)?.copied().unwrap_or(0) + 1;
//!         self.count.update(ctx, count);
//!         ctx.emit(&count);
//!         Ok(())
//!     }
//! }
//!
//! let mut harness = Harness::<Count>::open(&())?;
//! harness.element(&"a".to_owned(), 1, &"first")?;
//! harness.element(&"a".to_owned(), 2, &"second")?;
//! assert_eq!(harness.outputs::<u64>("main")?, [(Some(1), 1), (Some(2), 2)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod emitted;
pub mod native;
mod place;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tidemill_core::Timestamp;
use tidemill_core::batch::{Batch, Origin};
use tidemill_core::detector::DetectorFactory;
use tidemill_core::exchange::Outputs;
use tidemill_core::key_group::hash_key;
use tidemill_core::operator::{BATCH_ROWS, Env, OnError, Operator, OperatorSettings};
use tidemill_core::state::MemoryState;
use tidemill_core::table::Table;
use tidemill_core::time::Domain;
use tidemill_wit::descriptor::Descriptor;

pub use self::emitted::DeadLetter;
use self::emitted::{Emitted, Output};
use self::native::{NativeFactory, Parked, Seen, lock};
pub use self::snapshot::Snapshot;
use crate::effects::Effects;
use crate::failure::BatchFailure;
use crate::function::KeyedProcessFunction;
use crate::host::Level;
use crate::{encode, ordered};

type Factory<D> = NativeFactory<D, Parked<D>>;

/// The number of key groups: the engine's default.
const MAX_PARALLELISM: u32 = 128;

/// Drives one instance of a detector.
///
/// After an error the harness is as a job that has failed: [`restore`](Self::restore) a snapshot to go on as the job would.
pub struct Harness<D: KeyedProcessFunction> {
    factory: Arc<Factory<D>>,
    /// Encoded.
    parameters: Vec<u8>,
    operator: Operator,
    outputs: Outputs,
    seen: Arc<Mutex<Seen>>,
    emitted: Arc<Emitted>,
    batch_rows: usize,
    on_error: OnError,
    /// By table, its rows by key.
    tables: Vec<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// Whether the operator does not know yet of a change of the three above.
    changed: bool,
    /// The records of the next batch.
    waiting: Batch,
    clock: i64,
    records: Vec<Output>,
    log: Vec<(Level, String)>,
    effects: Effects,
}

impl<D: KeyedProcessFunction> Harness<D> {
    /// Opens a detector with its parameters, `&()` if it has none.
    ///
    /// # Errors
    /// The parameters do not encode or are refused.
    pub fn open(parameters: &impl Serialize) -> Result<Self, String> {
        let mut bytes = Vec::new();
        encode::append(parameters, &mut bytes)?;
        let (seen, emitted) = <(Arc<Mutex<Seen>>, Arc<Emitted>)>::default();
        let factory = Arc::new(Factory::<D>::watched(Arc::clone(&seen)));
        let descriptor = factory.descriptor();
        let operator = new_operator(&factory, &bytes, MemoryState::new(&descriptor.states))?;
        let mut harness = Self {
            outputs: Emitted::outputs(&emitted, descriptor.lanes.len()),
            tables: vec![BTreeMap::new(); descriptor.tables.len()],
            factory,
            parameters: bytes,
            operator,
            seen,
            emitted,
            batch_rows: BATCH_ROWS,
            on_error: OnError::Fail,
            changed: false,
            waiting: Batch::default(),
            clock: 0,
            records: Vec::new(),
            log: Vec::new(),
            effects: Effects::default(),
        };
        harness.collect();
        Ok(harness)
    }

    /// At most that many rows in a batch (1,024 by default): what a detector does may not depend on it.
    #[must_use]
    pub fn batch_rows(mut self, rows: usize) -> Self {
        (self.batch_rows, self.changed) = (rows.max(1), true);
        self
    }

    /// Maps and lists of up to that many entries come whole with a batch (the engine's 64 by default, and at most), larger ones are read
    /// lazily.
    #[must_use]
    pub fn whole_entries(self, entries: usize) -> Self {
        lock(&self.seen).whole_entries = Some(entries);
        self
    }

    /// Bad records and timers become [dead letters](Self::dead_letters) instead of errors, as with `on_error: dead-letter` in a job spec.
    #[must_use]
    pub fn dead_letter(mut self) -> Self {
        (self.on_error, self.changed) = (OnError::DeadLetter, true);
        self
    }

    /// Adds a row to a reference table, in the place of one with the same key.
    ///
    /// # Errors
    /// The detector has no such table, or the row does not encode.
    pub fn row(&mut self, table: &str, key: &impl Serialize, row: &impl Serialize) -> Result<(), String> {
        let mut names = self.descriptor().tables.iter().map(|table| table.name.as_str());
        let index = names.position(|known| known == table);
        let rows = index.and_then(|index| self.tables.get_mut(index)).ok_or_else(|| format!("the detector has no table {table}"))?;
        let (mut encoded_key, mut encoded_row) = (Vec::new(), Vec::new());
        ordered::append(key, &mut encoded_key).map_err(|error| error.to_string())?;
        encode::append(row, &mut encoded_row)?;
        rows.insert(encoded_key, encoded_row);
        self.changed = true;
        Ok(())
    }

    /// Adds a record to the current batch, which runs when it is full, or when time moves or output is asked for.
    ///
    /// # Errors
    /// The batch ran and failed, or the record does not encode.
    pub fn element(&mut self, key: &D::Key, timestamp: impl Into<Option<i64>>, element: &D::Input<'_>) -> Result<(), BatchFailure> {
        let (mut encoded_key, mut payload) = (Vec::new(), Vec::new());
        ordered::append(key, &mut encoded_key).map_err(|error| BatchFailure::Fatal(error.to_string()))?;
        encode::append(element, &mut payload).map_err(BatchFailure::Fatal)?;
        self.waiting.push(&payload, timestamp.into(), Origin::NONE);
        if self.descriptor().key.is_some() {
            self.waiting.key.push(&encoded_key);
            self.waiting.hash.push(hash_key(&encoded_key));
        }
        if self.waiting.len() < self.batch_rows { Ok(()) } else { self.flush() }
    }

    /// Processes a broadcast record, after the records that wait for a full batch.
    ///
    /// # Errors
    /// The record does not encode, or a batch failed.
    pub fn broadcast(&mut self, timestamp: impl Into<Option<i64>>, element: &impl Serialize) -> Result<(), BatchFailure> {
        self.flush()?;
        let (mut batch, mut payload) = (Batch { broadcast: true, ..Batch::default() }, Vec::new());
        encode::append(element, &mut payload).map_err(BatchFailure::Fatal)?;
        batch.push(&payload, timestamp.into(), Origin::NONE);
        self.process(&batch)
    }

    /// Raises the watermark and fires what is due; a lower or the same one does nothing.
    ///
    /// # Errors
    /// A batch failed.
    pub fn watermark(&mut self, timestamp: i64) -> Result<(), BatchFailure> {
        self.flush()?;
        if timestamp <= self.current_watermark() {
            return Ok(());
        }
        self.operator.begin_pass(Domain::Event, Timestamp(timestamp));
        self.finish_pass()
    }

    /// Moves the processing clock, which begins at 0, and fires the timers that it is past.
    ///
    /// # Errors
    /// A batch failed.
    pub fn processing_time(&mut self, timestamp: i64) -> Result<(), BatchFailure> {
        self.flush()?;
        self.clock = timestamp;
        match timestamp.checked_sub(1) {
            Some(horizon) => {
                self.operator.begin_pass(Domain::Processing, Timestamp(horizon));
                self.finish_pass()
            }
            None => Ok(()),
        }
    }

    /// All records of a lane so far, with their timestamps.
    ///
    /// # Errors
    /// The batch ran and failed, the detector has no such lane, or a record is not a `T`.
    pub fn outputs<'h, T: Deserialize<'h>>(&'h mut self, lane: &str) -> Result<Vec<(Option<i64>, T)>, BatchFailure> {
        self.flush()?;
        let known = self.descriptor().lanes.iter().position(|known| known.name == lane);
        let known = known.ok_or_else(|| BatchFailure::Fatal(format!("the detector has no lane {lane}")))?;
        let records = self.records.iter().filter(|output| output.lane == known);
        let decode = |output: &'h Output| Ok((output.timestamp, postcard::from_bytes(&output.payload)?));
        records.map(decode).collect::<postcard::Result<_>>().map_err(|error| BatchFailure::Fatal(format!("lane {lane}: {error}")))
    }

    /// The bad records and timers so far, if the harness keeps [dead letters](Self::dead_letter).
    ///
    /// # Errors
    /// The batch ran and failed.
    pub fn dead_letters(&mut self) -> Result<Vec<DeadLetter>, BatchFailure> {
        self.flush()?;
        let lane = self.operator.settings().dead_letter_lane();
        let letters = self.records.iter().filter(|output| output.lane == lane);
        letters.map(|letter| DeadLetter::read(&letter.payload).map_err(BatchFailure::Fatal)).collect()
    }

    /// How many timers are registered, on both clocks.
    ///
    /// # Errors
    /// The batch ran and failed.
    pub fn pending_timers(&mut self) -> Result<usize, BatchFailure> {
        self.flush()?;
        let metrics = self.operator.metrics();
        Ok(usize::try_from(metrics.event_timers_pending + metrics.processing_timers_pending).unwrap_or(usize::MAX))
    }

    /// How many values, entries and elements are stored under keys, without those that have expired.
    ///
    /// # Errors
    /// The batch ran and failed.
    pub fn stored(&mut self) -> Result<usize, BatchFailure> {
        let snapshot = self.snapshot()?;
        snapshot.live_items(self.clock).map_err(|error| BatchFailure::Fatal(error.to_string()))
    }

    /// The watermark; `i64::MIN` before the first.
    #[must_use]
    pub fn current_watermark(&self) -> i64 {
        self.operator.watermark().0
    }

    /// How many records came at or behind the watermark. They are processed all the same.
    ///
    /// # Errors
    /// The batch ran and failed.
    pub fn late_records(&mut self) -> Result<u64, BatchFailure> {
        self.flush()?;
        Ok(self.operator.metrics().late_records)
    }

    /// What `ctx.count` has added to a counter; 0 if nothing.
    ///
    /// # Errors
    /// The batch ran and failed.
    pub fn counter(&mut self, counter: &str) -> Result<u64, BatchFailure> {
        Ok(self.counters()?.get(counter).copied().unwrap_or(0))
    }

    /// All counters by name.
    ///
    /// # Errors
    /// The batch ran and failed.
    pub fn counters(&mut self) -> Result<BTreeMap<String, u64>, BatchFailure> {
        self.flush()?;
        Ok(lock(&self.seen).counters.clone())
    }

    /// What the detector logged, calls that failed included.
    #[must_use]
    pub fn log(&self) -> &[(Level, String)] {
        &self.log
    }

    /// The effects of the last call, as the host would get them. A large batch takes several calls.
    #[must_use]
    pub fn last_effects(&self) -> &Effects {
        &self.effects
    }

    /// Runs the records that wait for a full batch.
    ///
    /// # Errors
    /// The batch failed; its records are gone.
    pub fn flush(&mut self) -> Result<(), BatchFailure> {
        // As in a job, no record comes in amid a pass. One is left only where a timer has failed.
        self.finish_pass()?;
        if self.waiting.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.waiting);
        self.process(&batch)
    }

    fn descriptor(&self) -> &Descriptor {
        self.factory.descriptor()
    }

    /// Calls the detector with a batch, part by part as in a job.
    fn process(&mut self, batch: &Batch) -> Result<(), BatchFailure> {
        lock(&self.seen).rows = 0;
        self.configure()?;
        let now = Timestamp(self.clock);
        let mut cursor = self.operator.begin(batch, now);
        while !cursor.is_done() {
            let outcome = self.operator.process_part(batch, &mut cursor, &mut Env { now, outputs: &mut self.outputs });
            self.after_call(outcome)?;
        }
        Ok(())
    }

    /// Fires the timers that are left of the pass that was begun.
    fn finish_pass(&mut self) -> Result<(), BatchFailure> {
        self.configure()?;
        while self.operator.pass().is_some() {
            lock(&self.seen).rows = 0;
            let outcome = self.operator.continue_pass(&mut Env { now: Timestamp(self.clock), outputs: &mut self.outputs });
            self.after_call(outcome.map(drop))?;
        }
        Ok(())
    }

    /// The detector's own words come before those of the engine, which would look for the row to blame by calling it again.
    fn after_call(&mut self, outcome: tidemill_core::Result<()>) -> Result<(), BatchFailure> {
        self.collect();
        let (failure, rows) = {
            let mut seen = lock(&self.seen);
            (seen.failure.take(), seen.rows)
        };
        match failure {
            Some(BatchFailure::BadRecord(row, reason)) if self.on_error == OnError::Fail => {
                Err(BatchFailure::BadRecord(rows + row, reason))
            }
            Some(failure @ BatchFailure::Fatal(_)) => Err(failure),
            _ => outcome.map_err(|error| BatchFailure::Fatal(error.chain())),
        }
    }

    /// Takes what the instance and the operator have left for the harness.
    fn collect(&mut self) {
        let mut seen = lock(&self.seen);
        self.log.append(&mut seen.log);
        self.effects.clone_from(&seen.effects);
        self.records.append(&mut self.emitted.take());
    }

    /// Tells the operator what has changed since the last call.
    fn configure(&mut self) -> Result<(), BatchFailure> {
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        let table = |rows: &BTreeMap<Vec<u8>, Vec<u8>>| {
            let mut table = Table::default();
            rows.iter().try_for_each(|(key, row)| table.insert(key, row)).map(|()| table)
        };
        let tables: Arc<[Table]> = self.tables.iter().map(table).collect::<Result<_, _>>().map_err(BatchFailure::Fatal)?;
        let mut settings = settings(&self.factory, &self.parameters);
        (settings.batch_rows, settings.on_error, settings.tables) = (self.batch_rows, self.on_error, tables);
        self.operator.configure(Arc::new(settings));
        Ok(())
    }
}

/// An operator with this state.
fn new_operator<D: KeyedProcessFunction>(factory: &Arc<Factory<D>>, parameters: &[u8], state: MemoryState) -> Result<Operator, String> {
    let settings = settings(factory, parameters);
    Operator::new(Arc::new(settings), Box::new(state)).map_err(|error| factory.refusal().unwrap_or_else(|| error.chain()))
}

fn settings<D: KeyedProcessFunction>(factory: &Arc<Factory<D>>, parameters: &[u8]) -> OperatorSettings {
    let factory: Arc<dyn DetectorFactory> = Arc::<Factory<D>>::clone(factory);
    OperatorSettings::new(D::NAME, factory, parameters.to_vec(), MAX_PARALLELISM)
}

#[cfg(test)]
mod tests;
