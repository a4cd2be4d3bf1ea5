//! Rows of CSV as RFC 4180 has them: fields between commas, in quotes where they hold commas, quotes or line ends.

use memchr::{memchr, memchr3};

const TEXT_AFTER_QUOTE: &str = "text follows the quote that closes a field; a quote within quotes is written twice";
const NEVER_CLOSED: &str = "a quote that is opened in this line is never closed";

/// The fields of a row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    text: Vec<u8>,
    /// Where each field ends in `text`, and whether it was in quotes.
    fields: Vec<(usize, bool)>,
}

/// A field of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Its text, without quotes.
    pub text: &'a [u8],
    /// Whether it was in quotes: an empty text is then a text, and nothing otherwise.
    pub quoted: bool,
}

impl Row {
    /// The number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// A field; `None` if the row has fewer.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Cell<'_>> {
        let (end, quoted) = *self.fields.get(index)?;
        let start = index.checked_sub(1).and_then(|before| self.fields.get(before)).map_or(0, |(end, _)| *end);
        Some(Cell { text: self.text.get(start..end)?, quoted })
    }

    /// The fields in order.
    pub fn iter(&self) -> impl Iterator<Item = Cell<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Appends a field.
    pub fn push(&mut self, cell: Cell<'_>) {
        self.text.extend_from_slice(cell.text);
        self.fields.push((self.text.len(), cell.quoted));
    }

    fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
    }
}

/// What a parser has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A row of so many bytes, its line end included.
    Row(usize),
    /// The input ends within the row, or is empty.
    More,
    /// The row is not CSV, for this reason.
    Malformed(&'static str),
}

/// Parses one row after the other.
#[derive(Debug, Default)]
pub struct RowParser {
    row: Row,
    state: State,
    /// How many bytes of the row's input have been looked at.
    parsed: usize,
    /// Whether the field that is being parsed is in quotes.
    quoted: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Before a field.
    #[default]
    Start,
    /// In a field without quotes.
    Plain,
    /// In a field within quotes.
    Quoted,
    /// Behind a quote within quotes: it closes the field, or is the first of two that stand for one.
    Closed,
    /// At what ends a field: a comma or a line end.
    Ended,
}

impl RowParser {
    /// Goes on with a row. `input` begins with the row's first byte, at each call; `last`: nothing follows it.
    pub fn parse(&mut self, input: &[u8], last: bool) -> Parsed {
        while let Some((&first, rest)) = input.get(self.parsed..).and_then(<[u8]>::split_first) {
            match self.state {
                State::Start => {
                    self.quoted = first == b'"';
                    self.parsed += usize::from(self.quoted);
                    self.state = if self.quoted { State::Quoted } else { State::Plain };
                }
                State::Plain => {
                    let input = input.get(self.parsed..).unwrap_or_default();
                    let end = memchr3(b',', b'\n', b'\r', input);
                    self.take(input.get(..end.unwrap_or(input.len())).unwrap_or_default());
                    if end.is_some() {
                        self.state = State::Ended;
                    }
                }
                State::Quoted => {
                    let input = input.get(self.parsed..).unwrap_or_default();
                    let end = memchr(b'"', input);
                    self.take(input.get(..end.unwrap_or(input.len())).unwrap_or_default());
                    if end.is_some() {
                        self.parsed += 1;
                        self.state = State::Closed;
                    }
                }
                State::Closed => match first {
                    b'"' => {
                        self.take(b"\"");
                        self.state = State::Quoted;
                    }
                    b',' | b'\n' | b'\r' => self.state = State::Ended,
                    _ => return Parsed::Malformed(TEXT_AFTER_QUOTE),
                },
                State::Ended => match (first, rest.first()) {
                    (b',', _) => {
                        self.end_field();
                        self.parsed += 1;
                    }
                    (b'\r', None) if !last => return Parsed::More,
                    (b'\r', Some(b'\n')) => return self.end_row(2),
                    _ => return self.end_row(1),
                },
            }
        }
        match self.state {
            _ if !last || self.parsed == 0 => Parsed::More,
            State::Quoted => Parsed::Malformed(NEVER_CLOSED),
            State::Start | State::Plain | State::Closed | State::Ended => self.end_row(0),
        }
    }

    /// Whether a part of a row has been parsed.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.parsed > 0
    }

    /// The row that was parsed.
    #[must_use]
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// Begins another row.
    pub fn reset(&mut self) {
        self.row.clear();
        (self.state, self.parsed) = (State::Start, 0);
    }

    fn take(&mut self, text: &[u8]) {
        self.row.text.extend_from_slice(text);
        self.parsed += text.len();
    }

    fn end_field(&mut self) {
        self.row.fields.push((self.row.text.len(), std::mem::take(&mut self.quoted)));
        self.state = State::Start;
    }

    fn end_row(&mut self, line_end: usize) -> Parsed {
        self.end_field();
        self.parsed += line_end;
        Parsed::Row(self.parsed)
    }
}

