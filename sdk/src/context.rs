//! What a detector sees of the world while it processes a record or a timer.

use std::cell::OnceCell;

use serde::Serialize;
use tidemill_wit::descriptor::timer_op;

use crate::columns::Batch;
use crate::effects::Effects;
use crate::function::KeyedProcessFunction;
use crate::host::{Host, Level};
use crate::timers::{Due, Pass, TimeDomain};
use crate::{Failure, encode, ordered};

/// The context of one record or timer: its time and key, the timer service and the main output. State, side outputs and tables are reached
/// through the detector's handles, which take the context along.
pub struct Context<'b, D: KeyedProcessFunction> {
    pub(crate) core: Core<'b>,
    pub(crate) keys: &'b [OnceCell<D::Key>],
}

/// What `open` may do.
pub struct OpenContext<'a> {
    pub(crate) host: &'a mut dyn Host,
}

/// Any context of a running batch: of a record, a timer or a broadcast record.
pub trait AnyContext<'b>: sealed::Sealed {
    /// What all contexts share; not for use by hand.
    #[doc(hidden)]
    fn core(&mut self) -> &mut Core<'b>;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

impl<D: KeyedProcessFunction> sealed::Sealed for Context<'_, D> {}

impl<'b, D: KeyedProcessFunction> AnyContext<'b> for Context<'b, D> {
    #[inline]
    fn core(&mut self) -> &mut Core<'b> {
        &mut self.core
    }
}

/// The part of a context that does not depend on the detector's types.
#[doc(hidden)]
pub struct Core<'b> {
    pub(crate) batch: &'b Batch<'b>,
    pub(crate) host: &'b mut dyn Host,
    pub(crate) effects: &'b mut Effects,
    pub(crate) pass: Option<Pass<'b>>,
    pub(crate) row: u32,
    pub(crate) slot: u32,
    pub(crate) timestamp: Option<i64>,
    pub(crate) output_timestamp: Option<i64>,
    pub(crate) fault: Option<String>,
}

impl<'b, D: KeyedProcessFunction> Context<'b, D> {
    /// The event time of the record, in milliseconds, if it has one; in `on_timer` the time of the timer.
    #[must_use]
    pub fn timestamp(&self) -> Option<i64> {
        self.core.timestamp
    }

    /// The key of the record or timer. It is decoded once a batch.
    ///
    /// # Errors
    /// The key is not of the detector's key type; the job fails.
    pub fn key(&self) -> Result<&'b D::Key, Failure> {
        let Some(cell) = self.keys.get(self.core.slot as usize) else {
            return Err(Failure::fatal("the operator has no key: name its fields in the job spec's key_by"));
        };
        if let Some(key) = cell.get() {
            return Ok(key);
        }
        let decoded = ordered::from_bytes(self.core.batch.keys.get(self.core.slot as usize));
        let key =
            decoded.map_err(|error| Failure::Fatal(format!("the key does not decode as {}: {error}", encode::type_name::<D::Key>())))?;
        Ok(cell.get_or_init(|| key))
    }

    /// The watermark, in milliseconds: no record with this time or an earlier one is expected any more. `i64::MIN` before the first,
    /// `i64::MAX` at the end of input.
    #[must_use]
    pub fn current_watermark(&self) -> i64 {
        self.core.batch.watermark
    }

    /// The processing time, in milliseconds since the epoch; the same for a whole batch.
    #[must_use]
    pub fn current_processing_time(&self) -> i64 {
        self.core.batch.processing_time
    }

    /// Has `on_timer` called for this key when the watermark reaches `timestamp`. A timer that exists already is not registered again. One
    /// at or before the current watermark fires with the next watermark, or in the running pass if registered in `on_timer`.
    pub fn register_event_time_timer(&mut self, timestamp: i64) {
        self.core.register(TimeDomain::EventTime, timestamp);
    }

    /// Deletes an event-time timer of this key; does nothing if there is none.
    pub fn delete_event_time_timer(&mut self, timestamp: i64) {
        self.core.delete(TimeDomain::EventTime, timestamp);
    }

    /// Has `on_timer` called for this key when the wall clock is past `timestamp`.
    pub fn register_processing_time_timer(&mut self, timestamp: i64) {
        self.core.register(TimeDomain::ProcessingTime, timestamp);
    }

    /// Deletes a processing-time timer of this key; does nothing if there is none.
    pub fn delete_processing_time_timer(&mut self, timestamp: i64) {
        self.core.delete(TimeDomain::ProcessingTime, timestamp);
    }

    /// Emits a record on the main lane. Its timestamp is the processed record's, or the event-time timer's; a processing-time timer's output
    /// has none.
    #[inline]
    pub fn emit(&mut self, record: &D::Output<'_>) {
        self.core.emit(0, record);
    }

    /// Writes a line to the job's log.
    pub fn log(&mut self, level: Level, message: &str) {
        self.core.host.log(level, message);
    }

    /// Adds to a counter of the operator.
    pub fn count(&mut self, counter: &str, n: u64) {
        self.core.host.count(counter, n);
    }
}

impl OpenContext<'_> {
    /// Writes a line to the job's log.
    pub fn log(&mut self, level: Level, message: &str) {
        self.host.log(level, message);
    }
}

impl Core<'_> {
    /// Moves on to a record.
    #[inline]
    pub(crate) fn enter_element(&mut self, row: u32, slot: u32, timestamp: Option<i64>) {
        (self.row, self.slot, self.timestamp, self.output_timestamp) = (row, slot, timestamp, timestamp);
    }

    /// Moves on to a timer.
    pub(crate) fn enter_timer(&mut self, due: Due, domain: TimeDomain) {
        (self.row, self.slot, self.timestamp) = (due.row, due.slot, Some(due.timestamp));
        self.output_timestamp = (domain == TimeDomain::EventTime).then_some(due.timestamp);
    }

    /// The next timer of the pass.
    pub(crate) fn next_timer(&mut self) -> Option<Due> {
        self.pass.as_mut()?.next()
    }

    #[inline]
    pub(crate) fn emit<T: Serialize + ?Sized>(&mut self, lane: u8, record: &T) {
        let outputs = &mut self.effects.outputs;
        match encode::append(record, &mut outputs.payload.bytes) {
            Ok(()) => outputs.finish(lane, self.row, self.output_timestamp),
            Err(error) => {
                outputs.payload.abandon();
                self.fault(error);
            }
        }
    }

    /// Notes a fault of the detector itself; the batch then fails the job. So that calls which go wrong only through a programming mistake
    /// need not return a result.
    #[cold]
    pub(crate) fn fault(&mut self, text: String) {
        self.fault.get_or_insert(text);
    }

    fn register(&mut self, domain: TimeDomain, timestamp: i64) {
        if self.unkeyed() {
            return;
        }
        if !self.pass.as_mut().is_some_and(|pass| pass.register(domain, (timestamp, self.slot), self.row)) {
            self.effects.timers.push(timer_op::REGISTER, domain as u8, self.slot, timestamp);
        }
    }

    fn delete(&mut self, domain: TimeDomain, timestamp: i64) {
        if self.unkeyed() {
            return;
        }
        if !self.pass.as_mut().is_some_and(|pass| pass.delete(domain, (timestamp, self.slot))) {
            self.effects.timers.push(timer_op::DELETE, domain as u8, self.slot, timestamp);
        }
    }

    fn unkeyed(&mut self) -> bool {
        let unkeyed = self.batch.keys.is_empty();
        if unkeyed {
            self.fault("a detector without a key cannot have timers: give it a key, and its operator a key_by".to_owned());
        }
        unkeyed
    }
}
