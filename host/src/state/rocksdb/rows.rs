//! The rows of an operator's subtask in its database.

use std::sync::Arc;

use rocksdb::{ReadOptions, WriteBatch, WriteOptions};
use tidemill_core::detector::Cells;
use tidemill_core::state::{Frozen, Rows, Space};
use tidemill_core::{Error, Result};
use tidemill_wit::columns::BlobsBuf;

use super::database::Database;

/// The rows in a database.
pub(super) struct DatabaseRows {
    database: Arc<Database>,
    batch: WriteBatch,
    /// What cannot be put into the batch is said at the commit.
    failure: Option<Error>,
    read: ReadOptions,
    write: WriteOptions,
}

impl DatabaseRows {
    /// The rows of a database.
    ///
    /// # Errors
    /// The database lacks a space.
    pub(super) fn new(database: Arc<Database>) -> Result<Self> {
        database.space(Space::Keys)?;
        database.space(Space::Timers)?;
        let mut write = WriteOptions::new();
        write.disable_wal(true);
        // Rows come in the order of their keys.
        write.set_memtable_insert_hint_per_batch(true);
        Ok(Self { database, batch: WriteBatch::default(), failure: None, read: ReadOptions::default(), write })
    }
}

impl Rows for DatabaseRows {
    fn get(&self, space: Space, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let found = self
            .database
            .db
            .get_pinned_cf_opt(self.database.space(space)?, key, &self.read)
            .map_err(|error| self.database.failed("reading", error))?;
        into.clear();
        into.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn get_many(&self, space: Space, keys: &BlobsBuf, into: &mut Cells) -> Result<()> {
        let space = self.database.space(space)?;
        into.clear();
        for found in self.database.db.batched_multi_get_cf_opt(space, keys.view().iter(), true, &self.read) {
            let found = found.map_err(|error| self.database.failed("reading", error))?;
            into.present.push(u8::from(found.is_some()));
            into.items.push(found.as_deref().unwrap_or_default());
        }
        Ok(())
    }

    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        match self.database.space(space) {
            Ok(space) => self.batch.put_cf(space, key, value),
            Err(error) => self.failure = Some(error),
        }
    }

    fn delete(&mut self, space: Space, key: &[u8]) {
        match self.database.space(space) {
            Ok(space) => self.batch.delete_cf(space, key),
            Err(error) => self.failure = Some(error),
        }
    }

    fn commit(&mut self) -> Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.database.db.write_opt(batch, &self.write).map_err(|error| self.database.failed("writing to", error))
    }

    fn freeze(&mut self) -> Result<Option<Frozen>> {
        self.database.freeze()
    }

    fn scan(&self, space: Space, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut read = ReadOptions::default();
        // Whole keys are scanned to be copied or swept, once: they would push what is used out of the cache.
        read.fill_cache(space == Space::Timers);
        let mut rows = self.database.db.raw_iterator_cf_opt(self.database.space(space)?, read);
        rows.seek(from);
        while let Some((key, value)) = rows.item() {
            if !each(key, value) {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(|error| self.database.failed("reading", error))
    }
}
