//! Files that several checkpoints have in common: `shared/NAME` beside the checkpoints. No count of references is kept, since a count can
//! be wrong: a file stays as long as a manifest or a checkpoint under way names it.

use std::collections::BTreeSet;
use std::path::Path;

use tidemill_core::checkpoint::manifest::{MOST_BYTES, Manifest, StoredFile};
use tidemill_core::{Error, Result};
use xxhash_rust::xxh3::Xxh3;

use super::{CheckpointStore, MANIFEST, PREFIX, manifest};

pub(super) const SHARED: &str = "shared";

impl CheckpointStore {
    /// Copies a local file to where all checkpoints can name it. `content` stands for its content and for no other. The file is sealed: it
    /// may have other names on this machine.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn store_shared(&self, from: &Path, name: &str, content: &str) -> Result<StoredFile> {
        self.copy_in(from, name, format!("{SHARED}/{content}"), None)
    }

    /// Copies a local file into a checkpoint. `place` tells its owner from others in the checkpoint.
    ///
    /// # Errors
    /// It did not become durable.
    pub fn store_own(&self, from: &Path, name: &str, checkpoint: u64, place: &str) -> Result<StoredFile> {
        self.copy_in(from, name, format!("{PREFIX}{checkpoint}/{place}/{name}"), None)
    }

    /// Copies a file of another checkpoint into this one, `from` being where it is.
    ///
    /// # Errors
    /// It is missing or not what was written, or did not become durable. Then nothing of the store has changed.
    pub(super) fn store_copy(&self, from: &Path, file: &StoredFile, checkpoint: u64, place: &str) -> Result<StoredFile> {
        let path = match shared_name(file) {
            Some(content) => format!("{SHARED}/{content}"),
            None => format!("{PREFIX}{checkpoint}/{place}/{}", file.name),
        };
        self.copy_in(from, &file.name, path, Some(file))
    }

    /// Copies a file to a path of the store, if it has the content that `expected` says.
    fn copy_in(&self, from: &Path, name: &str, path: String, expected: Option<&StoredFile>) -> Result<StoredFile> {
        let to = self.dir.join(&path);
        let failed = |error| Error::storage(format!("copying {} to {}", from.display(), to.display())).caused_by(error);
        let dir = to.parent().unwrap_or(&self.dir);
        self.disk.create_dir(dir).map_err(failed)?;
        let temporary = dir.join(format!("{name}.tmp"));
        let mut target = self.disk.create(&temporary).map_err(failed)?;
        let (mut hash, mut bytes) = (Xxh3::new(), 0);
        let copied = self.disk.read_parts(from, &mut |part| {
            hash.update(part);
            bytes += part.len() as u64;
            no_longer_than(expected, bytes).and_then(|()| target.write(part))
        });
        copied.map_err(failed)?;
        let copy = StoredFile { name: name.to_owned(), bytes, checksum: format!("{:016x}", hash.digest()), path };
        if let Some(expected) = expected {
            compare(from, expected, bytes, &copy.checksum)?;
        }
        if shared_name(&copy).is_some() {
            target.seal().map_err(failed)?;
        }
        target.sync().map_err(failed)?;
        drop(target);
        self.disk.rename(&temporary, &to).and_then(|()| self.disk.sync_dir(dir)).map_err(failed)?;
        Ok(copy)
    }

    /// Brings a stored file to a path of this machine, and compares it with what the manifest says. With `link`, a shared file is linked
    /// there if that can be: then the file at `to` is the checkpoint's own, and read-only.
    ///
    /// # Errors
    /// It is missing or not what was written, or cannot be copied.
    pub fn fetch(&self, file: &StoredFile, to: &Path, link: bool) -> Result<()> {
        let path = self.dir.join(&file.path);
        let linked = link && shared_name(file).is_some() && self.disk.link(&path, to).is_ok();
        let copying = || format!("copying {} to {}", path.display(), to.display());
        let created = (!linked).then(|| self.disk.create(to)).transpose();
        let mut copy = created.map_err(|error| Error::storage(copying()).caused_by(error))?;
        let (mut bytes, mut hash, mut failed) = (0, Xxh3::new(), false);
        let read = self.disk.read_parts(&path, &mut |part| {
            bytes += part.len() as u64;
            hash.update(part);
            no_longer_than(Some(file), bytes)?;
            let written = copy.as_mut().map_or(Ok(()), |copy| copy.write(part));
            failed = written.is_err();
            written
        });
        let doing = || if failed { copying() } else { format!("reading state file {}", path.display()) };
        read.map_err(|error| Error::storage(doing()).caused_by(error))?;
        compare(&path, file, bytes, &format!("{:016x}", hash.digest()))
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
        let bytes = self
            .disk
            .read_at_most(&path, MOST_BYTES)
            .map_err(|error| Error::storage(format!("reading {}", path.display())).caused_by(error))?;
        manifest(id, &path, &bytes).map(Some)
    }
}

/// Compares what was read with what the manifest says.
fn compare(path: &Path, file: &StoredFile, bytes: u64, checksum: &str) -> Result<()> {
    if (bytes, checksum) == (file.bytes, &*file.checksum) {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "state file {} is damaged: it has {bytes} bytes with checksum {checksum}, but {} bytes with checksum {} were written; restore it from \
         a backup, or start again from nothing with --fresh",
        path.display(),
        file.bytes,
        file.checksum
    )))
}

/// Fails once more was read of a file than it can have.
fn no_longer_than(expected: Option<&StoredFile>, bytes: u64) -> std::io::Result<()> {
    match expected.filter(|expected| bytes > expected.bytes) {
        Some(expected) => {
            let text = format!("it is damaged: it has more than the {} bytes that were written", expected.bytes);
            Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text))
        }
        None => Ok(()),
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
