//! A job's graph, in the order in which records flow.

mod bind;
mod check;

use super::error::{Place, Problem, Problems, SpecError};
use super::job::JobSpec;

pub use self::bind::{Output, bind};

/// The lane that everything has.
pub const MAIN: &str = "main";
/// The lane of a source that takes the records that do not fit its type.
pub const INVALID: &str = "invalid";
/// The lane of an operator that takes the records that its component cannot handle.
pub const DEAD_LETTER: &str = "dead-letter";

/// A job's graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Sources, operators and sinks, each after everything that feeds it.
    pub nodes: Vec<Node>,
    /// Which lane of which node feeds which node, in the order of the receiving nodes and their inputs.
    pub edges: Vec<Edge>,
    /// What is allowed, but probably not meant.
    pub warnings: Vec<Problem>,
}

/// A source, operator or sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its uid.
    pub uid: String,
    /// Which one it is in the spec.
    pub part: Part,
}

/// A place in one of the lists of the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The source with this index.
    Source(usize),
    /// The operator with this index.
    Operator(usize),
    /// The sink with this index.
    Sink(usize),
}

/// A stream of records from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The index of the node that the records come from.
    pub from: usize,
    /// The lane of that node.
    pub lane: String,
    /// The index of the node that they go to.
    pub to: usize,
    /// Whether the receiver has keys, so that records are exchanged by key group.
    pub keyed: bool,
    /// Whether the records reach every subtask of the receiver.
    pub broadcast: bool,
    /// Where the receiver names the input.
    pub at: Place,
}

impl Plan {
    /// The graph of a spec.
    ///
    /// # Errors
    /// The graph is not sound: a uid is used twice, an input does not exist, nodes feed each other in a circle, something is read by nobody.
    pub fn of(spec: &JobSpec) -> Result<Self, SpecError> {
        let mut problems = Problems::default();
        let plan = check::graph(spec, &mut problems);
        problems.into_result(&spec.file, plan)
    }

    /// Reports what [`of`](Self::of) would refuse.
    pub(super) fn check(spec: &JobSpec, problems: &mut Problems) {
        check::graph(spec, problems);
    }

    /// The edges into a node.
    pub fn inputs(&self, node: usize) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.to == node)
    }

    /// The edges out of a node.
    pub fn outputs(&self, node: usize) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.from == node)
    }
}
