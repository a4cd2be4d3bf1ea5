//! Checkpoint storage: `chk-N/worker-I.state` and `chk-N/manifest.json` in the checkpoint folder, `FINISHED`, `OWNER` and `PARALLELISM`
//! beside them.
//! State that is in files of its own lies in `shared` and in `chk-N/NAME-I`, as the manifest says.
//! `chk-N/COMMITTING` says that some of its output may be visible, `chk-N/COMMITTED` that all of it was.
//!
//! Every file is written under another name, made durable, renamed, and its folder made durable. A checkpoint exists once its manifest
//! does; a folder without one is what an unfinished checkpoint left.

pub mod lock;
pub mod parallelism;
pub(crate) mod place;
pub mod savepoint;

mod owner;
mod present;
pub(crate) mod record;
mod revision;
mod shared;
mod streamed;

pub use self::shared::shared_name;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tidemill_core::checkpoint::manifest::{MOST_BYTES, Manifest, StateFile};
use tidemill_core::disk::Disk;
use tidemill_core::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

pub use self::streamed::Pieces;

const MANIFEST: &str = "manifest.json";
const COMMITTING: &str = "COMMITTING";
const COMMITTED: &str = "COMMITTED";
const FINISHED: &str = "FINISHED";
const INCARNATION: &str = "INCARNATION";
const RESTORING: &str = "RESTORING";
const SCRATCH: &str = "scratch";
const PREFIX: &str = "chk-";

/// The checkpoints of one job.
#[derive(Clone)]
pub struct CheckpointStore {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The record of whose checkpoints these are, once it was read or written.
    claim: Arc<OnceLock<String>>,
}

