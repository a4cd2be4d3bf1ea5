//! Test cases: `*.case.yaml` files, read with the same errors as job specs.

mod record;
mod setup;
mod steps;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use self::record::Record;
pub use self::setup::{Restore, Setup};
pub use self::steps::line_of;
use super::error::{At, Place, Problems, SpecError};
use super::fields::{self, Fields};
use super::job::StateBackend;
use super::tree::{self, Node, Value};
use crate::state::HAS_ROCKSDB;

const CASE: &[&str] = &[
    "name",
    "component",
    "key_by",
    "parameters",
    "tables",
    "states",
    "on_error",
    "end_of_input",
    "parallelism",
    "max_parallelism",
    "backends",
    "batch_rows",
    "steps",
];
/// The batch sizes at which a case runs that names none: every record alone, batches that end amid the elements of most cases, and one batch.
const BATCH_ROWS: [usize; 3] = [1, 3, 1024];
const MOST_BATCH_ROWS: usize = 1 << 20;
const BACKENDS: &[(&str, Backend)] = &[("memory", Backend::Memory), ("rocksdb", Backend::Rocksdb)];

/// A test case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The file, as the user named it.
    pub file: String,
    /// What it is called.
    pub name: String,
    /// What is tested.
    pub setup: Setup,
    /// The state backends on which it must hold.
    pub backends: Vec<At<Backend>>,
    /// The batch sizes at which it must hold.
    pub batch_rows: Vec<usize>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// Where live state is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In memory.
    Memory,
    /// In `RocksDB`.
    Rocksdb,
}

impl Backend {
    /// Its name in case files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Rocksdb => "rocksdb",
        }
    }

    /// The same as a job spec has it. A case is small, so it gets little memory.
    #[must_use]
    pub fn live(self) -> StateBackend {
        match self {
            Self::Memory => StateBackend::Memory,
            Self::Rocksdb => StateBackend::Rocksdb { memory: StateBackend::ROCKSDB_LEAST_MEMORY },
        }
    }
}

/// A step of a case.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where it is written.
    pub at: Place,
    /// What it does.
    pub action: Action,
}

/// What a step does. All times in milliseconds.
#[derive(Clone, Debug)]
pub enum Action {
    /// A record comes in.
    Element {
        /// Its event time.
        time: Option<i64>,
        /// The record.
        value: Record,
    },
    /// A record comes in for all workers.
    Broadcast {
        /// Its event time.
        time: Option<i64>,
        /// The record.
        value: Record,
    },
    /// The watermark of the input.
    Watermark(i64),
    /// The clock goes on to this time.
    ProcessingTime(i64),
    /// The output since the last such step.
    Expect {
        /// The records.
        records: Vec<Expected>,
        /// Whether they come in this order.
        ordered: bool,
    },
    /// The step before has failed, with this in its text.
    ExpectError(String),
    /// The operator's metrics have these values.
    ExpectMetric(Vec<(String, u64)>),
    /// A checkpoint with this name.
    Checkpoint(String),
    /// All memory is lost, and the last checkpoint restored.
    Crash,
    /// A savepoint with this name.
    Savepoint(String),
    /// Another job goes on from a savepoint or checkpoint.
    Restore(Box<Restore>),
    /// The component is replaced at a barrier.
    Swap,
    /// The input ends.
    End,
}

impl Action {
    /// The step's field in the file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Element { .. } => "element",
            Self::Broadcast { .. } => "broadcast",
            Self::Watermark(_) => "watermark",
            Self::ProcessingTime(_) => "processing_time",
            Self::Expect { ordered: true, .. } => "expect",
            Self::Expect { ordered: false, .. } => "expect_unordered",
            Self::ExpectError(_) => "expect_error",
            Self::ExpectMetric(_) => "expect_metric",
            Self::Checkpoint(_) => "checkpoint",
            Self::Crash => "crash",
            Self::Savepoint(_) => "savepoint",
            Self::Restore(_) => "restore",
            Self::Swap => "swap",
            Self::End => "end",
        }
    }
}

