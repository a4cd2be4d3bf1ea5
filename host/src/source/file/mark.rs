//! What is remembered of the place in a file where reading stopped: enough to notice that the file has other content by now.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use xxhash_rust::xxh3::xxh3_64;

/// How many bytes at the begin of a file, and just before the position, are remembered.
pub(super) const EDGE: usize = 256;

/// The most bytes that a print covers.
const LONGEST: usize = 1024;

/// No file has more bytes or lines.
const MOST: u64 = i64::MAX as u64;

/// The checksum of some bytes of a file. One of no bytes fits everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Print {
    length: u64,
    hash: u64,
}

impl Print {
    /// The print of these bytes, at most [`LONGEST`].
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len() as u64, hash: xxh3_64(bytes) }
    }

    /// A print whose checksum was stored.
    pub(super) fn stored(length: u64, hash: u64) -> Self {
        Self { length: length.min(LONGEST as u64), hash }
    }

    /// How many bytes it covers.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether a file has these bytes at an offset.
    pub(super) fn is_at(&self, offset: u64, file: &File) -> io::Result<bool> {
        let mut bytes = [0; LONGEST];
        let Some(bytes) = usize::try_from(self.length).ok().and_then(|length| bytes.get_mut(..length)) else { return Ok(false) };
        Ok(self.is_empty() || (read_exact(file, bytes, offset)? && xxh3_64(bytes) == self.hash))
    }
}

/// What a split stores beside its position. Version 1: six numbers in hexadecimal, the last of them absent if the line is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// How many bytes the file had when it was last looked at; not less than the position.
    pub(super) known: u64,
    /// The first bytes of the file, as far as they were read. It may be empty while the tail reaches back to the begin.
    pub(super) head: Print,
    /// The bytes just before the position.
    pub(super) tail: Print,
    /// The number of the line that begins at the position, counted from 1.
    pub(super) line: Option<u64>,
}

impl Mark {
    /// Whether the file has what was read of it up to a position.
    pub(super) fn is_in(&self, file: &File, position: u64) -> io::Result<bool> {
        let Some(before) = position.checked_sub(self.tail.length) else { return Ok(false) };
        Ok(self.head.is_at(0, file)? && self.tail.is_at(before, file)?)
    }

    /// Whether a file of this size continues what was read up to a position: it has the same content up to there, and is not shorter than the
    /// other file was. Nothing that was read proves nothing.
    pub(super) fn continues_in(&self, file: &File, size: u64, position: u64) -> io::Result<bool> {
        Ok(position > 0 && !self.tail.is_empty() && size >= self.known.max(position) && self.is_in(file, position)?)
    }

    pub(super) fn to_text(self) -> String {
        let Self { known, head, tail, line } = self;
        let line = line.map_or_else(String::new, |line| format!("-{line:x}"));
        format!("{known:x}-{:x}-{:x}-{:x}-{:x}{line}", head.length, head.hash, tail.length, tail.hash)
    }

    /// Reads what [`to_text`](Self::to_text) wrote. What does not look like that counts as not stored.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let numbers = text.split('-').map(|number| u64::from_str_radix(number, 16).ok()).collect::<Option<Vec<_>>>()?;
        let [known, head_length, head, tail_length, tail] = *numbers.get(..5)? else { return None };
        let line = numbers.get(5).copied().filter(|line| *line > 0);
        let lengths = head_length <= LONGEST as u64 && tail_length <= LONGEST as u64;
        // A savepoint may have been made to hurt: no file has more bytes or lines, and sums with these numbers are numbers too.
        let counts = known <= MOST && line.is_none_or(|line| line <= MOST);
        (numbers.len() <= 6 && lengths && counts).then_some(Self {
            known,
            head: Print { length: head_length, hash: head },
            tail: Print { length: tail_length, hash: tail },
            line,
        })
    }
}

/// Fills the buffer from an offset on; false if the file ends before.
pub(super) fn read_exact(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(bytes, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        result => result.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::{Mark, Print};

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let head = Print::of(b"head");
        for line in [None, Some(7)] {
            let mark = Mark { known: 900, head, tail: Print::of(b"the tail"), line };
            assert_eq!(Mark::from_text(&mark.to_text()), Some(mark));
        }
        let nothing = Mark::default();
        assert_eq!(Mark::from_text(&nothing.to_text()), Some(nothing));
        let most = Mark { known: i64::MAX as u64, line: Some(i64::MAX as u64), ..nothing };
        assert_eq!(Mark::from_text(&most.to_text()), Some(most));
        let beyond = ["8000000000000000-0-0-0-0", "ffffffffffffffff-0-0-0-0-1", "1-0-0-0-0-8000000000000000"];
        let wrong = ["", "1-2-3-4", "1-2-3-4-5-6-7", "x-0-0-0-0", "1-fffffff-0-0-0", "1-0-0-fffffff-0"];
        for wrong in wrong.into_iter().chain(beyond) {
            assert_eq!(Mark::from_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_mark_fits_only_what_was_read() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        let fits = |content: &str, mark: &Mark, position| {
            std::fs::write(&path, content).unwrap();
            mark.is_in(&std::fs::File::open(&path).unwrap(), position).unwrap()
        };
        let mark = Mark { head: Print::of(b"ab"), tail: Print::of(b"ef"), ..Mark::default() };
        assert!(fits("abcdefgh", &mark, 6) && fits("abxxef", &mark, 6));
        assert!(!fits("xbcdefgh", &mark, 6) && !fits("abcdexgh", &mark, 6) && !fits("abcde", &mark, 6) && !fits("abcdefgh", &mark, 1));
        assert!(fits("", &Mark::default(), 0));
    }
}
