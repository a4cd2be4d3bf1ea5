//! State that a backend keeps in files, for checkpoints that store only what is new.

use std::any::Any;
use std::ops::Range;
use std::path::PathBuf;

use crate::Result;
use crate::checkpoint::manifest::FileFormat;
use crate::key_group::KeyGroup;

/// The state of a subtask at a barrier, on its way into files that change no more. They are there as long as this is; if it is dropped
/// before they are asked for, they are removed as well.
pub trait Frozen: Send {
    /// What the files are.
    fn format(&self) -> FileFormat;

    /// The files. Waits until they are there: not for a worker to call.
    ///
    /// # Errors
    /// They could not be written, such as for a full disk: the checkpoint fails, while the state itself is whole.
    fn files(&mut self) -> Result<Vec<FrozenFile>>;

    /// Passes the same state on by key groups in ascending order, in the layout of `state/layout.rs`, read from the files. Waits for them.
    ///
    /// # Errors
    /// As [`files`](Self::files), or they cannot be read, or `each` fails.
    fn groups(&mut self, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()>;
}

/// One file of a frozen state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenFile {
    /// Its name among the files.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// A name for its content that no other content of this job ever has; `None`: the content is of this barrier only.
    pub content: Option<String>,
}

/// Stored state of a subtask that is read only when it is restored: it may be larger than memory.
pub trait StoredGroups: Any + Send + Sync {
    /// The key groups of the subtask that stored it.
    fn groups(&self) -> Range<u32>;

    /// Passes the key groups within a range on, in the layout of `state/layout.rs`.
    ///
    /// # Errors
    /// The state cannot be read or is not what was stored, or `each` fails.
    fn read(&self, range: Range<u32>, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()>;
}
