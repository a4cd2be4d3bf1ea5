//! Native detectors in the engine: the SDK's [`Runner`] behind the engine's `Detector`, with the columns that a component gets.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::mem::swap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_core::detector::{self as core, CallContext, DetectorFactory, Failure, Reads};
use tidemill_core::effects::Effects;
use tidemill_core::state::Scan;
use tidemill_wit::descriptor::Descriptor;

pub use super::place::{Owned, Parked, Place};
use crate::columns::{Batch, Cells, Elements, Entries, Timers};
use crate::effects;
use crate::failure::BatchFailure;
use crate::function::KeyedProcessFunction;
use crate::host::{Host, Level};
use crate::runner::Runner;

/// Makes native instances of a detector. `P` says where an instance is kept: [`Owned`] requires a detector that is [`Send`], [`Parked`]
/// does not, but its instances work on the thread that opened them only.
pub struct NativeFactory<D, P = Owned<D>> {
    descriptor: Descriptor,
    seen: Option<Arc<Mutex<Seen>>>,
    detector: PhantomData<fn() -> (D, P)>,
}

/// What the calls of a detector's instances showed.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) log: Vec<(Level, String)>,
    /// Counters, by the calls that succeeded.
    pub(super) counters: BTreeMap<String, u64>,
    /// What the running call has counted.
    counting: Vec<(String, u64)>,
    /// The effects of the last call that succeeded.
    pub(super) effects: effects::Effects,
    /// The rows of the calls that succeeded since this was last reset.
    pub(super) rows: u32,
    /// The failure of the last call, if it failed.
    pub(super) failure: Option<BatchFailure>,
    /// Maps and lists with more entries are read lazily.
    pub(super) whole_entries: Option<usize>,
}

impl Seen {
    fn after_call(&mut self, outcome: &Result<u32, BatchFailure>, effects: &effects::Effects) {
        let counted = std::mem::take(&mut self.counting);
        match outcome {
            Ok(rows) => {
                (self.effects, self.failure) = (effects.clone(), None);
                self.rows += rows;
                // What a call counts that failed is counted when its records are processed again.
                counted.into_iter().for_each(|(counter, n)| {
                    let total = self.counters.entry(counter).or_default();
                    *total = total.saturating_add(n);
                });
            }
            Err(failure) => self.failure = Some(failure.clone()),
        }
    }
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: KeyedProcessFunction, P> Default for NativeFactory<D, P> {
    fn default() -> Self {
        Self { descriptor: Runner::<D>::describe(), seen: None, detector: PhantomData }
    }
}

impl<D: KeyedProcessFunction, P> NativeFactory<D, P> {
    /// A factory whose instances tell `seen` what they do.
    pub(super) fn watched(seen: Arc<Mutex<Seen>>) -> Self {
        Self { seen: Some(seen), ..Self::default() }
    }

    /// Why an instance could not be opened, in the detector's own words.
    pub(super) fn refusal(&self) -> Option<String> {
        let failure = self.seen.as_ref().and_then(|seen| lock(seen).failure.take());
        failure.map(|failure| match failure {
            BatchFailure::Fatal(reason) | BatchFailure::BadRecord(_, reason) => reason,
        })
    }
}

impl<D: KeyedProcessFunction, P: Place<D>> DetectorFactory for NativeFactory<D, P> {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn open(&self, parameters: &[u8]) -> Result<Box<dyn core::Detector>, Failure> {
        let (mut runner, seen) = (Runner::<D>::new(), self.seen.clone());
        let mut reads = Reads::default();
        if let Err(reason) = runner.open(parameters, &mut NativeHost { reads: &mut reads, seen: seen.as_deref() }) {
            if let Some(seen) = &seen {
                lock(seen).failure = Some(BatchFailure::Fatal(reason.clone()));
            }
            return Err(Failure::Fatal(reason));
        }
        Ok(Box::new(Native { runner: P::keep(runner), effects: effects::Effects::default(), seen, detector: PhantomData }))
    }
}

struct Native<D, P> {
    runner: P,
    effects: effects::Effects,
    seen: Option<Arc<Mutex<Seen>>>,
    detector: PhantomData<fn() -> D>,
}

/// One call of the runner.
type Call<'c, D> = &'c mut dyn FnMut(&mut Runner<D>, &Batch<'_>, &mut dyn Host, &mut effects::Effects) -> Result<u32, BatchFailure>;

impl<D: KeyedProcessFunction, P: Place<D>> Native<D, P> {
    fn call(&mut self, context: &CallContext<'_>, reads: &mut Reads, into: &mut Effects, call: Call<'_, D>) -> Result<u32, Failure> {
        let Self { runner, effects, seen, .. } = self;
        let whole = seen.as_ref().and_then(|seen| lock(seen).whole_entries);
        let host = &mut NativeHost { reads, seen: seen.as_deref() };
        let outcome = with_batch(context, whole, |batch| runner.run(&mut |runner| call(runner, batch, host, effects)));
        if let Some(seen) = seen {
            lock(seen).after_call(&outcome, effects);
        }
        if outcome.is_ok() {
            take(effects, into);
        }
        outcome.map_err(|failure| match failure {
            BatchFailure::BadRecord(row, reason) => Failure::BadRecord { row, reason },
            BatchFailure::Fatal(reason) => Failure::Fatal(reason),
        })
    }
}

impl<D: KeyedProcessFunction, P: Place<D>> core::Detector for Native<D, P> {
    fn process_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &core::Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let core::Elements { slot, timestamp, timed, payload } = *elements;
        let elements = Elements { slot, timestamp, timed, payload };
        self.call(context, reads, effects, &mut |runner, batch, host, effects| runner.process_elements(batch, &elements, host, effects))
    }

    fn on_timers(
        &mut self,
        context: &CallContext<'_>,
        timers: &core::Timers<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let timers = Timers { domain: timers.domain as u8, slot: timers.slot, timestamp: timers.timestamp, horizon: timers.horizon.0 };
        self.call(context, reads, effects, &mut |runner, batch, host, effects| runner.on_timers(batch, &timers, host, effects))
    }

    fn process_broadcast_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &core::Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let core::Elements { slot, timestamp, timed, payload } = *elements;
        let elements = Elements { slot, timestamp, timed, payload };
        self.call(context, reads, effects, &mut |runner, batch, host, effects| {
            runner.process_broadcast_elements(batch, &elements, host, effects)
        })
    }
}

