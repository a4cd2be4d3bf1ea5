//! A copy that takes the place of a followed file while it is read: programs that save or copy a file write a new one and rename it.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

use tidemill_core::Result;

use super::super::discover::is_absent;
use super::super::feeds::matches;
use super::super::found::tells_a_copy;
use super::super::handles::Handle;
use super::super::identity::{Identity, key};
use super::{Stamp, Window, failed};

/// A copy that was opened.
pub(super) struct Copy {
    handle: Handle,
    metadata: Metadata,
    identity: Identity,
}

impl Window {
    /// The copy that has the file's name by now. Tells discovery if another file has it, which need not wait for this one then. Until the end
    /// of the split a file that is shorter than what was read may become a copy: it may still be written.
    pub(super) fn find_copy(&mut self) -> Result<Option<Copy>> {
        let Some(mine) = self.key.filter(|_| self.follow && matches(&self.shared.config.pattern, &self.home)) else { return Ok(None) };
        let handle = match self.shared.handles.open(&self.home) {
            Ok(handle) => handle,
            Err(error) if is_absent(&error) || error.kind() == ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(failed("open", &self.home, &error)),
        };
        let failed = |error| failed("read", &self.home, &error);
        let metadata = handle.file.metadata().map_err(failed)?;
        if !metadata.is_file() || (metadata.dev(), metadata.ino()) == self.entry {
            return Ok(None);
        }
        let size = metadata.len();
        let is_shorter = size < self.known.max(self.read_to());
        let differs = if is_shorter {
            size >= self.head.length() && !self.head.is_at(0, &handle.file).map_err(failed)?
        } else {
            !self.is_in(&handle.file, self.end).map_err(failed)?
        };
        if differs {
            self.shared.readers.is_other(key(&metadata));
        }
        let (read, position) = (self.read_to(), self.position);
        if differs || is_shorter || read == 0 || !tells_a_copy(position, false, || self.shared.renamed(&self.home, mine)) {
            return Ok(None);
        }
        let identity = Identity::of(&handle.file, &metadata).map_err(failed)?;
        Ok(Some(Copy { handle, metadata, identity }))
    }

    /// Reads on in a copy. Returns whether it has more than what was read; `None` if another split has it.
    pub(super) fn read_on_in(&mut self, copy: Copy) -> Option<bool> {
        let Copy { handle, metadata, identity } = copy;
        let mine = self.key?;
        if !self.shared.readers.move_on(mine, identity) {
            return None;
        }
        // The word that an earlier reader left of the old file is of no use any more.
        self.shared.left().remove(&mine);
        self.shared.warn_of_copy(&self.shared.name(&self.home).to_string_lossy(), self.position);
        (self.key, self.copy) = (Some(identity.key()), Some(identity));
        (self.entry, self.stamp, self.known) = ((metadata.dev(), metadata.ino()), Stamp::of(&metadata), metadata.len());
        (self.path, self.handle) = (self.home.clone(), Some(handle));
        (self.lost, self.stray, self.drained) = (None, false, false);
        Some(self.known > self.read_to())
    }
}
