//! Instances of guests: one call in, effects out.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::detector::{CallContext, Detector, DetectorFactory, Elements, Failure, Reads, Timers};
use tidemill_core::effects::Effects;
use tidemill_core::time::Domain;
use tidemill_wit::columns::Blobs;
use tidemill_wit::descriptor::{Descriptor, StateKind};
use wasmtime::Store;

use super::component::GuestComponent;
use super::exports::{DetectorExports, DetectorPre};
use super::failure;
use super::generated::tidemill::process::types;
use super::limits::{Limits, ticks};
use super::store::{Emit, Host};
use super::telemetry::{MESSAGE_BYTES, Telemetry, printable};
use super::voice::Voice;

/// Opens instances of a component under limits.
#[derive(Debug)]
pub struct GuestFactory {
    component: Arc<GuestComponent>,
    limits: Limits,
    kinds: Arc<[StateKind]>,
    voice: Arc<Voice>,
}

impl GuestFactory {
    /// Binds a component to limits.
    ///
    /// # Errors
    /// The limits are too low for any guest.
    pub fn new(component: Arc<GuestComponent>, limits: Limits) -> Result<Self, String> {
        limits.check()?;
        let kinds = component.descriptor().states.iter().map(|state| state.kind).collect();
        let voice = Arc::new(Voice::new(component.name(), false));
        Ok(Self { component, limits, kinds, voice })
    }

    /// The same for the operator with this uid: what the component logs has its name, or is dropped if nobody is to hear it.
    #[must_use]
    pub fn for_operator(self, uid: &str, is_silent: bool) -> Self {
        Self { voice: Arc::new(Voice::new(uid, is_silent)), ..self }
    }

    /// The component.
    #[must_use]
    pub fn component(&self) -> &Arc<GuestComponent> {
        &self.component
    }
}

impl DetectorFactory for GuestFactory {
    fn descriptor(&self) -> &Descriptor {
        self.component.descriptor()
    }

    fn open(&self, parameters: &[u8]) -> Result<Box<dyn Detector>, Failure> {
        let telemetry = Telemetry::new(Arc::clone(&self.voice));
        let mut instance = Instance::new(self.component.pre(), self.limits, telemetry, Arc::clone(&self.kinds))?;
        instance
            .call(None, |exports, store| exports.open(store, parameters))?
            .map_err(|why| Failure::Fatal(printable(&why, MESSAGE_BYTES)))?;
        Ok(Box::new(instance))
    }
}

/// What a fresh instance says about the component, under the default limits.
pub(super) fn describe(pre: &DetectorPre) -> Result<types::Descriptor, Failure> {
    let limits = Limits::default();
    let telemetry = Telemetry::new(Arc::new(Voice::new("describe", false)));
    Instance::new(pre, limits, telemetry, Arc::from([]))?.call(None, |exports, store| exports.describe(store))
}

/// An instance of a guest in a store of its own.
struct Instance {
    store: Store<Host>,
    exports: DetectorExports,
    limits: Limits,
    dead: bool,
}

impl Instance {
    fn new(pre: &DetectorPre, limits: Limits, telemetry: Telemetry, kinds: Arc<[StateKind]>) -> Result<Self, Failure> {
        let mut store = Store::new(pre.engine(), Host::new(&limits, telemetry, kinds));
        store.limiter(|host| host.limiter());
        store.set_hostcall_fuel(store.data().output_limit());
        store.set_epoch_deadline(limits.ticks());
        match pre.instantiate(&mut store) {
            Ok(exports) => Ok(Self { store, exports, limits, dead: false }),
            Err(error) => Err(failure::of(&error, store.data_mut(), &limits)),
        }
    }

    /// Calls an export under the limits, and for no longer than the caller's patience. After an error of the engine the instance is dead.
    fn call<T>(
        &mut self,
        patience: Option<Duration>,
        export: impl FnOnce(&DetectorExports, &mut Store<Host>) -> wasmtime::Result<T>,
    ) -> Result<T, Failure> {
        if self.dead {
            return Err(Failure::Trap("the instance is of no more use after a trap".to_owned()));
        }
        self.store.data_mut().telemetry().begin();
        // A call that is cut short is none that has run into its deadline.
        let patience = patience.map(|patience| patience.min(self.limits.deadline / 2));
        self.store.set_epoch_deadline(patience.map_or_else(|| self.limits.ticks(), ticks));
        let answer = export(&self.exports, &mut self.store);
        let host = self.store.data_mut();
        if answer.is_ok() {
            host.telemetry().end();
        }
        answer.map_err(|error| {
            self.dead = true;
            match failure::of(&error, host, &self.limits) {
                Failure::Deadline(_) if patience.is_some() => Failure::CutShort,
                failure => failure,
            }
        })
    }

