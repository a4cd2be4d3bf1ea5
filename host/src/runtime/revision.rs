//! What a job is: the parts of its spec on which its output depends, and its components. Kept with its checkpoints, so that a start can say what
//! has changed since the last one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tidemill_core::{Error, Result};

use crate::spec::JobSpec;
use crate::spec::job::{Operator, Sink, SinkConnector, Source, SourceConnector, Stream, Table, TableRows};

/// What stands before the hash of a value that is not shown: parameters may be secret, and tables are long.
const HASHED: char = '#';

/// A job as it was when it ran: what it consists of by name, such as `source pos: path`, in words or as a hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// The folder of the spec.
    folder: PathBuf,
    parts: BTreeMap<String, String>,
}

impl Revision {
    /// That of a spec whose components and tables are as they are on disk now.
    ///
    /// # Errors
    /// A component or table cannot be read.
    pub fn of(spec: &JobSpec) -> Result<Self> {
        let mut revision = Self { folder: real(&spec.folder), parts: BTreeMap::new() };
        spec.sources.iter().for_each(|source| revision.source(source));
        spec.operators.iter().try_for_each(|operator| revision.operator(operator))?;
        spec.sinks.iter().for_each(|sink| revision.sink(sink, &spec.folder));
        Ok(revision)
    }

    /// Reads what [`to_text`](Self::to_text) gave; `None` if it is something else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// One line of text.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    pub fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::storage("writing the job's revision as JSON").caused_by(error))
    }

    /// Whether the job's spec was in this folder.
    #[must_use]
    pub fn is_of_folder(&self, folder: &Path) -> bool {
        self.folder == real(folder)
    }

    /// What is different in a later revision, in words.
    #[must_use]
    pub fn changes_to(&self, now: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        let whole = |name: &String, parts: &BTreeMap<String, String>| {
            let part = part_of(name);
            !parts.keys().any(|other| part_of(other) == part)
        };
        for (name, then) in &self.parts {
            match now.parts.get(name) {
                Some(value) if value == then => {}
                Some(value) if then.starts_with(HASHED) || value.starts_with(HASHED) => changes.push(format!("{name} has changed")),
                Some(value) => changes.push(format!("{name} was {then} and is {value}")),
                None if whole(name, &now.parts) => changes.push(format!("{} is gone", part_of(name))),
                None => changes.push(format!("{name} is gone")),
            }
        }
        for name in now.parts.keys().filter(|name| !self.parts.contains_key(*name)) {
            let new = if whole(name, &self.parts) { part_of(name) } else { name };
            changes.push(format!("{new} is new"));
        }
        changes.dedup();
        changes
    }

    fn set(&mut self, part: &str, uid: &str, what: &str, value: impl Into<String>) {
        self.parts.insert(format!("{part} {uid}: {what}"), value.into());
    }

    fn source(&mut self, source: &Source) {
        let SourceConnector::File(file) = &source.connector;
        let mut set = |what: &str, value: String| self.set("source", &source.uid.value, what, value);
        set("path", relative(Path::new(&file.pattern.value), &file.base));
        set("format", format!("{:?}", file.format).to_lowercase());
        set("follow", file.follow.to_string());
        if let Some(timestamp) = &source.timestamp {
            set("timestamp", timestamp.value.clone());
        }
        set(
            "watermark",
            format!("{} ms out of order, idle after {:?} ms", source.watermark.bounded_out_of_orderness, source.watermark.idle_timeout),
        );
    }

    fn operator(&mut self, operator: &Operator) -> Result<()> {
        let uid = &operator.uid.value;
        let mut set = |what: &str, value: String| self.set("operator", uid, what, value);
        set("input", streams(&operator.inputs));
        if !operator.broadcast.is_empty() {
            set("broadcast", streams(&operator.broadcast));
        }
        if let Some(key_by) = &operator.key_by {
            set("key_by", key_by.value.iter().map(|field| field.value.as_str()).collect::<Vec<_>>().join(", "));
        }
        set("component", hash(&read(&operator.component.value, "the component", uid)?));
        set("on_error", format!("{:?}", operator.on_error));
        for (name, value) in operator.parameters.value.as_object().into_iter().flatten() {
            set(&format!("parameter {name}"), hash(value.to_string().as_bytes()));
        }
        for state in &operator.states {
            set(&format!("state {}", state.name.value), format!("{:?}, {:?}", state.ttl, state.ttl_update));
        }
        for table in &operator.tables {
            set(&format!("table {}", table.name.value), hash(&rows(table, uid)?));
        }
        Ok(())
    }

    fn sink(&mut self, sink: &Sink, folder: &Path) {
        let SinkConnector::File(file) = &sink.connector;
        let (path, uid) = (relative(&file.dir.value, folder), &sink.uid.value);
        self.set("sink", uid, "input", streams(&sink.inputs));
        self.set("sink", uid, "path", path);
        self.set("sink", uid, "format", format!("{:?}", file.format).to_lowercase());
    }
}

