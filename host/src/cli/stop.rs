//! `tidemill stop`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tidemill_core::disk::Disk;
use tidemill_core::job::{Outcome, Request};
use tidemill_core::{Error, Result};

use super::folder;
use super::print;
use super::savepoint::absolute;
use crate::disk::RealDisk;
use crate::runtime::control::client::{Refusal, ask};
use crate::runtime::control::random_key;
use crate::spec;
use crate::store::savepoint::Saved;

/// Which job is meant.
#[derive(Debug, Args)]
pub(super) struct JobFolder {
    /// The job spec, which says where the job's folder is
    #[arg(required_unless_present = "data_dir")]
    job: Option<PathBuf>,
    #[arg(
        long,
        alias = "job-dir",
        value_name = "DIR",
        help = "The job's folder [default: data_dir of the spec, else tidemill-data/NAME beside the spec]"
    )]
    data_dir: Option<PathBuf>,
}

impl JobFolder {
    /// That of a spec's job.
    pub(super) fn of_spec(job: &Path) -> Self {
        Self { job: Some(job.to_owned()), data_dir: None }
    }

    /// This folder.
    pub(super) fn of_dir(dir: &Path) -> Self {
        Self { job: None, data_dir: Some(dir.to_owned()) }
    }

    /// The folder of the job.
    pub(super) fn dir(&self) -> Result<PathBuf> {
        if let Some(dir) = &self.data_dir {
            return Ok(dir.clone());
        }
        let job = self.job.as_ref().ok_or_else(|| Error::config("name the job spec, or the job's folder with --data-dir"))?;
        let spec = spec::load(job, &[])?;
        Ok(folder::of_job(None, job, &spec))
    }
}

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    job: JobFolder,
    /// Also take a savepoint, in this folder, which must not exist yet, or be empty
    #[arg(long, value_name = "PATH")]
    savepoint: Option<PathBuf>,
    /// End all event time first, so that every event-time timer fires: only to stop for good
    #[arg(long)]
    drain: bool,
    #[command(flatten)]
    trigger: TriggerId,
}

/// The idempotency key of a request.
#[derive(Debug, Args)]
pub(super) struct TriggerId {
    /// Idempotency key: a retry with the same id returns the first result instead of performing the request again
    #[arg(long = "trigger-id", value_name = "ID")]
    pub(super) id: Option<String>,
}

impl TriggerId {
    /// Returns the user's key, or a random one, by which the request's savepoint is recognised if the answer is lost.
    pub(super) fn key(&self) -> String {
        self.id.clone().unwrap_or_else(random_key)
    }
}

pub(super) fn stop(options: &Options) -> Result<()> {
    let savepoint = options.savepoint.as_deref().map(absolute).transpose()?;
    let key = options.trigger.key();
    let request = Request::Stop { savepoint: savepoint.clone(), drain: options.drain };
    let outcome = ask(&options.job.dir()?, &request, &key).or_else(|refusal| stopped_before(savepoint, &key, refusal))?;
    let saved = shown(outcome.path());
    print(&match outcome {
        Outcome::Finished { checkpoint, .. } => format!("the job had finished, with checkpoint {checkpoint}{saved}\n"),
        Outcome::Stopped { checkpoint, .. } => format!("the job has stopped at checkpoint {checkpoint}{saved}\n"),
        Outcome::Saved { .. } | Outcome::Rescaled { .. } => return Err(other_outcome()),
    });
    Ok(())
}

/// The job answered something that was not asked.
pub(super) fn other_outcome() -> Error {
    Error::storage("the job answered another request than this one: is it run by the same version of the program?")
}

/// Where the savepoint is, for the end of a sentence.
pub(super) fn shown(savepoint: Option<&Path>) -> String {
    savepoint.map_or_else(String::new, |path| format!("; the savepoint is in {}", path.display()))
}

/// Returns the outcome of the same request if the job has stopped for it and is not there to say so: the savepoint has the request's key, and
/// its output is committed. If its output is not committed, the error names the savepoint.
fn stopped_before(savepoint: Option<PathBuf>, key: &str, refusal: Refusal) -> Result<Outcome> {
    let error = refusal.error;
    let Some(path) = savepoint else { return Err(error) };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let Some(checkpoint) = Saved::of_trigger(&disk, &path, key) else { return Err(error) };
    if Saved::open(disk, &path).and_then(|saved| saved.is_committed()).unwrap_or(false) {
        return Ok(Outcome::Stopped { checkpoint, path: Some(path) });
    }
    Err(Error::new(
        error.kind(),
        format!(
            "{}; savepoint {checkpoint} of this request is in {}, but the job ended before it committed the output that the savepoint covers: \
             start the job again, with or without --from, to commit it",
            error.chain(),
            path.display()
        ),
    ))
}
