//! Runs a detector over batches: the loop around the user's code, the same in a component and natively.

use std::cell::OnceCell;
use std::marker::PhantomData;

use tidemill_wit::descriptor::{Descriptor, LaneDescriptor};
use tidemill_wit::schema::Type;

use crate::broadcast::BroadcastContext;
use crate::columns::{Batch, Elements, Timers};
use crate::context::{Context, Core, OpenContext};
use crate::detector::Ids;
use crate::effects::Effects;
use crate::encode::type_name;
use crate::failure::BatchFailure;
use crate::function::KeyedProcessFunction;
use crate::host::Host;
use crate::schema::table_of;
use crate::timers::{Pass, PassMemory, TimeDomain, Timer};

/// An instance of a detector and what it needs from batch to batch.
pub struct Runner<D: KeyedProcessFunction> {
    detector: Option<D>,
    /// How many columns of values and of entries a batch must have.
    columns: (usize, usize),
    /// The decoded keys of the batch, by slot.
    keys: Vec<OnceCell<D::Key>>,
    memory: PassMemory,
}

impl<D: KeyedProcessFunction> Default for Runner<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: KeyedProcessFunction> Runner<D> {
    /// An instance that is not open yet.
    #[must_use]
    pub fn new() -> Self {
        Self { detector: None, columns: (0, 0), keys: Vec::new(), memory: PassMemory::default() }
    }

