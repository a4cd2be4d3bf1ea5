//! State in `RocksDB`: one database for each operator's subtask, below the cache of [`CachedState`].
//!
//! Not one for a whole worker: a barrier reaches its operators one after the other, and the files of a database can be frozen only as a
//! whole. Caches and write buffers are shared by all, so that many databases take no more memory than one. Nothing here outlives the
//! process: there is no log, and the folder is emptied at the start, since state comes from checkpoints.

mod database;
mod freezing;
mod options;
mod overlay;
mod rows;
mod stored;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::rocksdb::Env;
use tidemill_core::state::{CachedState, KeyedState, Pool, StateBackend};
use tidemill_core::{Error, Result};
use tidemill_wit::descriptor::StateDescriptor;

use self::database::Database;
use self::options::Memory;
use self::rows::DatabaseRows;

pub(super) use self::stored::StoredFiles;

/// Keeps state in `RocksDB`, within a given memory.
pub(super) struct RocksBackend {
    home: Home,
    memory: Memory,
    /// What is in use of all operators' keys.
    pool: Pool,
    /// How far apart barriers are to be expected, in milliseconds.
    interval: Option<i64>,
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
        let doing = |what: &str| Error::config(format!("{what} the folder for live state {}", dir.display()));
        match std::fs::remove_dir_all(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(doing("emptying").caused_by(error)),
            _ => {}
        }
        std::fs::create_dir_all(dir).map_err(|error| doing("creating").caused_by(error))?;
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
        Self { home, memory: Memory::new(bytes), pool, interval: None, made: AtomicU64::new(0) }
    }

    /// Barriers are to be expected this far apart.
    pub(super) fn with_barriers_every(mut self, interval: Duration) -> Self {
        self.interval = i64::try_from(interval.as_millis()).ok();
        self
    }

    fn create(&self, operator: &str, subtask: u32) -> Result<DatabaseRows> {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let doing = |error: Error| error.while_doing(format!("opening the state of operator {operator}"));
        let mut options = self.memory.database();
        let database = match &self.home {
            Home::Folder(dir) => Database::create(&dir.join(format!("{made}-{subtask}")), &options, &self.memory, true),
            Home::Memory(env) => {
                options.set_env(env);
                Database::create(Path::new(&format!("/{made}-{subtask}")), &options, &self.memory, false)
            }
        };
        DatabaseRows::new(Arc::new(database.map_err(doing)?), self.memory.overlays()).map_err(doing)
    }
}

impl StateBackend for RocksBackend {
    fn open(&self, operator: &str, subtask: u32, states: &[StateDescriptor]) -> Result<Box<dyn KeyedState>> {
        let state = CachedState::new(states, self.create(operator, subtask)?, &self.pool);
        Ok(Box::new(match self.interval {
            Some(millis) => state.with_barriers_every(millis),
            None => state,
        }))
    }
}

#[cfg(test)]
mod tests;
