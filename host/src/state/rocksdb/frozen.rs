//! Frozen files of a database, read while the database goes on: a savepoint takes its key groups from them.

use std::sync::Arc;

use rocksdb::{BlockBasedOptions, Cache, Options};
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::{Frozen, FrozenFile, pass_groups};
use tidemill_core::{Error, Result};

use super::database::{Database, Folder};
use super::rows::DatabaseRows;

/// What is cached of the files: they are read once, in order, so all it has to hold is what the files begin with.
const CACHE: usize = 8 << 20;
/// How many files are open at a time.
const OPEN_FILES: i32 = 64;

/// Frozen files in a folder, which is removed with this.
pub(super) struct FrozenFiles {
    pub(super) files: Vec<FrozenFile>,
    pub(super) folder: Folder,
}

impl Frozen for FrozenFiles {
    fn files(&mut self) -> Result<Vec<FrozenFile>> {
        Ok(self.files.clone())
    }

    fn groups(&mut self, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        pass_frozen(&self.folder, each)
    }
}

/// Passes the key groups in a folder of frozen files on.
///
/// # Errors
/// The files cannot be read, which fails a savepoint and not the job: nothing that was stored is damaged. Or `each` fails.
pub(super) fn pass_frozen(folder: &Folder, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
    let (mut options, cache) = (Options::default(), Cache::new_lru_cache(CACHE));
    options.set_max_open_files(OPEN_FILES);
    let space = || {
        let (mut space, mut table) = (Options::default(), BlockBasedOptions::default());
        table.set_block_cache(&cache);
        table.set_cache_index_and_filter_blocks(true);
        space.set_block_based_table_factory(&table);
        space
    };
    let database = Database::read_with(Folder::lent(folder.path.clone()), &options, space);
    let rows = database.and_then(|database| DatabaseRows::new(Arc::new(database)));
    pass_groups(&rows.map_err(|error| Error::storage(error.chain()))?, 0..u32::from(u16::MAX) + 1, each)
}