    /// Calls an export that processes rows. The caller's reads and effects are in the store for as long as it runs.
    fn process(
        &mut self,
        rows: usize,
        reads: &mut Reads,
        effects: &mut Effects,
        export: impl FnOnce(&DetectorExports, &mut Store<Host>) -> wasmtime::Result<Result<u32, types::Failure>>,
    ) -> Result<u32, Failure> {
        effects.clear();
        let patience = reads.patience;
        self.store.data_mut().exchange(reads, effects, Emit::Awaited);
        let answer = self.call(patience, export);
        self.store.data_mut().exchange(reads, effects, Emit::Outside);
        match answer? {
            Ok(consumed) if consumed as usize > rows => {
                Err(Failure::Trap(format!("the guest says that it consumed {consumed} rows, but the call has {rows}")))
            }
            Ok(0) if rows > 0 => Err(Failure::Trap(format!("the guest consumed none of the {rows} rows of the call"))),
            Ok(consumed) => {
                self.store.data_mut().telemetry().take_counts(&mut effects.counts);
                Ok(consumed)
            }
            Err(types::Failure::BadRecord((row, _))) if row as usize >= rows => {
                Err(Failure::Trap(format!("the guest says that row {row} is bad, but the call has {rows}")))
            }
            Err(types::Failure::BadRecord((row, reason))) => Err(Failure::BadRecord { row, reason: printable(&reason, MESSAGE_BYTES) }),
            Err(types::Failure::Fatal(reason)) => Err(Failure::Fatal(printable(&reason, MESSAGE_BYTES))),
        }
    }
}

impl Detector for Instance {
    fn memory(&self) -> u64 {
        self.store.data().memory()
    }

    fn process_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let columns = Columns::of(context);
        self.process(elements.timestamp.len(), reads, effects, |exports, store| {
            exports.process_elements(store, columns.context(context), rows(elements))
        })
    }

    fn on_timers(
        &mut self,
        context: &CallContext<'_>,
        timers: &Timers<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let columns = Columns::of(context);
        let domain = match timers.domain {
            Domain::Event => types::TimeDomain::Event,
            Domain::Processing => types::TimeDomain::Processing,
        };
        let rows = types::Timers { domain, slot: timers.slot, timestamp: timers.timestamp, horizon: timers.horizon.0 };
        self.process(timers.timestamp.len(), reads, effects, |exports, store| exports.on_timers(store, columns.context(context), rows))
    }

    fn process_broadcast_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let columns = Columns::of(context);
        self.process(elements.timestamp.len(), reads, effects, |exports, store| {
            exports.process_broadcast_elements(store, columns.context(context), rows(elements))
        })
    }
}

/// The prefetched state as the contract has it: a few pointers for each state.
struct Columns<'a> {
    values: Vec<types::Cells<'a>>,
    entries: Vec<types::Entries<'a>>,
}

impl<'a> Columns<'a> {
    fn of(context: &CallContext<'a>) -> Self {
        let values = context.prefetched.values.iter();
        let entries = context.prefetched.entries.iter();
        Self {
            values: values.map(|cells| types::Cells { present: &cells.present, items: blobs(cells.items.view()) }).collect(),
            entries: entries
                .map(|entries| types::Entries {
                    whole: &entries.whole,
                    ends: &entries.ends,
                    key: blobs(entries.key.view()),
                    value: blobs(entries.value.view()),
                })
                .collect(),
        }
    }

    fn context(&self, context: &CallContext<'a>) -> types::Context<'_> {
        types::Context {
            watermark: context.watermark.0,
            processing_time: context.processing_time.0,
            keys: blobs(context.keys),
            values: &self.values,
            entries: &self.entries,
        }
    }
}

fn rows<'a>(elements: &Elements<'a>) -> types::Elements<'a> {
    types::Elements { slot: elements.slot, timestamp: elements.timestamp, timed: elements.timed, payload: blobs(elements.payload) }
}

fn blobs(column: Blobs<'_>) -> types::BlobsParam<'_> {
    types::BlobsParam { bytes: column.bytes, ends: column.ends }
}
