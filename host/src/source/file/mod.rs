//! Files as splits: each file that a pattern matches is read from a byte offset on, record by record.
//!
//! - A file is a file whatever its names: one with several, through links, is read once, under the first; one that is renamed keeps its
//!   place. It is told from others by its inode and the time when it was made.
//! - Files may only grow. One that is shorter than what was read of it, or another file in its place, stops the job. A copy with the same
//!   beginning may take a file's place between runs, unless files are followed.
//! - A followed file may be rotated: once another file has its name, what is left of it is read, under its new name if the pattern matches
//!   that, else to the end that it has then; the new file is a new split. A copy that is cut to nothing instead cannot be told from lost data.
//! - Any number of files may match; all but a few dozen are closed while they are not read.

mod csv;
mod discover;
mod handles;
mod identity;
mod line;
mod lines;
mod splits;
mod window;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::schema::FieldPath;
use tidemill_core::source::{InvalidRow, Source, SourceRows, Split, SplitReader};
use tidemill_core::{Error, Result};

use self::csv::CsvReader;
use self::handles::Handles;
use self::lines::LineReader;
use self::window::Window;
use crate::codec::Row;

/// A record longer than this is invalid, unless configured otherwise.
pub const DEFAULT_MAX_RECORD_BYTES: usize = 16 << 20;

/// How much of a record that is too long is kept for people to look at.
const RAW_BYTES: usize = 64 << 10;

/// Where to read and how.
#[derive(Clone, Debug)]
pub struct FileSourceConfig {
    /// A path or a glob pattern, absolute. Names that start with a dot are matched only by patterns that spell the dot.
    pub pattern: String,
    /// The folder that the names of splits start from, for files below it.
    pub base: PathBuf,
    /// Whether to go on reading at the end of a file, and to look for new files.
    pub follow: bool,
    /// The longest record in bytes; a longer one is invalid.
    pub max_record_bytes: usize,
    /// Where a record's event time is; a record without one is invalid. `None`: records have none.
    pub timestamp: Option<FieldPath>,
}

/// Turns one line into a record of the consumer's input type.
pub trait LineDecode: Send {
    /// Appends the record to `out`. On an error, what was appended is dropped.
    ///
    /// # Errors
    /// What is wrong with the line, for people.
    fn decode(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<(), String>;
}

/// Turns one CSV row into a record of the consumer's input type.
pub trait RowDecode: Send {
    /// Sets the names of the columns. Called once, before any row.
    ///
    /// # Errors
    /// A column that is needed is missing.
    fn set_header(&mut self, header: &Row) -> Result<(), String>;

    /// Whether an empty line is a row. Called after the header.
    fn blank_rows(&self) -> bool;

    /// Appends the record to `out`. The row has as many fields as the header. On an error, what was appended is dropped.
    ///
    /// # Errors
    /// What is wrong with the row, for people.
    fn decode(&mut self, row: &Row, out: &mut Vec<u8>) -> Result<(), String>;
}

/// The format of the files, with what makes a decoder for each file.
#[derive(Clone)]
pub enum FileFormat {
    /// A JSON value a line.
    Lines(Arc<dyn Fn() -> Box<dyn LineDecode> + Send + Sync>),
    /// Comma-separated rows below a header.
    Csv(Arc<dyn Fn() -> Box<dyn RowDecode> + Send + Sync>),
}

/// Files that match a pattern. A split's name is the file's path, its position a byte offset.
pub struct FileSource {
    config: Arc<FileSourceConfig>,
    handles: Handles,
    format: FileFormat,
}

impl FileSource {
    /// A source that reads what matches the configured pattern.
    #[must_use]
    pub fn new(config: FileSourceConfig, format: FileFormat) -> Self {
        Self { config: Arc::new(config), handles: Handles::default(), format }
    }
}

impl Source for FileSource {
    fn discover(&self, known: &mut Vec<Split>) -> Result<()> {
        splits::discover(&self.config, known)
    }

    fn open(&self, split: &Split) -> Result<Box<dyn SplitReader>> {
        let window = Window::open(&self.config, &self.handles, split)?;
        Ok(match &self.format {
            FileFormat::Lines(decoder) => Box::new(LineReader::open(window, &self.config, decoder())),
            FileFormat::Csv(decoder) => Box::new(CsvReader::open(window, &self.config, decoder())?),
        })
    }

    fn bounded(&self) -> bool {
        !self.config.follow
    }

    fn unit(&self) -> &'static str {
        "byte"
    }

    fn line_of(&self, split: &Split, position: u64) -> Option<u64> {
        line::number(&self.config.base.join(&split.name), position)
    }
}

/// Appends what `decode` makes of a record with its event time, or the record as invalid.
#[inline]
fn decode_into(
    rows: &mut SourceRows,
    position: u64,
    raw: &[u8],
    timestamp: Option<&FieldPath>,
    decode: impl FnOnce(&mut Vec<u8>) -> Result<(), String>,
) {
    let start = rows.payload.bytes.len();
    // The event time is taken here, where the original bytes of a record without one are at hand.
    let decoded = decode(&mut rows.payload.bytes).and_then(|()| {
        let Some(path) = timestamp else { return Ok(None) };
        let time = path.timestamp(rows.payload.bytes.get(start..).unwrap_or_default())?;
        time.map(Some).ok_or_else(|| "the timestamp is missing".to_owned())
    });
    match decoded {
        Ok(time) => {
            rows.payload.finish();
            rows.position.push(position);
            if timestamp.is_some() {
                rows.time.push(time);
            }
        }
        Err(reason) => {
            rows.payload.abandon();
            rows.invalid.push(InvalidRow { position, raw: raw.to_vec(), reason });
        }
    }
}

/// A record that is too long to be buffered, and is skipped.
struct TooLong {
    position: u64,
    limit: usize,
    /// Its first bytes, for people to look at.
    raw: Vec<u8>,
}

impl TooLong {
    /// A record at `position` that begins with `bytes`, which are more than `limit`.
    fn new(position: u64, bytes: &[u8], limit: usize) -> Self {
        // Not more than the limit, so that it does not hang on how much was read when the record became too long.
        let kept = bytes.len().min(limit).min(RAW_BYTES);
        Self { position, limit, raw: bytes.get(..kept).unwrap_or(bytes).to_vec() }
    }

    /// Where it begins.
    fn position(&self) -> u64 {
        self.position
    }

    /// The record as invalid, once its end is known.
    fn end(self, end: u64) -> InvalidRow {
        let Self { position, limit, raw } = self;
        let reason = format!(
            "the record has {} bytes, more than max_record_bytes, {limit} (raw holds only the first {} bytes)",
            end - position,
            raw.len()
        );
        InvalidRow { position, raw, reason }
    }
}

/// An error about a file that is not what was read before; trying again would not help.
fn changed(path: &Path, what: &str) -> Error {
    Error::corrupt(format!(
        "the file `{}` {what}: files may only grow while a job reads them; put the file back as it was, or start again with --fresh",
        path.display()
    ))
}

#[cfg(test)]
mod tests;
