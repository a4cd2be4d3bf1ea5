//! Makes the workers of a job from its graph.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use super::restored::RestoredOperator;
use super::{OperatorTask, SinkTask, SourceSettings, SourceTask, Task, Worker};
use crate::drift::{Group, Member};
use crate::exchange::{ByKey, Edge, Observed, Outputs, Receiver, channel};
use crate::key_group::range_of;
use crate::operator::{Operator, OperatorSettings};
use crate::schema::KeyEncoder;
use crate::sink::{Sink, WriterTask};
use crate::source::Split;
use crate::state::{KeyedState, NoState, StateBackend};
use crate::time::Domain;
use crate::{Error, Result, Timestamp};

/// A job's sources, operators and sinks, and how they are connected.
pub struct Graph {
    /// In topological order.
    pub nodes: Vec<Node>,
    /// The connections.
    pub wires: Vec<Wire>,
    /// The number of key groups.
    pub max_parallelism: u32,
}

/// A source, operator or sink.
pub enum Node {
    /// A source.
    Source(Arc<SourceSettings>),
    /// An operator.
    Operator(Arc<OperatorSettings>),
    /// A sink, with its index among the job's sinks.
    Sink(u32, Arc<dyn Sink>),
}

/// A connection from a lane of one node to another node.
pub struct Wire {
    /// The index of the node that sends.
    pub from: usize,
    /// The lane: for a source 0 is main and 1 invalid; for an operator its declared lanes, then dead-letter.
    pub lane: usize,
    /// The index of the node that receives.
    pub to: usize,
    /// Which subtask receives.
    pub kind: WireKind,
}

/// Which subtask receives.
pub enum WireKind {
    /// The one of the same index.
    Forward,
    /// The one that owns the record's key group.
    ByKey(KeyEncoder),
    /// All: the receiver's broadcast input.
    Broadcast,
}

/// What workers start from.
pub struct WorkerSetup {
    /// One per worker: wakes it when a peer has something for it.
    pub wakers: Vec<Waker>,
    /// How many elements a queue between two subtasks holds.
    pub queue_capacity: usize,
    /// Makes the state of operators.
    pub backend: Arc<dyn StateBackend>,
    /// The splits of each source, by index.
    pub splits: Vec<Vec<Split>>,
    /// The snapshot of each operator, by node index; nothing for those that start empty.
    pub restored: Vec<Option<RestoredOperator>>,
    /// See [`WriterTask`].
    pub incarnation: u32,
    /// See [`WriterTask`].
    pub attempt: u64,
}

/// The state of one worker's operators, by node index; `None` for other nodes.
pub type States = Vec<Option<Box<dyn KeyedState>>>;

/// Opens the state of a worker's operators and restores it. That takes most of the time of a start with much state, and can be done for
/// several workers side by side.
///
/// # Errors
/// A state cannot be opened or restored.
pub fn open_states(graph: &Graph, setup: &WorkerSetup, subtask: u32) -> Result<States> {
    let open = |(index, node): (usize, &Node)| match node {
        Node::Operator(settings) => open_state(settings, subtask, setup, setup.restored.get(index).and_then(Option::as_ref)).map(Some),
        Node::Source(_) | Node::Sink(..) => Ok(None),
    };
    graph.nodes.iter().enumerate().map(open).collect()
}

/// Makes one worker per waker.
///
/// # Errors
/// A component, split, sink or state cannot be opened or restored.
pub fn build(graph: &Graph, setup: &WorkerSetup) -> Result<Vec<Worker>> {
    let states = (0u32..).zip(&setup.wakers).map(|(subtask, _)| open_states(graph, setup, subtask)).collect::<Result<_>>()?;
    build_with(graph, setup, states)
}

