//! Gives parts their visible names, in a way that can be repeated after a crash at any point.

use std::io::ErrorKind;
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};
use tidemill_core::sink::Committable;
use tidemill_core::{Error, Result};
use tracing::warn;
use xxhash_rust::xxh3::xxh3_64;

use super::{Folder, name};

const REMEDY: &str = "put the folder back as it was, or start again with --fresh";

/// A finished part, as a checkpoint stores it. Names are relative to the sink's folder, so that the folder can be moved.
#[derive(Serialize, Deserialize)]
pub(super) struct Part {
    /// Its name before the commit.
    pub(super) hidden: String,
    /// Its name from the commit on.
    #[serde(rename = "final")]
    pub(super) visible: String,
    /// Its size.
    pub(super) bytes: u64,
    /// XXH3 (64 bits) of its bytes, in hexadecimal.
    pub(super) checksum: String,
}

/// Whether a commit of the same parts may have happened before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// It has not: every part must be there.
    First,
    /// It may have: only a commit takes a hidden name away, so a part without either name was visible, and a reader has taken it.
    Again,
}

/// What is found under a name.
enum Found {
    Nothing,
    ThisPart,
    Other(String),
}

impl Part {
    pub(super) fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::connector("cannot describe a part").caused_by(error))
    }

    fn from_json(text: &str) -> Result<Self> {
        let part = serde_json::from_str::<Self>(text)
            .map_err(|error| Error::corrupt(format!("the checkpoint describes no part of a file sink: `{text}`")).caused_by(error))?;
        // Names come back from storage: they must not lead out of the folder.
        if name::job_of(&part.hidden).is_some()
            && name::checkpoint_of(&part.visible).is_some()
            && is_plain(&part.hidden)
            && is_plain(&part.visible)
        {
            return Ok(part);
        }
        Err(Error::corrupt(format!("the checkpoint describes a part with impossible names: `{text}`")))
    }
}

impl Folder {
    /// Commits parts and makes their names durable.
    pub(super) fn commit(&self, committables: &[Committable], attempt: Attempt) -> Result<()> {
        let parts = committables.iter().map(|committable| Part::from_json(&committable.payload)).collect::<Result<Vec<_>>>()?;
        // ORDER: before any of it is visible, so that nobody takes away output that the folder does not remember.
        if let Some(newest) = parts.iter().filter_map(|part| name::numbers_of(&part.visible)).max() {
            self.remember(newest)?;
        }
        parts.iter().try_for_each(|part| self.commit_part(part, attempt))?;
        if committables.is_empty() { Ok(()) } else { self.sync() }
    }

    /// The parts that are found under neither of their names.
    pub(super) fn gone(&self, committables: &[Committable]) -> Result<Vec<usize>> {
        let mut gone = Vec::new();
        for (index, committable) in committables.iter().enumerate() {
            let part = Part::from_json(&committable.payload)?;
            let is_there = |name: &str| self.find(name, &part).map(|found| matches!(found, Found::ThisPart));
            if !is_there(&part.visible)? && !is_there(&part.hidden)? {
                gone.push(index);
            }
        }
        Ok(gone)
    }

    /// The parts that are found under neither of their names with their length.
    pub(super) fn missing(&self, committables: &[Committable]) -> Result<Vec<usize>> {
        let mut missing = Vec::new();
        for (index, committable) in committables.iter().enumerate() {
            let part = Part::from_json(&committable.payload)?;
            let is_there = |name: &str| match self.disk.length(&self.path(name)) {
                Ok(bytes) => Ok(bytes == part.bytes),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(self.failed("look into", error)),
            };
            if !is_there(&part.hidden)? && !is_there(&part.visible)? {
                missing.push(index);
            }
        }
        Ok(missing)
    }

    /// Notes that a part of this process is durable.
    pub(super) fn remember_synced(&self, hidden: String) {
        self.synced.lock().unwrap_or_else(PoisonError::into_inner).insert(hidden);
    }

    fn commit_part(&self, part: &Part, attempt: Attempt) -> Result<()> {
        let (hidden, visible) = (self.path(&part.hidden), self.path(&part.visible));
        match self.find(&part.visible, part)? {
            Found::Nothing => {}
            Found::ThisPart => {
                self.forget_synced(&part.hidden);
                return self.disk.remove(&hidden).map_err(|error| self.failed("commit to", error));
            }
            Found::Other(what) => return Err(self.refused(part, &format!("a file of that name exists, and {what}; it is left alone"))),
        }
        if attempt == Attempt::Again || !self.is_synced(&part.hidden) {
            match self.find(&part.hidden, part)? {
                Found::ThisPart => {}
                Found::Nothing if attempt == Attempt::Again => {
                    let path = visible.display();
                    warn!("`{path}` is gone: its commit had begun when the job was interrupted, so a reader must have taken it since");
                    self.forget_synced(&part.hidden);
                    return Ok(());
                }
                Found::Nothing => return Err(self.refused(part, &format!("neither it nor `{}` exists", part.hidden))),
                Found::Other(what) => return Err(self.refused(part, &format!("its hidden file `{}` {what}", part.hidden))),
            }
        }
        self.disk.rename(&hidden, &visible).map_err(|error| self.failed("commit to", error))?;
        self.forget_synced(&part.hidden);
        Ok(())
    }

    fn find(&self, name: &str, part: &Part) -> Result<Found> {
        let bytes = match self.disk.read(&self.path(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            result => result.map_err(|error| self.failed("commit to", error))?,
        };
        if bytes.len() as u64 != part.bytes {
            return Ok(Found::Other(format!("has {} bytes instead of {}", bytes.len(), part.bytes)));
        }
        let checksum = format!("{:016x}", xxh3_64(&bytes));
        Ok(if checksum == part.checksum {
            Found::ThisPart
        } else {
            Found::Other(format!("has the checksum {checksum} instead of {}", part.checksum))
        })
    }

    fn is_synced(&self, hidden: &str) -> bool {
        self.synced.lock().unwrap_or_else(PoisonError::into_inner).contains(hidden)
    }

    fn forget_synced(&self, hidden: &str) {
        self.synced.lock().unwrap_or_else(PoisonError::into_inner).remove(hidden);
    }

    fn refused(&self, part: &Part, reason: &str) -> Error {
        let checkpoint = name::checkpoint_of(&part.visible).unwrap_or_default();
        let path = self.path(&part.visible);
        Error::corrupt(format!("cannot commit `{}` of checkpoint {checkpoint}: {reason}; {REMEDY}", path.display()))
    }
}

fn is_plain(name: &str) -> bool {
    !name.contains(['/', '\\', '\0'])
}
