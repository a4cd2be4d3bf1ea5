//! What the readers of a source share with each other and with discovery, and what becomes of splits whose files are gone.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use glob::Pattern;
use tidemill_core::{Error, Result};

use super::discover::{self, Listed};
use super::folders::Folders;
use super::handles::Handles;
use super::identity::Key;
use super::notices::{Notices, shown};
use super::readers::Readers;
use super::{FileSourceConfig, OnGone, OnReplaced};

/// Shared by all subtasks of a source, for as long as the process runs the job: an attempt that follows a failure finds it as it was left.
pub(super) struct Shared {
    pub(super) config: FileSourceConfig,
    pub(super) handles: Handles,
    notices: Notices,
    left: Mutex<HashMap<Key, Left>>,
    pub(super) readers: Readers,
}

/// How a reader left its file.
#[derive(Clone, Debug)]
pub(super) struct Left {
    pub(super) name: String,
    pub(super) position: u64,
    /// How many bytes the file had, as far as was seen.
    pub(super) known: u64,
    pub(super) mark: Option<String>,
    /// Whether the split has ended because its file was gone: then it is taken up again if the file comes back.
    pub(super) ended: bool,
}

/// A file that is gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone<'a> {
    pub(super) name: &'a str,
    /// How much of it was read.
    pub(super) position: u64,
    /// How many bytes it had, as far as is known.
    pub(super) known: Option<u64>,
    /// Whether that is certain: the file was open to its end. Otherwise it may have grown after it was last looked at.
    pub(super) certain: bool,
}

impl Gone<'_> {
    fn was_read(&self) -> bool {
        self.known.is_some_and(|known| known <= self.position)
    }
}

impl Shared {
    pub(super) fn new(config: FileSourceConfig, handles: Handles) -> Self {
        Self { config, handles, notices: Notices::default(), left: Mutex::default(), readers: Readers::default() }
    }

    /// Logs a warning once.
    pub(super) fn warn(&self, text: &str) {
        self.notices.warn(&self.config.uid, text);
    }

    /// The files that match now. What is left out is warned of.
    pub(super) fn files(&self) -> Result<Vec<Listed>> {
        let found = discover::files(&self.config.pattern, self.config.follow)?;
        found.left_out.iter().for_each(|text| self.warn(text));
        Ok(found.files)
    }

    /// Says that a copy of a file is read on.
    pub(super) fn warn_of_copy(&self, name: &str, position: u64) {
        self.warn(&format!(
            "another file is in the place of `{}`, with the same content up to byte {position}, to which that was read: it is taken for a copy, \
             and read from there on",
            shown(name)
        ));
    }

    pub(super) fn left(&self) -> MutexGuard<'_, HashMap<Key, Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Folders::renamed`], by the folder as it is now.
    pub(super) fn renamed(&self, path: &Path, wanted: Key) -> Option<PathBuf> {
        Folders::default().renamed(&self.config.pattern, path, wanted)
    }

    /// Ends the splits whose files are gone.
    ///
    /// # Errors
    /// A file was not read to its end, and the source does not give such rests up.
    pub(super) fn end_gone(&self, gone: &[Gone<'_>]) -> Result<()> {
        let refused = |gone: &&Gone<'_>| !gone.was_read() && self.config.on_gone == OnGone::Fail;
        if let Some(first) = gone.iter().find(refused) {
            return Err(self.unread(first, gone.iter().filter(refused).count() - 1));
        }
        for gone in gone {
            let (path, position) = (shown(gone.name), gone.position);
            let as_far = if gone.certain { "" } else { ", as far as was seen" };
            self.warn(&if gone.was_read() {
                format!("the file `{path}` is gone, removed or renamed to what the pattern does not match; it was read to its end{as_far}, byte {position}, so its split has ended")
            } else {
                format!("the file `{path}` is gone, and {} not read; its split has ended, as `on_gone: skip` says", rest(gone))
            });
        }
        Ok(())
    }

    fn unread(&self, gone: &Gone<'_>, more: usize) -> Error {
        let more = match more {
            0 => String::new(),
            more => format!(" (and so it is with {more} more)"),
        };
        let (path, uid, pattern) = (shown(gone.name), &self.config.uid, self.pattern());
        Error::corrupt(format!(
            "the file `{path}` of source {uid} is gone, and {} not read{more}: put it back under a name that matches `{pattern}`, or give that \
             up and keep the state: run once with --set sources.{uid}.file.on_gone=skip",
            rest(gone)
        ))
    }

    /// A file has other content than what was read of it. If that is allowed it is said, and reading begins again.
    ///
    /// # Errors
    /// It is not allowed.
    pub(super) fn replaced(&self, path: &Path, how: &str) -> Result<()> {
        let (path, uid) = (shown(self.name(path)), &self.config.uid);
        match self.config.on_replaced {
            OnReplaced::BeginAgain => {
                self.warn(&format!(
                    "the file `{path}` was overwritten: it {how}; its content is read from the begin, as `on_replaced: begin_again` says, \
                     and what was not read of the old content is lost"
                ));
                Ok(())
            }
            OnReplaced::Fail => Err(Error::corrupt(format!(
                "the file `{path}` of source {uid} was overwritten: it {how}. files may only grow while a job reads them (rotate logs by renaming \
                 them): put it back as it was, or have its new content read from the begin and keep the state: `on_replaced: begin_again` in the \
                 source's `file`, or once --set sources.{uid}.file.on_replaced=begin_again"
            ))),
        }
    }

    /// The path as the split's name has it.
    pub(super) fn name<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.config.base).ok().filter(|name| !name.as_os_str().is_empty()).unwrap_or(path)
    }

    /// The pattern as the spec has it.
    fn pattern(&self) -> &str {
        let base = self.config.base.to_str().map(|base| Pattern::escape(base.trim_end_matches('/'))).unwrap_or_default();
        let below = self.config.pattern.strip_prefix(&base).and_then(|below| below.strip_prefix('/'));
        below.unwrap_or(&self.config.pattern)
    }

    #[cfg(test)]
    pub(super) fn said(&self) -> Vec<String> {
        self.notices.said()
    }
}

fn rest(gone: &Gone<'_>) -> String {
    let position = gone.position;
    match gone.known.and_then(|known| known.checked_sub(position)) {
        Some(1) => format!("1 byte of it, byte {position}, was"),
        Some(bytes) => format!("{bytes} bytes of it, from byte {position} on, were"),
        None => format!("what it had from byte {position} on, if anything, was"),
    }
}
