//! Detectors as native code inside the engine: the same SDK, without WebAssembly between them.

use std::marker::PhantomData;

use tidemill_core::detector::{self as core, CallContext, DetectorFactory, Failure, Reads};
use tidemill_core::effects::Effects;
use tidemill_core::state::Scan;
use tidemill_sdk::columns::{Batch, Cells, Elements, Entries, Timers};
use tidemill_sdk::failure::BatchFailure;
use tidemill_sdk::host::{Host, Level};
use tidemill_sdk::runner::Runner;
use tidemill_sdk::{KeyedProcessFunction, effects};
use tidemill_wit::descriptor::Descriptor;

/// Makes native instances of a detector.
pub struct NativeFactory<D> {
    descriptor: Descriptor,
    detector: PhantomData<fn() -> D>,
}

impl<D: KeyedProcessFunction + 'static> Default for NativeFactory<D> {
    fn default() -> Self {
        Self { descriptor: Runner::<D>::describe(), detector: PhantomData }
    }
}

impl<D: KeyedProcessFunction + 'static> DetectorFactory for NativeFactory<D>
where
    Runner<D>: Send,
{
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn open(&self, parameters: &[u8]) -> Result<Box<dyn core::Detector>, Failure> {
        let mut runner = Runner::<D>::new();
        runner.open(parameters, &mut NativeHost(&mut Reads::default())).map_err(Failure::Fatal)?;
        Ok(Box::new(Native { runner, effects: effects::Effects::default() }))
    }
}

struct Native<D: KeyedProcessFunction> {
    runner: Runner<D>,
    effects: effects::Effects,
}

impl<D: KeyedProcessFunction> core::Detector for Native<D>
where
    Runner<D>: Send,
{
    fn process_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &core::Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let core::Elements { slot, timestamp, timed, payload } = *elements;
        let elements = Elements { slot, timestamp, timed, payload };
        with_batch(context, |batch| self.runner.process_elements(batch, &elements, &mut NativeHost(reads), &mut self.effects))
            .inspect(|_| take(&mut self.effects, effects))
            .map_err(failure)
    }

    fn on_timers(
        &mut self,
        context: &CallContext<'_>,
        timers: &core::Timers<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let timers = Timers { domain: timers.domain as u8, slot: timers.slot, timestamp: timers.timestamp, horizon: timers.horizon.0 };
        with_batch(context, |batch| self.runner.on_timers(batch, &timers, &mut NativeHost(reads), &mut self.effects))
            .inspect(|_| take(&mut self.effects, effects))
            .map_err(failure)
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
        with_batch(context, |batch| self.runner.process_broadcast_elements(batch, &elements, &mut NativeHost(reads), &mut self.effects))
            .inspect(|_| take(&mut self.effects, effects))
            .map_err(failure)
    }
}

fn with_batch<T>(context: &CallContext<'_>, call: impl FnOnce(&Batch<'_>) -> T) -> T {
    let values: Vec<_> =
        context.prefetched.values.iter().map(|cells| Cells { present: &cells.present, items: cells.items.view() }).collect();
    let entries: Vec<_> = context
        .prefetched
        .entries
        .iter()
        .map(|entries| Entries { whole: &entries.whole, ends: &entries.ends, key: entries.key.view(), value: entries.value.view() })
        .collect();
    call(&Batch {
        watermark: context.watermark.0,
        processing_time: context.processing_time.0,
        keys: context.keys,
        values: &values,
        entries: &entries,
    })
}

/// Gives the columns to the engine, and the engine's old ones to the detector for its next batch.
fn take(from: &mut effects::Effects, to: &mut Effects) {
    use std::mem::swap;
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

fn failure(failure: BatchFailure) -> Failure {
    match failure {
        BatchFailure::BadRecord(row, reason) => Failure::BadRecord { row, reason },
        BatchFailure::Fatal(reason) => Failure::Fatal(reason),
    }
}

/// What a native detector can ask for. A state that cannot be read does not happen: it is in memory.
struct NativeHost<'a>(&'a mut Reads);

impl Host for NativeHost<'_> {
    fn get_entry(&mut self, slot: u32, state: u8, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let found = self.0.state.get_entry(self.0.slots.get(slot as usize), state, key, self.0.processing_time, &mut value);
        matches!(found, Ok(true)).then_some(value)
    }

    fn scan_entries(&mut self, slot: u32, state: u8, after: Option<&[u8]>, limit: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let scan = Scan { key: self.0.slots.get(slot as usize), state, after, limit: limit as usize };
        let mut found = Vec::new();
        match self.0.state.scan_entries(&scan, self.0.processing_time, &mut |key, value| found.push((key.to_vec(), value.to_vec()))) {
            Ok(()) => found,
            Err(_) => Vec::new(),
        }
    }

    fn get_broadcast_entry(&mut self, state: u8, key: &[u8]) -> Option<Vec<u8>> {
        self.0.broadcast.get(state, key).map(<[u8]>::to_vec)
    }

    fn scan_broadcast_entries(&mut self, state: u8, after: Option<&[u8]>, limit: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let found = self.0.broadcast.scan(state, after).take(limit as usize);
        found.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    fn lookup(&mut self, table: u8, key: &[u8]) -> Option<Vec<u8>> {
        self.0.tables.get(usize::from(table))?.get(key).map(<[u8]>::to_vec)
    }

    fn log(&mut self, _: Level, _: &str) {}

    fn count(&mut self, _: &str, _: u64) {}
}
