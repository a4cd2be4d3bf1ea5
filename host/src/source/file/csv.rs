//! Comma-separated rows (RFC 4180) below a header. Rows may span lines inside quotes. Where quotes do not match, the line in which the row
//! begins is invalid, and the lines behind it are read as rows of their own.

use std::ops::ControlFlow;

use memchr::memchr;
use tidemill_core::schema::FieldPath;
use tidemill_core::source::{InvalidRow, Limit, Polled, SourceRows, SplitReader};
use tidemill_core::{Error, Result};

use super::mark::Mark;
use super::window::{Filled, Window};
use super::{FileSourceConfig, Place, RowDecode, TooLong, decode_into};
use crate::codec::csv::{Parsed, RowParser, quotes_do_not_match};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads rows. A position is the offset of a row's first byte; 0 stands for the first row after the header.
pub(super) struct CsvReader {
    window: Window,
    max_record_bytes: usize,
    decoder: Box<dyn RowDecode>,
    timestamp: Option<FieldPath>,
    parser: RowParser,
    /// The length of the row that the parser has.
    parsed: usize,
    header: Header,
    /// The number of the line at the window's position, counted from 1, if it is known.
    line: Option<u64>,
    /// The line that is being skipped because it is too long.
    skipped: Option<TooLong>,
    /// What to remember of the begin of that line.
    skipped_mark: Mark,
    /// Why the line in which the row begins is invalid, until its end is read.
    broken: Option<&'static str>,
}

enum Header {
    /// Not read yet; then reading goes on at this position.
    Before(Resume),
    /// Read, with this number of columns.
    Columns(usize),
}

/// Where reading goes on behind the header.
#[derive(Clone, Default)]
struct Resume {
    position: u64,
    line: Option<u64>,
    mark: Option<String>,
}

impl CsvReader {
    /// A reader that goes on at the window's position, of which the mark is remembered; the header is read first in any case.
    pub(super) fn open(mut window: Window, config: &FileSourceConfig, decoder: Box<dyn RowDecode>, mark: Option<String>) -> Result<Self> {
        let resume = Resume { position: window.position(), line: window.line(), mark };
        window.seek(0)?;
        let mut reader = Self {
            window,
            max_record_bytes: config.max_record_bytes,
            decoder,
            timestamp: config.timestamp.clone(),
            parser: RowParser::default(),
            parsed: 0,
            header: Header::Before(resume),
            line: Some(1),
            skipped: None,
            skipped_mark: Mark::default(),
            broken: None,
        };
        reader.columns()?;
        reader.rest(false);
        Ok(reader)
    }

    /// Closes the file if too many are open. A row that was parsed in part is parsed again.
    fn rest(&mut self, pending: bool) {
        if self.window.rest(pending) {
            self.forget_row();
        }
    }

    /// Forgets what was parsed of a row.
    fn forget_row(&mut self) {
        self.parser.reset();
        self.broken = None;
    }

    /// Begins again with a file that was overwritten, which the window has gone back to the begin of.
    fn begin_again(&mut self) {
        self.forget_row();
        (self.header, self.line, self.skipped) = (Header::Before(Resume::default()), Some(1), None);
    }

    /// Moves forward, and counts the lines.
    fn consume(&mut self, count: usize) {
        if let Some(line) = &mut self.line {
            *line += memchr::memchr_iter(b'\n', self.window.bytes().get(..count).unwrap_or(&[])).count() as u64;
        }
        self.window.consume(count);
    }

    fn read(&mut self, limit: Limit, rows: &mut SourceRows) -> Result<Polled> {
        let Some(columns) = self.columns()? else {
            return Ok(if self.window.follow() { Polled::Pending } else { Polled::End });
        };
        let end_row = rows.len().saturating_add(limit.rows);
        let end_position = self.window.position().saturating_add(limit.bytes as u64);
        while rows.len() < end_row && self.window.position() < end_position {
            if self.skipped.is_some() {
                if self.skip(rows) {
                    continue;
                }
            } else if self.broken.is_some() {
                if self.give_up_broken(false, rows) {
                    continue;
                }
            } else if self.parse(false) {
                self.take(columns, rows);
                continue;
            } else if self.broken.is_some() {
                continue;
            }
            if let ControlFlow::Break(state) = self.read_more(columns, rows)? {
                return Ok(state);
            }
        }
        Ok(Polled::More)
    }

