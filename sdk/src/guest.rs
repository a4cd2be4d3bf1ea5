//! A detector as a component: the exports of `process.wit` on one side, [`Runner`] on the other.
//!
//! Its public items are for [`export!`](crate::export!), not for use by hand.

use tidemill_wit::columns::{self, BlobsBuf};
use tidemill_wit::descriptor;

pub use self::bindings::exports::tidemill::process::detector::{Context, Descriptor, Elements, Failure, Guest, Timers};
use self::bindings::tidemill::process::{broadcast_state, collector, keyed_state, reference_tables, telemetry, types};
use crate::columns as batch;
use crate::effects;
use crate::failure::BatchFailure;
use crate::function::KeyedProcessFunction;
use crate::host::{Host, Level};
use crate::runner::Runner;

#[doc(hidden)]
#[expect(clippy::all, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../wit/wit",
        world: "keyed-process-function",
        ownership: Borrowing { duplicate_if_necessary: true },
        pub_export_macro: true,
        export_macro_name: "export_component",
    });
}
pub use self::bindings::export_component;

/// The component's one instance.
pub struct Instance<D: KeyedProcessFunction> {
    runner: Runner<D>,
    effects: effects::Effects,
}

impl<D: KeyedProcessFunction> Default for Instance<D> {
    fn default() -> Self {
        Self { runner: Runner::new(), effects: effects::Effects::default() }
    }
}

impl<D: KeyedProcessFunction> Instance<D> {
    /// The export `describe`.
    #[must_use]
    pub fn describe() -> Descriptor {
        let descriptor = Runner::<D>::describe();
        Descriptor {
            name: descriptor.name,
            version: descriptor.version,
            encoding: "postcard".to_owned(),
            input: descriptor.input.to_bytes(),
            key: descriptor.key.map(|key| key.to_bytes()).unwrap_or_default(),
            parameters: descriptor.parameters.to_bytes(),
            states: descriptor.states.into_iter().map(state).collect(),
            lanes: descriptor.lanes.into_iter().map(lane).collect(),
            tables: descriptor.tables.into_iter().map(table).collect(),
            broadcast: descriptor.broadcast.map(|broadcast| broadcast.to_bytes()).unwrap_or_default(),
            broadcast_states: descriptor.broadcast_states.into_iter().map(state).collect(),
        }
    }

    /// The export `open`.
    ///
    /// # Errors
    /// The parameters do not decode, or the detector refuses them.
    pub fn open(&mut self, parameters: &[u8]) -> Result<(), String> {
        // A panic is a bare `unreachable` for the host; this sends its message and place first.
        std::panic::set_hook(Box::new(|panic| telemetry::log(telemetry::Level::Error, &panic.to_string())));
        self.runner.open(parameters, &mut Imports)
    }

    /// The export `process-elements`.
    ///
    /// # Errors
    /// A record is bad or the job must fail.
    pub fn process_elements(&mut self, context: &Context, elements: &Elements) -> Result<u32, Failure> {
        let (values, entries) = states(context);
        let batch = batch(context, &values, &entries);
        let result = self.runner.process_elements(&batch, &rows(elements), &mut Imports, &mut self.effects);
        self.answer(result)
    }

    /// The export `process-broadcast-elements`.
    ///
    /// # Errors
    /// A record is bad or the job must fail.
    pub fn process_broadcast_elements(&mut self, context: &Context, elements: &Elements) -> Result<u32, Failure> {
        let (values, entries) = states(context);
        let batch = batch(context, &values, &entries);
        let result = self.runner.process_broadcast_elements(&batch, &rows(elements), &mut Imports, &mut self.effects);
        self.answer(result)
    }

    /// The export `on-timers`.
    ///
    /// # Errors
    /// A timer is bad or the job must fail.
    pub fn on_timers(&mut self, context: &Context, timers: &Timers) -> Result<u32, Failure> {
        let (values, entries) = states(context);
        let timers =
            batch::Timers { domain: timers.domain as u8, slot: &timers.slot, timestamp: &timers.timestamp, horizon: timers.horizon };
        let result = self.runner.on_timers(&batch(context, &values, &entries), &timers, &mut Imports, &mut self.effects);
        self.answer(result)
    }

    fn answer(&self, result: Result<u32, BatchFailure>) -> Result<u32, Failure> {
        match result {
            Ok(consumed) => {
                emit(&self.effects);
                Ok(consumed)
            }
            Err(BatchFailure::BadRecord(row, reason)) => Err(Failure::BadRecord((row, reason))),
            Err(BatchFailure::Fatal(reason)) => Err(Failure::Fatal(reason)),
        }
    }
}

