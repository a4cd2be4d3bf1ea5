//! Open files, counted: a source may have more files than a process may hold open.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many files of a source stay open between polls.
const OPEN_FILES: usize = 64;

/// Opens files and counts them, for all subtasks of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct Handles {
    open: Arc<AtomicUsize>,
}

/// An open file.
pub(super) struct Handle {
    pub(super) file: File,
    handles: Handles,
}

impl Handles {
    pub(super) fn open(&self, path: &Path) -> io::Result<Handle> {
        let file = File::open(path)?;
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Handle { file, handles: self.clone() })
    }

    /// Whether a file should be closed after it was polled. `pending`: it had nothing, so others may have better use for its place.
    pub(super) fn are_scarce(&self, pending: bool) -> bool {
        let open = self.open.load(Ordering::Relaxed);
        open > OPEN_FILES || (pending && open == OPEN_FILES)
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