/// Why a parsed row of these bytes is not what it seems to be: it spans lines and does not fit the header, or has a quote in a field without
/// quotes. Then a quote has probably lost its partner, and the row has taken other rows in.
#[must_use]
pub fn quotes_do_not_match(row: &Row, raw: &[u8], columns: usize) -> Option<&'static str> {
    if row.fields.iter().all(|(_, quoted)| !quoted) || memchr(b'\n', raw).is_none() {
        return None;
    }
    let stray = row.iter().any(|cell| !cell.quoted && memchr(b'"', cell.text).is_some());
    (stray || row.len() != columns)
        .then_some("the row that begins in this line spans lines and does not fit the header: is a quote left open?")
}

/// Appends a field as it must be written, in quotes if it has to be or is to be.
pub(super) fn put_cell(out: &mut Vec<u8>, text: &[u8], quoted: bool) {
    if !quoted && memchr3(b',', b'"', b'\n', text).is_none() && memchr(b'\r', text).is_none() && !text.starts_with(b"\xef\xbb\xbf") {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for (index, part) in text.split(|byte| *byte == b'"').enumerate() {
        out.extend_from_slice(if index == 0 { b"" } else { b"\"\"" });
        out.extend_from_slice(part);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::{NEVER_CLOSED, Parsed, RowParser, TEXT_AFTER_QUOTE, put_cell};

    /// The rows of a text, cells in quotes as `"..`, until it ends or is malformed.
    fn rows(text: &str) -> (Vec<Vec<String>>, Option<&'static str>) {
        let (mut parser, mut at, mut rows) = (RowParser::default(), 0, Vec::new());
        loop {
            let rest = &text.as_bytes()[at..];
            // Byte by byte, as if a file grew.
            let found = (0..=rest.len()).map(|end| parser.parse(&rest[..end], end == rest.len())).find(|parsed| *parsed != Parsed::More);
            match found {
                Some(Parsed::Row(length)) => at += length,
                Some(Parsed::Malformed(reason)) => return (rows, Some(reason)),
                Some(Parsed::More) | None => return (rows, None),
            }
            let cell = |cell: super::Cell<'_>| format!("{}{}", if cell.quoted { "\"" } else { "" }, String::from_utf8_lossy(cell.text));
            rows.push(parser.row().iter().map(cell).collect());
            parser.reset();
        }
    }

    #[test]
    fn fields_end_at_commas_and_line_ends_outside_of_quotes() {
        let same = |text, expected: &[&[&str]]| {
            assert_eq!(
                rows(text),
                (expected.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect(), None),
                "{text:?}"
            );
        };
        same("", &[]);
        same("a", &[&["a"]]);
        same("a,b\nc,d\n", &[&["a", "b"], &["c", "d"]]);
        same("a\r\nb\rc", &[&["a"], &["b"], &["c"]]);
        same("\n,\n", &[&[""], &["", ""]]);
        same("\"\",\"a\"\"b\",\"c,\r\nd\"\n", &[&["\"", "\"a\"b", "\"c,\r\nd"]]);
        same("a\"b, \"c\"", &[&["a\"b", " \"c\""]]);
        same("\"a\"", &[&["\"a"]]);
    }

    #[test]
    fn quotes_that_do_not_match_are_malformed() {
        assert_eq!(rows("a\n\"b\"c\n"), (vec![vec!["a".to_owned()]], Some(TEXT_AFTER_QUOTE)));
        assert_eq!(rows("\"b\" ,c\n").1, Some(TEXT_AFTER_QUOTE));
        assert_eq!(rows("a,\"b\nc\n").1, Some(NEVER_CLOSED));
        assert_eq!(rows("a,\"b\"\"\n").1, Some(NEVER_CLOSED));
    }

    #[test]
    fn cells_are_written_as_they_are_read() {
        for (text, quoted, expected) in [("a b", false, "a b"), ("", false, ""), ("", true, "\"\""), ("a\"b", false, "\"a\"\"b\"")] {
            let mut out = Vec::new();
            put_cell(&mut out, text.as_bytes(), quoted);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        let mut random = fastrand::Rng::with_seed(4);
        for _ in 0..20_000 {
            let text: String =
                (0..random.usize(..8)).map(|_| *random.choice(&['a', '"', ',', '\n', '\r', ' ', '\u{feff}']).unwrap()).collect();
            let mut out = Vec::new();
            put_cell(&mut out, text.as_bytes(), false);
            let quote = if out.first() == Some(&b'"') { "\"" } else { "" };
            let read = rows(&format!("{},z\n", String::from_utf8(out).unwrap()));
            assert_eq!(read, (vec![vec![format!("{quote}{text}"), "z".to_owned()]], None));
        }
    }
}