    /// What the detector says about itself.
    #[must_use]
    pub fn describe() -> Descriptor {
        let key = table_of::<D::Key>();
        let mut descriptor = Descriptor {
            name: D::NAME.to_owned(),
            version: D::VERSION.to_owned(),
            input: table_of::<D::Input<'_>>(),
            key: (key.root != Type::Unit).then_some(key),
            lanes: vec![LaneDescriptor { name: "main".to_owned(), schema: table_of::<D::Output<'_>>() }],
            ..Descriptor::default()
        };
        D::describe(&mut descriptor);
        descriptor.broadcast = D::broadcast().map(|input| input.schema);
        descriptor
    }

    /// Opens the instance with the encoded parameters.
    ///
    /// # Errors
    /// The parameters do not decode, or the detector refuses them.
    pub fn open(&mut self, parameters: &[u8], host: &mut dyn Host) -> Result<(), String> {
        let mut ids = Ids::new(parameters);
        let mut detector = D::create(&mut ids)?;
        detector.open(&mut OpenContext { host }).map_err(|failure| failure.to_string())?;
        (self.columns, self.detector) = (ids.columns(), Some(detector));
        Ok(())
    }

    /// Processes records in order. Returns how many were consumed: all of them.
    ///
    /// # Errors
    /// A record is bad or the job must fail; the effects are then void.
    pub fn process_elements(
        &mut self,
        batch: &Batch<'_>,
        elements: &Elements<'_>,
        host: &mut dyn Host,
        effects: &mut Effects,
    ) -> Result<u32, BatchFailure> {
        let rows = elements.payload.len();
        self.begin(batch, elements.slot, effects)?;
        let Self { detector: Some(detector), keys, .. } = self else { return Err(not_open()) };
        let mut ctx = Context { core: core(batch, host, effects, None), keys };
        for row in 0..rows {
            let id = u32::try_from(row).unwrap_or(u32::MAX);
            ctx.core.enter_element(id, elements.slot.get(row).copied().unwrap_or(0), elements.time(row));
            let element = postcard::from_bytes(elements.payload.get(row)).map_err(|error| {
                BatchFailure::BadRecord(id, format!("the record does not decode as {}: {error}", type_name::<D::Input<'_>>()))
            })?;
            detector.process_element(element, &mut ctx).map_err(|failure| failure.at(id))?;
        }
        let fault = ctx.core.fault.take();
        finish(detector, fault, effects)?;
        Ok(u32::try_from(rows).unwrap_or(u32::MAX))
    }

    /// Fires timers in the order of time and slot, and those that are registered meanwhile for a time up to the horizon. Returns how many
    /// rows were consumed: all of them.
    ///
    /// # Errors
    /// A timer is bad or the job must fail; the effects are then void.
    pub fn on_timers(
        &mut self,
        batch: &Batch<'_>,
        timers: &Timers<'_>,
        host: &mut dyn Host,
        effects: &mut Effects,
    ) -> Result<u32, BatchFailure> {
        let rows = timers.timestamp.len();
        self.begin(batch, timers.slot, effects)?;
        let Some(domain) = TimeDomain::from_code(timers.domain) else {
            return Err(BatchFailure::Fatal(format!("the host sent timers of the unknown domain {}", timers.domain)));
        };
        let Self { detector: Some(detector), keys, memory, .. } = self else { return Err(not_open()) };
        let mut ctx = Context { core: core(batch, host, effects, Some(Pass::new(timers, memory))), keys };
        while let Some(due) = ctx.core.next_timer() {
            ctx.core.enter_timer(due, domain);
            let timer = Timer { timestamp: due.timestamp, domain };
            detector.on_timer(timer, &mut ctx).map_err(|failure| failure.at(due.row))?;
        }
        let fault = ctx.core.fault.take();
        finish(detector, fault, effects)?;
        Ok(u32::try_from(rows).unwrap_or(u32::MAX))
    }

    /// Processes broadcast records in order. Returns how many were consumed: all of them.
    ///
    /// # Errors
    /// A record is bad or the job must fail; the effects are then void.
    pub fn process_broadcast_elements(
        &mut self,
        batch: &Batch<'_>,
        elements: &Elements<'_>,
        host: &mut dyn Host,
        effects: &mut Effects,
    ) -> Result<u32, BatchFailure> {
        let rows = elements.payload.len();
        self.begin(batch, &[], effects)?;
        let Some(process) = D::broadcast().map(|input| input.process) else {
            return Err(BatchFailure::Fatal("the host sent broadcast records to a detector that takes none".to_owned()));
        };
        let Some(detector) = &mut self.detector else { return Err(not_open()) };
        let mut ctx = BroadcastContext { core: core(batch, host, effects, None), detector: PhantomData };
        for row in 0..rows {
            let id = u32::try_from(row).unwrap_or(u32::MAX);
            ctx.core.enter_element(id, 0, elements.time(row));
            process(detector, elements.payload.get(row), &mut ctx).map_err(|failure| failure.at(id))?;
        }
        let fault = ctx.core.fault.take();
        finish(detector, fault, effects)?;
        Ok(u32::try_from(rows).unwrap_or(u32::MAX))
    }

    /// Checks what indexing relies on, and forgets the last batch.
    fn begin(&mut self, batch: &Batch<'_>, slots: &[u32], effects: &mut Effects) -> Result<(), BatchFailure> {
        effects.clear();
        let keys = batch.keys.len();
        // An operator without keys has one slot that nothing is stored under.
        let known = keys.max(1);
        if (batch.values.len(), batch.entries.len()) != self.columns || !slots.iter().all(|&slot| (slot as usize) < known) {
            return Err(BatchFailure::Fatal("the host sent a batch that does not fit the detector's states and slots".to_owned()));
        }
        self.keys.clear();
        self.keys.resize_with(keys, OnceCell::new);
        if let Some(detector) = &mut self.detector {
            detector.begin(known);
        }
        Ok(())
    }
}

fn core<'b>(batch: &'b Batch<'b>, host: &'b mut dyn Host, effects: &'b mut Effects, pass: Option<Pass<'b>>) -> Core<'b> {
    Core { batch, host, effects, pass, row: 0, slot: 0, timestamp: None, output_timestamp: None, fault: None }
}

fn finish<D: KeyedProcessFunction>(detector: &mut D, fault: Option<String>, effects: &mut Effects) -> Result<(), BatchFailure> {
    match fault {
        Some(fault) => Err(BatchFailure::Fatal(fault)),
        None => detector.finish(&mut effects.writes).map_err(|failure| failure.at(0)),
    }
}

fn not_open() -> BatchFailure {
    BatchFailure::Fatal("the host sent a batch to a detector that is not open".to_owned())
}

#[cfg(test)]
pub(crate) mod tests;
