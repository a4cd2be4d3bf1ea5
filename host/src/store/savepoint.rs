//! A savepoint's folder: `manifest.json` and `worker-I.state` as a checkpoint has them, with paths relative to the folder itself, so that
//! it can be moved. `docs/savepoint-format.md` has every byte.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::checkpoint::manifest::{MOST_BYTES, Manifest, StateFile, StoredFile};
use tidemill_core::disk::Disk;
use tidemill_core::{Error, Kind, Result};

use super::streamed::{Pieces, write_state};
use super::{COMMITTED, CheckpointStore, MANIFEST, write_durably};
use crate::disk::kind_of;

/// A savepoint that is being written.
#[derive(Clone)]
pub struct SavepointFolder {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
}

impl std::fmt::Debug for SavepointFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SavepointFolder").field(&self.dir).finish()
    }
}

impl SavepointFolder {
    /// Makes the folder. What a savepoint that was never finished left there is removed.
    ///
    /// # Errors
    /// The folder cannot be made, or holds something else, such as a savepoint.
    pub fn create(disk: Arc<dyn Disk>, dir: PathBuf) -> Result<Self> {
        let shown = dir.display().to_string();
        let failed = |error: std::io::Error| {
            let kind = kind_of(&error, Kind::Storage);
            Error::new(kind, format!("making the savepoint's folder {shown}")).caused_by(error)
        };
        disk.create_dir(&dir).map_err(failed)?;
        let entries = disk.list(&dir).map_err(failed)?;
        if entries.contains(&dir.join(MANIFEST))
            && let Ok(Saved { manifest, .. }) = Saved::open(Arc::clone(&disk), &dir)
        {
            return Err(Error::config(format!(
                "a savepoint needs a folder of its own, but savepoint {} of job {} is in {shown} already: name another folder, or remove this one",
                manifest.checkpoint, manifest.job
            )));
        }
        if let Some(other) = entries.iter().find(|path| !is_leftover(path)) {
            return Err(Error::config(format!(
                "a savepoint needs a folder of its own, but {} exists: name another folder, or remove this one",
                other.display()
            )));
        }
        // That the manifest is gone, if there was one, must be durable before what it names goes.
        disk.sync_dir(&dir).map_err(failed)?;
        entries.iter().try_for_each(|path| disk.remove(path)).map_err(failed)?;
        Ok(Self { disk, dir })
    }

    /// The folder of a savepoint that is there, in order to remove it.
    #[must_use]
    pub fn of_request(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self { disk, dir }
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a worker's state file piece by piece.
    ///
    /// # Errors
    /// It did not become durable, or a piece cannot be had.
    pub fn stream_state(&self, worker: u32, pieces: &mut Pieces<'_>) -> Result<StateFile> {
        write_state(&*self.disk, &self.dir, format!("worker-{worker}.state"), worker, pieces)
    }

    /// Writes the manifest: then the savepoint exists.
    ///
    /// # Errors
    /// It may not have become durable.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<()> {
        self.write(MANIFEST, &manifest.to_bytes()?)
    }

    /// The id of the savepoint in the folder, if there is one that was asked for under this trigger id. Its name is durable then.
    #[must_use]
    pub fn saved(&self, trigger: &str) -> Option<u64> {
        self.disk.sync_dir(&self.dir).ok()?;
        Saved::of_trigger(&self.disk, &self.dir, trigger)
    }

    /// Notes that all output that the savepoint covers is committed.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn mark_committed(&self) -> Result<()> {
        self.write(COMMITTED, b"")
    }

    /// Removes what was written, the manifest first, so that what is left of it after a crash does not look whole.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn discard(&self) -> Result<()> {
        let failed = |error| Error::storage(format!("removing the unfinished savepoint {}", self.dir.display())).caused_by(error);
        let entries = self.disk.list(&self.dir).map_err(failed)?;
        let manifest = self.dir.join(MANIFEST);
        if entries.contains(&manifest) {
            self.disk.remove(&manifest).map_err(failed)?;
        }
        // Also where it is gone already: who removed it may have failed to make that durable.
        self.disk.sync_dir(&self.dir).map_err(failed)?;
        for path in entries.iter().filter(|path| is_leftover(path)) {
            self.disk.remove(path).map_err(failed)?;
        }
        Ok(())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.dir.join(name);
        write_durably(&self.disk, &path, bytes).map_err(|error| Error::storage(format!("writing {}", path.display())).caused_by(error))
    }
}

