//! What a sink's folder remembers of a job: a small hidden file in it, one for each job name. Without it, a start that does not find the job's
//! checkpoints, since it looks in another place, would write all output again once a reader has taken the first away.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};
use tidemill_core::Result;
use tidemill_core::sink::Remembered;
use tracing::warn;

use super::Folder;
use crate::store::{record, write_durably};

/// Whose output a sink writes.
#[derive(Clone, Debug)]
pub struct Owner {
    /// The job's name.
    pub job: String,
    /// The folder of its checkpoints, from the root.
    pub data_dir: PathBuf,
}

/// What the file says. It lies where others may write, so nothing is done by it but to refuse, and to count incarnations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memory {
    job: String,
    /// Tells jobs of one name in different folders apart.
    id: String,
    data_dir: String,
    incarnation: u32,
    checkpoint: u64,
}

impl Folder {
    /// Remembers, durably, that output up to a checkpoint is about to become visible.
    pub(super) fn remember(&self, newest: (u32, u64)) -> Result<()> {
        let Some(owner) = &self.config.owner else { return Ok(()) };
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_none() {
            let own = self.remembered()?.filter(|remembered| remembered.elsewhere.is_none());
            *noted = own.map(|own| (own.incarnation, own.checkpoint));
        }
        if noted.is_some_and(|noted| noted >= newest) {
            return Ok(());
        }
        let (incarnation, checkpoint) = newest;
        let memory = Memory {
            job: owner.job.clone(),
            id: format!("{:x}", self.config.job),
            data_dir: owner.data_dir.display().to_string(),
            incarnation,
            checkpoint,
        };
        let text = serde_json::to_string(&memory).map_err(|error| self.failed("describe the output in", error.into()))?;
        write_durably(&self.disk, &self.memory_path(owner), record::line(&text).as_bytes())
            .map_err(|error| self.failed("write to", error))?;
        *noted = Some(newest);
        Ok(())
    }

    /// What is remembered of the job.
    pub(super) fn remembered(&self) -> Result<Option<Remembered>> {
        let Some(owner) = &self.config.owner else { return Ok(None) };
        let path = self.memory_path(owner);
        let bytes = match self.disk.read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            result => result.map_err(|error| self.failed("look into", error))?,
        };
        let memory = record::content(&bytes).and_then(|text| serde_json::from_str::<Memory>(text).ok());
        let Some(Memory { id, data_dir, incarnation, checkpoint, .. }) = memory.filter(|memory| memory.job == owner.job) else {
            warn!("`{}` does not hold what was written to it and is not used: it says which output this folder has had", path.display());
            return Ok(None);
        };
        let elsewhere = (id != format!("{:x}", self.config.job)).then_some(data_dir);
        Ok(Some(Remembered { incarnation, checkpoint, elsewhere }))
    }

    fn memory_path(&self, owner: &Owner) -> PathBuf {
        self.config.dir.join(file_name(&owner.job))
    }
}

/// The name of the file for a job, whose name is one that may be part of a path.
fn file_name(job: &str) -> PathBuf {
    Path::new(&format!(".tidemill-job-{job}")).to_owned()
}
