//! State files that are written piece by piece: what they hold may be more than memory has room for.

use std::path::Path;

use tidemill_core::checkpoint::manifest::StateFile;
use tidemill_core::checkpoint::snapshot::Out;
use tidemill_core::disk::{Disk, DiskFile};
use tidemill_core::{Error, Result};
use xxhash_rust::xxh3::Xxh3;

/// Small pieces are gathered until there is so much to write.
const CHUNK: usize = 1 << 20;

/// Says what is in a state file, piece by piece.
pub type Pieces<'a> = dyn FnMut(&mut Out<'_>) -> Result<()> + 'a;

/// A file that is being written.
struct Streamed {
    file: Box<dyn DiskFile>,
    waiting: Vec<u8>,
    hash: Xxh3,
    bytes: u64,
}

impl Streamed {
    fn put(&mut self, piece: &[u8]) -> std::io::Result<()> {
        self.hash.update(piece);
        self.bytes += piece.len() as u64;
        if self.waiting.len() + piece.len() >= CHUNK {
            self.flush()?;
        }
        if piece.len() >= CHUNK {
            return self.file.write(piece);
        }
        self.waiting.extend_from_slice(piece);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if !self.waiting.is_empty() {
            self.file.write(&self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }
}

/// Writes a worker's state file into a folder, whole or not at all. `name` is its path as the manifest has it.
pub(super) fn write_state(disk: &dyn Disk, dir: &Path, name: String, worker: u32, pieces: &mut Pieces<'_>) -> Result<StateFile> {
    let path = dir.join(&name);
    let failed = |error: std::io::Error| Error::storage(format!("writing {}", path.display())).caused_by(error);
    let folder = path.parent().unwrap_or(dir);
    let temporary = path.with_extension("tmp");
    disk.create_dir(folder).map_err(failed)?;
    let file = disk.create(&temporary).map_err(failed)?;
    let mut streamed = Streamed { file, waiting: Vec::new(), hash: Xxh3::new(), bytes: 0 };
    pieces(&mut |piece| streamed.put(piece).map_err(failed))?;
    streamed.flush().and_then(|()| streamed.file.sync()).map_err(failed)?;
    let (bytes, checksum) = (streamed.bytes, format!("{:016x}", streamed.hash.digest()));
    drop(streamed);
    disk.rename(&temporary, &path).and_then(|()| disk.sync_dir(folder)).map_err(failed)?;
    Ok(StateFile { path: name, worker, bytes, checksum, unused_base: None })
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, write_state};
    use crate::disk::RealDisk;
    use crate::store::checksum;

    #[test]
    fn pieces_of_any_length_make_one_file() {
        let root = tempfile::tempdir().unwrap();
        let pieces = [&b"a"[..], &vec![7; CHUNK], b"", &vec![8; CHUNK - 1], b"bc", &vec![9; 2 * CHUNK], b"d"];
        let file = write_state(&RealDisk, root.path(), "x/worker-3.state".to_owned(), 3, &mut |out| {
            pieces.iter().try_for_each(|piece| out(piece))
        });
        let file = file.unwrap();
        let written = std::fs::read(root.path().join("x/worker-3.state")).unwrap();
        assert_eq!(written, pieces.concat());
        assert_eq!((file.bytes, file.checksum, file.worker), (written.len() as u64, checksum(&written), 3));
    }
}
