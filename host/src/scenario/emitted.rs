//! What the operator emits, in the order in which one subtask alone would.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tidemill_core::batch::Origin;
use tidemill_core::operator::Observer;

/// A record that an operator has emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Emission {
    /// The index of its lane.
    pub(super) lane: usize,
    /// The record.
    pub(super) payload: Vec<u8>,
    /// Its event time.
    pub(super) time: Option<i64>,
    subtask: u32,
    origin: Origin,
}

/// Writes down what an operator emits.
#[derive(Default)]
pub(super) struct Recorder {
    seen: Mutex<Vec<Emission>>,
}

impl Observer for Recorder {
    fn emitted(&self, subtask: u32, lane: usize, payload: &[u8], time: Option<i64>, origin: Origin) {
        let emission = Emission { lane, payload: payload.to_vec(), time, subtask, origin };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(emission);
    }
}

impl Recorder {
    /// Takes what was emitted since the last call, all of it caused by records, or all by timers of one clock.
    ///
    /// Which subtask emits first is chance. A subtask alone would take records as they come, and timers by time, key group and key; each of
    /// several has a range of the key groups, in ascending order. So the one whose next emission has the earlier cause comes first, and the
    /// lower subtask where causes are equal.
    pub(super) fn take(&self) -> Vec<Emission> {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let subtasks = seen.iter().map(|emission| emission.subtask as usize + 1).max().unwrap_or(0);
        let mut queues: Vec<VecDeque<Emission>> = vec![VecDeque::new(); subtasks];
        let total = seen.len();
        for emission in seen {
            if let Some(queue) = queues.get_mut(emission.subtask as usize) {
                queue.push_back(emission);
            }
        }
        let mut merged = Vec::with_capacity(total);
        while let Some(queue) = queues.iter_mut().filter(|queue| !queue.is_empty()).min_by_key(|queue| queue.front().map(cause)) {
            merged.extend(queue.pop_front());
        }
        merged
    }
}

/// What orders causes of one kind: the time of a timer, the number of a step. The origin of what a timer emits that was registered by
/// another, and fired in the same call, is the other; the time of what an event-time timer emits is its own.
fn cause(emission: &Emission) -> i64 {
    match emission.origin.timer_time() {
        Some(timer) => emission.time.unwrap_or(timer),
        None => emission.origin.position.cast_signed(),
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::batch::Origin;
    use tidemill_core::operator::Observer as _;

    use super::Recorder;

    #[test]
    fn subtasks_are_merged_by_cause_and_keep_their_own_order() {
        let recorder = Recorder::default();
        // A timer at 50 registers one at 20, which fires next although it is earlier.
        for (subtask, time) in [(1, 30), (1, 60), (0, 50), (0, 20), (0, 60)] {
            recorder.emitted(subtask, 0, b"", Some(time), Origin::timer(time));
        }
        let times: Vec<_> = recorder.take().into_iter().map(|emission| (emission.subtask, emission.time.unwrap())).collect();
        assert_eq!(times, [(1, 30), (0, 50), (0, 20), (0, 60), (1, 60)]);
        assert_eq!(recorder.take(), []);
        // In the call for 10, the timer at 30 was registered and fired.
        for (subtask, time, origin) in [(0, 10, 10), (0, 30, 10), (1, 20, 20)] {
            recorder.emitted(subtask, 0, b"", Some(time), Origin::timer(origin));
        }
        assert_eq!(recorder.take().iter().map(|emission| emission.time.unwrap()).collect::<Vec<_>>(), [10, 20, 30]);
    }
}
