//! The second input of a detector, whose records reach every subtask.

use std::marker::PhantomData;

use serde::Deserialize;
use tidemill_wit::schema::TypeTable;

use crate::context::{AnyContext, Core, sealed};
use crate::encode::type_name;
use crate::function::KeyedProcessFunction;
use crate::host::Level;
use crate::schema::table_of;
use crate::{Failure, Schema};

/// A [`KeyedProcessFunction`] with a broadcast input, in the shape of Flink's `KeyedBroadcastProcessFunction`: rules or settings whose records
/// reach every subtask. Mark the detector `#[detector(broadcast)]`; the job spec names the streams under `broadcast`.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tidemill_sdk::testing::Harness;
/// use tidemill_sdk::{BroadcastContext, BroadcastState, Context, Detector, Failure};
/// use tidemill_sdk::{KeyedBroadcastProcessFunction, KeyedProcessFunction, Schema};
///
/// #[derive(Serialize, Deserialize, Schema)]
/// struct Rule {
///     name: String,
///     limit: i64,
/// }
///
/// #[derive(Detector)]
/// #[detector(broadcast)]
/// struct Limits {
///     rules: BroadcastState<String, i64>,
/// }
///
/// impl KeyedProcessFunction for Limits {
///     type Key = String;
///     type Input<'a> = i64;
///     type Output<'a> = String;
///
///     fn process_element(&mut self, amount: i64, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
///         let mut broken = Vec::new();
///         self.rules.for_each(ctx, |name, limit| {
///             broken.extend((amount > *limit).then(|| name.clone()));
///             Ok(())
///         })?;
///         broken.iter().for_each(|name| ctx.emit(name));
///         Ok(())
///     }
/// }
///
/// impl KeyedBroadcastProcessFunction for Limits {
///     type Broadcast<'a> = Rule;
///
///     fn process_broadcast_element(&mut self, rule: Rule, ctx: &mut BroadcastContext<'_, Self>) -> Result<(), Failure> {
///         self.rules.put(ctx, &rule.name, rule.limit);
///         Ok(())
///     }
/// }
///
/// let mut harness = Harness::<Limits>::open(&())?;
/// harness.broadcast(0, &Rule { name: "high".to_owned(), limit: 100 })?;
/// harness.element(&"a".to_owned(), 1, &99)?;
/// harness.element(&"a".to_owned(), 2, &101)?;
/// assert_eq!(harness.outputs::<String>("main")?, [(Some(2), "high".to_owned())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeyedBroadcastProcessFunction: KeyedProcessFunction {
    /// A record of the broadcast input. It may borrow from the batch.
    type Broadcast<'a>: Schema + Deserialize<'a>;

    /// Called for every record of the broadcast input, in every subtask. What it writes must follow from the record and the broadcast states
    /// alone, so that all subtasks hold the same. Records of one split come in the same order everywhere; those of several splits may not, so let
    /// the outcome not hang on their order. What it emits, every subtask emits.
    ///
    /// # Errors
    /// The record is bad, or the job must fail. Nothing that the call did takes effect.
    fn process_broadcast_element(&mut self, element: Self::Broadcast<'_>, ctx: &mut BroadcastContext<'_, Self>) -> Result<(), Failure>;
}

/// The context of one broadcast record: it has no key, so it reaches neither keyed state nor timers.
pub struct BroadcastContext<'b, D> {
    pub(crate) core: Core<'b>,
    pub(crate) detector: PhantomData<fn() -> D>,
}

impl<D: KeyedProcessFunction> BroadcastContext<'_, D> {
    /// The event time of the record, in milliseconds, if it has one.
    #[must_use]
    pub fn timestamp(&self) -> Option<i64> {
        self.core.timestamp
    }

    /// The watermark, in milliseconds, as [`Context::current_watermark`](crate::Context::current_watermark).
    #[must_use]
    pub fn current_watermark(&self) -> i64 {
        self.core.batch.watermark
    }

    /// The processing time, in milliseconds since the epoch. It differs between subtasks: keep it out of the state.
    #[must_use]
    pub fn current_processing_time(&self) -> i64 {
        self.core.batch.processing_time
    }

    /// Emits a record on the main lane, with the timestamp of the broadcast record: every subtask does.
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

impl<D> sealed::Sealed for BroadcastContext<'_, D> {}

impl<'b, D> AnyContext<'b> for BroadcastContext<'b, D> {
    fn core(&mut self) -> &mut Core<'b> {
        &mut self.core
    }
}

/// How a detector takes broadcast records: what `#[detector(broadcast)]` expands to.
pub struct BroadcastInput<D> {
    pub(crate) schema: TypeTable,
    pub(crate) process: Process<D>,
}

/// Decodes a record and gives it to the detector.
pub(crate) type Process<D> = fn(&mut D, &[u8], &mut BroadcastContext<'_, D>) -> Result<(), Failure>;

impl<D: KeyedBroadcastProcessFunction> Default for BroadcastInput<D> {
    fn default() -> Self {
        Self { schema: table_of::<D::Broadcast<'_>>(), process }
    }
}

fn process<D: KeyedBroadcastProcessFunction>(detector: &mut D, record: &[u8], ctx: &mut BroadcastContext<'_, D>) -> Result<(), Failure> {
    let element = postcard::from_bytes(record).map_err(|error| {
        Failure::BadRecord(format!("the broadcast record does not decode as {}: {error}", type_name::<D::Broadcast<'_>>()))
    })?;
    detector.process_broadcast_element(element, ctx)
}

#[cfg(test)]
mod tests;
