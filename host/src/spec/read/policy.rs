//! What holds for the job as a whole: state, checkpoints, restarts.

use std::time::Duration;

use crate::spec::error::Problems;
use crate::spec::fields::{self, Fields};
use crate::spec::job::{Checkpoints, Restart, Retention, StateBackend};
use crate::spec::tree::{Node, Value};
use crate::state::{HAS_ROCKSDB, NO_ROCKSDB};

const CHECKPOINTS: &[&str] = &["interval", "timeout", "min_pause", "tolerable_failures", "retain", "on_cancel", "on_finish"];
const RETENTION: &[(&str, Retention)] = &[("keep", Retention::Keep), ("delete", Retention::Delete)];

const STRATEGIES: &[(&str, Strategy)] =
    &[("exponential-delay", Strategy::Exponential), ("fixed-delay", Strategy::Fixed), ("none", Strategy::None)];
const RESTART: &[&str] = &["strategy", "initial", "max", "multiplier", "jitter", "delay", "attempts"];

pub(super) fn state(node: &Node, problems: &mut Problems) -> StateBackend {
    let Some(fields) = Fields::of(node, "`state`", &["backend", "memory"], problems) else { return StateBackend::Memory };
    let mut memory = StateBackend::ROCKSDB_MEMORY;
    fields.update("memory", &mut memory, fields::size(StateBackend::ROCKSDB_LEAST_MEMORY), problems);
    let backend = |node: &Node| match &node.value {
        Value::Text(name) if name == "rocksdb" && !HAS_ROCKSDB => Err(NO_ROCKSDB.to_owned()),
        _ => fields::choice(&[("memory", StateBackend::Memory), ("rocksdb", StateBackend::Rocksdb { memory })])(node),
    };
    let node = fields.required("backend", "where live state is held: memory or rocksdb", problems);
    let backend = node.and_then(|node| fields::value(node, "backend", backend, problems)).unwrap_or_default();
    if let (StateBackend::Memory, Some(node)) = (backend, fields.get("memory")) {
        problems.add(&node.at, "`memory` does nothing with the state backend memory; remove it");
    }
    backend
}

pub(super) fn checkpoints(node: &Node, problems: &mut Problems) -> Checkpoints {
    let mut checkpoints = Checkpoints::default();
    let Some(fields) = Fields::of(node, "`checkpoints`", CHECKPOINTS, problems) else { return checkpoints };
    fields.update("interval", &mut checkpoints.interval, fields::duration(1), problems);
    fields.update("timeout", &mut checkpoints.timeout, fields::duration(1), problems);
    fields.update("min_pause", &mut checkpoints.min_pause, fields::duration(0), problems);
    fields.update("tolerable_failures", &mut checkpoints.tolerable_failures, fields::whole(0), problems);
    fields.update("retain", &mut checkpoints.retain, fields::whole(1), problems);
    fields.update("on_cancel", &mut checkpoints.on_cancel, fields::choice(RETENTION), problems);
    fields.update("on_finish", &mut checkpoints.on_finish, fields::choice(RETENTION), problems);
    checkpoints
}

#[derive(Clone, Copy)]
enum Strategy {
    Exponential,
    Fixed,
    None,
}

pub(super) fn restart(node: &Node, problems: &mut Problems) -> Restart {
    let Some(fields) = Fields::of(node, "`restart`", RESTART, problems) else { return Restart::default() };
    let strategy = fields.read("strategy", fields::choice(STRATEGIES), problems).unwrap_or(Strategy::Exponential);
    let (name, used): (_, &[&str]) = match strategy {
        Strategy::Exponential => ("exponential-delay", &["initial", "max", "multiplier", "jitter", "attempts"]),
        Strategy::Fixed => ("fixed-delay", &["delay", "attempts"]),
        Strategy::None => ("none", &[]),
    };
    for field in RESTART.iter().filter(|field| **field != "strategy" && !used.contains(*field)) {
        if let Some(node) = fields.get(field) {
            problems.add(&node.at, format!("`{field}` does nothing with the restart strategy {name}; remove it"));
        }
    }
    match strategy {
        Strategy::Exponential => exponential(&fields, problems),
        Strategy::Fixed => Restart::FixedDelay {
            delay: fields.read("delay", fields::duration(0), problems).unwrap_or(Duration::from_secs(1)),
            attempts: fields.read("attempts", fields::whole(1), problems),
        },
        Strategy::None => Restart::None,
    }
}

fn exponential(fields: &Fields<'_>, problems: &mut Problems) -> Restart {
    let initial = fields.read("initial", fields::duration(1), problems).unwrap_or(Duration::from_secs(1));
    let max = fields.read("max", fields::duration(1), problems);
    if let (Some(max), Some(node)) = (max, fields.get("max"))
        && max < initial
    {
        problems.add(&node.at, "`max`: must not be shorter than `initial`");
    }
    Restart::ExponentialDelay {
        initial,
        max: max.unwrap_or_else(|| Duration::from_secs(60).max(initial)),
        multiplier: fields.read("multiplier", fields::ratio(1.0, f64::INFINITY), problems).unwrap_or(1.5),
        jitter: fields.read("jitter", fields::ratio(0.0, 1.0), problems).unwrap_or(0.1),
        attempts: fields.read("attempts", fields::whole(1), problems),
    }
}
