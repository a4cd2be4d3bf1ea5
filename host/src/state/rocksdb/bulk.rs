//! Rows loaded in bulk: they are sorted and written as tables, which the database takes in as they are. That spares them the memtables and
//! most of the compactions.

use std::path::PathBuf;
use std::sync::Arc;

use rocksdb::{IngestExternalFileOptions, Options, SstFileWriter};
use tidemill_core::state::Space;
use tidemill_core::{Error, Result};

use super::super::folder::Folder;
use super::database::Database;

/// With more tables than these, all with rows from anywhere, each read looks into too many.
const TABLES: usize = 8;

/// Loads rows into a database.
pub(super) struct Bulk {
    /// By space.
    options: [Options; 2],
    /// How many bytes of rows are gathered for a table.
    room: usize,
    keys: Gathered,
    timers: Gathered,
    /// Where tables are written.
    folder: Option<Folder>,
}

/// Rows that wait to be written, and how many tables were.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    /// Where each row begins, where its value begins and where it ends.
    rows: Vec<[usize; 3]>,
    sorted: bool,
    tables: usize,
}

impl Bulk {
    /// Loads rows into a database with these options for its keys and timers, with so many bytes of memory.
    pub(super) fn new(options: [Options; 2], room: usize) -> Self {
        Self { options, room, keys: Gathered::default(), timers: Gathered::default(), folder: None }
    }

    /// Takes a row in.
    ///
    /// # Errors
    /// A table cannot be written.
    pub(super) fn add(&mut self, database: &Database, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        let gathered = self.of(space);
        gathered.add(key, value);
        if gathered.bytes.len() < self.room / 2 { Ok(()) } else { self.write(database, space) }
    }

    /// Gives the database all rows that were taken in.
    ///
    /// # Errors
    /// A table cannot be written.
    pub(super) fn finish(&mut self, database: &Database) -> Result<()> {
        for space in [Space::Keys, Space::Timers] {
            self.write(database, space)?;
            let tables = std::mem::take(self.of(space)).tables;
            if tables > TABLES {
                database.db.compact_range_cf(database.space(space)?, None::<&[u8]>, None::<&[u8]>);
            }
        }
        self.folder = None;
        Ok(())
    }

    fn of(&mut self, space: Space) -> &mut Gathered {
        match space {
            Space::Keys => &mut self.keys,
            Space::Timers => &mut self.timers,
        }
    }

    fn write(&mut self, database: &Database, space: Space) -> Result<()> {
        if self.of(space).rows.is_empty() {
            return Ok(());
        }
        let path = self.table(database, space)?;
        let [keys, timers] = &self.options;
        let options = if space == Space::Keys { keys } else { timers }.clone();
        let gathered = self.of(space);
        gathered.sort();
        let mut table = SstFileWriter::create(&options);
        let written = table.open(&path).and_then(|()| gathered.each(|key, value| table.put(key, value))).and_then(|()| table.finish());
        written.map_err(|error| Error::storage(format!("writing {}", path.display())).caused_by(error))?;
        gathered.clear();
        let mut taking = IngestExternalFileOptions::default();
        taking.set_move_files(true);
        database
            .db
            .ingest_external_file_cf_opts(database.space(space)?, &taking, vec![path])
            .map_err(|error| database.failed("loading rows into", error))
    }

    /// A path for the next table of a space.
    fn table(&mut self, database: &Database, space: Space) -> Result<PathBuf> {
        let path = database.path().with_extension("loading");
        if self.folder.is_none() {
            let disk = database.disk().ok_or_else(|| Error::storage(format!("{} has no files", database.name())))?;
            self.folder = Some(Folder::create(Arc::clone(disk), path.clone())?);
        }
        let gathered = self.of(space);
        gathered.tables += 1;
        Ok(path.join(format!("{space:?}-{}.sst", gathered.tables)))
    }
}

impl Gathered {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let begin = self.bytes.len();
        let after = self.rows.last().is_none_or(|row| self.key(row) < key);
        self.sorted = after && (self.sorted || self.rows.is_empty());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.rows.push([begin, begin + key.len(), self.bytes.len()]);
    }

    fn sort(&mut self) {
        if !self.sorted {
            let mut rows = std::mem::take(&mut self.rows);
            rows.sort_unstable_by(|a, b| self.key(a).cmp(self.key(b)));
            self.rows = rows;
        }
    }

    fn key(&self, &[begin, value, _]: &[usize; 3]) -> &[u8] {
        self.bytes.get(begin..value).unwrap_or_default()
    }

    fn each<E>(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>) -> Result<(), E> {
        self.rows.iter().try_for_each(|row| each(self.key(row), self.bytes.get(row[1]..row[2]).unwrap_or_default()))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }
}
