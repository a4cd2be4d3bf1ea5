//! Small records: one line that ends with its checksum, so that a cut or changed one is not taken for another.

use super::checksum;

/// No record is longer.
pub(super) const MOST_BYTES: u64 = 64 << 10;

/// The line for a content without line breaks.
pub(crate) fn line(content: &str) -> String {
    format!("{content} {}\n", checksum(content.as_bytes()))
}

/// The content of a line; `None` if it is not what was written.
pub(crate) fn content(line: &[u8]) -> Option<&str> {
    let (content, found) = std::str::from_utf8(line).ok()?.strip_suffix('\n')?.rsplit_once(' ')?;
    (found == checksum(content.as_bytes())).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::{content, line};

    #[test]
    fn only_what_was_written_is_read() {
        let whole = line("job 0123");
        assert_eq!(content(whole.as_bytes()), Some("job 0123"));
        for at in 0..whole.len() {
            let mut flipped = whole.clone().into_bytes();
            flipped[at] ^= 1;
            assert_eq!((content(&flipped), content(&whole.as_bytes()[..at])), (None, None), "at {at}");
        }
    }
}