    /// The number of columns; none while the header is not in the file.
    fn columns(&mut self) -> Result<Option<usize>> {
        if let Header::Columns(count) = self.header {
            return Ok(Some(count));
        }
        while !self.parse(false) {
            if let Some(reason) = self.broken {
                return Err(self.bad_header(reason));
            }
            if self.window.bytes().len() > self.max_record_bytes {
                return Err(self.bad_header("it has no end: is a quote left open?"));
            }
            match self.window.fill()? {
                Filled::More => {}
                Filled::Again => self.begin_again(),
                Filled::Nothing if self.window.follow() => return Ok(None),
                Filled::Nothing if !self.parse(true) => {
                    return self.broken.map_or(Ok(None), |reason| Err(self.bad_header(reason)));
                }
                Filled::Nothing => break,
            }
        }
        let columns = self.parser.row().len();
        self.decoder.set_header(self.parser.row()).map_err(|reason| self.bad_header(&reason))?;
        self.finish_row();
        let header = std::mem::replace(&mut self.header, Header::Columns(columns));
        if let Header::Before(resume) = header
            && resume.position > self.window.position()
        {
            self.window.seek(resume.position)?;
            self.line = resume.line;
        }
        Ok(Some(columns))
    }

    fn bad_header(&self, reason: &str) -> Error {
        Error::config(format!("the header of the file `{}` does not fit: {reason}", self.window.path().display()))
    }

    /// Parses what the window holds, up to the end of the row. Returns whether the row is complete; one that is not CSV is `broken`. `last`:
    /// nothing follows the window.
    fn parse(&mut self, last: bool) -> bool {
        if !self.parser.has_begun() && !self.skip_to_row(last) {
            return false;
        }
        match self.parser.parse(self.window.bytes(), last) {
            Parsed::Row(length) => self.parsed = length,
            Parsed::More => return false,
            Parsed::Malformed(reason) => {
                self.parser.reset();
                self.broken = Some(reason);
                return false;
            }
        }
        true
    }

    /// Skips line ends before the row, unless they are rows, so that its position is that of its first byte, and a byte order mark. False: too
    /// little was read.
    fn skip_to_row(&mut self, last: bool) -> bool {
        if self.window.position() == 0 {
            if self.window.bytes().len() < BYTE_ORDER_MARK.len() && !last {
                return false;
            }
            if self.window.bytes().starts_with(BYTE_ORDER_MARK) {
                self.consume(BYTE_ORDER_MARK.len());
            }
        }
        if !matches!(self.header, Header::Columns(_)) || !self.decoder.blank_rows() {
            let ends = self.window.bytes().iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.consume(ends);
        }
        true
    }

    /// Moves behind the parsed row.
    fn finish_row(&mut self) {
        self.consume(self.parsed);
        self.parser.reset();
    }

    /// Takes a complete row.
    fn take(&mut self, columns: usize, rows: &mut SourceRows) {
        if self.parsed > self.longest() {
            return self.give_up_too_long(rows);
        }
        let (row, decoder) = (self.parser.row(), &mut self.decoder);
        let raw = without_line_end(self.window.bytes().get(..self.parsed).unwrap_or(&[]));
        if let Some(reason) = quotes_do_not_match(row, raw, columns) {
            self.parser.reset();
            self.broken = Some(reason);
            return;
        }
        decode_into(rows, Place::new(self.line, self.window.position()), raw, self.timestamp.as_ref(), |out| {
            if row.len() != columns {
                return Err(format!("the row has {} fields, the header has {columns}", row.len()));
            }
            decoder.decode(row, out)
        });
        self.finish_row();
    }

    /// The longest row with its line end.
    fn longest(&self) -> usize {
        self.max_record_bytes + 2
    }

    fn give_up_too_long(&mut self, rows: &mut SourceRows) {
        let limit = self.max_record_bytes;
        self.give_up(&format!("the row that begins in this line has more than the limit of {limit} bytes: is a quote left open?"), rows);
    }

