//! A harness for unit tests of detectors: the real batch loop, state in memory, clocks that stand until they are moved.
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

mod snapshot;
mod store;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tidemill_wit::columns::BlobsBuf;
use tidemill_wit::descriptor::{Descriptor, time_domain, timer_op};

pub use self::snapshot::Snapshot;
use self::store::{Prefetched, Store};
use crate::columns::{Elements, Timers};
use crate::effects::Effects;
use crate::failure::BatchFailure;
use crate::function::KeyedProcessFunction;
use crate::host::Level;
use crate::runner::Runner;
use crate::{encode, ordered};

/// Drives one instance of a detector.
pub struct Harness<D: KeyedProcessFunction> {
    runner: Runner<D>,
    /// Encoded.
    parameters: Vec<u8>,
    descriptor: Descriptor,
    store: Store,
    effects: Effects,
    batch_rows: usize,
    waiting: Vec<Waiting>,
    timers: BTreeSet<PendingTimer>,
    watermark: i64,
    clock: i64,
    outputs: Vec<Output>,
}

/// A record of the next batch.
struct Waiting {
    key: Vec<u8>,
    timestamp: Option<i64>,
    payload: Vec<u8>,
}

/// By domain, time and key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PendingTimer {
    domain: u8,
    timestamp: i64,
    key: Vec<u8>,
}

/// A record that came out.
struct Output {
    lane: u8,
    timestamp: Option<i64>,
    payload: Vec<u8>,
}

impl<D: KeyedProcessFunction> Harness<D> {
    /// Opens a detector with its parameters, `&()` if it has none.
    ///
    /// # Errors
    /// The parameters do not encode or are refused.
    pub fn open(parameters: &impl Serialize) -> Result<Self, String> {
        let (descriptor, mut bytes) = (Runner::<D>::describe(), Vec::new());
        encode::append(parameters, &mut bytes)?;
        let mut store = Store::new(&descriptor);
        let mut runner = Runner::new();
        runner.open(&bytes, &mut store)?;
        Ok(Self {
            runner,
            parameters: bytes,
            descriptor,
            store,
            effects: Effects::default(),
            batch_rows: 1024,
            waiting: Vec::new(),
            timers: BTreeSet::new(),
            watermark: i64::MIN,
            clock: 0,
            outputs: Vec::new(),
        })
    }

