//! Detectors in a mood: they trap now and then, stop amid a batch, and call some records bad. None of it may change what comes of the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use tidemill_core::detector::{CallContext, Detector, DetectorFactory, Elements, Failure, Reads, Timers};
use tidemill_core::effects::Effects;
use tidemill_wit::columns::Blobs;
use tidemill_wit::descriptor::Descriptor;

/// What makes a record bad.
pub const MARK: &str = "BAD-";

/// Makes moody instances of a detector.
pub struct Moody {
    factory: Arc<dyn DetectorFactory>,
    /// How many instances there were: each has its own luck.
    opened: AtomicU64,
}

impl Moody {
    /// Around this detector.
    #[must_use]
    pub fn new(factory: Arc<dyn DetectorFactory>) -> Self {
        Self { factory, opened: AtomicU64::new(0) }
    }
}

impl DetectorFactory for Moody {
    fn descriptor(&self) -> &Descriptor {
        self.factory.descriptor()
    }

    fn open(&self, parameters: &[u8]) -> Result<Box<dyn Detector>, Failure> {
        let rng = Rng::with_seed(self.opened.fetch_add(1, Ordering::Relaxed));
        Ok(Box::new(Instance { detector: self.factory.open(parameters)?, rng }))
    }
}

struct Instance {
    detector: Box<dyn Detector>,
    rng: Rng,
}

impl Instance {
    /// A trap that one row alone does not cause.
    fn trap(&mut self, rows: usize) -> Result<(), Failure> {
        if rows > 1 && self.rng.u8(..40) == 0 { Err(Failure::Trap("in a mood".to_owned())) } else { Ok(()) }
    }
}

impl Detector for Instance {
    fn process_elements(
        &mut self,
        context: &CallContext<'_>,
        elements: &Elements<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        let rows = elements.timestamp.len();
        self.trap(rows)?;
        let bad = |payload: &[u8]| payload.windows(MARK.len()).any(|bytes| bytes == MARK.as_bytes());
        if let Some(row) = (0u32..).zip(elements.payload.iter()).find_map(|(row, payload)| bad(payload).then_some(row)) {
            let reason = "it is marked as bad".to_owned();
            return Err(if self.rng.bool() { Failure::BadRecord { row, reason } } else { Failure::Trap(reason) });
        }
        let rows = if rows > 1 && self.rng.u8(..8) == 0 { self.rng.usize(1..rows) } else { rows };
        self.detector.process_elements(context, &first(elements, rows), reads, effects)
    }

    fn on_timers(
        &mut self,
        context: &CallContext<'_>,
        timers: &Timers<'_>,
        reads: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        self.trap(timers.timestamp.len())?;
        self.detector.on_timers(context, timers, reads, effects)
    }
}

/// The first rows of a batch.
fn first<'a>(elements: &Elements<'a>, rows: usize) -> Elements<'a> {
    let Blobs { bytes, ends } = elements.payload;
    let ends = ends.get(..rows).unwrap_or(ends);
    let len = ends.last().map_or(0, |end| *end as usize);
    Elements {
        slot: elements.slot.get(..rows).unwrap_or(elements.slot),
        timestamp: elements.timestamp.get(..rows).unwrap_or(elements.timestamp),
        timed: elements.timed.get(..rows).unwrap_or(elements.timed),
        payload: Blobs { bytes: bytes.get(..len).unwrap_or(bytes), ends },
    }
}
