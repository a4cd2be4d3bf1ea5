//! The rows of an operator's subtask in its database.

use std::sync::Arc;

use rocksdb::{ReadOptions, WriteBatch, WriteOptions};
use tidemill_core::detector::Cells;
use tidemill_core::state::{Frozen, Layer, Rows, Space};
use tidemill_core::{Error, Result};
use tidemill_wit::columns::BlobsBuf;

use super::bulk::Bulk;
use super::database::Database;
use super::freezing::Freezing;
use super::options::Buffers;
use super::overlay::{Overlay, Room};

/// How many bytes of rows are written as one unit at most where they are loaded one by one.
const BATCH: usize = 1 << 20;

/// How many rows go from the overlay to the database with each commit, once they may: some milliseconds' worth.
const POUR: usize = 1024;

/// The rows in a database. From a barrier on, until the database is frozen, only what belongs to the barrier is written to it: what else
/// changes waits in an overlay, through which everything is read, and goes to the database bit by bit when the freezing has ended. A worker
/// waits for that in two cases only: when the memory for overlays is full, and when the next barrier comes first, which it does only if the
/// checkpoint has failed.
pub(super) struct DatabaseRows {
    database: Arc<Database>,
    batch: WriteBatch,
    /// Takes in rows that are loaded, if the database is in files.
    bulk: Option<Bulk>,
    buffers: Option<Buffers>,
    /// What cannot be put into the batch is said at the commit.
    failure: Option<Error>,
    read: ReadOptions,
    write: WriteOptions,
    /// Whether it is to be frozen once what belongs to the barrier is written.
    held: bool,
    freezing: Option<Freezing>,
    overlay: Overlay,
}

impl DatabaseRows {
    /// The rows of a database; what is written while it is being frozen takes of `room`.
    ///
    /// # Errors
    /// The database lacks a space.
    pub(super) fn new(database: Arc<Database>, room: Room) -> Result<Self> {
        database.space(Space::Keys)?;
        database.space(Space::Timers)?;
        let mut write = WriteOptions::new();
        write.disable_wal(true);
        // Rows come in the order of their keys.
        write.set_memtable_insert_hint_per_batch(true);
        let (batch, read, overlay) = (WriteBatch::default(), ReadOptions::default(), Overlay::new(room));
        Ok(Self { database, batch, bulk: None, buffers: None, failure: None, read, write, held: false, freezing: None, overlay })
    }

    /// The same, whose rows are loaded in bulk.
    pub(super) fn with_bulk(mut self, bulk: Bulk) -> Self {
        self.bulk = Some(bulk);
        self
    }

    /// The same, which goes easy on these buffers.
    pub(super) fn with_buffers(mut self, buffers: Buffers) -> Self {
        self.buffers = Some(buffers);
        self
    }

    fn change(&mut self, layer: Layer, space: Space, key: &[u8], value: Option<&[u8]>) {
        let below = self.held && layer == Layer::Held;
        // Rows that still lie above the database go there last, so they must be the newest.
        if below {
            // Nothing that lies above is of the barrier.
        } else if self.held || self.freezing.is_some() || (!self.overlay.is_empty() && self.overlay.get(space, key).is_some()) {
            return self.overlay.change(space, key, value);
        }
        match (self.database.space(space), value) {
            (Ok(space), Some(value)) => self.batch.put_cf(space, key, value),
            (Ok(space), None) => self.batch.delete_cf(space, key),
            (Err(error), _) => self.failure = Some(error),
        }
    }

    /// Moves up to so many rows of the overlay into the batch.
    fn pour(&mut self, most: usize) -> Result<()> {
        for _ in 0..most {
            let Some((space, key, value)) = self.overlay.pop() else { break };
            match (self.database.space(space)?, value) {
                (space, Some(value)) => self.batch.put_cf(space, key, value),
                (space, None) => self.batch.delete_cf(space, key),
            }
        }
        Ok(())
    }

    fn commit_all(&mut self, most: usize) -> Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if !self.held && self.freezing.is_none() && !self.overlay.is_empty() {
            self.pour(most)?;
        }
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.database.db.write_opt(batch, &self.write).map_err(|error| self.database.failed("writing to", error))
    }

    fn end_freezing(&mut self) {
        if let Some(freezing) = self.freezing.take() {
            freezing.end();
        }
    }
}

