//! Checkpoint storage of one job. Under its folder:
//!
//! - `chk-<n>/worker-<i>.state`: the state of worker `i` at checkpoint `n`
//! - `chk-<n>/manifest.json`: what makes checkpoint `n` exist; written last, removed first
//! - `FINISHED`: the last checkpoint of a job that has read all its input

mod lock;
mod retention;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::checkpoint::manifest::{Manifest, StateFile, checksum};
use tidemill_core::disk::Disk;
use tidemill_core::{Error, Result};

pub use lock::JobLock;

const MANIFEST: &str = "manifest.json";
const FINISHED: &str = "FINISHED";
const REMEDY: &str = "put the file back from a copy, or start again with --fresh";

/// The checkpoints of one job.
#[derive(Clone)]
pub struct CheckpointStore {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl CheckpointStore {
    /// Opens the checkpoints in a folder, which is made if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(disk: Arc<dyn Disk>, dir: PathBuf) -> Result<Self> {
        disk.create_dir(&dir)
            .map_err(|error| Error::config(format!("cannot keep checkpoints in the folder `{}`", dir.display())).caused_by(error))?;
        Ok(Self { disk, dir })
    }

    /// Stores the state of a worker durably. It counts once a manifest names it.
    ///
    /// # Errors
    /// The disk cannot be written, or the checkpoint is complete already.
    pub fn write_state(&self, checkpoint: u64, worker: u32, bytes: &[u8]) -> Result<StateFile> {
        let name = format!("worker-{worker}.state");
        let doing = || format!("storing the state of worker {worker} for checkpoint {checkpoint}");
        let dir = self.checkpoint_dir(checkpoint);
        if self.read_if_there(&dir.join(MANIFEST)).map_err(|error| failed(doing(), error))?.is_some() {
            return Err(Error::storage(format!("checkpoint {checkpoint} is complete and cannot be written again")).while_doing(doing()));
        }
        let written = self.disk.create_dir(&dir).and_then(|()| self.write_durably(&dir, &name, bytes));
        written.map_err(|error| failed(doing(), error))?;
        Ok(StateFile { name, worker, bytes: bytes.len() as u64, checksum: checksum(bytes), base: None })
    }

    /// Completes a checkpoint: from now on, it exists.
    ///
    /// # Errors
    /// The disk cannot be written; then the checkpoint may exist or not.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<()> {
        let (dir, bytes) = (self.checkpoint_dir(manifest.checkpoint), manifest.to_bytes()?);
        let written = self.disk.create_dir(&dir).and_then(|()| self.write_durably(&dir, MANIFEST, &bytes));
        written.map_err(|error| failed(format!("storing the manifest of checkpoint {}", manifest.checkpoint), error))
    }

    /// The newest complete checkpoint; none if there is none.
    ///
    /// # Errors
    /// The disk cannot be read, or the newest manifest is damaged: then an older checkpoint is not taken in its place, since its output has
    /// been followed by other output.
    pub fn newest(&self) -> Result<Option<Manifest>> {
        for checkpoint in self.checkpoints()?.into_iter().rev() {
            if let Some(manifest) = self.manifest(checkpoint)? {
                return Ok(Some(manifest));
            }
        }
        Ok(None)
    }

    /// The content of a state file that the manifest names, checked.
    ///
    /// # Errors
    /// The file cannot be read, or is not what was written.
    pub fn read_state(&self, manifest: &Manifest, file: &StateFile) -> Result<Vec<u8>> {
        let path = self.checkpoint_dir(manifest.checkpoint).join(&file.name);
        if Path::new(&file.name).file_name() != Some(file.name.as_ref()) {
            return Err(Error::corrupt(format!("checkpoint {} names the impossible state file `{}`", manifest.checkpoint, file.name)));
        }
        let damaged = |what: String| {
            Error::corrupt(format!("the state file `{}` of checkpoint {} {what}: {REMEDY}", path.display(), manifest.checkpoint))
        };
        let doing = || format!("reading the state of checkpoint {}", manifest.checkpoint);
        let bytes = self.read_if_there(&path).map_err(|error| failed(doing(), error))?.ok_or_else(|| damaged("is gone".to_owned()))?;
        if bytes.len() as u64 != file.bytes {
            return Err(damaged(format!("has {} bytes instead of {}", bytes.len(), file.bytes)));
        }
        if checksum(&bytes) != file.checksum {
            return Err(damaged(format!("is damaged: it has the checksum {} instead of {}", checksum(&bytes), file.checksum)));
        }
        Ok(bytes)
    }

    /// Records durably that the job has finished with this checkpoint.
    ///
    /// # Errors
    /// The disk cannot be written.
    pub fn mark_finished(&self, checkpoint: u64) -> Result<()> {
        let written = self.write_durably(&self.dir, FINISHED, format!("{checkpoint}\n").as_bytes());
        written.map_err(|error| failed("recording that the job has finished".to_owned(), error))
    }

    /// The last checkpoint of a job that has finished; none if it has not.
    ///
    /// # Errors
    /// The disk cannot be read, or the record is damaged.
    pub fn finished(&self) -> Result<Option<u64>> {
        let path = self.dir.join(FINISHED);
        let read = self.read_if_there(&path).map_err(|error| failed("looking whether the job has finished".to_owned(), error))?;
        let Some(bytes) = read else { return Ok(None) };
        let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n')?.parse().ok());
        number.map(Some).ok_or_else(|| Error::corrupt(format!("the file `{}` is damaged: {REMEDY}", path.display())))
    }

    /// The manifest of a checkpoint; none if the checkpoint is not complete.
    fn manifest(&self, checkpoint: u64) -> Result<Option<Manifest>> {
        let path = self.checkpoint_dir(checkpoint).join(MANIFEST);
        let doing = format!("reading the manifest of checkpoint {checkpoint}");
        let Some(bytes) = self.read_if_there(&path).map_err(|error| failed(doing, error))? else { return Ok(None) };
        let manifest = Manifest::from_bytes(&bytes)
            .map_err(|error| error.while_doing(format!("cannot use the manifest `{}` ({REMEDY})", path.display())))?;
        if manifest.checkpoint == checkpoint {
            return Ok(Some(manifest));
        }
        Err(Error::corrupt(format!("the manifest `{}` is that of checkpoint {}: {REMEDY}", path.display(), manifest.checkpoint)))
    }

    /// The numbers of all checkpoints that have a folder, ascending.
    fn checkpoints(&self) -> Result<Vec<u64>> {
        let paths = self.disk.list(&self.dir).map_err(|error| failed("listing the checkpoints".to_owned(), error))?;
        let number = |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix("chk-")?.parse().ok();
        // A name with leading zeros is not one of ours.
        let mut numbers = paths.iter().filter_map(number).filter(|n| paths.contains(&self.checkpoint_dir(*n))).collect::<Vec<u64>>();
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    fn checkpoint_dir(&self, checkpoint: u64) -> PathBuf {
        self.dir.join(format!("chk-{checkpoint}"))
    }

    fn read_if_there(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match self.disk.read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            result => result.map(Some),
        }
    }

    /// Puts a file into a folder whole or not at all.
    fn write_durably(&self, dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = dir.join(format!(".{name}.tmp"));
        let mut file = self.disk.create(&temporary)?;
        file.write(bytes)?;
        file.sync()?;
        drop(file);
        self.disk.rename(&temporary, &dir.join(name))?;
        self.disk.sync_dir(dir)
    }
}

fn failed(doing: String, error: io::Error) -> Error {
    Error::storage(doing).caused_by(error)
}

#[cfg(test)]
mod tests;
