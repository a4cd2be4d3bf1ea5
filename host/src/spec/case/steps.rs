//! The steps of a case.

use super::{Action, Context, Expected, Record, Step, setup};
use crate::spec::Text;
use crate::spec::error::{Place, Problems};
use crate::spec::fields::{self, Fields};
use crate::spec::nearest::hint;
use crate::spec::plan::MAIN;
use crate::spec::tree::{Entry, Node, Value};

const STEPS: &[&str] = &[
    "element",
    "broadcast",
    "watermark",
    "processing_time",
    "expect",
    "expect_unordered",
    "expect_error",
    "expect_metric",
    "checkpoint",
    "crash",
    "savepoint",
    "restore",
    "swap",
    "end",
];

pub(super) fn steps(node: &Node, with: (&Text<'_>, &Context<'_>), problems: &mut Problems) -> Vec<Step> {
    let Value::List(items) = &node.value else {
        problems.add(&node.at, format!("`steps` must be a list, whose items begin with `-`, not {}", node.kind()));
        return Vec::new();
    };
    if items.is_empty() {
        problems.add(&node.at, "`steps` is empty: say what comes in and what must come out");
    }
    let mut steps: Vec<Step> = Vec::new();
    for item in items {
        let Some(action) = step(item, with, problems) else { continue };
        if let (Action::ExpectError(_), Some(before)) = (&action, steps.last())
            && !can_fail(&before.action)
        {
            problems.add(&item.at, format!("`expect_error` is about the step before, but `{}` has no errors", before.action.name()));
        }
        steps.push(Step { at: item.at.clone(), action });
    }
    steps
}

/// Whether a step does something; what it expects may be wrong, but that is no error.
fn can_fail(action: &Action) -> bool {
    !matches!(action, Action::Expect { .. } | Action::ExpectError(_) | Action::ExpectMetric(_))
}

fn step(node: &Node, with: (&Text<'_>, &Context<'_>), problems: &mut Problems) -> Option<Action> {
    let entries = fields::entries(node, "a step", problems)?;
    let [entry] = entries else {
        let message = match entries {
            [] => "the step is empty".to_owned(),
            [first, second, ..] => format!("a step is one thing, not `{}` and `{}`: begin each with its own `-`", first.key, second.key),
            [_] => return None,
        };
        problems.add(&node.at, message);
        return None;
    };
    action(entry, with, problems)
}

fn action(Entry { key, key_at, node }: &Entry, with: (&Text<'_>, &Context<'_>), problems: &mut Problems) -> Option<Action> {
    let name = key.as_str();
    let number = |problems: &mut Problems| fields::value(node, name, integer, problems);
    let text = |problems: &mut Problems| fields::value(node, name, fields::text, problems);
    Some(match name {
        "element" => {
            let (time, value) = input(node, "`element`", "the record, as the component's input type has it", problems)?;
            Action::Element { time, value }
        }
        "broadcast" => {
            let (time, value) = input(node, "`broadcast`", "the record, as the type of the component's broadcast input has it", problems)?;
            Action::Broadcast { time, value }
        }
        "watermark" => Action::Watermark(number(problems)?),
        "processing_time" => Action::ProcessingTime(number(problems)?),
        "expect" => Action::Expect { records: records(node, name, problems)?, ordered: true },
        "expect_unordered" => Action::Expect { records: records(node, name, problems)?, ordered: false },
        "expect_error" => Action::ExpectError(text(problems)?),
        "expect_metric" => metrics(node, problems)?,
        "checkpoint" => Action::Checkpoint(text(problems)?),
        "crash" => nothing(node, name, Action::Crash, problems)?,
        "savepoint" => Action::Savepoint(text(problems)?),
        "restore" => Action::Restore(Box::new(setup::restore(node, with, problems)?)),
        "swap" => {
            Fields::of(node, "`swap`", &["component", "parameters", "tables", "states", "allow_non_restored_state"], problems)?.required(
                "component",
                "the component to go on with",
                problems,
            )?;
            Action::Swap
        }
        "end" => nothing(node, name, Action::End, problems)?,
        _ => {
            problems.add(key_at, format!("unknown step `{name}`{}", hint(name, STEPS.iter().copied())));
            return None;
        }
    })
}

/// A record that comes in, and its time.
fn input(node: &Node, what: &str, why: &str, problems: &mut Problems) -> Option<(Option<i64>, Record)> {
    let fields = Fields::of(node, what, &["ts", "value"], problems)?;
    let time = match fields.get("ts") {
        Some(node) => Some(fields::value(node, "ts", integer, problems)?),
        None => None,
    };
    Some((time, value(node, &fields, why, problems)?))
}

fn records(node: &Node, name: &str, problems: &mut Problems) -> Option<Vec<Expected>> {
    let Value::List(items) = &node.value else {
        problems.add(&node.at, format!("`{name}` must be a list of records, not {}", node.kind()));
        return None;
    };
    let all: Vec<Option<Expected>> = items.iter().map(|item| record(item, problems)).collect();
    all.into_iter().collect()
}

fn record(node: &Node, problems: &mut Problems) -> Option<Expected> {
    let fields = Fields::of(node, "a record", &["lane", "value", "ts"], problems)?;
    let time = match raw(node, "ts") {
        Some(Node { value: Value::Null, .. }) => Some(None),
        Some(node) => Some(Some(fields::value(node, "ts", integer, problems)?)),
        None => None,
    };
    Some(Expected {
        lane: fields.read("lane", fields::text, problems).unwrap_or_else(|| MAIN.to_owned()),
        value: value(node, &fields, "the record that should come out", problems)?,
        time,
    })
}

/// The field `value`, which may be null.
fn value(node: &Node, fields: &Fields<'_>, why: &str, problems: &mut Problems) -> Option<Record> {
    raw(node, "value").or_else(|| fields.required("value", why, problems)).map(Record::of)
}

fn raw<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let Value::Map(entries) = &node.value else { return None };
    entries.iter().find(|entry| entry.key == name).map(|entry| &entry.node)
}

/// Which counters a component has is known only when it runs, so the names are not checked here.
fn metrics(node: &Node, problems: &mut Problems) -> Option<Action> {
    let entries = fields::entries(node, "`expect_metric`", problems)?;
    if entries.is_empty() {
        problems.add(&node.at, "`expect_metric` is empty: name a metric and its value");
    }
    let mut metrics = Vec::new();
    for entry in entries {
        metrics.push((entry.key.clone(), fields::value(&entry.node, &entry.key, fields::whole(0), problems)?));
    }
    Some(Action::ExpectMetric(metrics))
}

fn nothing(node: &Node, name: &str, action: Action, problems: &mut Problems) -> Option<Action> {
    match &node.value {
        Value::Null => Some(action),
        Value::Map(_) => Fields::of(node, name, &[], problems).map(|_| action),
        _ => {
            problems.add(&node.at, format!("`{name}` takes nothing: write `{name}: {{}}`"));
            None
        }
    }
}

fn integer(node: &Node) -> Result<i64, String> {
    let number = match &node.value {
        Value::Number(number) => number.as_i64(),
        _ => None,
    };
    number.ok_or_else(|| match &node.value {
        Value::Number(number) => format!("must be a whole number of milliseconds, not {number}"),
        _ => format!("must be a whole number of milliseconds, not {}{}", node.kind(), fields::spelling(node)),
    })
}

/// Where a step is, as line and column.
#[must_use]
pub fn line_of(at: &Place) -> (u64, u64) {
    match at {
        Place::File { line, column } => (*line, *column),
        Place::Whole | Place::Override(_) => (0, 0),
    }
}
