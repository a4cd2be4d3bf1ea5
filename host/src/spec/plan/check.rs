//! Builds the graph and reports what is not sound in it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::{Component, Path, PathBuf};

use super::{DEAD_LETTER, Edge, INVALID, MAIN, Node, Part, Plan};
use crate::sink::file::part_names;
use crate::source::file::could_read;
use crate::spec::error::{At, Place, Problem, Problems};
use crate::spec::job::{JobSpec, OnError, OnInvalid, SinkConnector, Source, SourceConnector, Stream};
use crate::spec::nearest::hint;

/// The graph of a spec, as far as it is sound.
pub(super) fn graph(spec: &JobSpec, problems: &mut Problems) -> Plan {
    let parts = parts(spec);
    check_uids(spec, &parts, problems);
    check_folders(spec, problems);
    check_feeds(spec, problems);
    // A uid that is missing or wrong was reported; inputs that name it would be reported as well, and that helps nobody.
    let complete = parts.iter().all(|part| !uid(spec, *part).value.is_empty());
    let edges = edges(spec, &parts, complete, problems);
    let order = order(spec, &parts, &edges, problems);
    let plan = sorted(spec, &parts, &edges, &order);
    if complete && problems.is_empty() {
        check_readers(spec, &plan, problems);
    }
    let warnings = warnings(spec, &plan);
    Plan { warnings, ..plan }
}

fn parts(spec: &JobSpec) -> Vec<Part> {
    let sources = (0..spec.sources.len()).map(Part::Source);
    let operators = (0..spec.operators.len()).map(Part::Operator);
    let sinks = (0..spec.sinks.len()).map(Part::Sink);
    sources.chain(operators).chain(sinks).collect()
}

#[expect(clippy::indexing_slicing, reason = "parts are made from the spec's own indexes")]
fn uid(spec: &JobSpec, part: Part) -> &At<String> {
    match part {
        Part::Source(index) => &spec.sources[index].uid,
        Part::Operator(index) => &spec.operators[index].uid,
        Part::Sink(index) => &spec.sinks[index].uid,
    }
}

#[expect(clippy::indexing_slicing, reason = "parts are made from the spec's own indexes")]
fn inputs(spec: &JobSpec, part: Part) -> &[Stream] {
    match part {
        Part::Source(_) => &[],
        Part::Operator(index) => &spec.operators[index].inputs,
        Part::Sink(index) => &spec.sinks[index].inputs,
    }
}

fn broadcast(spec: &JobSpec, part: Part) -> &[Stream] {
    match part {
        Part::Operator(index) => spec.operators.get(index).map(|operator| operator.broadcast.as_slice()).unwrap_or_default(),
        Part::Source(_) | Part::Sink(_) => &[],
    }
}

fn check_uids(spec: &JobSpec, parts: &[Part], problems: &mut Problems) {
    let mut seen: HashMap<&str, &Place> = HashMap::new();
    for uid in parts.iter().map(|part| uid(spec, *part)).filter(|uid| !uid.value.is_empty()) {
        if let Some(first) = seen.get(&*uid.value) {
            let first = first.within(&spec.file);
            problems.add(&uid.at, format!("the uid `{}` is used twice, first at {first}: give each its own", uid.value));
        } else {
            seen.insert(&uid.value, &uid.at);
        }
    }
}

fn check_folders(spec: &JobSpec, problems: &mut Problems) {
    let mut seen: HashMap<PathBuf, &str> = HashMap::new();
    for sink in &spec.sinks {
        let SinkConnector::File(file) = &sink.connector;
        if let Some(other) = seen.insert(real(&normal(&file.dir.value)), &sink.uid.value).filter(|_| !file.dir.value.as_os_str().is_empty())
        {
            let message = format!("the sinks `{other}` and `{}` write to the same folder: give each its own", sink.uid.value);
            problems.add(&file.dir.at, message);
        }
    }
}

/// A job must not read what it writes: it would never end, or repeat its output after a restart.
fn check_feeds(spec: &JobSpec, problems: &mut Problems) {
    for sink in &spec.sinks {
        let SinkConnector::File(file) = &sink.connector;
        let (dir, names) = (&file.dir.value, part_names(file.format.extension()));
        for source in spec.sources.iter().filter(|_| !dir.as_os_str().is_empty()) {
            let SourceConnector::File(read) = &source.connector;
            if could_read(&read.pattern.value, dir, &names) {
                let (sink, source, at) = (&sink.uid.value, &source.uid.value, read.pattern.at.within(&spec.file));
                let message = format!(
                    "the sink `{sink}` writes parts, such as `part-1-0.{}`, that the pattern of the source `{source}` ({at}) matches, so that the \
                     job would read its own output: give the sink a folder that no source reads",
                    file.format.extension()
                );
                problems.add(&file.dir.at, message);
            }
        }
    }
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => normal.push(component),
        }
    }
    normal
}

