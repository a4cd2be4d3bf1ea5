//! `tidemill stop`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tidemill_core::disk::Disk;
use tidemill_core::{Error, Result};

use super::folder;
use super::print;
use super::savepoint::absolute;
use crate::disk::RealDisk;
use crate::runtime::control::{Granted, Reply};
use crate::runtime::random_trigger;
use crate::runtime::socket::{Ask, ask};
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

/// What the request is called.
#[derive(Debug, Args)]
pub(super) struct TriggerId {
    /// A name for this request: given once more, after the answer was lost, it brings the same answer and no second savepoint
    #[arg(long = "trigger-id", value_name = "ID")]
    pub(super) id: Option<String>,
}

impl TriggerId {
    /// The user's name for the request, or one that nobody else has, by which its savepoint is recognised if the answer is lost.
    pub(super) fn name(&self) -> String {
        self.id.clone().unwrap_or_else(random_trigger)
    }
}

pub(super) fn stop(options: &Options) -> Result<()> {
    let savepoint = options.savepoint.as_deref().map(absolute).transpose()?;
    let trigger = options.trigger.name();
    let wanted = Ask::Stop { savepoint: savepoint.clone(), drain: options.drain, trigger: Some(trigger.clone()) };
    let reply = ask(&options.job.dir()?, &wanted).or_else(|error| answered_before(savepoint, &trigger, error))?;
    let saved = shown(reply.savepoint.as_deref());
    print(&match reply.granted {
        Granted::Finished(id) => format!("the job had come to its end, with checkpoint {id}{saved}\n"),
        Granted::Stopped(id) => format!("the job has stopped at checkpoint {id}{saved}\n"),
        Granted::Saved(_) | Granted::SavedAndCommitted { .. } | Granted::Rescaled(_) => return Err(other_request()),
    });
    Ok(())
}

/// The answer is that to something else.
pub(super) fn other_request() -> Error {
    Error::config("this trigger id was given to a request of another kind before: give this one an id of its own")
}

/// Where the savepoint is, for the end of a sentence.
pub(super) fn shown(savepoint: Option<&Path>) -> String {
    savepoint.map_or_else(String::new, |path| format!("; the savepoint is in {}", path.display()))
}

/// The answer of a job that has stopped for the same request and that is not there to give it: the savepoint has the name of the request, and
/// its output is committed. A savepoint whose output is not is named at least.
fn answered_before(savepoint: Option<PathBuf>, trigger: &str, error: Error) -> Result<Reply> {
    let Some(path) = savepoint else { return Err(error) };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let Some(checkpoint) = Saved::of_trigger(&disk, &path, trigger) else { return Err(error) };
    if Saved::open(disk, &path).and_then(|saved| saved.is_committed()).unwrap_or(false) {
        return Ok(Reply { granted: Granted::Stopped(checkpoint), savepoint: Some(path) });
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