    /// At most that many rows in a batch (1,024 by default): what a detector does may not depend on it.
    #[must_use]
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows.max(1);
        self
    }

    /// Maps and lists of up to that many entries come whole with a batch (64 by default), larger ones are read lazily.
    #[must_use]
    pub fn whole_entries(mut self, entries: usize) -> Self {
        self.store.whole_entries = entries;
        self
    }

    /// Adds a row to a reference table.
    ///
    /// # Errors
    /// The detector has no such table, or the row does not encode.
    pub fn row(&mut self, table: &str, key: &impl Serialize, row: &impl Serialize) -> Result<(), String> {
        let names = self.descriptor.tables.iter().map(|table| table.name.as_str());
        let table = index_of(names, table).ok_or_else(|| format!("the detector has no table {table}"))?;
        let (mut encoded_key, mut encoded_row) = (Vec::new(), Vec::new());
        ordered::append(key, &mut encoded_key).map_err(|error| error.to_string())?;
        encode::append(row, &mut encoded_row)?;
        self.store.tables.insert((table, encoded_key), encoded_row);
        Ok(())
    }

    /// Adds a record to the current batch, which runs when it is full, or when time moves or output is asked for.
    ///
    /// # Errors
    /// The batch ran and failed, or the record does not encode.
    pub fn element(&mut self, key: &D::Key, timestamp: impl Into<Option<i64>>, element: &D::Input<'_>) -> Result<(), BatchFailure> {
        let mut waiting = Waiting { key: Vec::new(), timestamp: timestamp.into(), payload: Vec::new() };
        ordered::append(key, &mut waiting.key).map_err(|error| BatchFailure::Fatal(error.to_string()))?;
        encode::append(element, &mut waiting.payload).map_err(BatchFailure::Fatal)?;
        self.waiting.push(waiting);
        if self.waiting.len() < self.batch_rows { Ok(()) } else { self.flush() }
    }

    /// Processes a broadcast record, after the records that wait for a full batch.
    ///
    /// # Errors
    /// The record does not encode, or a batch failed.
    pub fn broadcast(&mut self, timestamp: impl Into<Option<i64>>, element: &impl Serialize) -> Result<(), BatchFailure> {
        self.flush()?;
        let (timestamp, mut payload) = (timestamp.into(), BlobsBuf::default());
        encode::append(element, &mut payload.bytes).map_err(BatchFailure::Fatal)?;
        payload.finish();
        let (times, timed) = ([timestamp.unwrap_or(0)], [u8::from(timestamp.is_some())]);
        let elements = Elements { slot: &[], timestamp: &times, timed: &timed, payload: payload.view() };
        let prefetched = Prefetched::new(&mut self.store, BlobsBuf::default());
        let (values, entries) = prefetched.columns();
        let batch = prefetched.batch(self.watermark, self.clock, &values, &entries);
        self.runner.process_broadcast_elements(&batch, &elements, &mut self.store, &mut self.effects)?;
        self.store.apply_broadcast(&std::mem::take(&mut self.effects.writes));
        self.apply();
        Ok(())
    }

    /// Raises the watermark and fires what is due; a lower or the same one does nothing.
    ///
    /// # Errors
    /// A batch failed.
    pub fn watermark(&mut self, timestamp: i64) -> Result<(), BatchFailure> {
        self.flush()?;
        if timestamp <= self.watermark {
            return Ok(());
        }
        self.watermark = timestamp;
        self.fire(time_domain::EVENT, timestamp)
    }

    /// Moves the processing clock, which begins at 0, and fires the timers that it is past.
    ///
    /// # Errors
    /// A batch failed.
    pub fn processing_time(&mut self, timestamp: i64) -> Result<(), BatchFailure> {
        self.flush()?;
        self.clock = timestamp;
        self.store.now = timestamp;
        match timestamp.checked_sub(1) {
            Some(horizon) => self.fire(time_domain::PROCESSING, horizon),
            None => Ok(()),
        }
    }

    /// All records of a lane so far, with their timestamps.
    ///
    /// # Errors
    /// The batch ran and failed, the detector has no such lane, or a record is not a `T`.
    pub fn outputs<'h, T: Deserialize<'h>>(&'h mut self, lane: &str) -> Result<Vec<(Option<i64>, T)>, BatchFailure> {
        self.flush()?;
        let names = self.descriptor.lanes.iter().map(|lane| lane.name.as_str());
        let id = index_of(names, lane).ok_or_else(|| BatchFailure::Fatal(format!("the detector has no lane {lane}")))?;
        let records = self.outputs.iter().filter(|output| output.lane == id);
        let decode = |output: &'h Output| Ok((output.timestamp, postcard::from_bytes(&output.payload)?));
        records.map(decode).collect::<postcard::Result<_>>().map_err(|error| BatchFailure::Fatal(format!("lane {lane}: {error}")))
    }

    /// How many timers are registered, on both clocks.
    ///
    /// # Errors
    /// The batch ran and failed.
    pub fn pending_timers(&mut self) -> Result<usize, BatchFailure> {
        self.flush()?;
        Ok(self.timers.len())
    }

    /// How many values, entries and elements are stored.
    ///
    /// # Errors
    /// The batch ran and failed.
    pub fn stored(&mut self) -> Result<usize, BatchFailure> {
        self.flush()?;
        Ok(self.store.len())
    }

    /// What the detector logged.
    #[must_use]
    pub fn log(&self) -> &[(Level, String)] {
        &self.store.log
    }

    /// The effects of the last batch, as the host would get them.
    #[must_use]
    pub fn last_effects(&self) -> &Effects {
        &self.effects
    }

    /// Runs the records that wait for a full batch.
    ///
    /// # Errors
    /// The batch failed; its records are gone.
    pub fn flush(&mut self) -> Result<(), BatchFailure> {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        let mut slots = Slots::default();
        let keyed = self.descriptor.key.is_some();
        let slot: Vec<u32> = if keyed { waiting.iter().map(|row| slots.of(&row.key)).collect() } else { Vec::new() };
        let timestamp: Vec<i64> = waiting.iter().map(|row| row.timestamp.unwrap_or(0)).collect();
        let timed: Vec<u8> = waiting.iter().map(|row| u8::from(row.timestamp.is_some())).collect();
        let mut payload = BlobsBuf::default();
        waiting.iter().for_each(|row| payload.push(&row.payload));
        let elements = Elements { slot: &slot, timestamp: &timestamp, timed: &timed, payload: payload.view() };
        let prefetched = Prefetched::new(&mut self.store, slots.keys);
        let (values, entries) = prefetched.columns();
        let batch = prefetched.batch(self.watermark, self.clock, &values, &entries);
        let consumed = self.runner.process_elements(&batch, &elements, &mut self.store, &mut self.effects)?;
        debug_assert_eq!(consumed as usize, waiting.len());
        self.apply();
        Ok(())
    }

    /// Fires timers up to the horizon, batch by batch.
    fn fire(&mut self, domain: u8, horizon: i64) -> Result<(), BatchFailure> {
        while let Some((due, horizon)) = self.take_due(domain, horizon) {
            let keys: BTreeSet<&[u8]> = due.iter().map(|timer| timer.key.as_slice()).collect();
            let mut slots = Slots::default();
            keys.into_iter().for_each(|key| {
                slots.of(key);
            });
            let slot: Vec<u32> = due.iter().map(|timer| slots.of(&timer.key)).collect();
            let timestamp: Vec<i64> = due.iter().map(|timer| timer.timestamp).collect();
            let timers = Timers { domain, slot: &slot, timestamp: &timestamp, horizon };
            let prefetched = Prefetched::new(&mut self.store, slots.keys);
            let (values, entries) = prefetched.columns();
            let batch = prefetched.batch(self.watermark, self.clock, &values, &entries);
            self.runner.on_timers(&batch, &timers, &mut self.store, &mut self.effects)?;
            self.apply();
        }
        Ok(())
    }

    /// Takes the next batch of due timers, whole timestamps or a part of one, and how far it reaches.
    fn take_due(&mut self, domain: u8, horizon: i64) -> Option<(Vec<PendingTimer>, i64)> {
        let due = self.timers.iter().filter(|timer| timer.domain == domain && timer.timestamp <= horizon);
        let mut batch: Vec<PendingTimer> = due.take(self.batch_rows + 1).cloned().collect();
        let (first, last) = (batch.first()?.timestamp, batch.last()?.timestamp);
        let mut reach = horizon;
        if batch.len() > self.batch_rows {
            batch.pop();
            if first < last {
                batch.retain(|timer| timer.timestamp < last);
            }
            reach = batch.last()?.timestamp;
        }
        if reach == i64::MIN {
            // No timer can join such a batch, so each that is registered meanwhile must find its place between two.
            batch.truncate(1);
        }
        for timer in &batch {
            self.timers.remove(timer);
        }
        Some((batch, reach))
    }

    fn apply(&mut self) {
        let Effects { writes, timers, outputs } = &self.effects;
        self.store.apply(writes);
        for (row, op) in timers.op.iter().enumerate() {
            let timer = (timers.domain.get(row).copied()).zip(timers.timestamp.get(row).copied()).zip(timers.slot.get(row).copied());
            let Some(((domain, timestamp), slot)) = timer else { continue };
            let timer = PendingTimer { domain, timestamp, key: self.store.keys.get(slot as usize).to_vec() };
            if *op == timer_op::REGISTER {
                self.timers.insert(timer)
            } else {
                self.timers.remove(&timer)
            };
        }
        for (row, lane) in outputs.lane.iter().enumerate() {
            let timed = outputs.timed.is_empty() || outputs.timed.get(row) == Some(&1);
            let timestamp = outputs.timestamp.get(row).copied().filter(|_| timed);
            self.outputs.push(Output { lane: *lane, timestamp, payload: outputs.payload.get(row).to_vec() });
        }
    }
}

/// Numbers keys.
#[derive(Default)]
struct Slots {
    known: BTreeMap<Vec<u8>, u32>,
    keys: BlobsBuf,
}

impl Slots {
    fn of(&mut self, key: &[u8]) -> u32 {
        let next = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        let slot = *self.known.entry(key.to_vec()).or_insert(next);
        if slot == next {
            self.keys.push(key);
        }
        slot
    }
}

fn index_of<'a>(mut names: impl Iterator<Item = &'a str>, name: &str) -> Option<u8> {
    names.position(|known| known == name).and_then(|index| u8::try_from(index).ok())
}

#[cfg(test)]
mod tests;