/// A savepoint, or a checkpoint that was kept, to read from.
pub struct Saved {
    disk: Arc<dyn Disk>,
    /// What the paths of its files are relative to.
    base: PathBuf,
    dir: PathBuf,
    /// What is in it.
    pub manifest: Manifest,
}

impl Saved {
    /// Opens a savepoint or checkpoint by its folder or its manifest.
    ///
    /// # Errors
    /// There is none, or its manifest is damaged; the error names the path.
    pub fn open(disk: Arc<dyn Disk>, path: &Path) -> Result<Self> {
        let (dir, file) = match path.file_name() {
            Some(name) if name == MANIFEST => (path.parent().unwrap_or(path).to_owned(), path.to_owned()),
            _ => (path.to_owned(), path.join(MANIFEST)),
        };
        let bytes = disk.read_at_most(&file, MOST_BYTES).map_err(|error| {
            let shown = path.display();
            match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Error::config(format!(
                    "there is no savepoint in {shown}: name a savepoint's folder, or a checkpoint's (chk-N), or the {MANIFEST} in it"
                )),
                _ => Error::new(kind_of(&error, Kind::Storage), format!("reading the savepoint {shown}")).caused_by(error),
            }
        })?;
        let manifest =
            Manifest::from_bytes(&bytes).map_err(|error| error.while_doing(format!("reading the savepoint {}", path.display())))?;
        let base = if manifest.savepoint { dir.clone() } else { dir.parent().map(Path::to_owned).unwrap_or_default() };
        Ok(Self { disk, base, dir, manifest })
    }

    /// The id of the savepoint in a folder, if there is one and it was asked for under this trigger id.
    #[must_use]
    pub fn of_trigger(disk: &Arc<dyn Disk>, path: &Path, trigger: &str) -> Option<u64> {
        let manifest = Self::open(Arc::clone(disk), path).ok()?.manifest;
        (manifest.trigger.as_deref() == Some(trigger)).then_some(manifest.checkpoint)
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What it is, with its path, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        let what = if self.manifest.savepoint { "savepoint" } else { "checkpoint" };
        format!("{what} {}", self.dir.display())
    }

    /// Reads a state file and compares it with what the manifest says.
    ///
    /// # Errors
    /// It is missing, or not what was written.
    pub fn read_state(&self, file: &StateFile) -> Result<Vec<u8>> {
        super::read_state(&self.disk, &self.inside(&file.path)?, file, "take it from a backup of the savepoint")
    }

    /// Looks whether all files are there and as long as the manifest says, without reading them.
    ///
    /// # Errors
    /// One is not: it is missing, no regular file, or shorter or longer.
    pub fn check_files(&self) -> Result<()> {
        let stored = self.manifest.databases.iter().flat_map(|database| &database.files).map(|file| (&file.path, file.bytes));
        for (path, bytes) in self.manifest.files.iter().map(|file| (&file.path, file.bytes)).chain(stored) {
            let path = self.inside(path)?;
            let remedy = "take it from a backup of the savepoint";
            let found = self
                .disk
                .length(&path)
                .map_err(|error| Error::storage(format!("looking for the state file {}; {remedy}", path.display())).caused_by(error))?;
            if found != bytes {
                let path = path.display();
                return Err(Error::corrupt(format!(
                    "state file {path} is damaged: it has {found} bytes, but {bytes} bytes were written; {remedy}"
                )));
            }
        }
        Ok(())
    }

    /// Copies the file of a database into a store's checkpoint, and compares it with what the manifest says.
    ///
    /// # Errors
    /// It is missing, or not what was written, or the copy did not become durable.
    pub fn copy_file(&self, file: &StoredFile, store: &CheckpointStore, checkpoint: u64, place: &str) -> Result<StoredFile> {
        let path = self.inside(&file.path)?;
        store.store_copy(&path, file, checkpoint, place)
    }

    /// The folder that the paths of the manifest are relative to, as a store.
    #[must_use]
    pub fn store(&self) -> CheckpointStore {
        CheckpointStore { disk: Arc::clone(&self.disk), dir: self.base.clone(), claim: Arc::default() }
    }

    fn inside(&self, path: &str) -> Result<PathBuf> {
        let name = Path::new(path);
        if name.is_absolute() || name.components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            return Err(Error::corrupt(format!("the manifest of {} names the file {path}, outside of its folder", self.name())));
        }
        Ok(self.base.join(name))
    }

    /// Whether all output that it covers is known to be committed.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn is_committed(&self) -> Result<bool> {
        let entries =
            self.disk.list(&self.dir).map_err(|error| Error::storage(format!("listing {}", self.dir.display())).caused_by(error))?;
        Ok(entries.contains(&self.dir.join(COMMITTED)))
    }
}