/// A record that should come out.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Its lane.
    pub lane: String,
    /// The record.
    pub value: Record,
    /// Its event time, `Some(None)` if it must have none; `None`: it does not matter.
    pub time: Option<Option<i64>>,
}

/// What a case file is read with.
pub struct Context<'a> {
    /// The file of a component that is given by its name, or where it was looked for.
    pub component: &'a dyn Fn(&str) -> Result<PathBuf, String>,
}

/// Reads a case file.
///
/// # Errors
/// The file cannot be read, or something in it is wrong; every problem found is listed.
pub fn load(path: &Path, context: &Context<'_>) -> Result<Case, SpecError> {
    let file = path.display().to_string();
    let whole = |message: String| SpecError::one(&*file, Place::Whole, message);
    let bytes = std::fs::read(path).map_err(|error| whole(format!("cannot read the case file: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| whole(format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to())))?;
    let absolute = std::path::absolute(path).map_err(|error| whole(format!("cannot tell the folder of the case file: {error}")))?;
    let base = absolute.parent().unwrap_or_else(|| Path::new("/"));
    parse(&super::Text { text: &text, file: &file, base }, context)
}

/// As [`load`], from a text.
///
/// # Errors
/// Something in it is wrong; every problem found is listed.
pub fn parse(text: &super::Text<'_>, context: &Context<'_>) -> Result<Case, SpecError> {
    let mut problems = Problems::default();
    let root = tree::parse(text.text, text.file)?;
    tree::check_twice(&root, text.file, &mut problems);
    let Some(case) = case(&root, text, context, &mut problems) else { return Err(problems.into_error(text.file)) };
    problems.into_result(text.file, case)
}

fn case(root: &Node, text: &super::Text<'_>, context: &Context<'_>, problems: &mut Problems) -> Option<Case> {
    if root.value == Value::Null {
        problems.add(&Place::Whole, "the case file is empty");
        return None;
    }
    let fields = Fields::of(root, "a case", CASE, problems)?;
    let setup = setup::setup(root, &fields, (text, context), problems);
    let steps = fields.required("steps", "what happens and what is expected, in order", problems);
    let steps = steps.map(|node| steps::steps(node, (text, context), problems)).unwrap_or_default();
    let backends = fields.read("backends", backends, problems);
    Some(Case {
        file: text.file.to_owned(),
        name: fields.read("name", fields::text, problems).unwrap_or_else(|| file_name(text.file)),
        backends: backends.unwrap_or_else(|| {
            let all = BACKENDS.iter().map(|(_, backend)| *backend).filter(|backend| *backend != Backend::Rocksdb || HAS_ROCKSDB);
            all.map(|value| At { value, at: root.at.clone() }).collect()
        }),
        batch_rows: fields.read("batch_rows", batch_rows, problems).unwrap_or_else(|| BATCH_ROWS.to_vec()),
        setup: setup?,
        steps,
    })
}

/// The file's name without folder and ending.
fn file_name(file: &str) -> String {
    let name = Path::new(file).file_name().map_or_else(|| file.to_owned(), |name| name.to_string_lossy().into_owned());
    name.strip_suffix(".case.yaml").map_or_else(|| name.clone(), str::to_owned)
}

fn backends(node: &Node) -> Result<Vec<At<Backend>>, String> {
    let backend = |node: &Node| Ok(At { value: fields::choice(BACKENDS)(node)?, at: node.at.clone() });
    some(node, "at least one backend", backend)
}

fn batch_rows(node: &Node) -> Result<Vec<usize>, String> {
    let rows = some(node, "at least one batch size", fields::whole(1))?;
    match rows.iter().find(|rows| **rows > MOST_BATCH_ROWS) {
        Some(rows) => Err(format!("must be at most {MOST_BATCH_ROWS}, not {rows}")),
        None => Ok(rows),
    }
}

/// A list that is not empty, or one item.
fn some<T>(node: &Node, what: &str, read: impl Fn(&Node) -> Result<T, String>) -> Result<Vec<T>, String> {
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if items.is_empty() {
        return Err(format!("the list is empty; name {what}"));
    }
    items.iter().map(read).collect()
}
