//! The end of a file: whether more may come, whether the file still has its name, and what becomes of the split if not.

use std::fs;
use std::os::unix::fs::MetadataExt;

use tidemill_core::Result;

use super::super::discover::{self, is_absent};
use super::super::shared::Gone;
use super::{Filled, Stamp, Window, failed, other_content, shorter};
use crate::clock::since_start;

impl Window {
    /// At the end of what was read: whether that is the end of the file. `None`: there is more by now.
    ///
    /// # Errors
    /// The file was overwritten, and the source does not allow that.
    pub(super) fn check_end(&mut self) -> Result<Option<Filled>> {
        let Some(handle) = &self.handle else { return Ok(Some(Filled::Nothing)) };
        let metadata = handle.file.metadata().map_err(|error| failed("read", &self.path, &error))?;
        let (size, read, stamp) = (metadata.len(), self.read_to(), Stamp::of(&metadata));
        // What was read ahead and dropped need not be read again.
        let settled = self.drained && stamp == self.stamp;
        if size < read {
            return self.replaced(&shorter(size, read)).map(Some);
        }
        if stamp != self.stamp {
            if !self.is_unchanged(self.end)? {
                return self.replaced(&other_content(self.position)).map(Some);
            }
            self.stamp = stamp;
        }
        self.known = size;
        if size > read && !settled {
            return Ok(None);
        }
        if !self.follow || !self.has_lost_its_name()? {
            return Ok(Some(Filled::Nothing));
        }
        let copy = self.find_copy()?;
        if self.is_given_up() {
            if size > read {
                self.drained = false;
                return Ok(None);
            }
            if let Some(copy) = copy
                && let Some(more) = self.read_on_in(copy)
            {
                return Ok(if more { None } else { Some(Filled::Nothing) });
            }
            // Nobody can find it any more, and nobody has written to it for a while: its end is the end of the split.
            self.shared.end_gone(&[Gone {
                name: &self.shared.name(&self.path).to_string_lossy(),
                position: read,
                known: Some(read),
                certain: true,
            }])?;
            (self.follow, self.ended) = (false, true);
        }
        Ok(Some(Filled::Nothing))
    }

    /// Whether the file is closed and has nothing new, or is away and may come back.
    pub(super) fn rests_at_end(&mut self) -> bool {
        if self.handle.is_some() || !self.follow {
            return false;
        }
        match fs::metadata(&self.path) {
            Ok(now) if (now.dev(), now.ino()) == self.entry => {
                if !self.stray {
                    self.lost = None;
                }
                self.drained && Stamp::of(&now) == self.stamp && !(self.stray && self.is_given_up())
            }
            _ => self.lost.is_some() && !self.is_given_up(),
        }
    }

    /// The file was closed, and no path that matches leads to it any more. `None`: a copy is open in its place.
    ///
    /// # Errors
    /// It was not read to its end, and the source does not give such rests up.
    pub(super) fn without_file(&mut self) -> Result<Option<Filled>> {
        self.lost.get_or_insert_with(since_start);
        let copy = self.find_copy()?;
        if !self.follow || self.is_given_up() {
            if let Some(copy) = copy
                && self.read_on_in(copy).is_some()
            {
                return Ok(None);
            }
            let name = self.shared.name(&self.path).to_string_lossy().into_owned();
            self.shared.end_gone(&[Gone {
                name: &name,
                position: self.position,
                known: Some(self.known.max(self.position)),
                certain: false,
            }])?;
            (self.follow, self.over, self.ended) = (false, true, true);
        }
        Ok(Some(Filled::Nothing))
    }

    /// Whether no path that matches leads to the file, which is open. Notes since when, and takes the file's new path.
    fn has_lost_its_name(&mut self) -> Result<bool> {
        if self.stray {
            self.lost.get_or_insert_with(since_start);
            return Ok(true);
        }
        match fs::metadata(&self.path) {
            Ok(now) if (now.dev(), now.ino()) == self.entry => {
                self.lost = None;
                return Ok(false);
            }
            // Where it cannot be told, the file is there: it is open.
            Err(error) if !is_absent(&error) => return Ok(false),
            _ => {}
        }
        // To list all files is much work: it is done when the name is lost and before the split ends.
        if (self.lost.is_none() || self.is_given_up())
            && let Some(path) = self.new_path()?
        {
            (self.home, self.path, self.lost) = (path.clone(), path, None);
            return Ok(false);
        }
        self.lost.get_or_insert_with(since_start);
        Ok(true)
    }

    /// Whether the file has been without a name for so long that nothing more is expected of it: who rotates it renames it first and tells
    /// its writer then. While the folder is away too, perhaps with its disk, nobody knows.
    fn is_given_up(&self) -> bool {
        let waited = self.lost.is_some_and(|since| since_start().saturating_sub(since) >= self.shared.config.gone_after);
        waited && discover::has_base(&self.shared.config.pattern)
    }
}
