//! What leaves the operator.

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use tidemill_core::batch::Origin;
use tidemill_core::exchange::{Edge, Observed, Outputs};
use tidemill_core::operator::Observer;

use super::native::lock;

/// Collects the records of all lanes, in the order of emission.
#[derive(Default)]
pub(super) struct Emitted(Mutex<Vec<Output>>);

/// A record that came out.
pub(super) struct Output {
    pub(super) lane: usize,
    pub(super) timestamp: Option<i64>,
    pub(super) payload: Vec<u8>,
}

impl Emitted {
    /// The outputs of an operator with so many lanes and the one of dead letters.
    pub(super) fn outputs(emitted: &Arc<Self>, lanes: usize) -> Outputs {
        let mut outputs = Outputs::new(lanes + 1);
        for lane in 0..=lanes {
            let observer: Arc<dyn Observer> = Arc::<Self>::clone(emitted);
            outputs.connect(lane, Edge::Observed(Observed { subtask: 0, lane, observer }));
        }
        outputs
    }

    pub(super) fn take(&self) -> Vec<Output> {
        std::mem::take(&mut lock(&self.0))
    }
}

impl Observer for Emitted {
    fn emitted(&self, _: u32, lane: usize, payload: &[u8], timestamp: Option<i64>, _: Origin) {
        lock(&self.0).push(Output { lane, timestamp, payload: payload.to_vec() });
    }
}

/// A record or timer that the detector called bad: what a job writes to the lane `UID.dead-letter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// What is wrong with it.
    pub reason: String,
    /// Its event time, in milliseconds.
    pub timestamp: Option<i64>,
    /// The record as JSON; for a timer `{domain, timestamp, key}`.
    pub value: String,
}

/// As the engine encodes it.
#[derive(Deserialize)]
struct Encoded {
    _operator: String,
    reason: String,
    _source: Option<String>,
    _position: Option<String>,
    timestamp: Option<i64>,
    value: String,
}

impl DeadLetter {
    pub(super) fn read(payload: &[u8]) -> Result<Self, String> {
        let letter = postcard::from_bytes(payload).map_err(|error| format!("a dead letter does not decode: {error}"))?;
        let Encoded { reason, timestamp, value, .. } = letter;
        Ok(Self { reason, timestamp, value })
    }
}
