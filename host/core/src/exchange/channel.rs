//! The channel between two subtasks: a bounded queue whose receiver also says how many records may wait in it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use crossbeam_queue::ArrayQueue;

use super::{Barrier, Element};

/// A bounded channel from one subtask to another. Each side wakes the other: `receiver` when there is something to read, `sender` when
/// there is room again.
#[must_use]
pub fn channel(capacity: usize, sender: Waker, receiver: Waker) -> (Sender, Receiver) {
    let queue = Arc::new(ArrayQueue::new(capacity.max(1)));
    let gate = Arc::new(Gate { queued: AtomicUsize::new(0), most: AtomicUsize::new(usize::MAX) });
    let (same_queue, same_gate) = (Arc::clone(&queue), Arc::clone(&gate));
    (
        Sender { queue, gate, waiting: VecDeque::new(), wake: receiver },
        Receiver { queue: same_queue, gate: same_gate, peeked: None, wake: sender },
    )
}

/// Counts the records in a queue. The receiver limits them, so that a barrier behind them never waits long: only the receiver knows how
/// long it takes to drain them.
#[derive(Debug)]
struct Gate {
    queued: AtomicUsize,
    most: AtomicUsize,
}

impl Gate {
    /// Counts a batch in, if there is room for it. An empty queue takes any batch, so that a limit never stops the flow.
    fn enter(&self, records: usize) -> bool {
        let queued = self.queued.load(Ordering::SeqCst);
        let fits = queued == 0 || queued.saturating_add(records) <= self.most.load(Ordering::SeqCst);
        if fits {
            self.queued.fetch_add(records, Ordering::SeqCst);
        }
        fits
    }

    fn leave(&self, records: usize) {
        self.queued.fetch_sub(records, Ordering::SeqCst);
    }
}

/// The sending end. What does not fit the queue waits here; a subtask with anything waiting must not produce more.
#[derive(Debug)]
pub struct Sender {
    queue: Arc<ArrayQueue<Element>>,
    gate: Arc<Gate>,
    waiting: VecDeque<Element>,
    wake: Waker,
}

impl Sender {
    /// Sends, or lets wait what does not fit.
    pub fn send(&mut self, element: Element) {
        self.waiting.push_back(element);
        self.flush();
    }

    /// Moves what waits into the queue. Returns whether all of it went.
    pub fn flush(&mut self) -> bool {
        let mut moved = false;
        while let Some(element) = self.waiting.pop_front() {
            let records = element.records();
            if records > 0 && !self.gate.enter(records) {
                self.waiting.push_front(element);
                break;
            }
            if let Err(back) = self.queue.push(element) {
                self.gate.leave(records);
                self.waiting.push_front(back);
                break;
            }
            moved = true;
        }
        if moved {
            self.wake.wake_by_ref();
        }
        self.waiting.is_empty()
    }

    /// How many records the receiver lets wait in front of it, at least one; [`usize::MAX`] without a limit.
    #[must_use]
    pub fn room(&self) -> usize {
        self.gate.most.load(Ordering::SeqCst).max(1)
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver {
    queue: Arc<ArrayQueue<Element>>,
    gate: Arc<Gate>,
    /// An element that was looked at but not taken.
    peeked: Option<Element>,
    wake: Waker,
}

impl Receiver {
    /// Takes the next element, if there is one.
    pub fn receive(&mut self) -> Option<Element> {
        self.peeked.take().or_else(|| self.take())
    }

    fn take(&self) -> Option<Element> {
        let element = self.queue.pop()?;
        self.gate.leave(element.records());
        // Asked after the pop: the sender may have filled the queue meanwhile and gone to sleep.
        if self.queue.len() + 1 >= self.queue.capacity() || self.gate.most.load(Ordering::SeqCst) < usize::MAX {
            self.wake.wake_by_ref();
        }
        Some(element)
    }

    /// Takes the next element if it is `wanted`.
    pub fn receive_if(&mut self, wanted: impl FnOnce(&Element) -> bool) -> Option<Element> {
        if self.peeked.is_none() {
            self.peeked = self.take();
        }
        self.peeked.take_if(|element| wanted(element))
    }

    /// Limits the records that wait in the queue. A batch goes into an empty queue however large it is.
    pub fn limit(&self, most: usize) {
        let before = self.gate.most.swap(most, Ordering::SeqCst);
        if before < most {
            self.wake.wake_by_ref();
        }
    }

    /// How many records wait in the queue.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.gate.queued.load(Ordering::SeqCst)
    }

    /// Whether nothing is there to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.peeked.is_none() && self.queue.is_empty()
    }
}

impl Element {
    /// How many records it has.
    fn records(&self) -> usize {
        if let Self::Batch(batch) = self { batch.len() } else { 0 }
    }

    /// Whether it is a barrier that `wanted` accepts, or says something of time, or is the end: all but records.
    pub(crate) fn is_control(&self, wanted: impl FnOnce(&Barrier) -> bool) -> bool {
        match self {
            Self::Batch(_) => false,
            Self::Barrier(barrier) => wanted(barrier),
            Self::Watermark(_) | Self::Status(_) | Self::End => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::channel;
    use crate::batch::{Batch, Origin};
    use crate::exchange::Element;

    fn batch(records: usize) -> Element {
        let mut batch = Batch::default();
        (0..records).for_each(|_| batch.push(b"x", None, Origin::NONE));
        Element::Batch(batch)
    }

    #[test]
    fn a_receiver_limits_the_records_in_front_of_it() {
        let (mut sender, mut receiver) = channel(8, Waker::noop().clone(), Waker::noop().clone());
        assert_eq!(sender.room(), usize::MAX);
        receiver.limit(3);
        sender.send(batch(10));
        assert!(sender.flush(), "an empty queue takes a batch of any size");
        sender.send(batch(1));
        sender.send(Element::End);
        assert!(!sender.flush(), "the second waits, and what comes after it");
        assert_eq!((receiver.queued(), sender.room()), (10, 3));
        assert!(matches!(receiver.receive(), Some(Element::Batch(batch)) if batch.len() == 10));
        assert!(sender.flush());
        sender.send(batch(2));
        assert!(sender.flush() && receiver.queued() == 3);
        sender.send(batch(1));
        assert!(!sender.flush());
        receiver.limit(usize::MAX);
        assert!(sender.flush() && receiver.queued() == 4);
    }

    #[test]
    fn an_element_that_is_not_wanted_stays() {
        let (mut sender, mut receiver) = channel(4, Waker::noop().clone(), Waker::noop().clone());
        sender.send(batch(1));
        assert!(receiver.receive_if(|element| element.is_control(|_| true)).is_none());
        assert!(!receiver.is_empty() && matches!(receiver.receive(), Some(Element::Batch(_))));
    }
}
