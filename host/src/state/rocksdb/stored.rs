//! The files of a database in a checkpoint, read when they are restored.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_core::checkpoint::manifest::{StoredDatabase, StoredFile};
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::{StoredGroups, pass_groups};
use tidemill_core::{Error, Result};

use super::super::fetch::{fetch, restoring};
use super::super::folder::Folder;
use super::database::Database;
use super::overlay::Room;
use super::rows::DatabaseRows;
use crate::store::{CheckpointStore, shared_name};

/// A database in a checkpoint. Its files are copied to this machine when they are first read.
pub(in crate::state) struct StoredFiles {
    store: CheckpointStore,
    stored: StoredDatabase,
    groups: Range<u32>,
    local: Mutex<Option<Arc<Database>>>,
}

impl StoredFiles {
    pub(in crate::state) fn new(store: CheckpointStore, stored: StoredDatabase, groups: Range<u32>) -> Self {
        Self { store, stored, groups, local: Mutex::default() }
    }

    /// Puts the files into a folder to go on with them there; returns what stands for their contents.
    pub(super) fn place(&self, folder: &Path) -> Result<BTreeMap<String, String>> {
        let (database, disk) = (self.database()?, self.store.disk());
        for file in &self.stored.files {
            let (from, to) = (database.path().join(&file.name), folder.join(&file.name));
            if !(is_table(file) && disk.link(&from, &to).is_ok()) {
                let copied = disk.create(&to).and_then(|mut copy| disk.read_parts(&from, &mut |part| copy.write(part)));
                let copying = || format!("copying {} to {}", from.display(), to.display());
                copied.map_err(|error| Error::storage(copying()).caused_by(error))?;
            }
        }
        let content = |file: &StoredFile| Some((file.name.clone(), shared_name(file)?.to_owned()));
        Ok(self.stored.files.iter().filter_map(content).collect())
    }

    /// The database, whose files have been found to be what was stored.
    pub(super) fn database(&self) -> Result<Arc<Database>> {
        let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = &*local {
            return Ok(Arc::clone(database));
        }
        let folder = Folder::create(Arc::clone(self.store.disk()), self.store.scratch().join(format!("{:016x}", fastrand::u64(..))))?;
        fetch(&self.store, &self.stored, &folder.path, is_table)?;
        let database = Arc::new(Database::read(folder)?);
        *local = Some(Arc::clone(&database));
        Ok(database)
    }

    /// What is stored.
    pub(super) fn stored(&self) -> &StoredDatabase {
        &self.stored
    }
}

/// Whether it is a table: `RocksDB` never writes to one that is there, and appends to other files.
fn is_table(file: &StoredFile) -> bool {
    shared_name(file).is_some() && file.name.ends_with(".sst")
}

impl StoredGroups for StoredFiles {
    fn groups(&self) -> Range<u32> {
        self.groups.clone()
    }

    fn read(&self, range: Range<u32>, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        let range = range.start.max(self.groups.start)..range.end.min(self.groups.end);
        if range.is_empty() {
            return Ok(());
        }
        let rows = self
            .database()
            .and_then(|database| DatabaseRows::new(database, Room::new(0)))
            .map_err(|error| restoring(&self.stored, error))?;
        pass_groups(&rows, range, each).map_err(|error| restoring(&self.stored, error))
    }
}
