//! Compares a plan with what the components of its operators declare.

use std::collections::{HashMap, HashSet};

use tidemill_wit::descriptor::Descriptor;
use tidemill_wit::schema::{Field, Type, TypeTable};

use super::{DEAD_LETTER, Edge, INVALID, MAIN, Part, Plan};
use crate::spec::error::{At, Problems, SpecError};
use crate::spec::job::{JobSpec, Operator, Ttl};
use crate::spec::nearest::hint;

/// What an edge carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The lane with this index of the component that the edge comes from, or a source's records (0).
    Lane(usize),
    /// A source's records that do not fit its type.
    Invalid,
    /// The records that the operator's component cannot handle.
    DeadLetter,
}

/// Checks names and structure: lanes, keys, event times, states, tables, parameters. Returns what each edge of the plan carries, in the
/// order of the edges. Whether types fit is not checked here.
///
/// # Errors
/// The spec names something that a component does not have, or lacks something that it needs; every such problem is listed.
pub fn bind(spec: &JobSpec, plan: &Plan, descriptors: &HashMap<String, Descriptor>) -> Result<Vec<Output>, SpecError> {
    let mut problems = Problems::default();
    for operator in &spec.operators {
        match descriptors.get(&operator.uid.value) {
            Some(descriptor) => check_operator(operator, descriptor, &mut problems),
            None => problems.add(&operator.component.at, format!("the component of `{}` is not loaded", operator.uid.value)),
        }
    }
    check_timestamps(spec, plan, descriptors, &mut problems);
    let outputs = plan.edges.iter().map(|edge| output(plan, edge, descriptors, &mut problems)).collect();
    problems.into_result(&spec.file, outputs)
}

fn output(plan: &Plan, edge: &Edge, descriptors: &HashMap<String, Descriptor>, problems: &mut Problems) -> Output {
    let Some(node) = plan.nodes.get(edge.from) else { return Output::Lane(0) };
    match (&node.part, &*edge.lane) {
        (Part::Operator(_), DEAD_LETTER) => Output::DeadLetter,
        (Part::Operator(_), lane) => {
            let lanes = descriptors.get(&node.uid).map(|descriptor| descriptor.lanes.as_slice()).unwrap_or_default();
            let index = lanes.iter().position(|known| known.name == lane);
            if index.is_none() && !lanes.is_empty() {
                let known = lanes.iter().map(|lane| &*lane.name).chain([DEAD_LETTER]);
                problems.add(&edge.at, format!("the operator `{}` has no lane `{lane}`{}", node.uid, hint(lane, known)));
            }
            Output::Lane(index.unwrap_or(0))
        }
        (Part::Source(_), INVALID) => Output::Invalid,
        (Part::Source(_) | Part::Sink(_), _) => Output::Lane(0),
    }
}

fn check_operator(operator: &Operator, descriptor: &Descriptor, problems: &mut Problems) {
    check_key(operator, descriptor, problems);
    check_broadcast(operator, descriptor, problems);
    check_parameters(operator, &descriptor.parameters, problems);
    for state in &operator.states {
        let known = descriptor.states.iter().map(|state| &*state.name);
        if descriptor.broadcast_states.iter().any(|known| known.name == state.name.value) {
            problems.add(&state.name.at, format!("the state `{}` is a broadcast state, which has no ttl", state.name.value));
            continue;
        }
        check_name("state", &state.name, &descriptor.name, known, problems);
        let declared = descriptor.states.iter().find(|known| known.name == state.name.value);
        let ttl = state.ttl.map_or_else(|| declared.and_then(|declared| declared.ttl), Ttl::millis);
        if state.ttl_update.is_some() && ttl.is_none() && declared.is_some() {
            problems.add(&state.name.at, format!("`ttl_update` does nothing: the state `{}` has no ttl", state.name.value));
        }
    }
    for table in &operator.tables {
        check_name("table", &table.name, &descriptor.name, descriptor.tables.iter().map(|table| &*table.name), problems);
        if let Some(declared) = descriptor.tables.iter().find(|declared| declared.name == table.name.value) {
            check_arity(&format!("the key of the table `{}`", table.name.value), &table.key, &declared.key, problems);
        }
    }
    let given = |name: &str| operator.tables.iter().any(|given| given.name.value == name);
    for missing in descriptor.tables.iter().filter(|table| !table.optional && !given(&table.name)) {
        let message = format!("the component `{}` needs the table `{}`: give it under `tables`", descriptor.name, missing.name);
        problems.add(&operator.component.at, message);
    }
}

