//! A disk that breaks one rule on purpose.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::checkpoint::manifest::StoredDatabase;
use tidemill_core::disk::{Disk, DiskFile, DiskReader};

use super::life::CHECKPOINTS;
use super::stored::manifests;
use crate::sim_disk::SimDisk;

/// The rule that a [`FaultyDisk`] breaks.
#[derive(Clone, Copy, PartialEq)]
pub enum DiskFault {
    /// A file that a manifest names twice is fetched twice. The second fetch opens the name that the first one linked with `O_TRUNC`.
    FetchesTwice,
    /// Removing a shared file removes another shared file too.
    RemovesAnother,
    /// Shared files are never removed.
    KeepsShared,
    /// `sync` of a file returns without syncing it.
    SyncsNoBytes,
    /// `sync_dir` returns without syncing the names in the folder.
    SyncsNoNames,
}

/// Forwards to a [`SimDisk`], except where its fault says otherwise.
struct FaultyDisk {
    disk: SimDisk,
    fault: DiskFault,
}

/// Returns a view of `disk`, which shares its files, with a fault if there is one.
pub(super) fn view(disk: &SimDisk, fault: Option<DiskFault>) -> Arc<dyn Disk> {
    match fault {
        Some(fault) => Arc::new(FaultyDisk { disk: disk.clone(), fault }),
        None => Arc::new(disk.clone()),
    }
}

impl FaultyDisk {
    fn is_named_twice(&self, path: &Path) -> bool {
        let manifests = manifests(&self.disk, CHECKPOINTS).unwrap_or_default();
        let twice = |database: &StoredDatabase| database.files.iter().filter(|file| path.ends_with(&file.path)).count() > 1;
        manifests.iter().flat_map(|(_, manifest)| &manifest.databases).any(twice)
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.disk.create(path)?;
        if self.fault == DiskFault::SyncsNoBytes { Ok(Box::new(UnsyncedFile(file))) } else { Ok(file) }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(from, to)?;
        if self.fault == DiskFault::FetchesTwice && self.is_named_twice(from) {
            let mut second = self.disk.truncate(to)?;
            second.write(&self.disk.read(from)?)?;
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let shared = path.parent().filter(|dir| dir.ends_with("shared"));
        match (self.fault, shared) {
            (DiskFault::KeepsShared, Some(_)) => Ok(()),
            (DiskFault::RemovesAnother, Some(dir)) => {
                self.disk.remove(path)?;
                self.disk.list(dir)?.first().map_or(Ok(()), |other| self.disk.remove(other))
            }
            _ => self.disk.remove(path),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.fault == DiskFault::SyncsNoNames { Ok(()) } else { self.disk.sync_dir(dir) }
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        self.disk.open(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.disk.read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir(dir)
    }

    fn create_local_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_local_dir(dir)
    }
}

struct UnsyncedFile(Box<dyn DiskFile>);

impl DiskFile for UnsyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn seal(&mut self) -> io::Result<()> {
        self.0.seal()
    }
}
