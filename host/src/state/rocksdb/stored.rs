//! The files of a database in a checkpoint, read when they are restored.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_core::checkpoint::manifest::StoredDatabase;
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::{StoredGroups, pass_groups};
use tidemill_core::{Error, Result};

use super::database::{Database, Folder};
use super::overlay::Room;
use super::rows::DatabaseRows;
use crate::store::CheckpointStore;

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

    fn database(&self) -> Result<Arc<Database>> {
        let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = &*local {
            return Ok(Arc::clone(database));
        }
        let folder = Folder::real(self.store.scratch().join(format!("{:016x}", fastrand::u64(..))));
        std::fs::create_dir_all(&folder.path)
            .map_err(|error| Error::storage(format!("creating {}", folder.path.display())).caused_by(error))?;
        for file in &self.stored.files {
            // Names of a database have no folders; others are none of RocksDB's.
            if file.name.contains(['/', '\\']) || file.name.starts_with("..") {
                return Err(Error::corrupt(format!("a checkpoint names the file {}, which no database has", file.name)));
            }
            self.store.fetch(file, &folder.path.join(&file.name))?;
        }
        let database = Arc::new(Database::read(folder)?);
        *local = Some(Arc::clone(&database));
        Ok(database)
    }
}

impl StoredGroups for StoredFiles {
    fn read(&self, range: Range<u32>, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        let range = range.start.max(self.groups.start)..range.end.min(self.groups.end);
        if range.is_empty() {
            return Ok(());
        }
        let doing = |error: Error| {
            let StoredDatabase { operator, worker, .. } = &self.stored;
            error.while_doing(format!("restoring the state of operator {operator} that worker {worker} has stored"))
        };
        let rows = self.database().and_then(|database| DatabaseRows::new(database, Room::new(0))).map_err(doing)?;
        pass_groups(&rows, range, each).map_err(doing)
    }
}
