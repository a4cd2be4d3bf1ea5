//! Comma-separated rows (RFC 4180) below a header. Rows may span lines inside quotes. Where quotes do not match, the line in which the row
//! begins is invalid, and the lines behind it are read as rows of their own.

use std::ops::ControlFlow;

use memchr::memchr;
use tidemill_core::schema::FieldPath;
use tidemill_core::source::{InvalidRow, Limit, Polled, SourceRows, SplitReader};
use tidemill_core::{Error, Result};

use super::window::Window;
use super::{FileSourceConfig, RowDecode, TooLong, decode_into};
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
    /// The line that is being skipped because it is too long.
    skipped: Option<TooLong>,
    /// Why the line in which the row begins is invalid, until its end is read.
    broken: Option<&'static str>,
}

enum Header {
    /// Not read yet; then reading goes on at this position.
    Before(u64),
    /// Read, with this number of columns.
    Columns(usize),
}

impl CsvReader {
    /// A reader that goes on at the window's position; the header is read first in any case.
    pub(super) fn open(mut window: Window, config: &FileSourceConfig, decoder: Box<dyn RowDecode>) -> Result<Self> {
        let position = window.position();
        window.seek(0)?;
        let mut reader = Self {
            window,
            max_record_bytes: config.max_record_bytes,
            decoder,
            timestamp: config.timestamp.clone(),
            parser: RowParser::default(),
            parsed: 0,
            header: Header::Before(position),
            skipped: None,
            broken: None,
        };
        reader.columns()?;
        reader.rest(false);
        Ok(reader)
    }

    /// Closes the file if too many are open. A row that was parsed in part is parsed again.
    fn rest(&mut self, pending: bool) {
        if self.window.rest(pending) {
            self.parser.reset();
            self.broken = None;
        }
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
        let resume = match self.header {
            Header::Columns(count) => return Ok(Some(count)),
            Header::Before(position) => position,
        };
        while !self.parse(false) {
            if let Some(reason) = self.broken {
                return Err(self.bad_header(reason));
            }
            if self.window.bytes().len() > self.max_record_bytes {
                return Err(self.bad_header("it has no end: is a quote left open?"));
            }
            if !self.window.fill()? {
                if self.window.follow() {
                    return Ok(None);
                }
                if !self.parse(true) {
                    return self.broken.map_or(Ok(None), |reason| Err(self.bad_header(reason)));
                }
                break;
            }
        }
        let columns = self.parser.row().len();
        self.decoder.set_header(self.parser.row()).map_err(|reason| self.bad_header(&reason))?;
        self.finish_row();
        if resume > self.window.position() {
            self.window.seek(resume)?;
        }
        self.header = Header::Columns(columns);
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
                self.window.consume(BYTE_ORDER_MARK.len());
            }
        }
        if !matches!(self.header, Header::Columns(_)) || !self.decoder.blank_rows() {
            let ends = self.window.bytes().iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            self.window.consume(ends);
        }
        true
    }

    /// Moves behind the parsed row.
    fn finish_row(&mut self) {
        self.window.consume(self.parsed);
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
        decode_into(rows, self.window.position(), raw, self.timestamp.as_ref(), |out| {
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
                rows.invalid.push(InvalidRow { position, reason: reason.to_owned(), raw: raw.to_vec() });
                self.window.consume(end + 1);
            }
            _ => self.skipped = Some(TooLong::new(position, bytes, self.max_record_bytes)),
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
            rows.invalid.push(InvalidRow { position: self.window.position(), reason: reason.to_owned(), raw: bytes.to_vec() });
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
        self.window.consume(1);
        true
    }

    /// Reads more of the file, or ends the split.
    fn read_more(&mut self, columns: usize, rows: &mut SourceRows) -> Result<ControlFlow<Polled>> {
        if self.skipped.is_none() && self.window.bytes().len() > self.longest() {
            self.give_up_too_long(rows);
            return Ok(ControlFlow::Continue(()));
        }
        if self.window.fill()? {
            return Ok(ControlFlow::Continue(()));
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
            (Header::Before(position), _) => *position,
            (_, Some(line)) => line.position(),
            _ => self.window.position(),
        }
    }
}

fn without_line_end(raw: &[u8]) -> &[u8] {
    let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
    raw.strip_suffix(b"\r").unwrap_or(raw)
}
