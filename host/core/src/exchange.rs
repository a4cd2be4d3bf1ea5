//! Edges between subtasks: bounded queues, one per (edge, sender, receiver), and the routing of records onto them by key group.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use crossbeam_queue::ArrayQueue;

use crate::batch::{Batch, Origin};
use crate::key_group::{hash_key, key_group, subtask_of};
use crate::operator::Observer;
use crate::schema::KeyEncoder;
use crate::{Error, Result, Timestamp};

/// What travels on a channel, in order.
#[derive(Clone, Debug)]
pub enum Element {
    /// Records.
    Batch(Batch),
    /// No more records with times up to this are expected on this channel.
    Watermark(Timestamp),
    /// The sender has become idle (`true`) or active (`false`).
    Status(bool),
    /// What came before belongs to the checkpoint, what comes after does not.
    Barrier(Barrier),
    /// The end of the data; barriers may still follow.
    End,
}

/// The mark of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Barrier {
    /// The checkpoint's id.
    pub checkpoint: u64,
    /// Whether the job stops at this checkpoint: sources read nothing after it.
    pub stop: bool,
    /// Whether all event time ends before it, so that every event-time timer has fired: only for a stop for good.
    pub drain: bool,
    /// Whether it is a savepoint's: nothing is committed for it, and no recovery goes back to it.
    pub savepoint: bool,
}

/// A bounded channel from one subtask to another. Each side wakes the other: `receiver` when there is something to read, `sender` when
/// there is room again.
#[must_use]
pub fn channel(capacity: usize, sender: Waker, receiver: Waker) -> (Sender, Receiver) {
    let queue = Arc::new(ArrayQueue::new(capacity.max(1)));
    (Sender { queue: Arc::clone(&queue), waiting: VecDeque::new(), wake: receiver }, Receiver { queue, peeked: None, wake: sender })
}

/// The sending end. What does not fit the queue waits here; a subtask with anything waiting must not produce more.
#[derive(Debug)]
pub struct Sender {
    queue: Arc<ArrayQueue<Element>>,
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
            if let Err(back) = self.queue.push(element) {
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
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver {
    queue: Arc<ArrayQueue<Element>>,
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
        let element = self.queue.pop();
        // Asked after the pop: the sender may have filled the queue meanwhile and gone to sleep.
        if element.is_some() && self.queue.len() + 1 >= self.queue.capacity() {
            self.wake.wake_by_ref();
        }
        element
    }

    /// Takes the next element if it is a barrier.
    pub fn receive_barrier(&mut self, wanted: impl Fn(&Barrier) -> bool) -> Option<Barrier> {
        if self.peeked.is_none() {
            self.peeked = self.take();
        }
        match self.peeked {
            Some(Element::Barrier(barrier)) if wanted(&barrier) => {
                self.peeked = None;
                Some(barrier)
            }
            _ => None,
        }
    }

    /// Whether nothing is there to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.peeked.is_none() && self.queue.is_empty()
    }
}

/// All outputs of one subtask: the edges of each lane.
#[derive(Debug, Default)]
pub struct Outputs {
    lanes: Vec<Lane>,
}

#[derive(Debug, Default)]
struct Lane {
    edges: Vec<Edge>,
    records: u64,
}

/// An edge from a lane to a consumer.
#[derive(Debug)]
pub enum Edge {
    /// To the subtask of the same index.
    Forward {
        /// The channel.
        sender: Sender,
        /// Records that are collected for it.
        batch: Batch,
    },
    /// To the subtask that owns the record's key group.
    ByKey(ByKey),
    /// To nobody: an observer looks on.
    Observed(Observed),
    /// To every subtask.
    Broadcast {
        /// The channels.
        senders: Vec<Sender>,
        /// Records that are collected for all of them.
        batch: Batch,
    },
}

/// The end of a lane that somebody looks at.
pub struct Observed {
    /// The subtask that sends.
    pub subtask: u32,
    /// The lane.
    pub lane: usize,
    /// Who looks on.
    pub observer: Arc<dyn Observer>,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("subtask", &self.subtask).field("lane", &self.lane).finish_non_exhaustive()
    }
}

/// An edge that spreads records by key.
#[derive(Debug)]
pub struct ByKey {
    senders: Vec<Sender>,
    batches: Vec<Batch>,
    encoder: KeyEncoder,
    max_parallelism: u32,
    key: Vec<u8>,
}

impl ByKey {
    /// An edge to one receiver per sender given.
    #[must_use]
    pub fn new(senders: Vec<Sender>, encoder: KeyEncoder, max_parallelism: u32) -> Self {
        let batches = senders.iter().map(|_| Batch::default()).collect();
        Self { senders, batches, encoder, max_parallelism, key: Vec::new() }
    }

    #[expect(clippy::cast_possible_truncation, reason = "as many senders as the parallelism, at most 32,768")]
    fn push(&mut self, payload: &[u8], time: Option<i64>, origin: Origin) -> Result<(), String> {
        self.key.clear();
        self.encoder.encode(payload, &mut self.key)?;
        let hash = hash_key(&self.key);
        let receiver = match self.batches.len() {
            1 => 0,
            n => subtask_of(key_group(hash, self.max_parallelism), self.max_parallelism, n as u32) as usize,
        };
        if let (Some(batch), Some(sender)) = (self.batches.get_mut(receiver), self.senders.get_mut(receiver)) {
            make_room(sender, batch, payload.len(), self.key.len())?;
            batch.push(payload, time, origin);
            batch.key.push(&self.key);
            batch.hash.push(hash);
        }
        Ok(())
    }
}