impl CheckpointStore {
    /// The checkpoints in a folder, which is made if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(disk: Arc<dyn Disk>, dir: PathBuf) -> Result<Self> {
        disk.create_dir(&dir)
            .map_err(|error| Error::config(format!("creating the checkpoint folder {}", dir.display())).caused_by(error))?;
        Ok(Self { disk, dir, claim: Arc::default() })
    }

    /// The disk that they are on.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Writes a worker's state file.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn write_state(&self, checkpoint: u64, worker: u32, bytes: &[u8]) -> Result<StateFile> {
        self.stream_state(checkpoint, worker, &mut |out| out(bytes))
    }

    /// Writes a state file to start from. Its name is its own: a checkpoint of the same id that it takes the place of stays whole until its
    /// manifest is replaced.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn copy_state(&self, checkpoint: u64, worker: u32, bytes: &[u8]) -> Result<StateFile> {
        let name = format!("{PREFIX}{checkpoint}/restored-{worker}.state");
        streamed::write_state(&*self.disk, &self.dir, name, worker, &mut |out| out(bytes))
    }

    /// Writes a worker's state file piece by piece.
    ///
    /// # Errors
    /// It did not become durable, or a piece cannot be had.
    pub fn stream_state(&self, checkpoint: u64, worker: u32, pieces: &mut Pieces<'_>) -> Result<StateFile> {
        streamed::write_state(&*self.disk, &self.dir, format!("{PREFIX}{checkpoint}/worker-{worker}.state"), worker, pieces)
    }

    /// Writes a manifest: then the checkpoint exists.
    ///
    /// # Errors
    /// It may not have become durable.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<()> {
        self.write(&self.chk(manifest.checkpoint).join(MANIFEST), &manifest.to_bytes()?)
    }

    /// The newest checkpoint.
    ///
    /// # Errors
    /// The folder cannot be read, or the newest manifest is damaged: going back further by itself would repeat output silently.
    pub fn newest(&self) -> Result<Option<Manifest>> {
        for id in self.ids()?.into_iter().rev() {
            let path = self.chk(id).join(MANIFEST);
            match self.disk.read_at_most(&path, MOST_BYTES) {
                Ok(bytes) => {
                    // The process that wrote it may have died before its name was durable. If its output were committed now and a power cut
                    // then took the name back, the output would come twice.
                    let dir = self.chk(id);
                    self.disk
                        .sync_dir(&dir)
                        .map_err(|error| Error::storage(format!("making {} durable", dir.display())).caused_by(error))?;
                    return manifest(id, &path, &bytes).map(Some);
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::storage(format!("reading {}", path.display())).caused_by(error)),
            }
        }
        Ok(None)
    }

    /// Reads a state file and compares it with what the manifest says.
    ///
    /// # Errors
    /// It is missing, or not what was written.
    pub fn read_state(&self, file: &StateFile) -> Result<Vec<u8>> {
        read_state(&self.disk, &self.dir.join(&file.path), file, "restore it from a backup, or start again from nothing with --fresh")
    }

    /// Removes all but the `keep` newest checkpoints up to `newest`, and what unfinished ones before it left.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn retain(&self, newest: u64, keep: usize) -> Result<()> {
        let (mut complete, mut unfinished) = (Vec::new(), Vec::new());
        for id in self.ids()?.into_iter().filter(|id| *id <= newest) {
            if self.is_complete(id)? { complete.push(id) } else { unfinished.push(id) }
        }
        let surplus = complete.len().saturating_sub(keep.max(1));
        unfinished.iter().chain(complete.iter().take(surplus)).try_for_each(|id| self.discard(*id))
    }

    /// Removes what unfinished checkpoints left.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove_unfinished(&self) -> Result<()> {
        for id in self.ids()? {
            if !self.is_complete(id)? {
                self.discard(id)?;
            }
        }
        let scratch = self.scratch();
        self.disk.remove_dir(&scratch).map_err(|error| Error::storage(format!("removing {}", scratch.display())).caused_by(error))?;
        self.clean_shared(BTreeSet::new()).map(drop)
    }

    /// A folder of this machine for files that are needed for a while.
    #[must_use]
    pub fn scratch(&self) -> PathBuf {
        self.dir.join(SCRATCH)
    }

    /// Removes a checkpoint, its manifest first, so that what is left of it after a crash does not look whole.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn discard(&self, checkpoint: u64) -> Result<()> {
        let dir = self.chk(checkpoint);
        let failed = |error| Error::storage(format!("removing checkpoint folder {}", dir.display())).caused_by(error);
        let entries = self.disk.list(&dir).map_err(failed)?;
        if entries.is_empty() {
            return self.disk.remove_dir(&dir).map_err(failed);
        }
        if entries.contains(&dir.join(MANIFEST)) {
            self.disk.remove(&dir.join(MANIFEST)).map_err(failed)?;
        }
        // Also where it is gone already: who removed it may have failed to make that durable.
        self.disk.sync_dir(&dir).map_err(failed)?;
        self.disk.remove_dir(&dir).map_err(failed)
    }

    /// Records that the output of a checkpoint is about to be committed.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn mark_committing(&self, checkpoint: u64) -> Result<()> {
        self.write(&self.chk(checkpoint).join(COMMITTING), b"")
    }

    /// Whether a commit of a checkpoint's output has begun, so that some of it may have been visible already.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn is_committing(&self, checkpoint: u64) -> Result<bool> {
        self.contains(checkpoint, COMMITTING)
    }

    /// Whether a checkpoint exists.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn has_checkpoint(&self, checkpoint: u64) -> Result<bool> {
        self.contains(checkpoint, MANIFEST)
    }

    /// Records that all output of a checkpoint is committed.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn mark_committed(&self, checkpoint: u64) -> Result<()> {
        self.write(&self.chk(checkpoint).join(COMMITTED), b"")
    }

    /// Whether all output of a checkpoint is committed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn is_committed(&self, checkpoint: u64) -> Result<bool> {
        self.contains(checkpoint, COMMITTED)
    }

    /// Records that the job has finished with this checkpoint.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn mark_finished(&self, checkpoint: u64) -> Result<()> {
        self.write(&self.dir.join(FINISHED), record::line(&checkpoint.to_string()).as_bytes())
    }

    /// Forgets that the job has finished: it goes on from something earlier.
    ///
    /// # Errors
    /// The record cannot be removed.
    pub fn unmark_finished(&self) -> Result<()> {
        let removed = self.disk.remove(&self.dir.join(FINISHED)).and_then(|()| self.disk.sync_dir(&self.dir));
        removed.map_err(|error| Error::storage(format!("removing {FINISHED} from {}", self.dir.display())).caused_by(error))
    }

    /// The last checkpoint of a job that has finished.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn finished(&self) -> Result<Option<u64>> {
        self.read_number(FINISHED)
    }

    /// Records that the job's checkpoints are about to give way to what is in this place.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn set_restoring(&self, from: &str) -> Result<()> {
        self.write(&self.dir.join(RESTORING), record::line(from).as_bytes())
    }

    /// Records that they have.
    ///
    /// # Errors
    /// The record cannot be removed.
    pub fn unset_restoring(&self) -> Result<()> {
        let removed = self.disk.remove(&self.dir.join(RESTORING)).and_then(|()| self.disk.sync_dir(&self.dir));
        removed.map_err(|error| Error::storage(format!("removing {RESTORING} from {}", self.dir.display())).caused_by(error))
    }

    /// Whether the checkpoints are those of the job, and not what an interrupted start from elsewhere has left of them.
    ///
    /// # Errors
    /// They are not: what to start from is named. Or the record cannot be read.
    pub fn check_restored(&self) -> Result<()> {
        let Some(from) = self.restoring()? else { return Ok(()) };
        Err(Error::config(format!(
            "a start from {from} in a new incarnation was interrupted when the job's own checkpoints were being removed: give --from {from} \
             --new-incarnation once more, or start from nothing with --fresh"
        )))
    }

    /// From what a new incarnation was being started, if that was interrupted.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn restoring(&self) -> Result<Option<String>> {
        let path = self.dir.join(RESTORING);
        match self.disk.read_at_most(&path, record::MOST_BYTES) {
            Ok(bytes) => Ok(Some(record::content(&bytes).unwrap_or("a savepoint").to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::storage(format!("reading {}", path.display())).caused_by(error)),
        }
    }

    /// Records which incarnation a start from nothing has.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn set_next_incarnation(&self, incarnation: u32) -> Result<()> {
        self.write(&self.dir.join(INCARNATION), record::line(&incarnation.to_string()).as_bytes())
    }

    /// The incarnation of a start from nothing: 0 unless set.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn next_incarnation(&self) -> Result<u32> {
        Ok(self.read_number(INCARNATION)?.unwrap_or(0))
    }

    fn read_number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let path = self.dir.join(name);
        match self.disk.read_at_most(&path, record::MOST_BYTES) {
            Ok(bytes) => match record::content(&bytes).map(str::parse) {
                Some(Ok(number)) => Ok(Some(number)),
                _ => Err(Error::corrupt(format!("{} does not hold a number with its checksum: restore it from a backup", path.display()))),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::storage(format!("reading {}", path.display())).caused_by(error)),
        }
    }

    /// Forgets everything, oldest first, so that a crash in the middle leaves the newest checkpoint or none.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn clear(&self) -> Result<()> {
        let failed = |error| Error::storage(format!("clearing the checkpoint folder {}", self.dir.display())).caused_by(error);
        self.disk.remove(&self.dir.join(FINISHED)).and_then(|()| self.disk.sync_dir(&self.dir)).map_err(failed)?;
        self.ids()?.into_iter().try_for_each(|id| self.discard(id))?;
        self.disk.remove(&self.dir.join(RESTORING)).map_err(failed)?;
        self.clean_shared(BTreeSet::new())?;
        self.disk.sync_dir(&self.dir).map_err(failed)
    }

    /// Removes all checkpoints but one, and the record that the job has finished, oldest first.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn keep_only(&self, checkpoint: u64) -> Result<()> {
        self.unmark_finished()?;
        self.ids()?.into_iter().filter(|id| *id != checkpoint).try_for_each(|id| self.discard(id))
    }

    /// Whether this is the folder in which the checkpoint is stored.
    #[must_use]
    pub fn is_place_of(&self, checkpoint: u64, dir: &Path) -> bool {
        let real = |path: &Path| self.disk.canonical(path).ok();
        real(dir).is_some_and(|dir| real(&self.chk(checkpoint)) == Some(dir))
    }

    /// Removes all checkpoints of a job that has ended, but keeps the record that it has.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove_all(&self) -> Result<()> {
        self.ids()?.into_iter().try_for_each(|id| self.discard(id))?;
        self.clean_shared(BTreeSet::new()).map(drop)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        write_durably(&self.disk, path, bytes).map_err(|error| Error::storage(format!("writing {}", path.display())).caused_by(error))
    }

    fn ids(&self) -> Result<Vec<u64>> {
        let entries =
            self.disk.list(&self.dir).map_err(|error| Error::storage(format!("listing {}", self.dir.display())).caused_by(error))?;
        let id = |path: PathBuf| path.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok();
        let mut ids: Vec<u64> = entries.into_iter().filter_map(id).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    fn is_complete(&self, checkpoint: u64) -> Result<bool> {
        self.contains(checkpoint, MANIFEST)
    }

    fn contains(&self, checkpoint: u64, name: &str) -> Result<bool> {
        let dir = self.chk(checkpoint);
        let entries = self.disk.list(&dir).map_err(|error| Error::storage(format!("listing {}", dir.display())).caused_by(error))?;
        Ok(entries.contains(&dir.join(name)))
    }

    fn chk(&self, checkpoint: u64) -> PathBuf {
        self.dir.join(format!("{PREFIX}{checkpoint}"))
    }
}

