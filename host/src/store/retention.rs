//! Which checkpoints go, and in which order: whatever moment a crash picks, what is left looks whole only if it is.

use std::collections::BTreeSet;

use tidemill_core::Result;
use tidemill_core::checkpoint::manifest::Manifest;

use super::{CheckpointStore, FINISHED, MANIFEST, failed};

impl CheckpointStore {
    /// Keeps the `count` newest complete checkpoints up to `newest`, at least that one, and those on which their state builds; removes the
    /// others before it. What is being written after `newest` is left alone.
    ///
    /// # Errors
    /// The disk cannot be read or written, or a manifest to keep is damaged.
    pub fn retain(&self, newest: u64, count: usize) -> Result<()> {
        let known = self.checkpoints()?.into_iter().filter(|checkpoint| *checkpoint <= newest).collect::<Vec<_>>();
        let mut kept = BTreeSet::new();
        for &checkpoint in known.iter().rev() {
            if kept.len() >= count.max(1) {
                break;
            }
            if self.manifest(checkpoint)?.is_some() {
                kept.insert(checkpoint);
            }
        }
        let kept = self.with_bases(kept)?;
        let gone = known.into_iter().filter(|checkpoint| !kept.contains(checkpoint)).collect::<Vec<_>>();
        self.remove(&gone)
    }

    /// Removes the folders of checkpoints that were never completed, and files that were never finished. To be called while no checkpoint is
    /// being written.
    ///
    /// # Errors
    /// The disk cannot be read or written.
    pub fn remove_unfinished(&self) -> Result<()> {
        let failed = |error| failed("removing unfinished checkpoints".to_owned(), error);
        for checkpoint in self.checkpoints()? {
            let dir = self.checkpoint_dir(checkpoint);
            let paths = self.disk.list(&dir).map_err(failed)?;
            if paths.contains(&dir.join(MANIFEST)) {
                for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "tmp")) {
                    self.disk.remove(path).map_err(failed)?;
                }
            } else {
                self.disk.remove_dir(&dir).map_err(failed)?;
            }
        }
        self.disk.remove(&self.dir.join(format!(".{FINISHED}.tmp"))).map_err(failed)?;
        self.disk.sync_dir(&self.dir).map_err(failed)
    }

    /// Removes everything, for a start from nothing.
    ///
    /// # Errors
    /// The disk cannot be read or written; what is left then is still whole, and its newest checkpoint goes last.
    pub fn clear(&self) -> Result<()> {
        let removed = self.disk.remove(&self.dir.join(FINISHED)).and_then(|()| self.disk.sync_dir(&self.dir));
        removed.map_err(|error| failed("removing the record that the job has finished".to_owned(), error))?;
        self.remove(&self.checkpoints()?)
    }

    /// Adds the checkpoints on which the state of the given ones builds.
    fn with_bases(&self, mut kept: BTreeSet<u64>) -> Result<BTreeSet<u64>> {
        let mut todo = kept.iter().copied().collect::<Vec<_>>();
        while let Some(checkpoint) = todo.pop() {
            let states = self.manifest(checkpoint)?.map(|Manifest { states, .. }| states).unwrap_or_default();
            todo.extend(states.iter().filter_map(|file| file.base).filter(|base| kept.insert(*base)));
        }
        Ok(kept)
    }

    /// Removes checkpoints, first what makes them exist. Oldest first, so that an older one never takes the place of a newer one.
    fn remove(&self, ascending: &[u64]) -> Result<()> {
        for checkpoint in ascending {
            let dir = self.checkpoint_dir(*checkpoint);
            let removed = self.disk.remove(&dir.join(MANIFEST)).and_then(|()| self.disk.sync_dir(&dir));
            removed.map_err(|error| failed(format!("removing checkpoint {checkpoint}"), error))?;
        }
        for checkpoint in ascending {
            let removed = self.disk.remove_dir(&self.checkpoint_dir(*checkpoint));
            removed.map_err(|error| failed(format!("removing checkpoint {checkpoint}"), error))?;
        }
        if ascending.is_empty() {
            return Ok(());
        }
        self.disk.sync_dir(&self.dir).map_err(|error| failed("removing old checkpoints".to_owned(), error))
    }
}
