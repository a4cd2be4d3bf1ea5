//! The fields of a mapping as a table for people.

use std::fmt::Write;

use super::{Default, Field, Kind, Object};

/// The table of a mapping's fields, as it is in `docs/job-spec.md`.
#[must_use]
pub fn markdown(object: &Object) -> String {
    let mut text = "| field | value | default | meaning | example |\n|---|---|---|---|---|\n".to_owned();
    for Field { name, kind, default, about, example, .. } in object.fields {
        let default = match default {
            Default::Required => "required".to_owned(),
            Default::Value(value) => format!("`{value}`"),
            Default::Words(words) => (*words).to_owned(),
        };
        let _ = writeln!(text, "| `{name}` | {} | {default} | {about} | `{example}` |", words(*kind));
    }
    text
}

/// What a value is, in words, with its unit and least value.
fn words(kind: Kind) -> String {
    match kind {
        Kind::Text => "a string".to_owned(),
        Kind::Name => "letters, digits, `_` and `-`".to_owned(),
        Kind::Bool => "`true` or `false`".to_owned(),
        Kind::Whole(least) => format!("a whole number, at least {least}"),
        Kind::Time => "milliseconds since the epoch".to_owned(),
        Kind::TimeOrNull => "milliseconds since the epoch, or null".to_owned(),
        Kind::Number(least, Some(most)) => format!("a number from {least} to {most}"),
        Kind::Number(least, None) => format!("a number, at least {least}"),
        Kind::Duration(0) => "a duration".to_owned(),
        Kind::Duration(least) => format!("a duration, at least {least}ms"),
        Kind::Ttl => "a duration, or `none`".to_owned(),
        Kind::Size(least) => format!("a size, at least {least} bytes"),
        Kind::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or "),
        Kind::Stream => "a stream".to_owned(),
        Kind::Some(item) => format!("{}, or a list", words(*item)),
        Kind::List(Kind::Object(item)) => format!("a list of [{0}](#{1})s", item.name, anchor(item)),
        Kind::List(item) => format!("a list, each {}", words(*item)),
        Kind::Object(object) => format!("[{}](#{})", object.name, anchor(object)),
        Kind::Named(item) => format!("a mapping of names to {}", words(*item)),
        Kind::Record => "a mapping".to_owned(),
        Kind::Value => "as the component's type has it".to_owned(),
        Kind::Nothing => "`{}`".to_owned(),
    }
}

fn anchor(object: &Object) -> String {
    object.name.replace(' ', "-")
}
