//! Operators.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use tidemill_wit::descriptor::TtlUpdate;

use crate::guest::Limits;
use crate::spec::Text;
use crate::spec::error::{At, Problems};
use crate::spec::fields::{self, Fields};
use crate::spec::job::{OnError, Operator, Parameters, StateOverride, Table, TableRows, Ttl};
use crate::spec::tree::{Node, Value};

const OPERATOR: &[&str] =
    &["uid", "input", "broadcast", "key_by", "component", "parameters", "tables", "states", "on_error", "end_of_input", "limits"];
/// Whether the event-time timers that are left fire at the end of input.
const TIMERS: &[(&str, bool)] = &[("fire", true), ("none", false)];
const ON_ERROR: &[(&str, OnError)] = &[("fail", OnError::Fail), ("dead-letter", OnError::DeadLetter)];
const TTL_UPDATE: &[(&str, TtlUpdate)] =
    &[("on_create_and_write", TtlUpdate::OnCreateAndWrite), ("on_read_and_write", TtlUpdate::OnReadAndWrite)];

pub(in crate::spec) fn operator(node: &Node, text: &Text<'_>, problems: &mut Problems) -> Option<Operator> {
    let fields = Fields::of(node, "an operator", OPERATOR, problems)?;
    let component = fields.required("component", "the .wasm file of the operator", problems);
    let component = component.and_then(|node| fields::value(node, "component", |node| super::path(node, text), problems));
    Some(Operator {
        uid: super::uid(&fields, "operator", problems),
        inputs: super::inputs(&fields, "operator", problems),
        broadcast: fields.get("broadcast").map(|node| super::streams(node, "broadcast", problems)).unwrap_or_default(),
        key_by: fields.get("key_by").and_then(|node| key(node, "key_by", problems)),
        component: component.unwrap_or_else(|| At { value: PathBuf::new(), at: fields.at.clone() }),
        parameters: parameters(&fields, problems),
        tables: named(&fields, "tables", problems, |name, node, problems| table(name, node, text, problems)),
        states: named(&fields, "states", problems, state),
        on_error: fields.read("on_error", fields::choice(ON_ERROR), problems).unwrap_or_default(),
        fire_at_end: fields.get("end_of_input").is_none_or(|node| end_of_input(node, problems)),
        limits: fields.get("limits").map(|node| limits(node, problems)).unwrap_or_default(),
    })
}

/// The fields that make a key: a list of names, or one name.
fn key(node: &Node, field: &str, problems: &mut Problems) -> Option<At<Vec<At<String>>>> {
    let nodes = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let (mut names, mut seen): (Vec<At<String>>, _) = (Vec::new(), HashSet::new());
    for node in nodes {
        let name = fields::value(node, field, fields::text_at, problems)?;
        if !seen.insert(name.value.clone()) {
            problems.add(&node.at, format!("`{field}`: the field `{}` is named twice", name.value));
            return None;
        }
        names.push(name);
    }
    if names.is_empty() {
        problems.add(&node.at, format!("`{field}`: the list is empty; name the fields that make the key"));
        return None;
    }
    Some(At { value: names, at: node.at.clone() })
}

fn parameters(fields: &Fields<'_>, problems: &mut Problems) -> Parameters {
    let node = fields.get("parameters");
    let entries = node.and_then(|node| fields::entries(node, "`parameters`", problems)).unwrap_or_default();
    Parameters {
        value: entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect(),
        at: node.map_or(fields.at, |node| &node.at).clone(),
        fields: entries.iter().map(|entry| At { value: entry.key.clone(), at: entry.key_at.clone() }).collect(),
    }
}

/// The entries of a mapping whose keys are names that the component declares.
fn named<T>(
    fields: &Fields<'_>,
    field: &str,
    problems: &mut Problems,
    read: impl Fn(At<String>, &Node, &mut Problems) -> Option<T>,
) -> Vec<T> {
    let Some(node) = fields.get(field) else { return Vec::new() };
    let entries = fields::entries(node, &format!("`{field}`"), problems).unwrap_or_default();
    let name = |key: &str, at| At { value: key.to_owned(), at };
    entries.iter().filter_map(|entry| read(name(&entry.key, entry.key_at.clone()), &entry.node, problems)).collect()
}

