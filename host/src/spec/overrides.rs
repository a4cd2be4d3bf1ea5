//! Overrides of single values of a job spec: `--set path=value`.

use std::sync::Arc;

use super::error::{Place, Problems};
use super::nearest::hint;
use super::tree::{self, Entry, Node, Value};

/// Puts the value of an override, `path=value`, into the document. The path is made of field names, and of uids or indexes for the items
/// of lists, joined by dots; the value is YAML. Fields that are not there yet are added; whether the spec knows them shows when it is read.
pub(super) fn apply(root: &mut Node, text: &str, problems: &mut Problems) {
    let at = Place::Override(Arc::from(text));
    if let Err(message) = set(root, text, &at) {
        problems.add(&at, message);
    }
}

fn set(root: &mut Node, text: &str, at: &Place) -> Result<(), String> {
    let (path, value) = text.split_once('=').ok_or("write it as path=value, such as parallelism=2")?;
    let value = parse_value(value)?.placed(at);
    let mut node = root;
    let mut walked = String::new();
    for step in path.split('.') {
        if step.is_empty() {
            return Err(format!("the path `{path}` has an empty part"));
        }
        node = descend(node, step, &walked, at)?;
        walked = if walked.is_empty() { step.to_owned() } else { format!("{walked}.{step}") };
    }
    *node = value;
    Ok(())
}

fn parse_value(text: &str) -> Result<Node, String> {
    match tree::parse(text, "") {
        Ok(node) => Ok(node),
        Err(error) if text.starts_with(['[', '{', '"', '\'']) => {
            Err(error.problems.into_iter().next().map(|problem| problem.message).unwrap_or_default())
        }
        // Characters that mean something to YAML but not to a shell user, such as in `*.jsonl`.
        Err(_) => Ok(Node { at: Place::Whole, value: Value::Text(text.to_owned()), plain: false }),
    }
}

fn descend<'a>(node: &'a mut Node, step: &str, walked: &str, at: &Place) -> Result<&'a mut Node, String> {
    if matches!(node.value, Value::Null) {
        node.value = Value::Map(Vec::new());
    }
    let kind = node.kind();
    match &mut node.value {
        Value::Map(entries) => Ok(field(entries, step, at)),
        Value::List(items) => item(items, step, walked),
        _ => Err(format!("`{walked}` is {kind}, so that `{step}` cannot be set in it")),
    }
}

#[expect(clippy::indexing_slicing, reason = "the index was just found, or is that of the entry just pushed")]
fn field<'a>(entries: &'a mut Vec<Entry>, name: &str, at: &Place) -> &'a mut Node {
    let index = entries.iter().position(|entry| entry.key == name).unwrap_or_else(|| {
        let node = Node { at: at.clone(), value: Value::Null, plain: true };
        entries.push(Entry { key: name.to_owned(), key_at: at.clone(), node });
        entries.len() - 1
    });
    &mut entries[index].node
}

fn item<'a>(items: &'a mut [Node], step: &str, walked: &str) -> Result<&'a mut Node, String> {
    let named = items.iter().position(|item| uid(item) == Some(step));
    let count = items.len();
    match named.or_else(|| step.parse().ok().filter(|index| *index < count)) {
        Some(index) => items.get_mut(index).ok_or_else(|| format!("`{walked}` has no item {index}")),
        None => Err(format!("`{walked}` has no item with uid `{step}`{}", hint(step, items.iter().filter_map(uid)))),
    }
}

fn uid(item: &Node) -> Option<&str> {
    let Value::Map(entries) = &item.value else { return None };
    let entry = entries.iter().find(|entry| entry.key == "uid")?;
    match &entry.node.value {
        Value::Text(uid) => Some(uid),
        _ => None,
    }
}
