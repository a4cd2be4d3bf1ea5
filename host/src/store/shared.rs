//! Files that several checkpoints have in common: `shared/NAME` beside the checkpoints. No count of references is kept, since a count can
//! be wrong: a file stays as long as a manifest or a checkpoint under way names it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use tidemill_core::checkpoint::manifest::{Manifest, StoredFile};
use tidemill_core::{Error, Result};
use xxhash_rust::xxh3::Xxh3;

use super::{CheckpointStore, MANIFEST, PREFIX, manifest};

const SHARED: &str = "shared";
/// How much is copied at once.
const CHUNK: usize = 1 << 20;

impl CheckpointStore {
    /// Copies a local file to where all checkpoints can name it. `content` stands for its content and for no other.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn store_shared(&self, from: &Path, name: &str, content: &str) -> Result<StoredFile> {
        self.copy_in(from, name, format!("{SHARED}/{content}"))
    }

    /// Copies a local file into a checkpoint. `place` tells its owner from others in the checkpoint.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn store_own(&self, from: &Path, name: &str, checkpoint: u64, place: &str) -> Result<StoredFile> {
        self.copy_in(from, name, format!("{PREFIX}{checkpoint}/{place}/{name}"))
    }

    fn copy_in(&self, from: &Path, name: &str, path: String) -> Result<StoredFile> {
        let to = self.dir.join(&path);
        let copy = || -> std::io::Result<(u64, u64)> {
            let dir = to.parent().unwrap_or(&self.dir);
            self.disk.create_dir(dir)?;
            let temporary = dir.join(format!("{name}.tmp"));
            let (mut source, mut target) = (File::open(from)?, self.disk.create(&temporary)?);
            let (mut chunk, mut hash, mut bytes) = (vec![0; CHUNK], Xxh3::new(), 0);
            loop {
                let read = source.read(&mut chunk)?;
                let Some(part) = chunk.get(..read).filter(|part| !part.is_empty()) else { break };
                hash.update(part);
                bytes += read as u64;
                target.write(part)?;
            }
            target.sync()?;
            drop(target);
            self.disk.rename(&temporary, &to)?;
            self.disk.sync_dir(dir)?;
            Ok((bytes, hash.digest()))
        };
        let (bytes, hash) =
            copy().map_err(|error| Error::storage(format!("copying {} to {}", from.display(), to.display())).caused_by(error))?;
        Ok(StoredFile { name: name.to_owned(), path, bytes, checksum: format!("{hash:016x}") })
    }

    /// Brings a stored file to a path of this machine, and compares it with what the manifest says. A shared file, which nobody changes, is
    /// linked there, if that can be; so the file at `to` must not be changed either.
    ///
    /// # Errors
    /// It is missing or not what was written, or cannot be copied.
    pub fn fetch(&self, file: &StoredFile, to: &Path) -> Result<()> {
        let path = self.dir.join(&file.path);
        let linked = shared_name(file).is_some() && self.disk.link(&path, to).is_ok();
        let copying = || format!("copying {} to {}", path.display(), to.display());
        let mut copy = if linked { None } else { Some(File::create(to).map_err(|error| Error::storage(copying()).caused_by(error))?) };
        let (mut bytes, mut hash, mut failed) = (0, Xxh3::new(), false);
        let read = self.disk.read_parts(&path, &mut |part| {
            bytes += part.len() as u64;
            hash.update(part);
            let written = copy.as_mut().map_or(Ok(()), |copy| copy.write_all(part));
            failed = written.is_err();
            written
        });
        let doing = || if failed { copying() } else { format!("reading state file {}", path.display()) };
        read.map_err(|error| Error::storage(doing()).caused_by(error))?;
        let found = format!("{:016x}", hash.digest());
        if bytes == file.bytes && found == file.checksum {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "state file {} is damaged: it has {bytes} bytes with checksum {found}, but {} bytes with checksum {} were written; restore it \
             from a backup, or start again from nothing with --fresh",
            path.display(),
            file.bytes,
            file.checksum
        )))
    }

    /// Removes the shared files that no checkpoint names and that are not among `under_way`. Returns the paths of those that stay.
    ///
    /// # Errors
    /// A file cannot be removed, or a manifest cannot be read: then nobody knows what it names, and nothing is removed.
    pub fn clean_shared(&self, under_way: BTreeSet<String>) -> Result<BTreeSet<String>> {
        let dir = self.dir.join(SHARED);
        let listed = |error| Error::storage(format!("listing {}", dir.display())).caused_by(error);
        let there = self.disk.list(&dir).map_err(listed)?;
        let mut named = under_way;
        if there.is_empty() {
            return Ok(named);
        }
        for id in self.ids()? {
            if let Some(manifest) = self.complete(id)? {
                named.extend(paths(&manifest).map(str::to_owned));
            }
        }
        for file in there {
            let path = file.file_name().map(|name| format!("{SHARED}/{}", name.to_string_lossy()));
            if path.is_none_or(|path| !named.contains(&path)) {
                self.disk.remove(&file).map_err(|error| Error::storage(format!("removing {}", file.display())).caused_by(error))?;
            }
        }
        Ok(named)
    }

    /// The manifest of a checkpoint, if it is complete.
    fn complete(&self, id: u64) -> Result<Option<Manifest>> {
        if !self.is_complete(id)? {
            return Ok(None);
        }
        let path = self.chk(id).join(MANIFEST);
        let bytes = self.disk.read(&path).map_err(|error| Error::storage(format!("reading {}", path.display())).caused_by(error))?;
        manifest(id, &path, &bytes).map(Some)
    }
}

/// What stands for the content of a shared file; `None` for a file of one checkpoint only.
#[must_use]
pub fn shared_name(file: &StoredFile) -> Option<&str> {
    file.path.strip_prefix(SHARED)?.strip_prefix('/').filter(|name| !name.contains('/'))
}

/// The paths of all files of databases that a manifest names.
fn paths(manifest: &Manifest) -> impl Iterator<Item = &str> {
    manifest.databases.iter().flat_map(|database| &database.files).map(|file| file.path.as_str())
}
