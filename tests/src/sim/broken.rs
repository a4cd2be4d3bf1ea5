//! Sinks and disks that break a rule on purpose: a simulation that does not notice is worth nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_core::Result;
use tidemill_core::batch::Batch;
use tidemill_core::checkpoint::manifest::StoredDatabase;
use tidemill_core::disk::{Disk, DiskFile, DiskReader};
use tidemill_core::sink::{Committable, Prepared, Sink, SinkWriter, WriterTask};

use super::life::CHECKPOINTS;
use super::schedule::Fault;
use super::stored::manifests;
use crate::sim_disk::SimDisk;

/// Every fault with its name.
pub const FAULTS: [(&str, Fault); 10] = [
    ("a sink that commits before the manifest is durable", Fault { sink: hasty, ..Fault::NONE }),
    ("a restore that does not commit (rule 2)", Fault { sink: forgetful, ..Fault::NONE }),
    ("checkpoints whose bytes are not synced", Fault { store: without_bytes, ..Fault::NONE }),
    ("checkpoints whose names are not synced", Fault { store: without_names, ..Fault::NONE }),
    ("a cleaner that removes one file too many", Fault { store: greedy, ..Fault::NONE }),
    ("a cleaner that leaves files that nobody names", Fault { store: lazy, ..Fault::NONE }),
    ("a restore that brings a file twice, and empties it through its link", Fault { store: doubled, ..Fault::NONE }),
    ("a savepoint that commits its output", Fault { savepoints_commit: true, ..Fault::NONE }),
    ("output whose bytes are not synced", Fault { output: without_bytes, ..Fault::NONE }),
    ("output whose names are not synced", Fault { output: without_names, ..Fault::NONE }),
];

struct Hasty(Arc<dyn Sink>);

fn hasty(sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
    Arc::new(Hasty(sink))
}

impl Sink for Hasty {
    fn writer(&self, task: WriterTask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(HastyWriter { writer: self.0.writer(task)?, sink: Arc::clone(&self.0) }))
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        self.0.commit(committables)
    }

    fn commit_again(&self, committables: &[Committable]) -> Result<()> {
        self.0.commit_again(committables)
    }

    fn clean(&self) -> Result<()> {
        self.0.clean()
    }

    fn newest_commit(&self) -> Result<Option<(u32, u64)>> {
        // The rule that would stop a restart over output without a checkpoint is not what is tested here.
        Ok(None)
    }
}

struct HastyWriter {
    writer: Box<dyn SinkWriter>,
    sink: Arc<dyn Sink>,
}

impl SinkWriter for HastyWriter {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        self.writer.write(batch)
    }

    fn prepare_commit(&mut self, checkpoint: u64) -> Result<Prepared> {
        let mut prepared = self.writer.prepare_commit(checkpoint)?;
        if let Some(job) = prepared.job.take() {
            job()?;
        }
        if let Some(committable) = &prepared.committable {
            self.sink.commit(std::slice::from_ref(committable))?;
        }
        Ok(prepared)
    }
}

struct Forgetful {
    sink: Arc<dyn Sink>,
    /// Whether a writer was made: a restore commits before that.
    restored: AtomicBool,
}

fn forgetful(sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
    Arc::new(Forgetful { sink, restored: AtomicBool::default() })
}

impl Sink for Forgetful {
    fn writer(&self, task: WriterTask) -> Result<Box<dyn SinkWriter>> {
        self.restored.store(true, Ordering::Relaxed);
        self.sink.writer(task)
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        if self.restored.load(Ordering::Relaxed) { self.sink.commit(committables) } else { Ok(()) }
    }

    fn commit_again(&self, committables: &[Committable]) -> Result<()> {
        if self.restored.load(Ordering::Relaxed) { self.sink.commit_again(committables) } else { Ok(()) }
    }

    fn clean(&self) -> Result<()> {
        self.sink.clean()
    }

    fn newest_commit(&self) -> Result<Option<(u32, u64)>> {
        self.sink.newest_commit()
    }
}

/// A disk on which a file that a manifest names twice is brought twice: the second time its name is taken, and is opened with `O_TRUNC`.
struct Doubled(SimDisk);

fn doubled(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(Doubled(disk.clone()))
}

impl Doubled {
    fn is_named_twice(&self, path: &Path) -> bool {
        let manifests = manifests(&self.0, CHECKPOINTS).unwrap_or_default();
        let twice = |database: &StoredDatabase| database.files.iter().filter(|file| path.ends_with(&file.path)).count() > 1;
        manifests.iter().flat_map(|(_, manifest)| &manifest.databases).any(twice)
    }
}

impl Disk for Doubled {
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.link(from, to)?;
        if self.is_named_twice(from) {
            let mut second = self.0.truncate(to)?;
            second.write(&self.0.read(from)?)?;
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        self.0.open(path)
    }

    fn create_local_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.create_local_dir(dir)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
}

/// A disk on which shared files are removed wrongly.
struct Cleaning {
    disk: Arc<dyn Disk>,
    /// Another one besides, rather than none.
    too_many: bool,
}

fn greedy(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(Cleaning { disk: Arc::new(disk.clone()), too_many: true })
}

fn lazy(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(Cleaning { disk: Arc::new(disk.clone()), too_many: false })
}

impl Disk for Cleaning {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        self.disk.open(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(from, to)
    }

    fn create_local_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_local_dir(dir)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.disk.read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let Some(dir) = path.parent().filter(|dir| dir.ends_with("shared")) else { return self.disk.remove(path) };
        if !self.too_many {
            return Ok(());
        }
        self.disk.remove(path)?;
        match self.disk.list(dir)?.first() {
            Some(other) => self.disk.remove(other),
            None => Ok(()),
        }
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

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
}

/// A disk that says that it has synced and has not.
struct Unsynced {
    disk: Arc<dyn Disk>,
    /// Names rather than bytes.
    names: bool,
}

fn without_bytes(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(Unsynced { disk: Arc::new(disk.clone()), names: false })
}

fn without_names(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(Unsynced { disk: Arc::new(disk.clone()), names: true })
}

impl Disk for Unsynced {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.disk.create(path)?;
        if self.names { Ok(file) } else { Ok(Box::new(UnsyncedFile(file))) }
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        self.disk.open(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.link(from, to)
    }

    fn create_local_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_local_dir(dir)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.disk.read(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
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

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.names { Ok(()) } else { self.disk.sync_dir(dir) }
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