/// Makes one worker per waker, with the states of each.
///
/// # Errors
/// A component, split or sink cannot be opened, a broadcast state is not what was stored, or a state is missing.
pub fn build_with(graph: &Graph, setup: &WorkerSetup, states: Vec<States>) -> Result<Vec<Worker>> {
    begin_sources(graph, setup);
    let mut ports = connect(graph, setup);
    let groups = drift_groups(graph, setup.wakers.len());
    let mut workers = Vec::with_capacity(setup.wakers.len());
    for ((subtask, ports), mut states) in (0u32..).zip(&mut ports).zip(states) {
        let mut tasks = Vec::with_capacity(graph.nodes.len());
        for (index, (node, port)) in graph.nodes.iter().zip(ports.drain(..)).enumerate() {
            tasks.push(match node {
                Node::Source(settings) => {
                    let splits = setup.splits.get(settings.index as usize).map_or(&[][..], Vec::as_slice);
                    let mine = splits.iter().filter(|split| owns_split(split.id, subtask, setup)).cloned().collect();
                    let member = member(&groups, index, settings, subtask);
                    Task::Source(Box::new(SourceTask::new(Arc::clone(settings), mine, member, port.outputs)?))
                }
                Node::Operator(settings) => {
                    let restored = setup.restored.get(index).and_then(Option::as_ref);
                    let state = states.get_mut(index).and_then(Option::take);
                    let state = state.ok_or_else(|| Error::config(format!("operator {} has no state", settings.uid)))?;
                    let operator = open_operator(settings, subtask, setup, restored, state)?;
                    let mut outputs = port.outputs;
                    observe(settings, subtask, &mut outputs);
                    Task::Operator(Box::new(OperatorTask::new(operator, port.channels, outputs)))
                }
                Node::Sink(sink_index, sink) => {
                    let writer = sink.writer(WriterTask { subtask, incarnation: setup.incarnation, attempt: setup.attempt })?;
                    Task::Sink(Box::new(SinkTask::new(*sink_index, writer, port.channels)))
                }
            });
        }
        workers.push(Worker::new(subtask, tasks));
    }
    Ok(workers)
}

/// What sources count over all subtasks goes back to where their splits are.
fn begin_sources(graph: &Graph, setup: &WorkerSetup) {
    for node in &graph.nodes {
        if let Node::Source(settings) = node {
            settings.invalid.begin(setup.splits.get(settings.index as usize).map_or(&[], Vec::as_slice));
        }
    }
}

/// Lets the operator's observer, if it has one, see all its lanes.
fn observe(settings: &OperatorSettings, subtask: u32, outputs: &mut Outputs) {
    let Some(observer) = &settings.observer else { return };
    for lane in 0..=settings.dead_letter_lane() {
        outputs.connect(lane, Edge::Observed(Observed { subtask, lane, observer: Arc::clone(observer) }));
    }
}

/// Sources that are aligned with each other: the nodes that belong to each group, by name.
type DriftGroups<'a> = BTreeMap<&'a str, (Vec<usize>, Arc<Group>)>;

fn drift_groups(graph: &Graph, workers: usize) -> DriftGroups<'_> {
    let mut nodes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        if let Node::Source(settings) = node
            && let Some(alignment) = &settings.alignment
        {
            nodes.entry(&alignment.group).or_default().push(index);
        }
    }
    nodes.into_iter().map(|(name, nodes)| (name, (nodes.clone(), Group::new(nodes.len() * workers)))).collect()
}

/// The place of a source's subtask in its group: every subtask of every source has its own.
fn member(groups: &DriftGroups<'_>, node: usize, settings: &SourceSettings, subtask: u32) -> Option<Member> {
    let alignment = settings.alignment.as_ref()?;
    let (nodes, group) = groups.get(alignment.group.as_str())?;
    let index = nodes.iter().position(|member| *member == node)? + nodes.len() * subtask as usize;
    Some(group.member(index, alignment.max_drift))
}

/// Whether a worker reads a split: they are dealt out in turn.
fn owns_split(split: u32, subtask: u32, setup: &WorkerSetup) -> bool {
    split as usize % setup.wakers.len().max(1) == subtask as usize
}

