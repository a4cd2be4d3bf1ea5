//! The database of one operator's subtask.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rocksdb::checkpoint::Checkpoint;
use rocksdb::properties::{BACKGROUND_ERRORS, NUM_IMMUTABLE_MEM_TABLE};
use rocksdb::{ColumnFamily, DB, Options};
use tidemill_core::disk::Disk;
use tidemill_core::state::{FrozenFile, Space};
use tidemill_core::{Error, Result};

use super::super::folder::Folder;
use super::options::Memory;

const KEYS: &str = "keys";
const TIMERS: &str = "timers";

/// A database. Its folder goes with it.
pub(super) struct Database {
    pub(super) db: DB,
    /// Dropped after the database, as the order of fields has it.
    folder: Folder,
    /// Tells the files of this database from those of every other.
    id: u64,
    /// What stands for the contents of files that were taken over, by their names.
    taken: BTreeMap<String, String>,
    frozen: AtomicU64,
}

/// The files of a database as they were, under names of their own. They go with this.
pub(super) struct FrozenFiles {
    pub(super) files: Vec<FrozenFile>,
    pub(super) folder: Folder,
}

impl Database {
    /// Makes an empty database.
    ///
    /// # Errors
    /// `RocksDB`'s, such as a full disk.
    pub(super) fn create(folder: Folder, options: &Options, memory: &Memory) -> Result<Self> {
        Self::open(folder, options, memory, BTreeMap::new())
    }

    /// Opens the database in a folder to go on with it. `taken` has what stands for the contents of its files, where that is known.
    ///
    /// # Errors
    /// `RocksDB`'s, such as a full disk.
    pub(super) fn open(folder: Folder, options: &Options, memory: &Memory, taken: BTreeMap<String, String>) -> Result<Self> {
        let path = &folder.path;
        let spaces = [(KEYS, memory.space(Space::Keys)), (TIMERS, memory.space(Space::Timers))];
        let db = DB::open_cf_with_opts(options, path, spaces)
            .map_err(|error| Error::storage(format!("opening the state database {}", path.display())).caused_by(error))?;
        Ok(Self { db, folder, id: fastrand::u64(..), taken, frozen: AtomicU64::new(0) })
    }

    /// Opens a database to read it.
    ///
    /// # Errors
    /// It is not whole.
    pub(super) fn read(folder: Folder) -> Result<Self> {
        Self::read_with(folder, &Options::default(), Options::default)
    }

    /// As [`read`](Self::read), with options for the database and for each space.
    pub(super) fn read_with(folder: Folder, options: &Options, space: impl Fn() -> Options) -> Result<Self> {
        let spaces = [KEYS, TIMERS].map(|name| (name, space()));
        let db = DB::open_cf_with_opts_for_read_only(options, &folder.path, spaces, false)
            .map_err(|error| Error::corrupt(format!("reading the state database {}", folder.path.display())).caused_by(error))?;
        Ok(Self { db, folder, id: 0, taken: BTreeMap::new(), frozen: AtomicU64::new(0) })
    }

    /// The column family of a space.
    ///
    /// # Errors
    /// There is none: somebody has changed the database.
    pub(super) fn space(&self, space: Space) -> Result<&ColumnFamily> {
        let name = match space {
            Space::Keys => KEYS,
            Space::Timers => TIMERS,
        };
        self.db.cf_handle(name).ok_or_else(|| Error::storage(format!("{} has no column family {name}", self.name())))
    }

    /// Whether it has files that can be frozen.
    pub(super) fn has_files(&self) -> bool {
        self.folder.disk().is_some()
    }

    /// The disk that its files are on, if they are on one.
    pub(super) fn disk(&self) -> Option<&Arc<dyn Disk>> {
        self.folder.disk()
    }

    /// Whether memtables are on their way to files, and nothing has kept one from getting there yet.
    pub(super) fn is_flushing(&self) -> bool {
        let count = |space, property| {
            let found = self.space(space).ok().and_then(|space| self.db.property_int_value_cf(space, property).ok());
            found.flatten().unwrap_or(0)
        };
        let waiting: u64 = [Space::Keys, Space::Timers].map(|space| count(space, NUM_IMMUTABLE_MEM_TABLE)).iter().sum();
        waiting > 0 && count(Space::Keys, BACKGROUND_ERRORS) == 0
    }

    /// The files as they are now; nothing may be written meanwhile. Takes as long as the disk needs to take in what is only in memory.
    ///
    /// # Errors
    /// `RocksDB`'s, such as a full disk.
    pub(super) fn freeze(&self) -> Result<FrozenFiles> {
        let count = self.frozen.fetch_add(1, Ordering::Relaxed);
        let disk = self.folder.disk().ok_or_else(|| Error::storage(format!("{} has no files", self.name())))?;
        let folder = Folder::on(Arc::clone(disk), self.folder.path.with_extension(format!("frozen-{count}")));
        let checkpoint = Checkpoint::new(&self.db).and_then(|checkpoint| checkpoint.create_checkpoint(&folder.path));
        checkpoint.map_err(|error| self.failed("freezing the files of", error))?;
        let listing = |error| Error::storage(format!("listing {}", folder.path.display())).caused_by(error);
        let mut files = Vec::new();
        for path in disk.list(&folder.path).map_err(listing)? {
            let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { continue };
            // A number is given to one table only. All else is written anew each time.
            let own = || name.ends_with(".sst").then(|| format!("{:016x}-{name}", self.id));
            let content = self.taken.get(&name).cloned().or_else(own);
            files.push(FrozenFile { name, path, content });
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(FrozenFiles { files, folder })
    }

    /// What was being done when an error came up. The state is made anew from the last checkpoint, whatever it was.
    pub(super) fn failed(&self, doing: &str, error: rocksdb::Error) -> Error {
        Error::storage(format!("{doing} {}", self.name())).caused_by(error)
    }

    /// Where its files are.
    pub(super) fn path(&self) -> &Path {
        &self.folder.path
    }

    /// What it is called in messages.
    pub(super) fn name(&self) -> String {
        format!("the state database {}", self.folder.path.display())
    }
}