/// What a savepoint that has no manifest can hold.
fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let of_a_worker = name.strip_prefix("worker-").and_then(|rest| rest.split_once('.'));
    let numbered = of_a_worker.is_some_and(|(number, extension)| number.parse::<u32>().is_ok() && ["state", "tmp"].contains(&extension));
    numbered || name == "manifest.tmp"
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use tidemill_core::checkpoint::manifest::{Manifest, VERSION};

    use super::{Saved, SavepointFolder};
    use crate::disk::RealDisk;

    #[test]
    fn a_savepoint_can_be_moved_and_named_by_its_manifest() {
        let root = tempfile::tempdir().unwrap();
        let folder = SavepointFolder::create(Arc::new(RealDisk), root.path().join("a/b")).unwrap();
        let files = vec![folder.stream_state(0, &mut |out| out(b"state")).unwrap()];
        folder.write_manifest(&Manifest { version: VERSION, savepoint: true, files, ..Manifest::default() }).unwrap();
        fs::rename(root.path().join("a/b"), root.path().join("c")).unwrap();
        for path in ["c", "c/manifest.json"] {
            let saved = Saved::open(Arc::new(RealDisk), &root.path().join(path)).unwrap();
            assert_eq!(saved.read_state(&saved.manifest.files[0]).unwrap(), b"state");
        }
        fs::write(root.path().join("c/worker-0.state"), b"State").unwrap();
        let saved = Saved::open(Arc::new(RealDisk), &root.path().join("c")).unwrap();
        let error = saved.read_state(&saved.manifest.files[0]).unwrap_err().chain();
        assert!(error.contains("worker-0.state is damaged"), "{error}");
        let error = Saved::open(Arc::new(RealDisk), &root.path().join("d")).err().unwrap().chain();
        assert!(error.contains("there is no savepoint in") && error.contains("/d:"), "{error}");
    }

    #[test]
    fn only_an_unfinished_savepoint_is_written_over() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("s");
        let create = || SavepointFolder::create(Arc::new(RealDisk), dir.clone());
        create().unwrap().stream_state(3, &mut |out| out(b"x")).unwrap();
        let folder = create().unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        folder.write_manifest(&Manifest { version: VERSION, savepoint: true, ..Manifest::default() }).unwrap();
        assert!(create().err().unwrap().chain().contains("name another folder"));
        folder.discard().unwrap();
        fs::write(dir.join("notes.txt"), b"mine").unwrap();
        assert!(create().err().unwrap().chain().contains("notes.txt exists"));
    }

    #[test]
    fn files_outside_of_the_folder_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = SavepointFolder::create(Arc::new(RealDisk), root.path().join("s")).unwrap();
        fs::write(root.path().join("x"), b"state").unwrap();
        let mut file = folder.stream_state(0, &mut |out| out(b"state")).unwrap();
        file.path = "../x".to_owned();
        folder.write_manifest(&Manifest { version: VERSION, savepoint: true, files: vec![file], ..Manifest::default() }).unwrap();
        let refused = Saved::open(Arc::new(RealDisk), folder.dir()).err().unwrap().chain();
        assert!(refused.contains("the file ../x, outside of its folder"), "{refused}");
    }
}
