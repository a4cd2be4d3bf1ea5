//! One record a line.

use memchr::memchr;
use tidemill_core::Result;
use tidemill_core::schema::FieldPath;
use tidemill_core::source::{Limit, Polled, SourceRows, SplitReader};

use super::mark::Mark;
use super::window::{Filled, Window};
use super::{FileSourceConfig, LineDecode, Place, TooLong, decode_into};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How many bytes of a line may not count: the byte order mark and the carriage return.
const MARKS: usize = BYTE_ORDER_MARK.len() + 1;

/// Reads lines. A position is the offset of a line's first byte.
pub(super) struct LineReader {
    window: Window,
    max_record_bytes: usize,
    decoder: Box<dyn LineDecode>,
    timestamp: Option<FieldPath>,
    /// The number of the line at the position, counted from 1, if it is known.
    line: Option<u64>,
    /// How many bytes of the window are known to have no line end.
    searched: usize,
    /// The line that is being skipped because it is too long.
    skipped: Option<TooLong>,
    /// What to remember of the begin of that line.
    skipped_mark: Mark,
}

impl LineReader {
    /// A reader that goes on at the window's position.
    pub(super) fn open(mut window: Window, config: &FileSourceConfig, decoder: Box<dyn LineDecode>) -> Self {
        window.rest(false);
        let (max_record_bytes, timestamp) = (config.max_record_bytes, config.timestamp.clone());
        let line = window.line();
        Self { window, max_record_bytes, decoder, timestamp, line, searched: 0, skipped: None, skipped_mark: Mark::default() }
    }

    fn read(&mut self, limit: Limit, rows: &mut SourceRows) -> Result<Polled> {
        let end_row = rows.len().saturating_add(limit.rows);
        let end_position = self.window.position().saturating_add(limit.bytes as u64);
        while rows.len() < end_row && self.window.position() < end_position {
            match memchr(b'\n', self.window.bytes().get(self.searched..).unwrap_or(&[])) {
                Some(found) => self.take(self.searched + found, rows),
                None => {
                    if let Some(state) = self.read_more(rows)? {
                        return Ok(state);
                    }
                }
            }
        }
        Ok(Polled::More)
    }

    /// Takes a whole line of `length` bytes, line end not counted, of which the window holds all or, if it is being skipped, the rest.
    #[inline]
    fn take(&mut self, length: usize, rows: &mut SourceRows) {
        let begin = self.window.position();
        if let Some(line) = self.skipped.take() {
            rows.invalid.push(line.end(begin + length as u64));
        } else {
            let raw = self.window.bytes().get(..length).unwrap_or(&[]);
            let line = text(raw, begin);
            if line.len() > self.max_record_bytes {
                rows.invalid.push(TooLong::new(begin, self.line, raw, self.max_record_bytes).end(begin + length as u64));
            } else if !blank(line) {
                decode_into(rows, Place::new(self.line, begin), line, self.timestamp.as_ref(), |out| self.decoder.decode(line, out));
            }
        }
        self.window.consume(length + 1);
        self.line = self.line.map(|line| line + 1);
        self.searched = 0;
    }

    /// Reads more of the file. Returns how the split stands if nothing came.
    fn read_more(&mut self, rows: &mut SourceRows) -> Result<Option<Polled>> {
        let length = self.window.bytes().len();
        self.searched = length;
        if length > self.max_record_bytes + MARKS || self.skipped.is_some() {
            if self.skipped.is_none() {
                self.skipped_mark = self.window.mark(self.line);
                let (position, bytes) = (self.window.position(), self.window.bytes());
                self.skipped = Some(TooLong::new(position, self.line, bytes, self.max_record_bytes));
            }
            self.window.consume(length);
            self.searched = 0;
        }
        match self.window.fill()? {
            Filled::More => return Ok(None),
            Filled::Again => {
                (self.line, self.searched, self.skipped) = (Some(1), 0, None);
                return Ok(None);
            }
            Filled::Nothing => {}
        }
        if self.window.follow() {
            return Ok(Some(Polled::Pending));
        }
        let rest = self.window.bytes().len();
        if rest > 0 || self.skipped.is_some() {
            self.take(rest, rows);
        }
        Ok(Some(Polled::End))
    }
}

impl SplitReader for LineReader {
    fn poll(&mut self, limit: Limit, rows: &mut SourceRows) -> Result<Polled> {
        let polled = self.read(limit, rows)?;
        if self.window.rest(polled == Polled::Pending) {
            self.searched = 0;
        }
        Ok(polled)
    }

    fn position(&self) -> u64 {
        self.skipped.as_ref().map_or_else(|| self.window.position(), TooLong::position)
    }

    fn identity(&self) -> Option<String> {
        self.window.identity()
    }

    fn mark(&self) -> Option<String> {
        let now = self.window.mark(self.line);
        let mark = if self.skipped.is_some() { Mark { known: now.known, ..self.skipped_mark } } else { now };
        Some(mark.to_text())
    }
}

/// A line without the carriage return at its end and, in the first line, the byte order mark.
#[inline]
fn text(line: &[u8], position: u64) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if position == 0 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line }
}

#[inline]
fn blank(line: &[u8]) -> bool {
    line.first().is_none_or(u8::is_ascii_whitespace) && line.iter().all(u8::is_ascii_whitespace)
}