/// The host, as a component sees it.
struct Imports;

impl Host for Imports {
    fn get_entry(&mut self, slot: u32, state: u8, key: &[u8]) -> Option<Vec<u8>> {
        keyed_state::get_entry(slot, state, key)
    }

    fn scan_entries(&mut self, slot: u32, state: u8, after: Option<&[u8]>, limit: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        keyed_state::scan_entries(slot, state, after, limit)
    }

    fn get_broadcast_entry(&mut self, state: u8, key: &[u8]) -> Option<Vec<u8>> {
        broadcast_state::get_entry(state, key)
    }

    fn scan_broadcast_entries(&mut self, state: u8, after: Option<&[u8]>, limit: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        broadcast_state::scan_entries(state, after, limit)
    }

    fn lookup(&mut self, table: u8, key: &[u8]) -> Option<Vec<u8>> {
        reference_tables::lookup(table, key)
    }

    fn log(&mut self, level: Level, message: &str) {
        let level = match level {
            Level::Error => telemetry::Level::Error,
            Level::Warn => telemetry::Level::Warn,
            Level::Info => telemetry::Level::Info,
            Level::Debug => telemetry::Level::Debug,
            Level::Trace => telemetry::Level::Trace,
        };
        telemetry::log(level, message);
    }

    fn count(&mut self, counter: &str, n: u64) {
        telemetry::count(counter, n);
    }
}

/// Writes a line to the job's log.
pub(crate) fn log(level: Level, text: std::fmt::Arguments<'_>) {
    Imports.log(level, &text.to_string());
}

fn batch<'a>(context: &'a Context, values: &'a [batch::Cells<'a>], entries: &'a [batch::Entries<'a>]) -> batch::Batch<'a> {
    let (watermark, processing_time) = (context.watermark, context.processing_time);
    batch::Batch { watermark, processing_time, keys: blobs(&context.keys), values, entries }
}

fn rows(elements: &Elements) -> batch::Elements<'_> {
    let Elements { slot, timestamp, timed, payload } = elements;
    batch::Elements { slot, timestamp, timed, payload: blobs(payload) }
}

fn states(context: &Context) -> (Vec<batch::Cells<'_>>, Vec<batch::Entries<'_>>) {
    (context.values.iter().map(cells).collect(), context.entries.iter().map(entries).collect())
}

fn entries(column: &types::Entries) -> batch::Entries<'_> {
    batch::Entries { whole: &column.whole, ends: &column.ends, key: blobs(&column.key), value: blobs(&column.value) }
}

fn cells(column: &types::Cells) -> batch::Cells<'_> {
    batch::Cells { present: &column.present, items: blobs(&column.items) }
}

fn blobs(column: &types::BlobsResult) -> columns::Blobs<'_> {
    columns::Blobs { bytes: &column.bytes, ends: &column.ends }
}

/// As the argument of an import, the columns are read by the host where they lie.
fn emit(effects: &effects::Effects) {
    let effects::Effects { writes, timers, outputs } = effects;
    collector::emit(types::Effects {
        writes: types::Writes {
            op: &writes.op,
            state: &writes.state,
            slot: &writes.slot,
            entry: parameter(&writes.entry),
            value: parameter(&writes.value),
        },
        timers: types::TimerOps { op: &timers.op, domain: &timers.domain, slot: &timers.slot, timestamp: &timers.timestamp },
        outputs: types::Outputs {
            lane: &outputs.lane,
            row: &outputs.row,
            timestamp: &outputs.timestamp,
            timed: &outputs.timed,
            payload: parameter(&outputs.payload),
        },
    });
}

fn parameter(column: &BlobsBuf) -> types::BlobsParam<'_> {
    types::BlobsParam { bytes: &column.bytes, ends: &column.ends }
}

fn lane(lane: descriptor::LaneDescriptor) -> types::LaneDescriptor {
    types::LaneDescriptor { name: lane.name, schema: lane.schema.to_bytes() }
}

fn table(table: descriptor::TableDescriptor) -> types::TableDescriptor {
    let (schema, key_schema) = (table.row.to_bytes(), table.key.to_bytes());
    types::TableDescriptor { name: table.name, schema, key_schema, optional: u8::from(table.optional) }
}

fn state(state: descriptor::StateDescriptor) -> types::StateDescriptor {
    types::StateDescriptor {
        name: state.name,
        kind: state.kind as u8,
        schema: state.value.to_bytes(),
        key_schema: state.entry_key.map(|key| key.to_bytes()).unwrap_or_default(),
        ttl: state.ttl.unwrap_or(0),
        ttl_update: state.ttl_update as u8,
    }
}