fn table(name: At<String>, node: &Node, text: &Text<'_>, problems: &mut Problems) -> Option<Table> {
    let fields = Fields::of(node, &format!("the table `{}`", name.value), &["path", "rows", "key"], problems)?;
    let key = fields.required("key", "the fields of a row that make its key, in order", problems);
    let key = key.and_then(|node| self::key(node, "key", problems))?;
    let names: Vec<String> = key.value.into_iter().map(|field| field.value).collect();
    let key = At { value: names, at: key.at };
    let rows = match (fields.get("path"), fields.get("rows")) {
        (Some(path), None) => fields::value(path, "path", |node| super::path(node, text), problems).map(TableRows::File),
        (None, Some(rows)) => rows_of(rows, &key.value, problems).map(TableRows::Inline),
        (Some(_), Some(rows)) => {
            problems.add(&rows.at, format!("the table `{}` has both `path` and `rows`; keep one", name.value));
            None
        }
        (None, None) => {
            problems.add(fields.at, format!("the table `{}` needs `path`, a CSV or JSON lines file, or `rows`", name.value));
            None
        }
    };
    Some(Table { name, rows: rows?, key })
}

fn rows_of(node: &Node, key: &[String], problems: &mut Problems) -> Option<Vec<At<serde_json::Value>>> {
    let Value::List(rows) = &node.value else {
        problems.add(&node.at, format!("`rows` must be a list of mappings, not {}", node.kind()));
        return None;
    };
    for row in rows {
        let entries = fields::entries(row, "a row", problems)?;
        let given: BTreeSet<&str> = entries.iter().map(|entry| &*entry.key).collect();
        if let Some(field) = key.iter().find(|field| !given.contains(field.as_str())) {
            problems.add(&row.at, format!("the row has no field `{field}`, which is part of the table's key"));
        }
    }
    Some(rows.iter().map(|row| At { value: row.to_json(), at: row.at.clone() }).collect())
}

fn state(name: At<String>, node: &Node, problems: &mut Problems) -> Option<StateOverride> {
    let fields = Fields::of(node, &format!("the state `{}`", name.value), &["ttl", "ttl_update"], problems)?;
    Some(StateOverride {
        ttl: fields.read("ttl", ttl, problems),
        ttl_update: fields.read("ttl_update", fields::choice(TTL_UPDATE), problems),
        name,
    })
}

/// A length of time, or `none`.
fn ttl(node: &Node) -> Result<Ttl, String> {
    match &node.value {
        Value::Text(text) if text == "none" => Ok(Ttl::Never),
        _ => fields::millis(1)(node).map(Ttl::After).map_err(|message| format!("{message}; or `none`, for ever")),
    }
}

fn end_of_input(node: &Node, problems: &mut Problems) -> bool {
    let Some(fields) = Fields::of(node, "`end_of_input`", &["timers"], problems) else { return true };
    let timers = fields.required("timers", "whether the event-time timers that are left fire: fire or none", problems);
    timers.and_then(|node| fields::value(node, "timers", fields::choice(TIMERS), problems)).unwrap_or(true)
}

fn stack(node: &Node) -> Result<u64, String> {
    let size = fields::size(Limits::MIN_STACK)(node)?;
    if size > Limits::MAX_STACK { Err(format!("must be at most 2MiB, not {size} bytes")) } else { Ok(size) }
}

fn limits(node: &Node, problems: &mut Problems) -> Limits {
    let mut limits = Limits::default();
    if let Some(fields) = Fields::of(node, "`limits`", &["memory", "deadline", "output", "table", "stack"], problems) {
        fields.update("memory", &mut limits.memory, fields::size(Limits::MIN_MEMORY), problems);
        fields.update(
            "deadline",
            &mut limits.deadline,
            fields::duration(i64::try_from(Limits::MIN_DEADLINE.as_millis()).unwrap_or(i64::MAX)),
            problems,
        );
        fields.update("output", &mut limits.output, fields::size(1), problems);
        fields.update("table", &mut limits.table, fields::whole(1), problems);
        fields.update("stack", &mut limits.stack, stack, problems);
    }
    limits
}