/// The key groups of a subtask.
fn groups_of(settings: &OperatorSettings, subtask: u32, setup: &WorkerSetup) -> Range<u32> {
    let parallelism = u32::try_from(setup.wakers.len()).unwrap_or(u32::MAX);
    range_of(subtask, settings.max_parallelism, parallelism)
}

fn open_state(
    settings: &OperatorSettings,
    subtask: u32,
    setup: &WorkerSetup,
    restored: Option<&RestoredOperator>,
) -> Result<Box<dyn KeyedState>> {
    match restored {
        // An operator without keys has no keyed state, so a backend need not prepare for any.
        _ if !settings.keyed => Ok(Box::new(NoState)),
        Some(restored) => {
            let mine = groups_of(settings, subtask, setup);
            restored.open(&*setup.backend, &settings.uid, subtask, &settings.states, &mine)
        }
        None => setup.backend.open(&settings.uid, subtask, &settings.states),
    }
}

fn open_operator(
    settings: &Arc<OperatorSettings>,
    subtask: u32,
    setup: &WorkerSetup,
    restored: Option<&RestoredOperator>,
    state: Box<dyn KeyedState>,
) -> Result<Operator> {
    let mine = groups_of(settings, subtask, setup);
    let mut operator = Operator::new(Arc::clone(settings), state)?.as_subtask(subtask);
    if let Some(restored) = restored {
        let states = (&restored.broadcast_states, &restored.broadcast_migration);
        let doing = || format!("restoring the broadcast state of operator {}", settings.uid);
        let one_nan = restored.broadcast_one_nan.as_ref();
        operator
            .broadcast_state()
            .restore_with(&restored.broadcast, states.0, states.1, one_nan)
            .map_err(|error| error.while_doing(doing()))?;
    }
    let pass = restored.and_then(|restored| restored.pass_of(&mine));
    // The end of time may have begun to fire timers before the user said that it shall not.
    if let Some(horizon) = pass.filter(|horizon| *horizon < Timestamp::MAX || settings.fire_at_end) {
        operator.begin_pass(Domain::Event, horizon);
    }
    Ok(operator)
}

/// The ends of all channels that belong to one node in one worker.
#[derive(Default)]
struct Ports {
    channels: Vec<Receiver>,
    outputs: Outputs,
}

/// Makes the channels: by worker, then by node.
fn connect(graph: &Graph, setup: &WorkerSetup) -> Vec<Vec<Ports>> {
    let new_port = |node: &Node| Ports { channels: Vec::new(), outputs: Outputs::new(lanes(node)) };
    let mut ports: Vec<Vec<Ports>> = setup.wakers.iter().map(|_| graph.nodes.iter().map(new_port).collect()).collect();
    for wire in &graph.wires {
        for (from, waker) in setup.wakers.iter().enumerate() {
            let mut open = |to: usize, to_waker: &Waker| {
                let (sender, receiver) = channel(setup.queue_capacity, waker.clone(), to_waker.clone());
                if let Some(port) = ports.get_mut(to).and_then(|ports| ports.get_mut(wire.to)) {
                    port.channels.push(receiver);
                }
                sender
            };
            let edge = match &wire.kind {
                WireKind::Forward => Edge::forward(open(from, waker)),
                WireKind::ByKey(encoder) => {
                    let senders = setup.wakers.iter().enumerate().map(|(to, waker)| open(to, waker)).collect();
                    Edge::ByKey(ByKey::new(senders, encoder.clone(), graph.max_parallelism))
                }
                WireKind::Broadcast => Edge::broadcast(setup.wakers.iter().enumerate().map(|(to, waker)| open(to, waker)).collect()),
            };
            if let Some(port) = ports.get_mut(from).and_then(|ports| ports.get_mut(wire.from)) {
                port.outputs.connect(wire.lane, edge);
            }
        }
    }
    ports
}

fn lanes(node: &Node) -> usize {
    match node {
        Node::Source(_) => 2,
        Node::Operator(settings) => settings.dead_letter_lane() + 1,
        Node::Sink(..) => 0,
    }
}
