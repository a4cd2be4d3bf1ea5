//! A stopwatch on which anything takes any time at all: calls seem slow or fast at random, so that batches, timer passes and queues are cut
//! anywhere. Nothing may come of it.

use std::cell::RefCell;
use std::time::Duration;

use fastrand::Rng;
use tidemill_core::worker::Stopwatch;

thread_local! {
    static STATE: RefCell<(Rng, Duration)> = const { RefCell::new((Rng::with_seed(0), Duration::ZERO)) };
}

/// What a look at the stopwatch may take, in microseconds.
const STEPS: [u64; 6] = [0, 0, 10, 1_000, 30_000, 70_000];

/// The stopwatch of this thread, on which times follow from a seed.
#[must_use]
pub fn random(seed: u64) -> Stopwatch {
    STATE.with_borrow_mut(|state| *state = (Rng::with_seed(seed), Duration::ZERO));
    || {
        STATE.with_borrow_mut(|(rng, time)| {
            *time += Duration::from_micros(STEPS.get(rng.usize(..STEPS.len())).copied().unwrap_or_default());
            *time
        })
    }
}
