//! Whose checkpoints a folder holds. The record outlives the checkpoints, which a job may delete at its end.

use std::path::Path;

use tidemill_core::{Error, Result};
use tracing::warn;

use super::shared::SHARED;
use super::{CheckpointStore, PREFIX, SCRATCH, record};

const OWNER: &str = "OWNER";

impl CheckpointStore {
    /// Takes the folder for a job, durably, unless it is that job's already. Returns a number that tells this job from all others, even
    /// of the same name in another folder: it is part of the names of what the job has not committed yet.
    ///
    /// # Errors
    /// The folder is another job's: one would forget the other's checkpoints, or take its end for its own. Or it cannot be read or written.
    pub fn claim(&self, job: &str) -> Result<u64> {
        let path = self.dir.join(OWNER);
        match self.disk.read_at_most(&path, record::MOST_BYTES) {
            Ok(bytes) => {
                let text = record::content(&bytes).and_then(|text| text.split_once(' '));
                let parsed = text.and_then(|(name, id)| Some((name, u64::from_str_radix(id, 16).ok()?)));
                let (name, id) = parsed.ok_or_else(|| {
                    Error::corrupt(format!(
                        "{} does not hold a job's name and number with their checksum: restore it, or remove it if this is job {job}'s folder",
                        path.display()
                    ))
                })?;
                if name == job {
                    _ = self.claim.set(String::from_utf8_lossy(&bytes).into_owned());
                    return Ok(id);
                }
                // What never got to a checkpoint has nothing to lose: the job may only have been renamed.
                if !self.ids()?.is_empty() || !matches!(self.finished(), Ok(None)) {
                    return Err(self.other(name, job));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.check_unclaimed(job)?,
            Err(error) => return Err(Error::storage(format!("reading {}", path.display())).caused_by(error)),
        }
        // A damaged manifest is no reason not to start again, and stops anything else soon enough.
        if let Ok(Some(manifest)) = self.newest()
            && manifest.job != job
        {
            return Err(self.other(&manifest.job, job));
        }
        let id = fastrand::u64(..);
        let line = record::line(&format!("{job} {id:016x}"));
        self.write(&path, line.as_bytes())?;
        _ = self.claim.set(line);
        Ok(id)
    }

    /// Writes the record of whose folder it is again if somebody has removed it while the job runs: the next start would not know its own
    /// hidden output.
    ///
    /// # Errors
    /// It did not become durable, or the disk does not tell whether it is there.
    pub fn keep_claim(&self) -> Result<()> {
        let Some(line) = self.claim.get() else { return Ok(()) };
        if self.has(OWNER, line.len() as u64)? {
            return Ok(());
        }
        warn!("{} was removed while the job runs, and is written again", self.dir.join(OWNER).display());
        self.write(&self.dir.join(OWNER), line.as_bytes())
    }

    /// Checks that a folder without the record holds nothing that a start would remove: it may be somebody else's, linked here by mistake. The
    /// record is durable before anything else is in the folder.
    fn check_unclaimed(&self, job: &str) -> Result<()> {
        if !matches!(self.newest(), Ok(None)) {
            return Ok(());
        }
        let dir = self.dir.display();
        let entries = self.disk.list(&self.dir).map_err(|error| Error::storage(format!("listing {dir}")).caused_by(error))?;
        let is_removed = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let numbered = name.strip_prefix(PREFIX).is_some_and(|id| id.parse::<u64>().is_ok());
            (numbered || [SHARED, SCRATCH].contains(&name)) && self.disk.list(path).is_ok_and(|files| !files.is_empty())
        };
        match entries.iter().find(|path| is_removed(path)) {
            Some(path) => Err(Error::config(format!(
                "the folder {dir} for checkpoints holds {}, but no record ({OWNER}) of whose it is, and a job removes such files: move it \
                 elsewhere, or remove it if job {job} has left it",
                path.display()
            ))),
            None => Ok(()),
        }
    }

    fn other(&self, owner: &str, job: &str) -> Error {
        let dir = self.dir.display();
        Error::config(format!(
            "the folder {dir} holds checkpoints, or the end, of job {owner}, not of {job}: give each job its own --data-dir"
        ))
    }
}
