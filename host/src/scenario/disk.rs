//! A disk in memory, for state and checkpoints that last as long as the run of their case.

use std::collections::BTreeMap;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_core::disk::{Disk, DiskFile, DiskReader};

/// A disk in memory. Folders exist by the files in them.
#[derive(Default)]
pub(super) struct MemoryDisk {
    /// By name; several names may have one content.
    files: Mutex<BTreeMap<PathBuf, Content>>,
}

type Content = Arc<Mutex<Vec<u8>>>;

struct MemoryFile(Content);

impl MemoryDisk {
    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Content>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn content(&self, path: &Path) -> io::Result<Content> {
        self.files().get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let content = Content::default();
        self.files().insert(path.to_owned(), Arc::clone(&content));
        Ok(Box::new(MemoryFile(content)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        Ok(Box::new(Cursor::new(self.read(path)?)))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(lock(&self.content(path)?).clone())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let content = self.content(from)?;
        let mut files = self.files();
        if files.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files();
        let content = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files().remove(path);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.files().retain(|file, _| !file.starts_with(path));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let entry = |file: &PathBuf| file.strip_prefix(dir).ok()?.iter().next().map(|name| dir.join(name));
        let mut entries: Vec<PathBuf> = self.files().keys().filter_map(entry).collect();
        entries.sort();
        entries.dedup();
        Ok(entries)
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_local_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn seal(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock(content: &Content) -> MutexGuard<'_, Vec<u8>> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}
