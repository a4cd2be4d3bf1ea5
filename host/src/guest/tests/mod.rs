//! Guests that lie, loop, trap and grow, and the honest ones beside them.

mod calls;
mod changed;
mod contract;
mod hostile;
mod state;
mod uploads;
mod wat;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidemill_core::Timestamp;
use tidemill_core::detector::{CallContext, Detector, DetectorFactory, Elements, Failure, Prefetched, Reads, SlotKeys};
use tidemill_core::effects::Effects;
use tidemill_wit::columns::BlobsBuf;

use self::wat::Guest;
use super::{GuestEngine, GuestFactory, Limits};

/// The deadline is for tests of it to shorten: no other may meet it, however busy the machine is.
const LIMITS: Limits = Limits { memory: 4 << 20, deadline: Duration::from_secs(600), output: 1 << 20, table: 100_000, stack: 512 << 10 };

fn engine() -> &'static GuestEngine {
    static ENGINE: OnceLock<GuestEngine> = OnceLock::new();
    ENGINE.get_or_init(|| GuestEngine::new().unwrap())
}

fn factory(guest: &Guest) -> GuestFactory {
    let component = engine().load("hand.wasm", &guest.build(), None).unwrap_or_else(|error| panic!("{}", error.chain()));
    GuestFactory::new(component, LIMITS).unwrap()
}

fn open(guest: &Guest) -> Box<dyn Detector> {
    factory(guest).open(&[]).unwrap_or_else(|failure| panic!("{failure:?}"))
}

/// A call with two rows of one key.
struct Call {
    reads: Reads,
    effects: Effects,
    prefetched: Prefetched,
}

impl Call {
    fn new() -> Self {
        let mut slots = SlotKeys::default();
        slots.keys.push(b"key");
        slots.hashes.push(1);
        slots.groups.push(tidemill_core::key_group::KeyGroup::default());
        Self { reads: Reads { slots: Arc::new(slots), ..Reads::default() }, effects: Effects::default(), prefetched: Prefetched::default() }
    }

    fn elements(&mut self, detector: &mut dyn Detector) -> Result<u32, Failure> {
        self.rows(detector, &[b"one", b"two!"])
    }

    fn rows(&mut self, detector: &mut dyn Detector, rows: &[&[u8]; 2]) -> Result<u32, Failure> {
        let mut payload = BlobsBuf::default();
        rows.iter().for_each(|row| payload.push(row));
        let slots = Arc::clone(&self.reads.slots);
        let context =
            CallContext { watermark: Timestamp(5), processing_time: Timestamp(6), keys: slots.keys.view(), prefetched: &self.prefetched };
        let elements = Elements { slot: &[0, 0], timestamp: &[10, 20], timed: &[1, 0], payload: payload.view() };
        detector.process_elements(&context, &elements, &mut self.reads, &mut self.effects)
    }

    fn broadcast(&mut self, detector: &mut dyn Detector) -> Result<u32, Failure> {
        let mut payload = BlobsBuf::default();
        payload.push(b"one");
        payload.push(b"two!");
        let keys = BlobsBuf::default();
        let context =
            CallContext { watermark: Timestamp(5), processing_time: Timestamp(6), keys: keys.view(), prefetched: &self.prefetched };
        let elements = Elements { slot: &[], timestamp: &[10, 20], timed: &[1, 0], payload: payload.view() };
        detector.process_broadcast_elements(&context, &elements, &mut self.reads, &mut self.effects)
    }
}

/// The text of a trap.
#[track_caller]
fn trapped(answer: Result<u32, Failure>) -> String {
    match answer {
        Err(Failure::Trap(text)) => text,
        other => panic!("{other:?}"),
    }
}
