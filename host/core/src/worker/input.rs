//! The input of an operator's or sink's subtask: its channels, read in the order that keeps them together in time.

use crate::Timestamp;
use crate::align::{Aligner, Outcome};
use crate::batch::Batch;
use crate::exchange::{Barrier, Element, Purpose, Receiver};

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

    /// Takes the next element from the readable channel whose watermark is furthest behind, and those after it as long as they change
    /// nothing: at a barrier all channels have one, of which only the last means anything. `None`: nothing is there.
    pub(super) fn next(&mut self) -> Option<Next> {
        let mut taken = None;
        for _ in 0..self.channels.len() {
            match self.take() {
                None => break,
                Some(Next::Outcome(outcome)) if outcome == Outcome::default() => taken = Some(Next::Outcome(outcome)),
                next => return next,
            }
        }
        taken
    }

    fn take(&mut self) -> Option<Next> {
        let index = self.furthest_behind()?;
        self.turn = index + 1;
        let element = self.channels.get_mut(index)?.receive()?;
        Some(self.next_of(index, element))
    }

    /// What an element of a channel means for the whole input.
    fn next_of(&mut self, index: usize, element: Element) -> Next {
        match element {
            Element::Batch(batch) => Next::Batch(batch),
            Element::Watermark(watermark) => Next::Outcome(self.aligner.watermark(index, watermark)),
            Element::Status(idle) => Next::Outcome(self.aligner.status(index, idle)),
            Element::Barrier(barrier) => match self.aligner.barrier(index, barrier) {
                Some(complete) => Next::Barrier(complete),
                None => Next::Outcome(Outcome::default()),
            },
            Element::End if self.aligner.end(index) => Next::End,
            Element::End => Next::Outcome(Outcome::default()),
        }
    }

    /// The readable channel that is furthest behind among those with an element.
    fn furthest_behind(&self) -> Option<usize> {
        let count = self.channels.len();
        let readable = || (0..count).map(|offset| (self.turn + offset) % count).filter(|&index| self.aligner.readable(index));
        // Looking into a queue costs much more than looking at a watermark, so the search ends where no other can be further behind.
        let least = readable().map(|index| self.aligner.watermark_of(index)).min()?;
        let mut best: Option<(Timestamp, usize)> = None;
        for index in readable() {
            let watermark = self.aligner.watermark_of(index);
            let is_better = best.is_none_or(|(best, _)| watermark < best);
            if is_better && self.channels.get(index).is_some_and(|channel| !channel.is_empty()) {
                best = Some((watermark, index));
                if watermark == least {
                    break;
                }
            }
        }
        best.map(|(_, index)| index)
    }

    /// Whether some channels wait for the barrier of others.
    pub(super) fn is_aligning(&self) -> bool {
        self.aligner.is_aligning()
    }

    /// Takes what is next on a channel if it is not records: while a timer pass goes on, barriers pass it, and what says something of time or
    /// the end must not hold them up. A barrier that drains waits for the end of the pass.
    pub(super) fn next_control(&mut self) -> Option<Next> {
        for index in 0..self.channels.len() {
            while self.aligner.readable(index)
                && let Some(element) = self
                    .channels
                    .get_mut(index)
                    .and_then(|channel| channel.receive_if(|next| next.is_control(|barrier| barrier.purpose != Purpose::Drain)))
            {
                match self.next_of(index, element) {
                    Next::Outcome(outcome) if outcome == Outcome::default() => {}
                    next => return Some(next),
                }
            }
        }
        None
    }

    /// Limits how many records wait in front of the subtask, on each channel.
    pub(super) fn limit(&self, records: usize) {
        self.channels.iter().for_each(|channel| channel.limit(records));
    }

    /// How many records wait in front of the subtask.
    pub(super) fn queued(&self) -> usize {
        self.channels.iter().map(Receiver::queued).sum()
    }

    /// How many channels there are.
    pub(super) fn channels(&self) -> usize {
        self.channels.len()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::{Input, Next};
    use crate::Timestamp;
    use crate::align::Outcome;
    use crate::exchange::{Barrier, Element, Sender, channel};

    fn input(channels: usize) -> (Vec<Sender>, Input) {
        let (senders, receivers) = (0..channels).map(|_| channel(4, Waker::noop().clone(), Waker::noop().clone())).unzip();
        (senders, Input::new(receivers))
    }

    #[test]
    fn the_barriers_of_all_channels_are_one_turn() {
        let (mut senders, mut input) = input(3);
        let barrier = Barrier { checkpoint: 7, ..Barrier::default() };
        senders[0].send(Element::Barrier(barrier));
        senders[2].send(Element::Barrier(barrier));
        // What was taken may have made room for a sender, so it is told although it changes nothing.
        assert!(matches!(input.next(), Some(Next::Outcome(outcome)) if outcome == Outcome::default()));
        assert!(input.next().is_none() && input.is_aligning());
        senders[0].send(Element::Watermark(Timestamp(1)));
        senders[1].send(Element::Barrier(barrier));
        assert!(matches!(input.next(), Some(Next::Barrier(complete)) if complete.checkpoint == 7));
        assert!(input.next().is_some() && !input.is_aligning());
    }

    #[test]
    fn the_channel_furthest_behind_is_read_first_and_none_is_starved() {
        let (mut senders, mut input) = input(3);
        for (sender, watermark) in senders.iter_mut().zip([5, 3, 3]) {
            sender.send(Element::Watermark(Timestamp(watermark)));
        }
        // The last of the three moves the minimum.
        assert!(matches!(input.next(), Some(Next::Outcome(outcome)) if outcome.watermark == Some(Timestamp(3))));
        let mut order = Vec::new();
        for round in 0..2 {
            senders.iter_mut().for_each(|sender| sender.send(Element::Status(round == 0)));
        }
        while let Some(index) = input.furthest_behind() {
            order.push(index);
            input.take();
        }
        assert_eq!(order, [1, 2, 1, 2, 0, 0]);
        // Channels without anything to read do not hold the others up.
        senders[0].send(Element::End);
        assert_eq!(input.furthest_behind(), Some(0));
    }
}