/// Writes a file whole or not at all.
pub(crate) fn write_durably(disk: &Arc<dyn Disk>, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().unwrap_or(path);
    disk.create_dir(dir)?;
    let temporary = path.with_extension("tmp");
    let mut file = disk.create(&temporary)?;
    file.write(bytes)?;
    file.sync()?;
    drop(file);
    disk.rename(&temporary, path)?;
    disk.sync_dir(dir)
}

fn read_state(disk: &Arc<dyn Disk>, path: &Path, file: &StateFile, remedy: &str) -> Result<Vec<u8>> {
    let bytes = disk.read_at_most(path, file.bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            let (path, bytes) = (path.display(), file.bytes);
            Error::corrupt(format!("state file {path} is damaged: it has more than the {bytes} bytes that were written; {remedy}"))
        }
        _ => Error::storage(format!("reading state file {}", path.display())).caused_by(error),
    })?;
    let (found, sum) = (bytes.len(), checksum(&bytes));
    if found as u64 == file.bytes && sum == file.checksum {
        return Ok(bytes);
    }
    Err(Error::corrupt(format!(
        "state file {} is damaged: it has {found} bytes with checksum {sum}, but {} bytes with checksum {} were written; {remedy}",
        path.display(),
        file.bytes,
        file.checksum
    )))
}

fn manifest(id: u64, path: &Path, bytes: &[u8]) -> Result<Manifest> {
    let manifest = Manifest::from_bytes(bytes).and_then(|manifest| match manifest.checkpoint {
        found if found == id => Ok(manifest),
        found => Err(Error::corrupt(format!("the manifest is that of checkpoint {found}"))),
    });
    manifest.map_err(|error| {
        let remedy = "restore the file from a backup, or start again from nothing with --fresh";
        error.while_doing(format!("reading checkpoint {id} from {}; {remedy}", path.display()))
    })
}

fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

#[cfg(test)]
mod tests;
