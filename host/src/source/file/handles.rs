//! Open files, counted: sources may have more files than a process may hold open.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The most files that stay open between polls.
const OPEN_FILES: usize = 1024;

/// Sources take so much of what the process may hold open; sinks, state and checkpoints need files too.
const SHARE: usize = 4;

/// If more files are open, none keeps what was read ahead: each buffer has a quarter of a MiB.
const BUFFERS: usize = 64;

/// Without this, opening a named pipe would wait for its writer.
const NONBLOCK: i32 = libc::O_NONBLOCK;

/// Opens files and counts them, for all sources of the process.
#[derive(Clone, Debug)]
pub(super) struct Handles {
    open: Arc<AtomicUsize>,
    most: usize,
}

/// An open file.
pub(super) struct Handle {
    pub(super) file: File,
    handles: Handles,
}

impl Handles {
    /// Those of the process. How many files may stay open follows from its limit.
    pub(super) fn of_process() -> Self {
        static HANDLES: OnceLock<Handles> = OnceLock::new();
        HANDLES.get_or_init(|| Self::new(limit().map_or(OPEN_FILES, |limit| (limit / SHARE).clamp(1, OPEN_FILES)))).clone()
    }

    /// At most so many files stay open between polls.
    pub(super) fn new(most: usize) -> Self {
        Self { open: Arc::default(), most }
    }

    pub(super) fn open(&self, path: &Path) -> io::Result<Handle> {
        let file = open(path)?;
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Handle { file, handles: self.clone() })
    }

    /// Whether a file should be closed after it was polled. `pending`: it had nothing, so others may have better use for its place.
    pub(super) fn are_scarce(&self, pending: bool) -> bool {
        self.exceed(self.most, pending)
    }

    /// Whether a file that was polled should drop what was read ahead.
    pub(super) fn are_many(&self, pending: bool) -> bool {
        self.exceed(self.most.min(BUFFERS), pending)
    }

    fn exceed(&self, most: usize, pending: bool) -> bool {
        let open = self.open.load(Ordering::Relaxed);
        open > most || (pending && open == most)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.handles.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Opens a file for reading. Never waits, whatever the path leads to.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)
}

/// How many files the process may hold open; none if the system does not say.
fn limit() -> Option<usize> {
    rlimit::Resource::NOFILE.get().ok().and_then(|(soft, _)| usize::try_from(soft).ok())
}