/// The path with links followed, as far as it exists: a link must not hide that two folders are one.
fn real(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|part| Some((part, std::fs::canonicalize(part).ok()?)));
    existing.and_then(|(part, real)| Some(real.join(path.strip_prefix(part).ok()?))).unwrap_or_else(|| path.to_owned())
}

fn edges(spec: &JobSpec, parts: &[Part], complete: bool, problems: &mut Problems) -> Vec<Edge> {
    let (mut edges, mut known) = (Vec::new(), Known::default());
    for (from, part) in parts.iter().enumerate() {
        let uid = &*uid(spec, *part).value;
        known.by_uid.entry(uid).or_insert((from, *part));
        known.readable.extend(Some(uid).filter(|_| !matches!(part, Part::Sink(_))));
    }
    for (to, part) in parts.iter().enumerate() {
        let keyed = matches!(part, Part::Operator(index) if spec.operators.get(*index).is_some_and(|operator| operator.key_by.is_some()));
        let inputs = inputs(spec, *part).iter().map(|stream| (stream, false));
        for (stream, broadcast) in inputs.chain(broadcast(spec, *part).iter().map(|stream| (stream, true))) {
            match resolve(&known, stream) {
                Ok(from) => {
                    let (lane, keyed, at) = (stream.lane.clone(), keyed && !broadcast, stream.at.clone());
                    edges.push(Edge { from, lane, to, keyed, broadcast, at });
                }
                Err(_) if !complete => {}
                Err(message) => problems.add(&stream.at, message),
            }
        }
    }
    edges
}

/// The parts of a job.
#[derive(Default)]
struct Known<'a> {
    by_uid: HashMap<&'a str, (usize, Part)>,
    /// The uids of those that can be read from.
    readable: Vec<&'a str>,
}

/// The index of the part that a stream comes from.
fn resolve(parts: &Known<'_>, stream: &Stream) -> Result<usize, String> {
    let Stream { uid: wanted, lane, .. } = stream;
    match parts.by_uid.get(&**wanted) {
        Some((from, Part::Source(_))) if lane == MAIN || lane == INVALID => Ok(*from),
        Some((_, Part::Source(_))) => Err(format!("the source `{wanted}` has no lane `{lane}`{}", hint(lane, [MAIN, INVALID]))),
        Some((_, Part::Operator(_))) if lane.is_empty() => Err(format!("`{wanted}.` names no lane")),
        // Which other lanes an operator has only its component knows: see `bind`.
        Some((from, Part::Operator(_))) => Ok(*from),
        Some((_, Part::Sink(_))) => Err(format!("`{wanted}` is a sink, which nothing can read from")),
        None => Err(format!("there is no source or operator `{wanted}`{}", hint(wanted, parts.readable.iter().copied()))),
    }
}

