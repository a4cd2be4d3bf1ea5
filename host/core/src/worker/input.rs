//! The input of an operator's or sink's subtask: its channels, read in the order that keeps them together in time.

use crate::align::{Aligner, Outcome};
use crate::batch::Batch;
use crate::exchange::{Barrier, Element, Receiver};

/// The channels of one subtask and their alignment.
pub(super) struct Input {
    channels: Vec<Receiver>,
    aligner: Aligner,
    /// Where the search for the next channel begins among equals, so that none is starved.
    turn: usize,
}

/// What the input gives next.
pub(super) enum Next {
    /// Records.
    Batch(Batch),
    /// The watermark or the status changed (or neither, after an element that changed nothing).
    Outcome(Outcome),
    /// All channels have reached the barrier.
    Barrier(Barrier),
    /// All channels have ended.
    End,
}

impl Input {
    pub(super) fn new(channels: Vec<Receiver>) -> Self {
        let aligner = Aligner::new(channels.len());
        Self { channels, aligner, turn: 0 }
    }

    /// Takes the next element from the readable channel whose watermark is furthest behind. `None`: nothing is there.
    pub(super) fn next(&mut self) -> Option<Next> {
        let count = self.channels.len();
        let candidates = (0..count).map(|offset| (self.turn + offset) % count.max(1));
        let ready =
            candidates.filter(|&index| self.aligner.readable(index) && self.channels.get(index).is_some_and(|channel| !channel.is_empty()));
        let index = ready.min_by_key(|&index| self.aligner.watermark_of(index))?;
        self.turn = index + 1;
        let element = self.channels.get_mut(index)?.receive()?;
        Some(match element {
            Element::Batch(batch) => Next::Batch(batch),
            Element::Watermark(watermark) => Next::Outcome(self.aligner.watermark(index, watermark)),
            Element::Status(idle) => Next::Outcome(self.aligner.status(index, idle)),
            Element::Barrier(barrier) => match self.aligner.barrier(index, barrier) {
                Some(complete) => Next::Barrier(complete),
                None => Next::Outcome(Outcome::default()),
            },
            Element::End if self.aligner.end(index) => Next::End,
            Element::End => Next::Outcome(Outcome::default()),
        })
    }

    /// Whether some channels wait for the barrier of others.
    pub(super) fn is_aligning(&self) -> bool {
        self.aligner.is_aligning()
    }

    /// Takes a barrier that is next on a channel, if there is one: while a timer pass goes on, only barriers are read. One that drains
    /// waits for the end of the pass.
    pub(super) fn next_barrier(&mut self) -> Option<Barrier> {
        for index in 0..self.channels.len() {
            if !self.aligner.readable(index) {
                continue;
            }
            let next = self.channels.get_mut(index).and_then(|channel| channel.receive_barrier(|barrier| !barrier.drain));
            if let Some(complete) = next.and_then(|barrier| self.aligner.barrier(index, barrier)) {
                return Some(complete);
            }
        }
        None
    }
}