/// Borrows the columns of a call, with slots of more than `whole` entries marked as to be read lazily.
fn with_batch<T>(context: &CallContext<'_>, whole: Option<usize>, call: impl FnOnce(&Batch<'_>) -> T) -> T {
    let prefetched = context.prefetched;
    let values: Vec<_> = prefetched.values.iter().map(|cells| Cells { present: &cells.present, items: cells.items.view() }).collect();
    let fewer: Vec<_> = whole.map_or_else(Vec::new, |most| prefetched.entries.iter().map(|entries| up_to(most, entries)).collect());
    let flags = |column: usize, entries| fewer.get(column).map_or(entries, Vec::as_slice);
    let columns = prefetched.entries.iter().enumerate();
    let entries: Vec<_> = columns
        .map(|(column, entries)| Entries {
            whole: flags(column, &entries.whole),
            ends: &entries.ends,
            key: entries.key.view(),
            value: entries.value.view(),
        })
        .collect();
    call(&Batch {
        watermark: context.watermark.0,
        processing_time: context.processing_time.0,
        keys: context.keys,
        values: &values,
        entries: &entries,
    })
}

/// The column `whole` of entries of which no slot comes whole that has more than `most`.
fn up_to(most: usize, entries: &core::Entries) -> Vec<u8> {
    let starts = std::iter::once(&0).chain(&entries.ends);
    let lengths = starts.zip(&entries.ends).map(|(start, end)| end.saturating_sub(*start) as usize);
    entries.whole.iter().zip(lengths).map(|(&whole, length)| whole * u8::from(length <= most)).collect()
}

/// Gives the columns to the engine, and the engine's old ones to the detector for its next batch.
fn take(from: &mut effects::Effects, to: &mut Effects) {
    swap(&mut from.writes.op, &mut to.writes.op);
    swap(&mut from.writes.state, &mut to.writes.state);
    swap(&mut from.writes.slot, &mut to.writes.slot);
    swap(&mut from.writes.entry, &mut to.writes.entry);
    swap(&mut from.writes.value, &mut to.writes.value);
    swap(&mut from.timers.op, &mut to.timers.op);
    swap(&mut from.timers.domain, &mut to.timers.domain);
    swap(&mut from.timers.slot, &mut to.timers.slot);
    swap(&mut from.timers.timestamp, &mut to.timers.timestamp);
    swap(&mut from.outputs.lane, &mut to.outputs.lane);
    swap(&mut from.outputs.row, &mut to.outputs.row);
    swap(&mut from.outputs.timestamp, &mut to.outputs.timestamp);
    swap(&mut from.outputs.timed, &mut to.outputs.timed);
    swap(&mut from.outputs.payload, &mut to.outputs.payload);
}

/// What a native detector can ask for. State in memory can always be read.
struct NativeHost<'a> {
    reads: &'a mut Reads,
    seen: Option<&'a Mutex<Seen>>,
}

impl Host for NativeHost<'_> {
    fn get_entry(&mut self, slot: u32, state: u8, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let found = self.reads.state.get_entry(self.reads.slots.get(slot as usize), state, key, self.reads.processing_time, &mut value);
        matches!(found, Ok(true)).then_some(value)
    }

    fn scan_entries(&mut self, slot: u32, state: u8, after: Option<&[u8]>, limit: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let scan = Scan { key: self.reads.slots.get(slot as usize), state, after, limit: limit as usize };
        let mut found = Vec::new();
        let scanned =
            self.reads.state.scan_entries(&scan, self.reads.processing_time, &mut |key, value| found.push((key.to_vec(), value.to_vec())));
        scanned.map_or_else(|_| Vec::new(), |()| found)
    }

    fn get_broadcast_entry(&mut self, state: u8, key: &[u8]) -> Option<Vec<u8>> {
        self.reads.broadcast.get(state, key).map(<[u8]>::to_vec)
    }

    fn scan_broadcast_entries(&mut self, state: u8, after: Option<&[u8]>, limit: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let found = self.reads.broadcast.scan(state, after).take(limit as usize);
        found.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    fn lookup(&mut self, table: u8, key: &[u8]) -> Option<Vec<u8>> {
        self.reads.tables.get(usize::from(table))?.get(key).map(<[u8]>::to_vec)
    }

    fn log(&mut self, level: Level, message: &str) {
        if let Some(seen) = self.seen {
            lock(seen).log.push((level, message.to_owned()));
        }
    }

    fn count(&mut self, counter: &str, n: u64) {
        if let Some(seen) = self.seen {
            let mut seen = lock(seen);
            seen.log.push((Level::Debug, format!("{counter} +{n}")));
            seen.counting.push((counter.to_owned(), n));
        }
    }
}
