//! `tidemill savepoint`: take one of a running job, and look into those that are there.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use tidemill_core::disk::Disk;
use tidemill_core::job::{Outcome, Request};
use tidemill_core::{Error, Result};

use super::numbers::{bytes, count, time};
use super::print;
use super::stop::{JobFolder, TriggerId, other_outcome};
use crate::disk::RealDisk;
use crate::runtime::control::client::{Refusal, ask};
use crate::savepoint::{Contents, Row, Selection, diff, dump};
use crate::store::savepoint::Saved;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Take a savepoint of a running job, which goes on
    Create(Create),
    /// Show what a savepoint or checkpoint holds; no component is needed
    Inspect(Inspect),
    /// Write the content of a state, a JSON object a line
    Dump(Dump),
    /// Show in what two savepoints differ; exit code 1 if they do
    Diff(Diff),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    #[arg(
        num_args = 1..=2,
        required = true,
        value_names = ["JOB", "PATH"],
        help = "The job spec, unless --data-dir names the job's folder; and the folder of the savepoint, which must not exist yet, or be empty"
    )]
    paths: Vec<PathBuf>,
    /// The folder of the job
    #[arg(long, alias = "job-dir", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Take a checkpoint after it at once, and wait until that has committed the output that the savepoint covers
    #[arg(long)]
    wait_committed: bool,
    #[command(flatten)]
    trigger: TriggerId,
}

#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// The folder of the savepoint or checkpoint, or its manifest
    path: PathBuf,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Args)]
pub(super) struct Dump {
    /// The folder of the savepoint or checkpoint, or its manifest
    path: PathBuf,
    /// The operator's uid
    #[arg(long, value_name = "UID")]
    operator: String,
    /// The state's name
    #[arg(long, value_name = "NAME")]
    state: String,
    /// Only this key, as JSON, such as '[17,"sku-4"]'
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Diff {
    /// The first savepoint or checkpoint
    a: PathBuf,
    /// The second one
    b: PathBuf,
    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// One JSON object
    Json,
}

pub(super) fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Create(options) => create(options).map(|()| ExitCode::SUCCESS),
        Command::Inspect(options) => inspect(options).map(|()| ExitCode::SUCCESS),
        Command::Dump(options) => write_dump(options).map(|()| ExitCode::SUCCESS),
        Command::Diff(options) => show_diff(options),
    }
}

fn create(options: &Create) -> Result<()> {
    let (job, path) = match (&options.paths[..], &options.data_dir) {
        ([job, path], None) => (JobFolder::of_spec(job), path),
        ([path], Some(dir)) => (JobFolder::of_dir(dir), path),
        _ => return Err(Error::config("name the job spec and then the savepoint's folder, or --data-dir and the savepoint's folder")),
    };
    let path = absolute(path)?;
    let (key, wait_committed) = (options.trigger.key(), options.wait_committed);
    let request = Request::Savepoint { path: path.clone(), wait_committed };
    let outcome = ask(&job.dir()?, &request, &key).or_else(|refusal| taken_all_the_same(&path, &key, wait_committed, refusal))?;
    let Outcome::Saved { savepoint, path, committed_by } = outcome else { return Err(other_outcome()) };
    let note = match committed_by {
        Some(checkpoint) => format!("all output that it covers is committed by checkpoint {checkpoint}"),
        None if is_committed(&path) => "all output that it covers is committed".to_owned(),
        None => NOT_COMMITTED.to_owned(),
    };
    print(&format!("savepoint {savepoint} is in {}\n{note}\n", path.display()));
    Ok(())
}

/// What a savepoint that does not wait for its output leaves open.
const NOT_COMMITTED: &str = "the job's next checkpoint commits the output that it covers; if the job fails before, that output is lost to a \
                             start from this savepoint (--wait-committed waits for that checkpoint)";

/// Whether the savepoint has nothing left to commit.
fn is_committed(path: &std::path::Path) -> bool {
    open(path).is_ok_and(|saved| saved.manifest.sinks.iter().all(|sink| sink.committables.is_empty()))
}

/// Returns the savepoint of this request, if it exists though the job ended before it could say so.
fn taken_all_the_same(path: &std::path::Path, key: &str, wait_committed: bool, refusal: Refusal) -> Result<Outcome> {
    let Refusal { error, answered } = refusal;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    match Saved::of_trigger(&disk, path, key) {
        Some(savepoint) if !wait_committed => Ok(Outcome::Saved { savepoint, path: path.to_owned(), committed_by: None }),
        // The job itself says what became of the savepoint.
        Some(_) if answered => Err(error),
        Some(id) => {
            let text = format!("{}; savepoint {id} is in {}, but its output is not known to be committed", error.chain(), path.display());
            Err(Error::new(error.kind(), text))
        }
        None => Err(error),
    }
}

