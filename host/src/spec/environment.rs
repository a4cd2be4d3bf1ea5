//! `${NAME}` in the strings of a job spec stands for an environment variable; `$${` stands for `${`.

use super::error::Problems;
use super::tree::{self, Node, Value};

/// Where variables come from.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Puts the variables into all strings at and below the node. A string without quotes takes its type from the resulting text, as if that
/// had been written.
pub(super) fn substitute(node: &mut Node, lookup: Lookup<'_>, problems: &mut Problems) {
    match &mut node.value {
        Value::Text(text) if text.contains("${") => match expand(text, lookup) {
            Ok(expanded) if node.plain => node.value = typed(expanded),
            Ok(expanded) => node.value = Value::Text(expanded),
            Err(message) => problems.add(&node.at, message),
        },
        Value::List(items) => items.iter_mut().for_each(|item| substitute(item, lookup, problems)),
        Value::Map(entries) => entries.iter_mut().for_each(|entry| substitute(&mut entry.node, lookup, problems)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
    }
}

fn expand(text: &str, lookup: Lookup<'_>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(escaped) = before.strip_suffix('$') {
            expanded.push_str(escaped);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        let (name, after) = after.split_once('}').ok_or_else(|| format!("`${{{after}` has no closing brace"))?;
        if !is_name(name) {
            return Err(format!("`${{{name}}}` does not name an environment variable; write `$${{` for a literal `${{`"));
        }
        expanded.push_str(before);
        expanded.push_str(&lookup(name).ok_or_else(|| format!("the environment variable `{name}` is not set"))?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn typed(text: String) -> Value {
    match tree::parse(&text, "") {
        Ok(Node { value: scalar @ (Value::Bool(_) | Value::Number(_)), .. }) => scalar,
        _ => Value::Text(text),
    }
}
