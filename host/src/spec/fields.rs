//! Reads the fields of a mapping and reports the ones that it should not have.

use std::time::Duration;

use super::error::{At, Place, Problems};
use super::nearest::{hint, nearest};
use super::scalar;
use super::size::parse_size;
use super::tree::{Entry, Node, Value};
use crate::codec::{parse_duration, without_unit};

/// The fields of one mapping of the spec.
pub(super) struct Fields<'a> {
    /// Where the mapping is.
    pub(super) at: &'a Place,
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    /// The fields of a node, which must be a mapping and may have only the `known` ones. `what` names the mapping in messages.
    pub(super) fn of(node: &'a Node, what: &str, known: &[&str], problems: &mut Problems) -> Option<Self> {
        let entries = entries(node, what, problems)?;
        for entry in entries.iter().filter(|entry| !known.contains(&&*entry.key)) {
            problems.add_with(&entry.key_at, || format!("unknown field `{}`{}", entry.key, hint(&entry.key, known.iter().copied())));
        }
        Some(Self { at: &node.at, entries })
    }

    /// A field; `None` if it is absent or has no value.
    pub(super) fn get(&self, name: &str) -> Option<&'a Node> {
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        (entry.node.value != Value::Null).then_some(&entry.node)
    }

    /// A field that must be there; `why` tells what it is for.
    pub(super) fn required(&self, name: &str, why: &str, problems: &mut Problems) -> Option<&'a Node> {
        let node = self.get(name);
        if node.is_none() {
            problems.add(self.at, format!("missing field `{name}`: {why}"));
        }
        node
    }

    /// A field's value, if it is there.
    pub(super) fn read<T>(&self, name: &str, read: impl Fn(&Node) -> Result<T, String>, problems: &mut Problems) -> Option<T> {
        value(self.get(name)?, name, read, problems)
    }

    /// Replaces the default in `target` if the field is there.
    pub(super) fn update<T>(&self, name: &str, target: &mut T, read: impl Fn(&Node) -> Result<T, String>, problems: &mut Problems) {
        if let Some(value) = self.read(name, read, problems) {
            *target = value;
        }
    }
}

/// The entries of a node that must be a mapping.
pub(super) fn entries<'a>(node: &'a Node, what: &str, problems: &mut Problems) -> Option<&'a [Entry]> {
    match &node.value {
        Value::Map(entries) => Some(entries),
        _ => {
            problems.add(&node.at, format!("{what} must be a mapping of fields, not {}", node.kind()));
            None
        }
    }
}

/// The value of a node; `name` is its field's name.
pub(super) fn value<T>(node: &Node, name: &str, read: impl Fn(&Node) -> Result<T, String>, problems: &mut Problems) -> Option<T> {
    read(node).map_err(|message| problems.add(&node.at, format!("`{name}`: {message}"))).ok()
}

/// A string.
pub(super) fn text(node: &Node) -> Result<String, String> {
    match &node.value {
        Value::Text(text) if text.is_empty() => Err("must not be empty".to_owned()),
        Value::Text(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Err(format!("must be a string, not {}: write it in quotes", node.kind())),
        Value::Null | Value::List(_) | Value::Map(_) => Err(format!("must be a string, not {}", node.kind())),
    }
}

/// A string with its place.
pub(super) fn text_at(node: &Node) -> Result<At<String>, String> {
    text(node).map(|value| At { value, at: node.at.clone() })
}

/// `true` or `false`.
pub(super) fn boolean(node: &Node) -> Result<bool, String> {
    match node.value {
        Value::Bool(value) => Ok(value),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A whole number from `least` on.
pub(super) fn whole<T: TryFrom<u64>>(least: u64) -> impl Fn(&Node) -> Result<T, String> {
    move |node| {
        let number = match &node.value {
            Value::Number(number) => number.as_u64(),
            _ => None,
        };
        let checked = number.filter(|number| *number >= least).and_then(|number| T::try_from(number).ok());
        checked.ok_or_else(|| format!("must be a whole number of at least {least}, not {}{}", shown(node), spelling(node)))
    }
}

/// A number from `least` to `most`.
pub(super) fn ratio(least: f64, most: f64) -> impl Fn(&Node) -> Result<f64, String> {
    move |node| {
        let number = match &node.value {
            Value::Number(number) => number.as_f64(),
            _ => None,
        };
        let range = if most.is_finite() { format!("from {least} to {most}") } else { format!("of at least {least}") };
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| format!("must be a number {range}, not {}", shown(node)))
    }
}

/// A length of time in milliseconds, of at least `least` milliseconds.
pub(super) fn millis(least: i64) -> impl Fn(&Node) -> Result<i64, String> {
    move |node| {
        let length = match &node.value {
            Value::Text(text) => parse_duration(text)?,
            Value::Number(number) if number.is_u64() => return Err(without_unit(number)),
            Value::Number(number) => parse_duration(&number.to_string())?,
            _ => return Err(format!("must be a duration such as 30m, not {}", node.kind())),
        };
        if length < least { Err(format!("must be at least {}, not {}", shown_millis(least), shown(node))) } else { Ok(length) }
    }
}

/// A length of time of at least `least` milliseconds.
pub(super) fn duration(least: i64) -> impl Fn(&Node) -> Result<Duration, String> {
    move |node| Ok(Duration::from_millis(millis(least)(node)?.unsigned_abs()))
}

/// A size in bytes, of at least `least` bytes.
pub(super) fn size(least: u64) -> impl Fn(&Node) -> Result<u64, String> {
    move |node| {
        let size = match &node.value {
            Value::Text(text) => parse_size(text)?,
            Value::Number(number) => number.as_u64().ok_or_else(|| format!("{number} is not a number of bytes"))?,
            _ => return Err(format!("must be a size such as 256MiB, not {}", node.kind())),
        };
        if size < least { Err(format!("must be at least {}, not {}", shown_size(least), shown(node))) } else { Ok(size) }
    }
}

/// A value with its place.
pub(super) fn at<T>(read: impl Fn(&Node) -> Result<T, String>) -> impl Fn(&Node) -> Result<At<T>, String> {
    move |node| Ok(At { value: read(node)?, at: node.at.clone() })
}

/// One of some words, each standing for a value.
pub(super) fn choice<T: Copy>(words: &[(&str, T)]) -> impl Fn(&Node) -> Result<T, String> {
    move |node| {
        let names = || words.iter().map(|(name, _)| *name);
        let Value::Text(word) = &node.value else {
            return Err(format!("must be one of {}, not {}", names().collect::<Vec<_>>().join(", "), node.kind()));
        };
        let found = words.iter().find(|(name, _)| name == word);
        let meant = || nearest(word, names()).map_or_else(String::new, |name| format!(", did you mean `{name}`?"));
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| format!("unknown value `{word}`{}; known: {}", meant(), names().collect::<Vec<_>>().join(", ")))
    }
}

/// How to write the number that a string looks like.
pub(super) fn spelling(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => scalar::hint(text),
        _ => String::new(),
    }
}

fn shown(node: &Node) -> String {
    match &node.value {
        Value::Number(number) => number.to_string(),
        Value::Text(text) => format!("`{text}`"),
        _ => node.kind().to_owned(),
    }
}

fn shown_size(bytes: u64) -> String {
    if bytes > 0 && bytes.is_multiple_of(1 << 20) { format!("{}MiB", bytes >> 20) } else { format!("{bytes} bytes") }
}

fn shown_millis(millis: i64) -> String {
    if millis % 1_000 == 0 { format!("{}s", millis / 1_000) } else { format!("{millis}ms") }
}