fn check_key(operator: &Operator, descriptor: &Descriptor, problems: &mut Problems) {
    match (&operator.key_by, &descriptor.key) {
        (None, None) => {}
        (Some(key), None) => {
            problems.add(&key.at, format!("the component `{}` has no key: remove `key_by`", descriptor.name));
        }
        (None, Some(_)) => {
            let message = format!("the component `{}` has a key: name its fields under `key_by`", descriptor.name);
            problems.add(&operator.component.at, message);
        }
        (Some(key), Some(declared)) => {
            check_arity("`key_by`", key, declared, problems);
            for field in &key.value {
                check_field("key_by", field, &descriptor.input, &descriptor.name, problems);
            }
        }
    }
}

fn check_broadcast(operator: &Operator, descriptor: &Descriptor, problems: &mut Problems) {
    match (operator.broadcast.first(), &descriptor.broadcast) {
        (Some(stream), None) => {
            problems.add(&stream.at, format!("the component `{}` takes no broadcast records: remove `broadcast`", descriptor.name));
        }
        (None, Some(_)) => {
            let message = format!("the component `{}` takes broadcast records: name their streams under `broadcast`", descriptor.name);
            problems.add(&operator.component.at, message);
        }
        (Some(_), Some(_)) | (None, None) => {}
    }
}

fn check_arity<T>(what: &str, key: &At<Vec<T>>, declared: &TypeTable, problems: &mut Problems) {
    let expected = match &declared.root {
        Type::Tuple(items) => items.len(),
        _ => 1,
    };
    if key.value.len() != expected {
        let message = format!("{what} names {} field(s), but the component's key has {expected}", key.value.len());
        problems.add(&key.at, message);
    }
}

/// Checks the first step of a path of fields.
fn check_field(what: &str, path: &At<String>, input: &TypeTable, component: &str, problems: &mut Problems) {
    let Some(fields) = input.fields() else { return };
    let step = path.value.split('.').next().unwrap_or_default();
    if fields.iter().all(|field| field.name != step) {
        let hint = hint(step, fields.iter().map(|field| &*field.name));
        problems.add(&path.at, format!("`{what}`: the input of the component `{component}` has no field `{step}`{hint}"));
    }
}

fn check_parameters(operator: &Operator, declared: &TypeTable, problems: &mut Problems) {
    let parameters = &operator.parameters;
    let fields = declared.fields().unwrap_or_default();
    let known: HashSet<&str> = fields.iter().flat_map(names).collect();
    for given in &parameters.fields {
        if !known.contains(&*given.value) {
            problems.add_with(&given.at, || {
                let hint = hint(&given.value, fields.iter().map(|field| &*field.name));
                format!("`{}` has no parameter `{}`{hint}", operator.uid.value, given.value)
            });
        }
    }
    let given: HashSet<&str> = parameters.fields.iter().map(|given| &*given.value).collect();
    for field in fields.iter().filter(|field| field.default.is_none() && !matches!(field.ty, Type::Option(_))) {
        if !names(field).any(|name| given.contains(name)) {
            problems.add(&parameters.at, format!("missing parameter `{}` of `{}`", field.name, operator.uid.value));
        }
    }
}

/// The names under which a field can be given.
fn names(field: &Field) -> impl Iterator<Item = &str> {
    std::iter::once(&*field.name).chain(field.aliases.iter().map(String::as_str))
}

fn check_name<'a>(what: &str, name: &At<String>, component: &str, known: impl Iterator<Item = &'a str>, problems: &mut Problems) {
    let known: Vec<&str> = known.collect();
    if !known.contains(&&*name.value) {
        problems.add(&name.at, format!("the component `{component}` has no {what} `{}`{}", name.value, hint(&name.value, known)));
    }
}

fn check_timestamps(spec: &JobSpec, plan: &Plan, descriptors: &HashMap<String, Descriptor>, problems: &mut Problems) {
    for edge in plan.edges.iter().filter(|edge| edge.lane == MAIN) {
        let (Some(from), Some(to)) = (plan.nodes.get(edge.from), plan.nodes.get(edge.to)) else { continue };
        let Part::Source(source) = from.part else { continue };
        let timestamp = spec.sources.get(source).and_then(|source| source.timestamp.as_ref());
        if let (Some(timestamp), Some(descriptor)) = (timestamp, descriptors.get(&to.uid)) {
            let taken = if edge.broadcast { descriptor.broadcast.as_ref() } else { Some(&descriptor.input) };
            let Some(taken) = taken else { continue };
            check_field("timestamp", timestamp, taken, &descriptor.name, problems);
        }
    }
}
