//! A job that is ready to run: its graph, and what is known of its parts by name.

use std::ops::Range;
use std::sync::Arc;

use tidemill_core::Result;
use tidemill_core::checkpoint;
use tidemill_core::checkpoint::manifest::{OperatorState, StoredDatabase, StoredState};
use tidemill_core::operator::OperatorSettings;
use tidemill_core::sink::Sink;
use tidemill_core::source::Source;
use tidemill_core::state::{OneNan, StateBackend, StoredGroups};
use tidemill_core::worker::{Graph, Node};

use super::restart;
use crate::store::CheckpointStore;

/// Opens stored state of a checkpoint: a database of the store, its key groups, and the id of the checkpoint.
pub type OpenStored = fn(&CheckpointStore, &StoredDatabase, Range<u32>, u64) -> Result<Arc<dyn StoredGroups>>;

/// A job that is ready to run.
pub struct Job {
    /// Its name.
    pub name: String,
    /// The number of workers.
    pub parallelism: u32,
    /// Its sources, operators and sinks.
    pub graph: Graph,
    /// The sources by index: uid and connector.
    pub sources: Vec<(String, Arc<dyn Source>)>,
    /// The sinks by index: uid and connector.
    pub sinks: Vec<(String, Arc<dyn Sink>)>,
    /// The operators in the order of the graph.
    pub operators: Vec<JobOperator>,
    /// Makes the operators' state.
    pub backend: Arc<dyn StateBackend>,
    /// Reads what backends have stored in files of their own.
    pub open_stored: OpenStored,
    /// When checkpoints are taken.
    pub checkpoints: checkpoint::Options,
    /// How many completed checkpoints are kept.
    pub retain: usize,
    /// Whether the checkpoints are kept when the job is stopped.
    pub keep_on_cancel: bool,
    /// Whether the checkpoints are kept when the job has finished.
    pub keep_on_finish: bool,
    /// What follows a failure.
    pub restart: restart::Strategy,
    /// How many elements a queue between two subtasks holds.
    pub queue_capacity: usize,
}

/// An operator of a job.
pub struct JobOperator {
    /// Its uid.
    pub uid: String,
    /// The sha-256 of its component.
    pub component: String,
    /// Its index among the nodes of the graph.
    pub node: usize,
    /// Its settings.
    pub settings: Arc<OperatorSettings>,
}

impl JobOperator {
    /// What its state consists of.
    #[must_use]
    pub fn state(&self) -> OperatorState {
        let descriptor = self.settings.factory.descriptor();
        let maps = descriptor.states.iter().chain(&descriptor.broadcast_states).map(|state| state.entry_key.as_ref());
        OperatorState {
            one_nan: OneNan::of(descriptor.key.as_ref(), maps, self.settings.max_parallelism).is_some(),
            uid: self.uid.clone(),
            component: self.component.clone(),
            key: self.settings.factory.descriptor().key.clone(),
            states: self.settings.states.iter().map(StoredState::of).collect(),
            broadcast_states: self.settings.factory.descriptor().broadcast_states.iter().map(StoredState::of).collect(),
        }
    }
}

impl Job {
    /// Whether something reads a lane of a node.
    #[must_use]
    pub fn is_read(&self, node: usize, lane: usize) -> bool {
        self.graph.wires.iter().any(|wire| wire.from == node && wire.lane == lane)
    }

    /// Lets the sources read less at once, or more again: see [`SourceSettings::read_less`](tidemill_core::worker::SourceSettings::read_less).
    pub(super) fn read(&self, less: bool) {
        for node in &self.graph.nodes {
            if let Node::Source(settings) = node {
                if less { settings.read_less() } else { settings.read_more() }
            }
        }
    }

    /// The names of a node's lanes, in the order in which they are counted.
    #[must_use]
    pub fn lanes(node: &Node) -> Vec<String> {
        match node {
            Node::Source(_) => vec!["main".to_owned(), "invalid".to_owned()],
            Node::Operator(settings) => {
                let declared = settings.factory.descriptor().lanes.iter().map(|lane| lane.name.clone());
                declared.chain(["dead-letter".to_owned()]).collect()
            }
            Node::Sink(..) => Vec::new(),
        }
    }
}