    /// Gives up the row: its first line alone is invalid, and reading goes on behind that line.
    fn give_up(&mut self, reason: &str, rows: &mut SourceRows) {
        self.parser.reset();
        let (position, bytes) = (self.window.position(), self.window.bytes());
        match memchr(b'\n', bytes) {
            Some(end) if end < self.longest() => {
                let raw = without_line_end(bytes.get(..end).unwrap_or(&[]));
                let position = Place::new(self.line, position).position();
                rows.invalid.push(InvalidRow { position, reason: reason.to_owned(), raw: raw.to_vec() });
                self.consume(end + 1);
            }
            _ => {
                self.skipped_mark = self.window.mark(self.line);
                self.skipped = Some(TooLong::new(position, self.line, bytes, self.max_record_bytes));
            }
        }
    }

    /// Gives up a row that is not CSV. Returns whether its first line has been read to its end. `last`: nothing follows the window.
    fn give_up_broken(&mut self, last: bool, rows: &mut SourceRows) -> bool {
        let Some(reason) = self.broken else { return false };
        let bytes = self.window.bytes();
        if memchr(b'\n', bytes).is_none() && bytes.len() <= self.longest() {
            if !last {
                return false;
            }
            let position = Place::new(self.line, self.window.position()).position();
            rows.invalid.push(InvalidRow { position, reason: reason.to_owned(), raw: bytes.to_vec() });
            self.window.consume(bytes.len());
        } else {
            self.give_up(reason, rows);
        }
        self.broken = None;
        true
    }

    /// Goes on skipping a line that is too long. Returns whether its end was found.
    fn skip(&mut self, rows: &mut SourceRows) -> bool {
        let length = self.window.bytes().len();
        let Some(end) = memchr(b'\n', self.window.bytes()) else {
            self.window.consume(length);
            return false;
        };
        self.window.consume(end);
        rows.invalid.extend(self.skipped.take().map(|line| line.end(self.window.position())));
        self.consume(1);
        true
    }

    /// Reads more of the file, or ends the split.
    fn read_more(&mut self, columns: usize, rows: &mut SourceRows) -> Result<ControlFlow<Polled>> {
        if self.skipped.is_none() && self.window.bytes().len() > self.longest() {
            self.give_up_too_long(rows);
            return Ok(ControlFlow::Continue(()));
        }
        match self.window.fill()? {
            Filled::More => return Ok(ControlFlow::Continue(())),
            // The header is read again at the next turn.
            Filled::Again => {
                self.begin_again();
                return Ok(ControlFlow::Break(Polled::More));
            }
            Filled::Nothing => {}
        }
        if self.window.follow() {
            return Ok(ControlFlow::Break(Polled::Pending));
        }
        if let Some(line) = self.skipped.take() {
            rows.invalid.push(line.end(self.window.position()));
        } else if self.give_up_broken(true, rows) {
            return Ok(ControlFlow::Continue(()));
        } else if self.parse(true) {
            self.take(columns, rows);
            return Ok(ControlFlow::Continue(()));
        } else if self.broken.is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        Ok(ControlFlow::Break(Polled::End))
    }
}

impl SplitReader for CsvReader {
    fn poll(&mut self, limit: Limit, rows: &mut SourceRows) -> Result<Polled> {
        let polled = self.read(limit, rows)?;
        self.rest(polled == Polled::Pending);
        Ok(polled)
    }

    fn position(&self) -> u64 {
        match (&self.header, &self.skipped) {
            (Header::Before(resume), _) => resume.position,
            (_, Some(line)) => line.position(),
            _ => self.window.position(),
        }
    }

    fn identity(&self) -> Option<String> {
        self.window.identity()
    }

    fn mark(&self) -> Option<String> {
        let now = self.window.mark(self.line);
        match (&self.header, &self.skipped) {
            (Header::Before(resume), _) if resume.position > 0 => resume.mark.clone(),
            (_, Some(_)) => Some(Mark { known: now.known, ..self.skipped_mark }.to_text()),
            _ => Some(now.to_text()),
        }
    }
}

fn without_line_end(raw: &[u8]) -> &[u8] {
    let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
    raw.strip_suffix(b"\r").unwrap_or(raw)
}
