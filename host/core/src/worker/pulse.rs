//! What a worker is doing at this moment, for a thread that has to say so while the worker cannot answer.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::Stopwatch;

/// Which operator of a worker has its turn, and since when.
#[derive(Debug)]
pub struct Pulse {
    /// The index of its node in the graph; [`usize::MAX`] for none.
    node: AtomicUsize,
    /// Since when, in nanoseconds of the worker's stopwatch.
    since: AtomicU64,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { node: AtomicUsize::new(usize::MAX), since: AtomicU64::new(0) }
    }
}

impl Pulse {
    pub(super) fn begin(&self, node: usize, stopwatch: Stopwatch) {
        self.since.store(u64::try_from(stopwatch().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.node.store(node, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.node.store(usize::MAX, Ordering::Release);
    }

    /// The operator that has its turn, as the index of its node, and when the turn began by the worker's stopwatch. Both may be those of
    /// two turns that follow each other, so a long turn is only told late.
    #[must_use]
    pub fn look(&self) -> Option<(usize, Duration)> {
        let node = self.node.load(Ordering::Acquire);
        (node != usize::MAX).then(|| (node, Duration::from_nanos(self.since.load(Ordering::Relaxed))))
    }
}