impl Rows for DatabaseRows {
    fn get(&self, space: Space, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        if !self.overlay.is_empty()
            && let Some(found) = self.overlay.get(space, key)
        {
            into.clear();
            into.extend_from_slice(found.unwrap_or_default());
            return Ok(found.is_some());
        }
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
        let space_of_database = self.database.space(space)?;
        into.clear();
        let found = self.database.db.batched_multi_get_cf_opt(space_of_database, keys.view().iter(), true, &self.read);
        for (key, found) in keys.view().iter().zip(found) {
            let found = found.map_err(|error| self.database.failed("reading", error))?;
            let above = if self.overlay.is_empty() { None } else { self.overlay.get(space, key) };
            let value = above.unwrap_or(found.as_deref());
            into.present.push(u8::from(value.is_some()));
            into.items.push(value.unwrap_or_default());
        }
        Ok(())
    }

    fn put(&mut self, layer: Layer, space: Space, key: &[u8], value: &[u8]) {
        self.change(layer, space, key, Some(value));
    }

    fn delete(&mut self, layer: Layer, space: Space, key: &[u8]) {
        self.change(layer, space, key, None);
    }

    fn commit(&mut self) -> Result<()> {
        if self.freezing.as_ref().is_some_and(|freezing| freezing.has_ended() || self.overlay.is_full()) {
            self.end_freezing();
        }
        self.commit_all(POUR)
    }

    fn load(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        if self.freezing.is_some() || !self.overlay.is_empty() {
            // What is loaded goes past the overlay.
            self.end_freezing();
            self.commit_all(usize::MAX)?;
        }
        if let Some(bulk) = &mut self.bulk {
            return bulk.add(&self.database, space, key, value);
        }
        self.put(Layer::Live, space, key, value);
        if self.batch.size_in_bytes() < BATCH { Ok(()) } else { self.commit() }
    }

    fn loaded(&mut self) -> Result<()> {
        match &mut self.bulk {
            Some(bulk) => bulk.finish(&self.database),
            None => self.commit(),
        }
    }

    fn hold(&mut self) -> Result<bool> {
        if !self.database.has_files() {
            return Ok(false);
        }
        self.end_freezing();
        self.commit_all(usize::MAX)?;
        self.held = true;
        Ok(true)
    }

    fn is_behind(&self) -> bool {
        // Only for what will end by itself: a memtable that is on its way to a file, of a database that can still write files. What is in
        // others stays there until more is put.
        self.buffers.as_ref().is_some_and(Buffers::are_over) && self.database.is_flushing()
    }

    fn is_full(&self) -> bool {
        self.overlay.is_full()
    }

    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>> {
        if !std::mem::take(&mut self.held) {
            return Ok(None);
        }
        let (freezing, frozen) = Freezing::begin(&self.database)?;
        self.freezing = Some(freezing);
        Ok(Some(frozen))
    }

    fn scan(&self, space: Space, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let mut read = ReadOptions::default();
        // Whole keys are scanned to be copied or swept, once: they would push what is used out of the cache.
        read.fill_cache(space == Space::Timers);
        let mut rows = self.database.db.raw_iterator_cf_opt(self.database.space(space)?, read);
        let mut above = self.overlay.range(space, from).peekable();
        rows.seek(from);
        loop {
            let more = match (rows.item(), above.peek().copied()) {
                (None, None) => break,
                (Some((key, value)), next) if next.is_none_or(|(other, _)| key < other) => {
                    let more = each(key, value);
                    rows.next();
                    more
                }
                (stored, next) => {
                    above.next();
                    if stored.is_some_and(|(key, _)| next.is_some_and(|(other, _)| key == other)) {
                        rows.next();
                    }
                    next.is_none_or(|(key, value)| value.is_none_or(|value| each(key, value)))
                }
            };
            if !more {
                return Ok(());
            }
        }
        rows.status().map_err(|error| self.database.failed("reading", error))
    }
}

impl Drop for DatabaseRows {
    fn drop(&mut self) {
        // The database goes with the rows, not whenever the thread has done with it.
        self.end_freezing();
    }
}
