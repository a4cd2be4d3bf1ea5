//! Reads the document into a [`JobSpec`]. A part that is wrong is reported and stands in with its default, so that reading goes on.

mod graph;
pub(super) mod operator;
mod policy;

use std::collections::HashSet;
use std::path::PathBuf;

use tidemill_core::key_group::MAX_PARALLELISM_LIMIT;

use super::Text;
use super::error::{At, Place, Problems};
use super::fields::{self, Fields};
use super::job::{JobSpec, MAX_WORKERS, StateBackend, Stream};
use super::tree::{Node, Value};

const JOB: &[&str] =
    &["name", "parallelism", "max_parallelism", "state", "checkpoints", "restart", "data_dir", "sources", "operators", "sinks"];

/// The longest name: it is part of folder names.
const NAME_LIMIT: usize = 100;

/// Reads a job; `None` if the document is not a mapping.
pub(super) fn job(root: &Node, text: &Text<'_>, problems: &mut Problems) -> Option<JobSpec> {
    if root.value == Value::Null {
        problems.add(&Place::Whole, "the job spec is empty");
        return None;
    }
    let fields = Fields::of(root, "a job spec", JOB, problems)?;
    let name = fields.required("name", "the job's name, of which its folder takes its name", problems);
    let mut parallelism = 1;
    fields.update("parallelism", &mut parallelism, fields::whole(1), problems);
    let sources = fields.required("sources", "where records come from", problems);
    let spec = JobSpec {
        file: text.file.to_owned(),
        folder: text.base.to_owned(),
        name: name.and_then(|node| fields::value(node, "name", self::name, problems)).unwrap_or_default(),
        parallelism,
        max_parallelism: fields.read("max_parallelism", fields::whole(1), problems),
        state: fields.get("state").map_or(StateBackend::Memory, |node| policy::state(node, problems)),
        checkpoints: fields.get("checkpoints").map(|node| policy::checkpoints(node, problems)).unwrap_or_default(),
        restart: fields.get("restart").map(|node| policy::restart(node, problems)).unwrap_or_default(),
        data_dir: fields.read("data_dir", |node| path(node, text), problems).map(|dir| dir.value),
        sources: sources
            .map(|node| items(node, "sources", problems, |node, problems| graph::source(node, text, problems)))
            .unwrap_or_default(),
        operators: list(&fields, "operators", problems, |node, problems| operator::operator(node, text, problems)),
        sinks: list(&fields, "sinks", problems, |node, problems| graph::sink(node, text, problems)),
    };
    if let Some(node) = sources.filter(|_| spec.sources.is_empty() && problems.is_empty()) {
        problems.add(&node.at, "`sources`: a job needs at least one");
    }
    check_parallelism(&spec, &fields, problems);
    Some(spec)
}

fn check_parallelism(spec: &JobSpec, fields: &Fields<'_>, problems: &mut Problems) {
    let max = spec.max_parallelism();
    if max > MAX_PARALLELISM_LIMIT {
        let at = fields.get("max_parallelism").map_or(fields.at, |node| &node.at);
        problems.add(at, format!("`max_parallelism`: must be at most {MAX_PARALLELISM_LIMIT}, not {max}"));
    } else if spec.parallelism > MAX_WORKERS {
        let at = fields.get("parallelism").map_or(fields.at, |node| &node.at);
        problems.add(
            at,
            format!("`parallelism`: must be at most {MAX_WORKERS}, not {}: each worker is a thread of this machine", spec.parallelism),
        );
    } else if spec.parallelism > max {
        let at = fields.get("parallelism").map_or(fields.at, |node| &node.at);
        problems.add(at, format!("`parallelism`: {} is more than max_parallelism, which is {max}", spec.parallelism));
    }
}

fn list<T>(fields: &Fields<'_>, name: &str, problems: &mut Problems, read: impl Fn(&Node, &mut Problems) -> Option<T>) -> Vec<T> {
    fields.get(name).map(|node| items(node, name, problems, read)).unwrap_or_default()
}

fn items<T>(node: &Node, name: &str, problems: &mut Problems, read: impl Fn(&Node, &mut Problems) -> Option<T>) -> Vec<T> {
    match &node.value {
        Value::List(items) => items.iter().filter_map(|item| read(item, problems)).collect(),
        _ => {
            problems.add(&node.at, format!("`{name}` must be a list, whose items begin with `-`, not {}", node.kind()));
            Vec::new()
        }
    }
}

/// A name that may be part of a path.
fn name(node: &Node) -> Result<String, String> {
    let name = fields::text(node)?;
    let allowed = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    match name.len() {
        _ if !allowed => Err(format!("`{name}` may hold only letters, digits, `_` and `-`")),
        length if length > NAME_LIMIT => Err(format!("may have at most {NAME_LIMIT} characters, not {length}")),
        _ => Ok(name),
    }
}

/// A uid; an empty one stands for one that is missing or wrong.
fn uid(fields: &Fields<'_>, what: &str, problems: &mut Problems) -> At<String> {
    let why = format!("every {what} needs a name of its own that checkpoints keep");
    let node = fields.required("uid", &why, problems);
    let value = node.and_then(|node| fields::value(node, "uid", name, problems));
    At { value: value.unwrap_or_default(), at: node.map_or(fields.at, |node| &node.at).clone() }
}

/// The streams of the field `input`: `uid`, `uid.lane`, or a list of these.
fn inputs(fields: &Fields<'_>, what: &str, problems: &mut Problems) -> Vec<Stream> {
    let why = format!("the source or operator, or UID.LANE, that the {what} reads");
    fields.required("input", &why, problems).map(|node| streams(node, "input", problems)).unwrap_or_default()
}

/// The streams of one field, which is there.
fn streams(node: &Node, field: &str, problems: &mut Problems) -> Vec<Stream> {
    let nodes = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if nodes.is_empty() {
        problems.add(&node.at, format!("`{field}`: the list is empty; name at least one source or operator"));
    }
    let (mut streams, mut seen): (Vec<Stream>, _) = (Vec::new(), HashSet::new());
    for node in nodes {
        let Some(text) = fields::value(node, field, fields::text, problems) else { continue };
        let (uid, lane) = text.split_once('.').unwrap_or((&text, "main"));
        let stream = Stream { uid: uid.to_owned(), lane: lane.to_owned(), at: node.at.clone() };
        if !seen.insert((stream.uid.clone(), stream.lane.clone())) {
            problems.add(&node.at, format!("`{field}`: `{text}` is named twice, so that each of its records would come in twice"));
        } else {
            streams.push(stream);
        }
    }
    streams
}

/// A path, relative to the folder of the spec.
fn path(node: &Node, text: &Text<'_>) -> Result<At<PathBuf>, String> {
    Ok(At { value: text.base.join(fields::text(node)?), at: node.at.clone() })
}