impl Edge {
    /// A forward edge.
    #[must_use]
    pub fn forward(sender: Sender) -> Self {
        Self::Forward { sender, batch: Batch::default() }
    }

    /// An edge to every receiver.
    #[must_use]
    pub fn broadcast(senders: Vec<Sender>) -> Self {
        Self::Broadcast { senders, batch: Batch::default() }
    }

    fn push(&mut self, payload: &[u8], time: Option<i64>, origin: Origin) -> Result<(), String> {
        match self {
            Self::Broadcast { senders, batch } => {
                if !batch.fits(payload.len(), 0) {
                    send_to_all(senders, batch);
                    if !batch.fits(payload.len(), 0) {
                        return Err(too_large(payload.len(), 0));
                    }
                }
                batch.push(payload, time, origin);
                Ok(())
            }
            Self::Forward { sender, batch } => {
                make_room(sender, batch, payload.len(), 0)?;
                batch.push(payload, time, origin);
                Ok(())
            }
            Self::ByKey(edge) => edge.push(payload, time, origin),
            Self::Observed(Observed { subtask, lane, observer }) => {
                observer.emitted(*subtask, *lane, payload, time, origin);
                Ok(())
            }
        }
    }

    /// Sends the records collected since the last flush.
    fn flush_records(&mut self) {
        match self {
            Self::Forward { sender, batch } => send(sender, batch),
            Self::ByKey(edge) => edge.senders.iter_mut().zip(&mut edge.batches).for_each(|(sender, batch)| send(sender, batch)),
            Self::Observed(_) => {}
            Self::Broadcast { senders, batch } => send_to_all(senders, batch),
        }
    }

    fn senders(&mut self) -> &mut [Sender] {
        match self {
            Self::Forward { sender, .. } => std::slice::from_mut(sender),
            Self::ByKey(edge) => &mut edge.senders,
            Self::Observed(_) => &mut [],
            Self::Broadcast { senders, .. } => senders,
        }
    }
}

fn send(sender: &mut Sender, batch: &mut Batch) {
    if !batch.is_empty() {
        // The next batch is likely to be as large.
        let next = batch.with_same_capacity();
        sender.send(Element::Batch(std::mem::replace(batch, next)));
    }
}

fn send_to_all(senders: &mut [Sender], batch: &mut Batch) {
    if !batch.is_empty() {
        let batch = Batch { broadcast: true, ..std::mem::take(batch) };
        senders.iter_mut().for_each(|sender| sender.send(Element::Batch(batch.clone())));
    }
}

fn too_large(payload: usize, key: usize) -> String {
    format!("it has {payload} bytes and a key of {key} bytes: more than 4 GiB")
}

/// Cuts a batch before it becomes larger than its columns can hold.
#[inline]
fn make_room(sender: &mut Sender, batch: &mut Batch, payload: usize, key: usize) -> Result<(), String> {
    if !batch.fits(payload, key) {
        send(sender, batch);
        if !batch.fits(payload, key) {
            return Err(too_large(payload, key));
        }
    }
    Ok(())
}

impl Outputs {
    /// Outputs with this many lanes and no edges yet.
    #[must_use]
    pub fn new(lanes: usize) -> Self {
        Self { lanes: (0..lanes).map(|_| Lane::default()).collect() }
    }

    /// Adds an edge to a lane.
    pub fn connect(&mut self, lane: usize, edge: Edge) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.edges.push(edge);
        }
    }

    /// Whether something reads a lane.
    #[must_use]
    pub fn is_read(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|lane| !lane.edges.is_empty())
    }

    /// Whether something waits for room in a queue: then nothing more may be produced.
    pub fn blocked(&mut self) -> bool {
        let senders = self.lanes.iter_mut().flat_map(|lane| &mut lane.edges).flat_map(Edge::senders);
        senders.fold(false, |blocked, sender| !sender.flush() | blocked)
    }

    /// Appends a record to a lane; it leaves with the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// The record has no valid key.
    #[inline]
    pub fn push(&mut self, lane: usize, payload: &[u8], time: Option<i64>, origin: Origin) -> Result<()> {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.records += 1;
            for edge in &mut lane.edges {
                edge.push(payload, time, origin).map_err(|reason| Error::guest(format!("a record cannot be sent: {reason}")))?;
            }
        }
        Ok(())
    }

    /// Sends a whole batch to a lane, without copying it where the lane has one forward edge.
    ///
    /// # Errors
    /// A record has no valid key.
    pub fn send(&mut self, lane: usize, batch: Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        if let Some(Lane { edges, records }) = self.lanes.get_mut(lane)
            && let [Edge::Forward { sender, .. }] = edges.as_mut_slice()
        {
            *records += batch.len() as u64;
            sender.send(Element::Batch(batch));
            return Ok(());
        }
        for row in 0..batch.len() {
            self.push(lane, batch.payload.get(row), batch.time_of(row), batch.origin.get(row).copied().unwrap_or(Origin::NONE))?;
        }
        self.flush();
        Ok(())
    }

    /// Sends the records appended so far.
    pub fn flush(&mut self) {
        self.lanes.iter_mut().flat_map(|lane| &mut lane.edges).for_each(Edge::flush_records);
    }

    /// Sends an element to every channel of every edge, after the records appended so far.
    pub fn broadcast(&mut self, element: &Element) {
        self.flush();
        for sender in self.lanes.iter_mut().flat_map(|lane| &mut lane.edges).flat_map(Edge::senders) {
            sender.send(element.clone());
        }
    }

    /// How many records went to each lane.
    pub fn records(&self) -> impl Iterator<Item = u64> {
        self.lanes.iter().map(|lane| lane.records)
    }
}
