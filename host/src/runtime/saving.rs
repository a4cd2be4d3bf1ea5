//! Savepoints in the making, and which checkpoints need not be written any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_core::Result;
use tidemill_core::checkpoint::manifest::{Manifest, StateFile};

use crate::store::savepoint::SavepointFolder;

/// Up to which checkpoint all that have not been stored are given up: what of them still waits to be written need not be. Clones are of the
/// same.
#[derive(Clone, Debug, Default)]
pub struct GivenUp(Arc<AtomicU64>);

impl GivenUp {
    /// Gives a checkpoint up, and all before it.
    pub fn give_up(&self, checkpoint: u64) {
        self.0.fetch_max(checkpoint, Ordering::Relaxed);
    }

    pub(super) fn has(&self, checkpoint: u64) -> bool {
        checkpoint <= self.0.load(Ordering::Relaxed)
    }
}

/// A savepoint that is being written: its place, and whether it is a checkpoint too.
pub(super) struct Savepoint {
    pub(super) folder: SavepointFolder,
    pub(super) also_checkpoint: bool,
    pub(super) trigger: String,
    /// Its state files, if it is a checkpoint too, which has files of its own.
    pub(super) files: Vec<StateFile>,
}

impl Savepoint {
    /// Writes its manifest: all else is there.
    ///
    /// # Errors
    /// The manifest may not have become durable.
    pub(super) fn complete(&self, manifest: &Manifest) -> Result<()> {
        let mut manifest = Manifest { savepoint: true, trigger: Some(self.trigger.clone()), ..manifest.clone() };
        if self.also_checkpoint {
            manifest.databases.clear();
            manifest.files.clone_from(&self.files);
            manifest.files.sort_by_key(|file| file.worker);
        }
        self.folder.write_manifest(&manifest)
    }
}
