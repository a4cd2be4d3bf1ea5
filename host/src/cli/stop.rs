//! `tidemill stop`.

use std::path::{Path, PathBuf};

use clap::Args;
use tidemill_core::{Error, Result};

use super::print;
use super::savepoint::absolute;
use crate::runtime::control::Granted;
use crate::runtime::socket::{Ask, ask};
use crate::spec;

/// Which job is meant.
#[derive(Debug, Args)]
pub(super) struct JobFolder {
    /// The job spec, which says where the job's folder is
    #[arg(required_unless_present = "data_dir")]
    job: Option<PathBuf>,
    #[arg(long, alias = "job-dir", value_name = "DIR", help = "The job's folder [default: data_dir of the spec, else tidemill-data/NAME]")]
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
        Ok(spec.data_dir.unwrap_or_else(|| Path::new("tidemill-data").join(&spec.name)))
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
}

pub(super) fn stop(options: &Options) -> Result<()> {
    let savepoint = options.savepoint.as_deref().map(absolute).transpose()?;
    let granted = ask(&options.job.dir()?, &Ask::Stop { savepoint: savepoint.clone(), drain: options.drain })?;
    let saved = savepoint.map_or_else(String::new, |path| format!("; the savepoint is in {}", path.display()));
    print(&match granted {
        Granted::Stopped(id) | Granted::Saved(id) => format!("the job has stopped at checkpoint {id}{saved}\n"),
        Granted::Finished(id) => format!("the job had come to its end, with checkpoint {id}{saved}\n"),
    });
    Ok(())
}
