//! A detector that gives the answers it is told to.

use std::sync::{Arc, Mutex, PoisonError};

use tidemill_core::detector::{CallContext, Detector, DetectorFactory, Elements, Failure, Reads, Timers};
use tidemill_core::effects::Effects;
use tidemill_wit::descriptor::Descriptor;

/// The answer to the next call. A call without one consumes all rows and has no effects.
#[derive(Clone, Default)]
pub(super) struct Next(Arc<Mutex<Option<(u32, Effects)>>>);

impl Next {
    pub(super) fn set(&self, consumed: u32, effects: Effects) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((consumed, effects));
    }

    fn answer(&self, rows: usize, effects: &mut Effects) -> Result<u32, Failure> {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some((consumed, answer)) => {
                *effects = answer;
                Ok(consumed)
            }
            None => u32::try_from(rows).map_err(|_| Failure::Fatal("too many rows".to_owned())),
        }
    }
}

/// Makes such detectors in the place of another.
pub(super) struct Replay {
    pub(super) factory: Arc<dyn DetectorFactory>,
    pub(super) next: Next,
}

impl DetectorFactory for Replay {
    fn descriptor(&self) -> &Descriptor {
        self.factory.descriptor()
    }

    fn open(&self, _: &[u8]) -> Result<Box<dyn Detector>, Failure> {
        Ok(Box::new(self.next.clone()))
    }
}

impl Detector for Next {
    fn process_elements(
        &mut self,
        _: &CallContext<'_>,
        elements: &Elements<'_>,
        _: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        self.answer(elements.timestamp.len(), effects)
    }

    fn on_timers(&mut self, _: &CallContext<'_>, timers: &Timers<'_>, _: &mut Reads, effects: &mut Effects) -> Result<u32, Failure> {
        self.answer(timers.slot.len(), effects)
    }

    fn process_broadcast_elements(
        &mut self,
        _: &CallContext<'_>,
        elements: &Elements<'_>,
        _: &mut Reads,
        effects: &mut Effects,
    ) -> Result<u32, Failure> {
        self.answer(elements.timestamp.len(), effects)
    }
}