/// The source, operator or sink that the name of a part begins with.
fn part_of(name: &str) -> &str {
    name.split_once(':').map_or(name, |(part, _)| part)
}

/// A folder by the one path that does not depend on where the process runs.
fn real(folder: &Path) -> PathBuf {
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Below the spec's folder a path is relative to it, so that a job whose folder is moved is the same job.
fn relative(path: &Path, folder: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).display().to_string()
}

fn streams(streams: &[Stream]) -> String {
    streams.iter().map(|stream| format!("{}.{}", stream.uid, stream.lane)).collect::<Vec<_>>().join(", ")
}

fn rows(table: &Table, uid: &str) -> Result<Vec<u8>> {
    match &table.rows {
        TableRows::File(path) => read(&path.value, "the table", uid),
        TableRows::Inline(rows) => Ok(rows.iter().map(|row| row.value.clone()).collect::<Value>().to_string().into_bytes()),
    }
}

fn read(path: &Path, what: &str, uid: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Error::config(format!("reading {what} {} of operator {uid}", path.display())).caused_by(error))
}

fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().take(16).fold(HASHED.to_string(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Revision;

    const SPEC: &str = "
name: j
sources: [{ uid: s, file: { path: \"in/*\", format: json } }]
operators: [{ uid: o, input: s, key_by: [k], component: c.wasm, parameters: { password: secret } }]
sinks: [{ uid: out, input: o, file: { path: out, format: json } }]
";

    #[test]
    fn what_changes_is_named_and_no_value_of_a_parameter_is_shown() {
        let root = tempfile::tempdir().unwrap();
        let of = |spec: &str, component: &str| {
            fs::write(root.path().join("c.wasm"), component).unwrap();
            fs::write(root.path().join("job.yaml"), spec).unwrap();
            Revision::of(&crate::spec::load(&root.path().join("job.yaml"), &[]).unwrap()).unwrap()
        };
        let first = of(SPEC, "one");
        assert_eq!(Revision::from_text(&first.to_text().unwrap()), Some(first.clone()));
        assert!(!first.to_text().unwrap().contains("secret"));
        assert!(first.is_of_folder(root.path()) && first.changes_to(&of(SPEC, "one")).is_empty());
        assert_eq!(first.changes_to(&of(SPEC, "two")), ["operator o: component has changed"]);
        let changed = of(&SPEC.replace("in/*", "day2/*").replace("path: out", "path: out2").replace("secret", "other"), "one");
        let expected =
            ["operator o: parameter password has changed", "sink out: path was out and is out2", "source s: path was in/* and is day2/*"];
        assert_eq!(first.changes_to(&changed), expected);
        let renamed = of(&SPEC.replace("uid: out", "uid: other").replace(", parameters: { password: secret }", ""), "one");
        assert_eq!(first.changes_to(&renamed), ["operator o: parameter password is gone", "sink out is gone", "sink other is new"]);
    }
}
