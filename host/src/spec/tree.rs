//! A YAML document as a tree in which every node knows its place.

use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::{DuplicateKeyPolicy, Location, Spanned};

use super::error::{Place, Problems, SpecError};
use super::scalar;

/// A node of the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
    /// Whether it is a scalar without quotes, which takes its type from its text.
    pub(super) plain: bool,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A field of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_at: Place,
    pub(super) node: Node,
}

/// Reads a document. Only `true` and `false` are booleans, and numbers are those of YAML 1.2.
pub(super) fn parse(text: &str, file: &str) -> Result<Node, SpecError> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false, duplicate_keys: DuplicateKeyPolicy::PassThrough };
    let raw: Spanned<Raw> = serde_saphyr::from_str_with_options(text, options).map_err(|error| syntax_error(&error, text, file))?;
    Ok(node(raw, text))
}

/// Reports fields that are given twice.
pub(super) fn check_twice(node: &Node, file: &str, problems: &mut Problems) {
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| check_twice(item, file, problems)),
        Value::Map(entries) => {
            let mut seen: HashMap<&str, &Place> = HashMap::with_capacity(entries.len());
            for entry in entries {
                let first = seen.entry(&entry.key).or_insert(&entry.key_at);
                if *first != &entry.key_at {
                    let first = first.within(file);
                    problems.add(&entry.key_at, format!("the field `{}` is given twice, first at {first}", entry.key));
                }
                check_twice(&entry.node, file, problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
    }
}

impl Node {
    /// What the node is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    /// The same value as JSON.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Number(value) => value.clone().into(),
            Value::Text(value) => value.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect(),
        }
    }

    /// Gives the node and all below it a place.
    pub(super) fn placed(mut self, at: &Place) -> Self {
        self.at = at.clone();
        self.value = match self.value {
            Value::List(items) => Value::List(items.into_iter().map(|item| item.placed(at)).collect()),
            Value::Map(entries) => Value::Map(entries.into_iter().map(|entry| entry.placed(at)).collect()),
            scalar => scalar,
        };
        self
    }
}

impl Entry {
    fn placed(self, at: &Place) -> Self {
        Self { key: self.key, key_at: at.clone(), node: self.node.placed(at) }
    }
}

fn syntax_error(error: &serde_saphyr::Error, text: &str, file: &str) -> SpecError {
    let at = error.location().map_or(Place::Whole, place);
    let rendered = error.render();
    // The position stands before the message already.
    let message = rendered.lines().next().unwrap_or_default();
    let message = message.rfind(" at line ").and_then(|end| message.get(..end)).unwrap_or(message);
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let line = match at {
        Place::File { line, .. } => usize::try_from(line).ok().and_then(|line| text.lines().nth(line.saturating_sub(1))),
        _ => None,
    };
    if let Some(limit) = message.strip_prefix("budget breached: ") {
        let what = format!("not valid YAML: it has more values than are read ({limit}): put long tables into files of their own");
        return SpecError::one(file, at, what);
    }
    let hint = if line.is_some_and(|line| line.contains("${")) { "; inside { } or [ ], write \"${NAME}\" in quotes" } else { "" };
    SpecError::one(file, at, format!("not valid YAML: {message}{hint}"))
}

fn place(location: Location) -> Place {
    match location.line() {
        0 => Place::Whole,
        line => Place::File { line, column: location.column() },
    }
}

fn node(raw: Spanned<Raw>, text: &str) -> Node {
    let location = raw.referenced;
    let source = source(raw.defined, text);
    let plain = !source.is_some_and(|source| source.starts_with(['"', '\'', '|', '>']));
    let value = match raw.value {
        // The parser takes `1_000` and `0b11` for numbers as well, and `017` for a float.
        Raw::Scalar(Value::Number(parsed)) => match source.filter(|_| plain) {
            Some(source) => scalar::number(source).map_or_else(|| Value::Text(source.to_owned()), Value::Number),
            None => Value::Number(parsed),
        },
        Raw::Scalar(value) => value,
        Raw::List(items) => Value::List(items.into_iter().map(|item| node(item, text)).collect()),
        Raw::Map(entries) => Value::Map(entries.into_iter().map(|(key, value)| entry(key, value, text)).collect()),
    };
    Node { at: place(location), value, plain }
}

/// What a scalar is written as, without tag and anchor.
fn source(defined: Location, text: &str) -> Option<&str> {
    let start = usize::try_from(defined.span().byte_offset()?).ok()?;
    let len = usize::try_from(defined.span().byte_len()?).ok()?;
    text.get(start..start.checked_add(len)?)
}

fn entry(key: Spanned<String>, value: Spanned<Raw>, text: &str) -> Entry {
    Entry { key: key.value, key_at: place(key.referenced), node: node(value, text) }
}

/// A node as serde sees it.
enum Raw {
    Scalar(Value),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Number(value.into())))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Raw, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number must be finite"))?;
        Ok(Raw::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries: Vec<(Spanned<String>, Spanned<Raw>)> = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            entries.push((key, map.next_value()?));
        }
        Ok(Raw::Map(entries))
    }
}
