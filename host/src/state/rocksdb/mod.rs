//! State in `RocksDB`: one database for each operator's subtask, below the cache of [`CachedState`].
//!
//! Not one for a whole worker: a barrier reaches its operators one after the other, and the files of a database can be frozen only as a
//! whole. Caches and write buffers are shared by all, so that many databases take no more memory than one. Nothing here outlives the
//! process: there is no log, and the folder is emptied at the start, since state comes from checkpoints.

mod bulk;
mod database;
mod freezing;
mod frozen;
mod options;
mod overlay;
mod rows;
mod stored;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::rocksdb::Env;
use tidemill_core::state::{CachedState, KeyedState, Pool, Space, StateBackend, StoredGroups, can_go_on};
use tidemill_core::{Error, Result};
use tidemill_wit::descriptor::StateDescriptor;

use self::bulk::Bulk;
use self::database::Database;
use self::options::Memory;
use self::overlay::Room;
use self::rows::DatabaseRows;
use super::fetch::restoring;
use super::folder::{self, Folder};
use crate::disk::RealDisk;

pub(super) use self::stored::StoredFiles;

/// Keeps state in `RocksDB`, within a given memory.
pub(super) struct RocksBackend {
    home: Home,
    memory: Memory,
    /// What is in use of all operators' keys.
    pool: Pool,
    /// How many databases have been made: a restarted worker's does not take the place of the old one, which may not have been closed yet.
    made: AtomicU64,
}

/// Where the databases are.
enum Home {
    Folder(PathBuf),
    /// Nowhere: `RocksDB` keeps its files in memory.
    Memory(Env),
}

impl RocksBackend {
    /// Databases in a folder, which is emptied first. They take so many bytes of memory together.
    ///
    /// # Errors
    /// The folder cannot be emptied.
    pub(super) fn in_folder(dir: &Path, memory: u64) -> Result<Self> {
        folder::empty(&RealDisk, dir)?;
        Ok(Self::new(Home::Folder(dir.to_owned()), memory))
    }

    /// Databases without files.
    ///
    /// # Errors
    /// `RocksDB` cannot make them.
    pub(super) fn in_memory(memory: u64) -> Result<Self> {
        let env = Env::mem_env().map_err(|error| Error::storage("making a place in memory for RocksDB").caused_by(error))?;
        Ok(Self::new(Home::Memory(env), memory))
    }

    fn new(home: Home, memory: u64) -> Self {
        let bytes = usize::try_from(memory).unwrap_or(usize::MAX);
        let pool = Pool::new(options::for_keys(bytes));
        Self { home, memory: Memory::new(bytes), pool, made: AtomicU64::new(0) }
    }

    fn create(&self, operator: &str, subtask: u32) -> Result<DatabaseRows> {
        let doing = |error: Error| error.while_doing(format!("opening the state of operator {operator}"));
        let (path, mut options) = (self.path(subtask), self.memory.database());
        let folder = match &self.home {
            Home::Folder(_) => Folder::on(Arc::new(RealDisk), path),
            Home::Memory(env) => {
                options.set_env(env);
                Folder::lent(path)
            }
        };
        let is_real = folder.disk().is_some();
        let database = Arc::new(Database::create(folder, &options, &self.memory).map_err(doing)?);
        let rows = DatabaseRows::new(database, self.memory.overlays()).map_err(doing)?.with_buffers(self.memory.buffers());
        let options = [Space::Keys, Space::Timers].map(|space| self.memory.space(space));
        Ok(if is_real { rows.with_bulk(Bulk::new(options, self.memory.for_loading())) } else { rows })
    }

    /// A path for a new database.
    fn path(&self, subtask: u32) -> PathBuf {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("{made}-{subtask}");
        match &self.home {
            Home::Folder(dir) => dir.join(name),
            Home::Memory(_) => Path::new("/").join(name),
        }
    }

    /// Takes the files of a stored database over, if its rows can be gone on with.
    fn take_over(&self, subtask: u32, states: &[StateDescriptor], stored: &StoredFiles) -> Result<Option<Box<dyn KeyedState>>> {
        if !can_go_on(states, &DatabaseRows::new(stored.database()?, Room::new(0))?)? {
            return Ok(None);
        }
        let folder = Folder::create(Arc::new(RealDisk), self.path(subtask))?;
        let taken = stored.place(&folder.path)?;
        let database = Database::open(folder, &self.memory.database(), &self.memory, taken)?;
        let rows = DatabaseRows::new(Arc::new(database), self.memory.overlays())?.with_buffers(self.memory.buffers());
        Ok(CachedState::go_on(states, rows, &self.pool)?.map(|state| Box::new(state) as _))
    }
}

impl StateBackend for RocksBackend {
    fn open(&self, operator: &str, subtask: u32, states: &[StateDescriptor]) -> Result<Box<dyn KeyedState>> {
        Ok(Box::new(CachedState::new(states, self.create(operator, subtask)?, &self.pool)))
    }

    fn go_on(
        &self,
        _operator: &str,
        subtask: u32,
        states: &[StateDescriptor],
        stored: &dyn StoredGroups,
    ) -> Result<Option<Box<dyn KeyedState>>> {
        match (&self.home, (stored as &dyn Any).downcast_ref::<StoredFiles>()) {
            (Home::Folder(_), Some(stored)) => self.take_over(subtask, states, stored).map_err(|error| restoring(stored.stored(), error)),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
