//! `tidemill component inspect`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tidemill_core::schema::describe::{describe, describe_type};
use tidemill_core::{Error, Result};
use tidemill_wit::descriptor::{Descriptor, StateDescriptor, StateKind, TtlUpdate};
use tidemill_wit::schema::{Field, Type, TypeTable};

use super::numbers::{bytes, spec_length};
use super::print;
use crate::codec::to_value;
use crate::guest::GuestEngine;

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The component's .wasm file
    component: PathBuf,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object
    Json,
}

pub(super) fn inspect(options: &Options) -> Result<()> {
    let path = options.component.display().to_string();
    let uploaded =
        std::fs::read(&options.component).map_err(|error| Error::config(format!("reading the component {path}")).caused_by(error))?;
    let component = GuestEngine::new()?.load(&path, &uploaded, None)?;
    let file = Upload { path: &path, digest: component.digest(), size: component.size() };
    match options.format {
        Format::Text => print(&text(&file, component.descriptor())),
        Format::Json => print(&format!("{:#}\n", as_json(&file, component.descriptor()))),
    }
    Ok(())
}

/// The uploaded file.
struct Upload<'a> {
    path: &'a str,
    digest: &'a str,
    size: usize,
}

fn text(file: &Upload<'_>, descriptor: &Descriptor) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<12}{value}");
    };
    line("component", &format!("{} {}", descriptor.name, descriptor.version));
    line("file", &format!("{}, {}", file.path, bytes(file.size as u64)));
    line("digest", &format!("sha256:{}", file.digest));
    line("key", &descriptor.key.as_ref().map_or_else(|| "none".to_owned(), describe));
    line("input", &describe(&descriptor.input));
    list(&mut line, "lanes", descriptor.lanes.iter().map(|lane| format!("{}: {}", lane.name, describe(&lane.schema))));
    if let Some(broadcast) = &descriptor.broadcast {
        line("broadcast", &describe(broadcast));
    }
    let broadcast = descriptor.broadcast_states.iter().map(|state| format!("{}: broadcast map {}", state.name, state_type(state)));
    list(&mut line, "states", descriptor.states.iter().map(state).chain(broadcast));
    let tables = descriptor.tables.iter().map(|table| {
        let optional = if table.optional { ", optional" } else { "" };
        format!("{}: {} -> {}{optional}", table.name, describe(&table.key), describe(&table.row))
    });
    list(&mut line, "tables", tables);
    list(&mut line, "parameters", fields(descriptor).iter().map(|field| parameter(&descriptor.parameters, field)));
    text
}

/// A line for each item, the first one with the name.
fn list(line: &mut impl FnMut(&str, &str), name: &str, items: impl Iterator<Item = String>) {
    let mut name = Some(name);
    for item in items {
        line(name.take().unwrap_or_default(), &item);
    }
    if let Some(name) = name {
        line(name, "none");
    }
}

fn state(state: &StateDescriptor) -> String {
    let ttl = state.ttl.map_or_else(String::new, |ttl| format!(", ttl {} {}", spec_length(ttl), update(state.ttl_update)));
    format!("{}: {} {}{ttl}", state.name, kind(state.kind), state_type(state))
}

fn state_type(state: &StateDescriptor) -> String {
    match &state.entry_key {
        Some(key) => format!("{} -> {}", describe(key), describe(&state.value)),
        None => describe(&state.value),
    }
}

fn parameter(table: &TypeTable, field: &Field) -> String {
    let mut text = format!("{}: {}", field.name, describe_type(table, &field.ty));
    if let Some(default) = default(table, field) {
        let _ = match (&field.ty, default.as_i64()) {
            (Type::Duration, Some(millis)) => write!(text, " = {}", spec_length(millis)),
            _ => write!(text, " = {default}"),
        };
    }
    text
}

/// The value that stands in for a parameter which the spec leaves out.
fn default(table: &TypeTable, field: &Field) -> Option<Value> {
    let encoded = field.default.as_ref()?;
    to_value(&TypeTable { types: table.types.clone(), root: field.ty.clone() }, encoded).ok()
}

fn fields(descriptor: &Descriptor) -> &[Field] {
    descriptor.parameters.fields().unwrap_or_default()
}

fn as_json(file: &Upload<'_>, descriptor: &Descriptor) -> Value {
    let states = descriptor.states.iter().map(|state| {
        json!({
            "name": state.name,
            "kind": kind(state.kind),
            "key": state.entry_key.as_ref().map(describe),
            "type": describe(&state.value),
            "ttl_ms": state.ttl,
            "ttl_update": update(state.ttl_update),
        })
    });
    let broadcast_states = descriptor
        .broadcast_states
        .iter()
        .map(|state| json!({ "name": state.name, "key": state.entry_key.as_ref().map(describe), "type": describe(&state.value) }));
    let tables = descriptor
        .tables
        .iter()
        .map(|table| json!({ "name": table.name, "key": describe(&table.key), "row": describe(&table.row), "optional": table.optional }));
    let parameters = fields(descriptor).iter().map(|field| {
        let ty = describe_type(&descriptor.parameters, &field.ty);
        json!({ "name": field.name, "type": ty, "default": default(&descriptor.parameters, field) })
    });
    json!({
        "name": descriptor.name,
        "version": descriptor.version,
        "file": file.path,
        "digest": file.digest,
        "size": file.size,
        "key": descriptor.key.as_ref().map(describe),
        "input": describe(&descriptor.input),
        "lanes": descriptor.lanes.iter().map(|lane| json!({ "name": lane.name, "type": describe(&lane.schema) })).collect::<Value>(),
        "broadcast": descriptor.broadcast.as_ref().map(describe),
        "states": states.collect::<Value>(),
        "broadcast_states": broadcast_states.collect::<Value>(),
        "tables": tables.collect::<Value>(),
        "parameters": parameters.collect::<Value>(),
    })
}

fn kind(kind: StateKind) -> &'static str {
    match kind {
        StateKind::Value => "value",
        StateKind::List => "list",
        StateKind::Map => "map",
        StateKind::Reducing => "reducing",
        StateKind::Aggregating => "aggregating",
    }
}

fn update(update: TtlUpdate) -> &'static str {
    match update {
        TtlUpdate::OnCreateAndWrite => "on_create_and_write",
        TtlUpdate::OnReadAndWrite => "on_read_and_write",
    }
}

#[cfg(test)]
mod tests;
