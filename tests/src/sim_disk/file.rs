//! The bytes of files.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use fastrand::Rng;
use tidemill_core::disk::DiskFile;

use super::{SimDisk, failure, is_scratch};

/// What a file holds, whatever its name.
#[derive(Default)]
pub(super) struct Content {
    /// What programs read.
    current: Vec<u8>,
    /// What is on the disk for certain.
    durable: Vec<u8>,
    /// A sync has failed: what was not durable then will not become so by another sync, as on Linux.
    broken: bool,
    /// Nobody writes to it any more.
    sealed: bool,
}

impl Content {
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.current
    }

    pub(super) fn empty(&mut self) {
        self.current.clear();
        self.broken = false;
    }

    fn write(&mut self, bytes: &[u8]) {
        self.current.extend_from_slice(bytes);
    }

    fn seal(&mut self) {
        self.sealed = true;
    }

    fn sync(&mut self) {
        if !self.broken {
            self.durable.clone_from(&self.current);
        }
    }

    pub(super) fn crash(&mut self, rng: &mut Rng) {
        if self.current != self.durable {
            self.current = self.survivor(rng);
            self.durable.clone_from(&self.current);
        }
        self.broken = false;
    }

    /// What a crash leaves of a file with bytes that were not synced.
    fn survivor(&self, rng: &mut Rng) -> Vec<u8> {
        // Appended bytes cannot harm the synced ones before them; a file that was emptied has none.
        let safe = if self.current.starts_with(&self.durable) { self.durable.len() } else { 0 };
        let torn = rng.usize(safe..=self.current.len());
        match rng.u8(..4) {
            0 => self.durable.clone(),
            1 => self.current.clone(),
            2 => self.current.iter().take(torn).copied().collect(),
            _ => self.current.iter().enumerate().map(|(index, byte)| if index < torn { *byte } else { byte ^ rng.u8(..) }).collect(),
        }
    }
}

/// A file that is being written.
pub(super) struct OpenFile {
    disk: SimDisk,
    content: usize,
    path: PathBuf,
    life: u64,
}

impl OpenFile {
    pub(super) fn new(disk: SimDisk, content: usize, path: PathBuf, life: u64) -> Self {
        Self { disk, content, path, life }
    }

    fn outlived(&self) -> io::Error {
        failure(ErrorKind::Other, &self.path, "opened before the crash")
    }
}

impl DiskFile for OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.lock();
        if state.life != self.life {
            return Err(self.outlived());
        }
        if state.content(self.content, &self.path)?.sealed && !bytes.is_empty() {
            return Err(failure(ErrorKind::PermissionDenied, &self.path, "written to after it was sealed"));
        }
        let failed = state.change(&self.path);
        let fits = match failed {
            Err(_) => state.rng.usize(..=bytes.len()),
            Ok(()) if is_scratch(&self.path) => bytes.len(),
            Ok(()) => state.faults.take(bytes.len()),
        };
        // A failed write may have written a part.
        state.content(self.content, &self.path)?.write(bytes.get(..fits).unwrap_or(bytes));
        failed?;
        if fits == bytes.len() {
            return Ok(());
        }
        state.failed += 1;
        Err(failure(ErrorKind::StorageFull, &self.path, "simulated"))
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.lock();
        if state.life != self.life {
            return Err(self.outlived());
        }
        let failed = state.change(&self.path);
        let content = state.content(self.content, &self.path)?;
        match failed {
            Ok(()) => content.sync(),
            Err(_) => content.broken = true,
        }
        failed
    }

    fn seal(&mut self) -> io::Result<()> {
        let mut state = self.disk.lock();
        if state.life != self.life {
            return Err(self.outlived());
        }
        state.check_up(&self.path)?;
        state.content(self.content, &self.path)?.seal();
        Ok(())
    }
}
