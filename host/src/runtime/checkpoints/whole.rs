//! A checkpoint is stored only if all that it names is there. Files may vanish while the job runs, by the hand of a user or a script that
//! cleans up: then they are written again, from what the job itself has.

use std::error::Error as _;
use std::io;

use tidemill_core::checkpoint::manifest::{Manifest, StoredFile};
use tidemill_core::{Error, Result};
use tracing::warn;

use super::Checkpoints;

/// So many names are given in a message.
const MOST_NAMES: usize = 8;

impl Checkpoints {
    /// The file of this content that an earlier checkpoint has stored, if it is still there.
    ///
    /// # Errors
    /// The disk does not tell.
    pub(super) fn stored_already(&mut self, content: &str) -> Result<Option<StoredFile>> {
        let Some(stored) = self.shared.get(content) else { return Ok(None) };
        if self.store.has(&stored.path, stored.bytes)? {
            return Ok(Some(stored.clone()));
        }
        self.vanished.insert(stored.path.clone());
        self.shared.remove(content);
        Ok(None)
    }

    /// Says once which files have been written again.
    pub(super) fn warn_of_vanished(&mut self, checkpoint: u64) {
        let vanished: Vec<String> = std::mem::take(&mut self.vanished).into_iter().collect();
        if !vanished.is_empty() {
            warn!(
                checkpoint,
                "{} state file(s) of earlier checkpoints were removed or cut while the job runs: earlier checkpoints cannot be restored, and \
                 checkpoint {checkpoint} writes the files again: {}",
                vanished.len(),
                names(&vanished)
            );
        }
    }

    /// Checks that everything that the manifest of a checkpoint is about to name is there.
    ///
    /// # Errors
    /// A state file is not: the checkpoint fails, and the next one writes it again. Or output that is not committed is not (an error of a
    /// connector): the job must go back to its last checkpoint to write it again.
    pub(super) fn check_whole(&mut self, manifest: &Manifest) -> Result<()> {
        for (committables, (uid, sink)) in manifest.sinks.iter().zip(&self.sinks) {
            let missing = sink.missing(&committables.committables)?;
            if !missing.is_empty() {
                return Err(Error::connector(format!(
                    "{} hidden part(s) of sink {uid} were removed or cut before checkpoint {} could commit them: the job goes back to its \
                     last checkpoint and writes them again; nothing but the job may remove hidden parts",
                    missing.len(),
                    manifest.checkpoint
                )));
            }
        }
        let missing = match self.savepoints.get(&manifest.checkpoint) {
            Some(savepoint) if !savepoint.also_checkpoint => savepoint.folder.missing(manifest)?,
            _ => self.store.missing(manifest)?,
        };
        if missing.is_empty() {
            return Ok(());
        }
        self.shared.retain(|_, file| !missing.contains(&file.path));
        let text = format!("{} state file(s) were removed or cut after they were written: {}", missing.len(), names(&missing));
        Err(Error::storage(text).caused_by(io::Error::from(io::ErrorKind::NotFound)))
    }
}

/// Whether something that was written is not there any more: the next checkpoint writes it again, so the job has no reason to fail.
pub(super) fn has_vanished(error: &Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn names(paths: &[String]) -> String {
    let mut names = paths.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
    if paths.len() > MOST_NAMES {
        names += &format!(" and {} more", paths.len() - MOST_NAMES);
    }
    names
}
