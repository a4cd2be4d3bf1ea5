//! Edges between subtasks: bounded queues, one per (edge, sender, receiver), and the routing of records onto them by key group.

mod channel;

use std::fmt;
use std::sync::Arc;

pub use channel::{Receiver, Sender, channel};

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
    /// What the checkpoint is taken for.
    pub purpose: Purpose,
}

/// What a checkpoint is taken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Recovery: its output is committed, and the job continues.
    #[default]
    Checkpoint,
    /// A savepoint of a running job: nothing is committed for it, and no recovery uses it.
    Savepoint,
    /// A stop: a checkpoint after which sources read nothing.
    Stop,
    /// A stop for good: as [`Stop`](Self::Stop), after all event time has ended, so that every event-time timer has fired.
    Drain,
}

impl Purpose {
    /// Returns whether sources read nothing after the barrier.
    #[must_use]
    pub fn stops(self) -> bool {
        matches!(self, Self::Stop | Self::Drain)
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

    fn all_senders(&self) -> &[Sender] {
        match self {
            Self::Forward { sender, .. } => std::slice::from_ref(sender),
            Self::ByKey(edge) => &edge.senders,
            Self::Observed(_) => &[],
            Self::Broadcast { senders, .. } => senders,
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

    /// The least number of records that a receiver of any lane lets wait in front of it: whoever sends more at once makes a barrier wait
    /// behind them. [`usize::MAX`] if no receiver has set a limit.
    #[must_use]
    pub fn room(&self) -> usize {
        let senders = self.lanes.iter().flat_map(|lane| &lane.edges).flat_map(Edge::all_senders);
        senders.map(Sender::room).min().unwrap_or(usize::MAX)
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
