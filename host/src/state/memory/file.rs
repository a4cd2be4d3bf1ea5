//! A file of key groups, in ascending order.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic `TMGROUPS` |
//! | then per key group | 2: its number (u16), 8: length (u64), and as many bytes as `state/layout.rs` of the engine lays them out |
//!
//! All integers are little-endian. Whoever names the file knows its length and a hash of it.

use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::disk::{Disk, DiskFile, DiskReader};
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::layout::{Writer, merge};
use tidemill_core::{Error, Result};
use xxhash_rust::xxh3::Xxh3;

const MAGIC: &[u8; 8] = b"TMGROUPS";
const BUFFER: usize = 1 << 18;

/// A file of this machine. It goes with this.
pub(super) struct GroupsFile {
    disk: Arc<dyn Disk>,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// A hash of its content, so wide that no two contents have the same.
    pub(super) content: String,
}

impl Drop for GroupsFile {
    fn drop(&mut self) {
        // What cannot be removed now is removed when the job starts again.
        _ = self.disk.remove(&self.path);
    }
}

/// Passes key groups on.
pub(super) type Each<'a> = &'a mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>;

impl GroupsFile {
    /// Writes the key groups that `source` passes on. If that fails, there is no file.
    ///
    /// # Errors
    /// The disk's, such as that it is full, or those of the source.
    pub(super) fn write(disk: &Arc<dyn Disk>, path: &Path, source: impl FnOnce(Each<'_>) -> Result<()>) -> Result<Self> {
        let failed = |error| Error::storage(format!("writing {}", path.display())).caused_by(error);
        let mut written = Self { disk: Arc::clone(disk), path: path.to_owned(), bytes: 0, content: String::new() };
        let mut file = Buffered { file: disk.create(path).map_err(failed)?, waiting: Vec::with_capacity(BUFFER) };
        let mut hash = Xxh3::new();
        let mut put = |bytes: &[u8]| {
            hash.update(bytes);
            written.bytes += bytes.len() as u64;
            file.put(bytes).map_err(failed)
        };
        put(MAGIC)?;
        source(&mut |group, bytes| {
            put(&group.0.to_le_bytes())?;
            put(&(bytes.len() as u64).to_le_bytes())?;
            put(bytes)
        })?;
        file.flush().map_err(failed)?;
        written.content = format!("{:032x}", hash.digest128());
        Ok(written)
    }
}

/// A file that is written in large pieces.
struct Buffered {
    file: Box<dyn DiskFile>,
    waiting: Vec<u8>,
}

impl Buffered {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.waiting.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        if bytes.len() >= BUFFER {
            return self.file.write(bytes);
        }
        self.waiting.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.write(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

/// Passes the key groups of some files on that lie in a range: of each key what the last of the files has that has it.
///
/// # Errors
/// The files cannot be read or are not such files, or `each` fails.
pub(super) fn pass_merged(disk: &dyn Disk, paths: &[&Path], range: &Range<u32>, each: Each<'_>) -> Result<()> {
    let mut readers = paths.iter().map(|path| Groups::open(disk, path, range.clone())).collect::<Result<Vec<_>>>()?;
    let (mut parts, mut writer) = (Vec::new(), Writer::default());
    while let Some(group) = readers.iter().filter_map(|reader| reader.group).min() {
        let in_first = readers.first().is_some_and(|reader| reader.group == Some(group));
        for reader in readers.iter_mut().filter(|reader| reader.group == Some(group)) {
            parts.push(reader.take()?);
        }
        match &*parts {
            // As it is: the first file has whole key groups.
            [whole] if in_first => each(group, whole)?,
            _ => {
                if let Some(merged) = merge(group, &parts, &mut writer).map_err(|error| error.while_doing(names(paths)))? {
                    each(group, merged)?;
                }
            }
        }
        parts.clear();
    }
    Ok(())
}

fn names(paths: &[&Path]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    format!("reading {}", names.join(", "))
}

/// A file that is being read.
struct Groups<'a> {
    path: &'a Path,
    file: BufReader<Box<dyn DiskReader>>,
    left: u64,
    range: Range<u32>,
    /// The next key group; its content has not been read.
    group: Option<KeyGroup>,
    len: u64,
}

impl<'a> Groups<'a> {
    fn open(disk: &dyn Disk, path: &'a Path, range: Range<u32>) -> Result<Self> {
        let failed = |error| Error::storage(format!("reading {}", path.display())).caused_by(error);
        let mut file = disk.open(path).map_err(failed)?;
        let left = file.seek(SeekFrom::End(0)).and_then(|end| file.rewind().map(|()| end)).map_err(failed)?;
        let mut groups = Self { path, file: BufReader::with_capacity(BUFFER, file), left, range, group: None, len: 0 };
        let magic: [u8; 8] = groups.array()?;
        if magic != *MAGIC {
            return Err(groups.corrupt("does not begin as a file of key groups"));
        }
        groups.head()?;
        Ok(groups)
    }

    /// Reads the content of the key group and goes on to the next.
    fn take(&mut self) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        let read = (&mut self.file).take(self.len).read_to_end(&mut content).map_err(|error| self.failed(error))?;
        if read as u64 != self.len {
            return Err(self.corrupt("is cut off"));
        }
        self.left -= self.len;
        self.head()?;
        Ok(content)
    }

    /// Goes on to the next key group of the range.
    fn head(&mut self) -> Result<()> {
        let before = self.group.take();
        while self.left > 0 {
            let group = KeyGroup(u16::from_le_bytes(self.array()?));
            self.len = u64::from_le_bytes(self.array()?);
            if self.len > self.left || before.is_some_and(|before| before >= group) {
                return Err(self.corrupt("has a key group that cannot be there"));
            }
            if self.range.contains(&u32::from(group.0)) {
                self.group = Some(group);
                return Ok(());
            }
            let skip = i64::try_from(self.len).map_err(|_| self.corrupt("has a key group that cannot be there"))?;
            self.file.seek_relative(skip).map_err(|error| self.failed(error))?;
            self.left -= self.len;
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        let outcome = self.file.read_exact(&mut bytes);
        outcome.map_err(|error| if error.kind() == ErrorKind::UnexpectedEof { self.corrupt("is cut off") } else { self.failed(error) })?;
        self.left = self.left.saturating_sub(N as u64);
        Ok(bytes)
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::storage(format!("reading {}", self.path.display())).caused_by(error)
    }

    fn corrupt(&self, what: &str) -> Error {
        Error::corrupt(format!("the state file {} {what}", self.path.display()))
    }
}