/// A path from the root: the job may run in another folder.
pub(super) fn absolute(path: &std::path::Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::config(format!("the path {} cannot be used", path.display())).caused_by(error))
}

fn open(path: &std::path::Path) -> Result<Saved> {
    Saved::open(Arc::new(RealDisk), path)
}

fn inspect(options: &Inspect) -> Result<()> {
    let saved = open(&options.path)?;
    let contents = Contents::read(&saved)?;
    print(&match options.format {
        Format::Text => text(&saved, &contents),
        Format::Json => {
            let manifest = &saved.manifest;
            let files: u64 = manifest.files.iter().map(|file| file.bytes).sum();
            let sinks: Vec<_> =
                manifest.sinks.iter().map(|sink| json!({"uid": sink.uid, "committables": sink.committables.len()})).collect();
            let object = json!({
                "savepoint": manifest.savepoint, "version": manifest.version, "job": manifest.job, "incarnation": manifest.incarnation,
                "checkpoint": manifest.checkpoint, "created": manifest.created, "parallelism": manifest.parallelism,
                "max_parallelism": manifest.max_parallelism, "end_of_input": manifest.end_of_input, "records_in": manifest.records_in,
                "bytes": files, "sources": manifest.sources, "operators": contents.operators, "sinks": sinks,
            });
            format!("{object}\n")
        }
    });
    Ok(())
}

fn text(saved: &Saved, contents: &Contents) -> String {
    let manifest = &saved.manifest;
    let size: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let mut out = format!(
        "{}: checkpoint {} of job {}, taken {}\n  format version {}, parallelism {}, max_parallelism {}, incarnation {}\n  {} in {} state \
         file(s), {} records read\n",
        saved.name(),
        manifest.checkpoint,
        manifest.job,
        time(manifest.created),
        manifest.version,
        manifest.parallelism,
        manifest.max_parallelism,
        manifest.incarnation,
        bytes(size),
        manifest.files.len(),
        count(manifest.records_in),
    );
    for source in &manifest.sources {
        let _ = writeln!(out, "source {}: {} split(s)", source.uid, source.splits.len());
        for split in &source.splits {
            let finished = if split.finished { ", finished" } else { "" };
            let _ = writeln!(out, "  {}: byte {}{finished}", split.name.escape_debug(), count(split.position));
        }
    }
    for operator in &contents.operators {
        let key = operator.key.as_deref().unwrap_or("no key");
        let _ = writeln!(
            out,
            "operator {}: {} keys of type {key}, {} event-time timers, {} processing-time timers, {}\n  component {}",
            operator.uid,
            count(operator.keys),
            count(operator.event_timers),
            count(operator.processing_timers),
            bytes(operator.bytes),
            operator.component,
        );
        for state in &operator.states {
            let entry_key = state.entry_key.as_ref().map_or_else(String::new, |key| format!("{key} to "));
            let _ = writeln!(
                out,
                "  {} state {}: {} keys, {} entries, {}; {entry_key}{}",
                state.kind,
                state.name,
                count(state.keys),
                count(state.entries),
                bytes(state.bytes),
                state.value,
            );
        }
    }
    for sink in manifest.sinks.iter().filter(|sink| !sink.committables.is_empty()) {
        let _ = writeln!(out, "sink {}: {} part(s) of output that a restore commits", sink.uid, sink.committables.len());
    }
    out
}

fn write_dump(options: &Dump) -> Result<()> {
    let selection = Selection { operator: &options.operator, state: &options.state, key: options.key.as_deref() };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut gone = false;
    dump(&open(&options.path)?, &selection, &mut |row: Row| {
        let line = serde_json::to_string(&row).map_err(|error| Error::corrupt("a value cannot be written as JSON").caused_by(error))?;
        // A reader that has gone away is no error.
        gone = gone || writeln!(out, "{line}").is_err();
        Ok(())
    })?;
    _ = out.flush();
    Ok(())
}

fn show_diff(options: &Diff) -> Result<ExitCode> {
    let differences = diff(&open(&options.a)?, &open(&options.b)?)?;
    print(&match options.format {
        Format::Json => format!("{}\n", json!({ "differences": differences })),
        Format::Text if differences.is_empty() => "the two hold the same\n".to_owned(),
        Format::Text => differences.iter().map(|difference| format!("{}: {}\n", difference.of, difference.what)).collect(),
    });
    Ok(if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