/// The indexes of the parts, each after everything that feeds it, otherwise in the order of the spec.
fn order(spec: &JobSpec, parts: &[Part], edges: &[Edge], problems: &mut Problems) -> Vec<usize> {
    let (mut fed_by, mut feeds) = (vec![0_usize; parts.len()], vec![Vec::new(); parts.len()]);
    for edge in edges {
        if let (Some(count), Some(fed)) = (fed_by.get_mut(edge.to), feeds.get_mut(edge.from)) {
            *count += 1;
            fed.push(edge.to);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..).zip(&fed_by).filter(|(_, count)| **count == 0).map(|(part, _)| Reverse(part)).collect();
    let mut order: Vec<usize> = Vec::with_capacity(parts.len());
    while let Some(Reverse(next)) = ready.pop() {
        order.push(next);
        for fed in feeds.get(next).into_iter().flatten() {
            let Some(count) = fed_by.get_mut(*fed) else { continue };
            *count -= 1;
            if *count == 0 {
                ready.push(Reverse(*fed));
            }
        }
    }
    let stuck = |part: usize| fed_by.get(part).is_some_and(|count| *count > 0);
    if let Some(start) = (0..parts.len()).find(|part| stuck(*part)) {
        let mut feeders: HashMap<usize, &Edge> = HashMap::new();
        for edge in edges.iter().filter(|edge| stuck(edge.from)) {
            feeders.entry(edge.to).or_insert(edge);
        }
        report_cycle(spec, parts, start, &feeders, problems);
    }
    order
}

/// Walks up from a part that waits for a cycle until a part comes again, and reports the parts between. `feeders`: by part, an edge from
/// another that waits.
#[expect(clippy::indexing_slicing, reason = "edges join parts by their index")]
fn report_cycle(spec: &JobSpec, parts: &[Part], start: usize, feeders: &HashMap<usize, &Edge>, problems: &mut Problems) {
    let (mut walked, mut places): (Vec<usize>, HashMap<usize, usize>) = (Vec::new(), HashMap::new());
    let mut at = start;
    while let Some(edge) = feeders.get(&at) {
        if let Some(first) = places.insert(at, walked.len()) {
            let mut uids: Vec<&str> = walked.iter().skip(first).map(|part| &*uid(spec, parts[*part]).value).collect();
            uids.push(&uid(spec, parts[at]).value);
            uids.reverse();
            problems.add(&edge.at, format!("operators feed each other in a circle: {}", uids.join(" -> ")));
            return;
        }
        walked.push(at);
        at = edge.from;
    }
}

#[expect(clippy::indexing_slicing, reason = "the order holds indexes of parts")]
fn sorted(spec: &JobSpec, parts: &[Part], edges: &[Edge], order: &[usize]) -> Plan {
    let place: HashMap<usize, usize> = order.iter().enumerate().map(|(place, part)| (*part, place)).collect();
    let nodes = order.iter().map(|part| Node { uid: uid(spec, parts[*part]).value.clone(), part: parts[*part] }).collect();
    let renumbered = |edge: &Edge| Some(Edge { from: *place.get(&edge.from)?, to: *place.get(&edge.to)?, ..edge.clone() });
    let mut edges: Vec<Edge> = edges.iter().filter_map(renumbered).collect();
    edges.sort_by_key(|edge| edge.to);
    Plan { nodes, edges, warnings: Vec::new() }
}

/// The type of a source's records is what its operators declare, so a source without one cannot be read.
fn check_readers(spec: &JobSpec, plan: &Plan, problems: &mut Problems) {
    let outputs = outputs(plan);
    for (index, node) in plan.nodes.iter().enumerate().filter(|(_, node)| matches!(node.part, Part::Source(_))) {
        let at = &uid(spec, node.part).at;
        let is_operator = |to: usize| plan.nodes.get(to).is_some_and(|node| matches!(node.part, Part::Operator(_)));
        let outputs = outputs.get(index).map(Vec::as_slice).unwrap_or_default();
        if outputs.is_empty() {
            problems.add(at, format!("nothing reads the source `{}`: name it as an input, or remove it", node.uid));
        } else if !outputs.iter().any(|edge| edge.lane == MAIN && is_operator(edge.to)) {
            let message = format!("no operator reads the source `{}`, so that the type of its records is not known", node.uid);
            problems.add(at, message);
        }
    }
}

/// The edges out of each node.
fn outputs(plan: &Plan) -> Vec<Vec<&Edge>> {
    let mut outputs = vec![Vec::new(); plan.nodes.len()];
    for edge in &plan.edges {
        outputs.get_mut(edge.from).into_iter().for_each(|edges| edges.push(edge));
    }
    outputs
}

fn warnings(spec: &JobSpec, plan: &Plan) -> Vec<Problem> {
    let outputs = outputs(plan);
    let mut warnings = Problems::default();
    if spec.sinks.is_empty() {
        warnings.add(&Place::Whole, "the job has no sinks: its output goes nowhere");
    }
    for (index, node) in plan.nodes.iter().enumerate() {
        if let Part::Source(source) = node.part
            && let Some(source) = spec.sources.get(source)
        {
            warn_of_invalid(source, plan.outputs(index).any(|edge| edge.lane == INVALID), &mut warnings);
        }
        let Part::Operator(operator) = node.part else { continue };
        let Some(operator) = spec.operators.get(operator) else { continue };
        let outputs = outputs.get(index).map(Vec::as_slice).unwrap_or_default();
        let read = outputs.iter().any(|edge| edge.lane == DEAD_LETTER);
        if operator.on_error == OnError::DeadLetter && !read {
            let message = format!("nothing reads `{}.{DEAD_LETTER}`: records that its component cannot handle are lost", node.uid);
            warnings.add(&operator.uid.at, message);
        }
        if operator.on_error == OnError::Fail && read {
            let message = format!("`{}.{DEAD_LETTER}` stays empty: the operator has on_error: fail", node.uid);
            warnings.add(&operator.uid.at, message);
        }
        if outputs.is_empty() && !spec.sinks.is_empty() {
            warnings.add(&operator.uid.at, format!("nothing reads the operator `{}`: its output goes nowhere", node.uid));
        }
    }
    warnings.into_list()
}

fn warn_of_invalid(source: &Source, is_read: bool, warnings: &mut Problems) {
    let At { value: uid, at } = &source.uid;
    let lane = format!("{uid}.{INVALID}");
    match (source.on_invalid(is_read), is_read) {
        (OnInvalid::Fail, true) => warnings.add(at, format!("`{lane}` stays empty: the source has on_invalid: fail")),
        (OnInvalid::Fail, false) if source.on_invalid.is_none() => warnings.add(
            at,
            format!(
                "nothing reads `{lane}`, so the first record that does not fit will end the job: give the lane a sink, or say `on_invalid: \
                 lane`, which drops such records and counts them, or `on_invalid: fail`, if that is meant"
            ),
        ),
        (OnInvalid::Lane, false) => {
            warnings.add(at, format!("nothing reads `{lane}`: records that do not fit are dropped and only counted"));
        }
        (OnInvalid::Fail, false) | (OnInvalid::Lane, true) => {}
    }
}
