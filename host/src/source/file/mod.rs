//! Files as splits: each file that a pattern matches is read from a byte offset on, record by record.
//!
//! - A file is a file whatever its names: one with several, through links, is read once, under the first; one that is renamed keeps its
//!   place. It is told from others by its inode and the time when it was made. A copy may take its place under its name, between runs and,
//!   of a followed file, while the job runs: a file with the same content up to the position, by the hashes of its begin and of the bytes
//!   before the position. Followed files are rotated, and the next one of a name may begin like the one before it. So where less than a
//!   kilobyte was read, the old file must be gone from its folder, and only since a moment.
//! - Files may only grow. The first bytes of a file, and those before the position, are compared with what was read whenever there is more,
//!   whenever its metadata have changed, and at every start. A file that has other content is an error, or is read from
//!   the begin ([`OnReplaced`]).
//! - A file is gone once no path that matches leads to it: it was removed, rotated away, or another has its name. While it is open its rest is
//!   read, and that of one that was renamed within its folder in any case; then its split ends, with a warning. If something of it could not be read that is an error, unless such rests are given
//!   up ([`OnGone`]). Another file of its name is a new split. A followed file that comes back is read on from where its split ended.
//! - Any number of files may match; many are closed while they are not read, without any other difference.

mod csv;
mod discover;
mod feeds;
mod folders;
mod found;
mod handles;
mod identity;
mod lines;
mod mark;
mod notices;
mod readers;
mod shared;
mod splits;
mod unread;
mod walk;
mod window;
mod within;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Result;
use tidemill_core::schema::FieldPath;
use tidemill_core::source::{InvalidRow, Source, SourceRows, Split, SplitReader};

use self::csv::CsvReader;
pub use self::discover::{Survey, survey};
pub use self::feeds::{Name, Piece, could_read};
use self::handles::Handles;
use self::lines::LineReader;
use self::notices::shown;
use self::shared::Shared;
pub use self::unread::{Unread, unread};
use self::window::Window;
use crate::codec::Row;

/// A record longer than this is invalid, unless configured otherwise.
pub const DEFAULT_MAX_RECORD_BYTES: usize = 16 << 20;

/// How much of a record that is too long is kept for people to look at.
const RAW_BYTES: usize = 64 << 10;

/// How long a followed file that lost its name is still read before its split ends: who rotates a file renames it before its writer knows.
pub const GONE_AFTER: Duration = Duration::from_secs(1);

/// What follows when a file has other content than what was read of it, or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnReplaced {
    /// The job stops.
    #[default]
    Fail,
    /// The new content is read from the begin; what was not read of the old is lost.
    BeginAgain,
}

/// What follows when a file is gone that was not read to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnGone {
    /// The job stops.
    #[default]
    Fail,
    /// What was not read is given up.
    Skip,
}

/// Where to read and how.
#[derive(Clone, Debug)]
pub struct FileSourceConfig {
    /// The source's uid, for messages.
    pub uid: String,
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
    /// What follows when a file was overwritten or cut.
    pub on_replaced: OnReplaced,
    /// What follows when a file is gone that was not read to its end.
    pub on_gone: OnGone,
    /// How long a followed file that lost its name is still read: see [`GONE_AFTER`].
    pub gone_after: Duration,
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
    shared: Arc<Shared>,
    format: FileFormat,
}

impl FileSource {
    /// A source that reads what matches the configured pattern.
    #[must_use]
    pub fn new(config: FileSourceConfig, format: FileFormat) -> Self {
        Self { shared: Arc::new(Shared::new(config, Handles::of_process())), format }
    }
}

impl Source for FileSource {
    fn resume(&self, known: &mut [Split]) -> Result<()> {
        splits::resume(&self.shared, known)
    }

    fn discover(&self, known: &mut Vec<Split>) -> Result<()> {
        splits::discover(&self.shared, known)
    }

    fn open(&self, split: &Split) -> Result<Box<dyn SplitReader>> {
        within::check(&self.shared.config, split)?;
        let window = Window::open(&self.shared, split)?;
        Ok(match &self.format {
            FileFormat::Lines(decoder) => Box::new(LineReader::open(window, &self.shared.config, decoder())),
            FileFormat::Csv(decoder) => Box::new(CsvReader::open(window, &self.shared.config, decoder(), split.mark.clone())?),
        })
    }

    fn place(&self, split: &str, position: u64) -> String {
        Place::of(position).in_file(split)
    }

    fn bounded(&self) -> bool {
        !self.shared.config.follow
    }
}

/// Where a record is, for people: a line, or a byte where the lines before it are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Line(u64),
    Byte(u64),
}

impl Place {
    /// The bit of a position that tells lines from bytes: no file is that long.
    const LINE: u64 = 1 << 63;

    /// The line, if it is known, else the byte.
    #[inline]
    fn new(line: Option<u64>, byte: u64) -> Self {
        line.map_or(Self::Byte(byte), Self::Line)
    }

    /// As a record's position.
    #[inline]
    fn position(self) -> u64 {
        match self {
            Self::Line(line) => line | Self::LINE,
            Self::Byte(byte) => byte & !Self::LINE,
        }
    }

    /// The reverse of [`position`](Self::position).
    fn of(position: u64) -> Self {
        if position & Self::LINE == 0 { Self::Byte(position) } else { Self::Line(position & !Self::LINE) }
    }

    fn in_file(self, name: &str) -> String {
        match self {
            Self::Line(line) => format!("{} line {line}", shown(name)),
            Self::Byte(byte) => format!("{} byte {byte}", shown(name)),
        }
    }
}

/// Appends what `decode` makes of a record with its event time, or the record as invalid.
#[inline]
fn decode_into(
    rows: &mut SourceRows,
    place: Place,
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
            rows.position.push(place.position());
            if timestamp.is_some() {
                rows.time.push(time);
            }
        }
        Err(reason) => {
            rows.payload.abandon();
            rows.invalid.push(InvalidRow { position: place.position(), raw: raw.to_vec(), reason });
        }
    }
}

/// A record that is too long to be buffered, and is skipped.
struct TooLong {
    position: u64,
    line: Option<u64>,
    limit: usize,
    /// Its first bytes, for people to look at.
    raw: Vec<u8>,
}

impl TooLong {
    /// A record at `position` that begins with `bytes`, which are more than `limit`.
    fn new(position: u64, line: Option<u64>, bytes: &[u8], limit: usize) -> Self {
        // Not more than the limit, so that it does not hang on how much was read when the record became too long.
        let kept = bytes.len().min(limit).min(RAW_BYTES);
        Self { position, line, limit, raw: bytes.get(..kept).unwrap_or(bytes).to_vec() }
    }

    /// Where it begins.
    fn position(&self) -> u64 {
        self.position
    }

    /// The record as invalid, once its end is known.
    fn end(self, end: u64) -> InvalidRow {
        let Self { position, line, limit, raw } = self;
        let reason = format!(
            "the record has {} bytes, more than max_record_bytes, {limit} (raw holds only the first {} bytes)",
            end - position,
            raw.len()
        );
        InvalidRow { position: Place::new(line, position).position(), raw, reason }
    }
}

#[cfg(test)]
mod tests;
