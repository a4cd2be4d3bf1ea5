//! Files of key groups in a checkpoint, read when they are restored.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_core::Result;
use tidemill_core::checkpoint::manifest::StoredDatabase;
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::StoredGroups;

use super::super::fetch::{fetch, restoring};
use super::super::folder::Folder;
use super::file::pass_merged;
use crate::store::CheckpointStore;

/// The state of one subtask in a checkpoint. Its files are brought to this machine when they are first read.
pub struct StoredKeyGroups {
    store: CheckpointStore,
    stored: StoredDatabase,
    groups: Range<u32>,
    scratch: PathBuf,
    local: Mutex<Option<Arc<Folder>>>,
}

impl StoredKeyGroups {
    /// State of the store that has these key groups. Its files are brought to a folder in `scratch` for the time being.
    #[must_use]
    pub fn new(store: CheckpointStore, stored: StoredDatabase, groups: Range<u32>, scratch: &Path) -> Self {
        Self { store, stored, groups, scratch: scratch.to_owned(), local: Mutex::default() }
    }

    /// The folder with the files, which have been found to be what was stored.
    fn local(&self) -> Result<Arc<Folder>> {
        let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = &*local {
            return Ok(Arc::clone(folder));
        }
        let folder = Folder::create(Arc::clone(self.store.disk()), self.scratch.join(format!("{:016x}", fastrand::u64(..))))?;
        fetch(&self.store, &self.stored, &folder.path, |_| true)?;
        Ok(Arc::clone(local.insert(Arc::new(folder))))
    }

    fn pass(&self, range: &Range<u32>, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        let folder = self.local()?;
        let paths: Vec<PathBuf> = self.stored.files.iter().map(|file| folder.path.join(&file.name)).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        pass_merged(&**self.store.disk(), &paths, range, each)
    }
}

impl StoredGroups for StoredKeyGroups {
    fn groups(&self) -> Range<u32> {
        self.groups.clone()
    }

    fn read(&self, range: Range<u32>, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        let range = range.start.max(self.groups.start)..range.end.min(self.groups.end);
        if range.is_empty() {
            return Ok(());
        }
        self.pass(&range, each).map_err(|error| restoring(&self.stored, error))
    }
}
