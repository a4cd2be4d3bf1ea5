//! Which line of a file a byte is in.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Further into a file lines are not counted: it would take long.
const FURTHEST: u64 = 256 << 20;
const CHUNK: usize = 256 << 10;

/// The number of the line, from 1, that has the byte at `position`; `None` if the file cannot be read so far, or the position is further than
/// [`FURTHEST`].
pub(super) fn number(path: &Path, position: u64) -> Option<u64> {
    if position > FURTHEST {
        return None;
    }
    let mut before = File::open(path).ok()?.take(position);
    let (mut line, mut chunk, mut read) = (1, vec![0; CHUNK], 0);
    loop {
        let count = before.read(&mut chunk).ok()?;
        if count == 0 {
            return (read == position).then_some(line);
        }
        read += count as u64;
        line += chunk.get(..count)?.iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn lines_are_counted_from_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "one\n\nthree\nfour").unwrap();
        let lines = [0, 3, 4, 5, 11, 15, 16].map(|position| number(&path, position));
        assert_eq!(lines, [Some(1), Some(1), Some(2), Some(3), Some(4), Some(4), None]);
        assert_eq!(number(&folder.path().join("absent"), 0), None);
    }
}
