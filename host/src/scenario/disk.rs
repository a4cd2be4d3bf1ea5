//! A disk in memory, for checkpoints that last as long as the run of their case.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_core::disk::{Disk, DiskFile};

type Files = Arc<Mutex<BTreeMap<PathBuf, Vec<u8>>>>;

/// A disk in memory. Folders exist by the files in them.
#[derive(Default)]
pub(super) struct MemoryDisk {
    files: Files,
}

struct MemoryFile {
    files: Files,
    path: PathBuf,
}

impl MemoryDisk {
    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<PathBuf, Vec<u8>>) -> T) -> T {
        act(&mut self.files.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.with(|files| files.insert(path.to_owned(), Vec::new()));
        Ok(Box::new(MemoryFile { files: Arc::clone(&self.files), path: path.to_owned() }))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.with(|files| files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.with(|files| {
            let bytes = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
            files.insert(to.to_owned(), bytes);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.with(|files| files.remove(path));
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.with(|files| files.retain(|file, _| !file.starts_with(path)));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let entry = |file: &PathBuf| file.strip_prefix(dir).ok()?.iter().next().map(|name| dir.join(name));
        let mut entries: Vec<PathBuf> = self.with(|files| files.keys().filter_map(entry).collect());
        entries.sort();
        entries.dedup();
        Ok(entries)
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get_mut(&self.path).ok_or(io::ErrorKind::NotFound)?.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
