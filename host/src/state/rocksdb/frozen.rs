//! Frozen files of a database, read while the database goes on: a savepoint takes its key groups from them.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use rocksdb::{BlockBasedOptions, Cache, Options};
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::{StoredGroups, pass_groups};
use tidemill_core::{Error, Result};

use super::database::{Database, Folder};
use super::rows::DatabaseRows;

/// What is cached of the files: they are read once, in order, so all it has to hold is what the files begin with.
const CACHE: usize = 8 << 20;
/// How many files are open at a time.
const OPEN_FILES: i32 = 64;

/// The frozen files in a folder, which somebody else removes when they are no longer needed.
pub(super) struct FrozenGroups(PathBuf);

impl FrozenGroups {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn open(&self) -> Result<Database> {
        let (mut options, cache) = (Options::default(), Cache::new_lru_cache(CACHE));
        options.set_max_open_files(OPEN_FILES);
        let space = || {
            let (mut space, mut table) = (Options::default(), BlockBasedOptions::default());
            table.set_block_cache(&cache);
            table.set_cache_index_and_filter_blocks(true);
            space.set_block_based_table_factory(&table);
            space
        };
        Database::read_with(Folder::lent(self.0.clone()), &options, space)
    }
}

impl StoredGroups for FrozenGroups {
    fn read(&self, range: Range<u32>, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        // What cannot be read now was not stored yet: this fails the savepoint, not the job.
        let database = self.open().map_err(|error| Error::storage(error.chain()))?;
        pass_groups(&DatabaseRows::new(Arc::new(database))?, range, each)
    }
}
