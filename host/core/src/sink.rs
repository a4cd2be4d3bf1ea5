//! Sinks: what is written stays invisible until the checkpoint that covers it is durable and its committables are committed.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::batch::Batch;

/// What is needed to finish a commit, self-contained: it is stored with the checkpoint, so that a restore can commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committable {
    /// The subtask that wrote it.
    pub subtask: u32,
    /// The sink's own description, as JSON text, so that a manifest can be read by people.
    pub payload: String,
}

/// Work that may wait for a disk or a network, handed out by a worker and done elsewhere.
pub type Job = Box<dyn FnOnce() -> Result<()> + Send>;

/// Connects to one system; shared by all subtasks.
pub trait Sink: Send + Sync {
    /// A writer for a subtask.
    ///
    /// # Errors
    /// The target cannot be written to.
    fn writer(&self, task: WriterTask) -> Result<Box<dyn SinkWriter>>;

    /// Finishes commits. Called before reading starts after a restore and after each checkpoint, with committables of one checkpoint;
    /// committing again what was committed must change nothing.
    ///
    /// # Errors
    /// The commit did not happen, or may not have.
    fn commit(&self, committables: &[Committable]) -> Result<()>;

    /// Finishes commits that may have been begun by another process, as its durable note says, and ended or not. What is then neither to be
    /// committed nor there was committed, and has been taken away since.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    fn commit_again(&self, committables: &[Committable]) -> Result<()> {
        self.commit(committables)
    }

    /// Which of these committables, by their indexes, can no longer be committed because what they describe is not there, neither committed
    /// nor to be committed. Changes nothing.
    ///
    /// # Errors
    /// The target cannot be looked into.
    fn gone(&self, committables: &[Committable]) -> Result<Vec<usize>> {
        let _ = committables;
        Ok(Vec::new())
    }

    /// As [`gone`](Self::gone), for committables that this process has just written: it is enough to look whether something of the same
    /// length is there. Called before each checkpoint is stored.
    ///
    /// # Errors
    /// The target cannot be looked into.
    fn missing(&self, committables: &[Committable]) -> Result<Vec<usize>> {
        let _ = committables;
        Ok(Vec::new())
    }

    /// Removes what earlier attempts left behind, of any subtask. Called after the commits of the restored checkpoint.
    ///
    /// # Errors
    /// The target cannot be cleaned.
    fn clean(&self) -> Result<()>;

    /// The highest incarnation that has committed output in the target, and the highest checkpoint of it that has; `None` if the target is
    /// empty.
    ///
    /// # Errors
    /// The target cannot be listed.
    fn newest_commit(&self) -> Result<Option<(u32, u64)>>;

    /// What the target remembers of this job's newest commit, also after a reader has taken its output away; `None` if it remembers nothing.
    ///
    /// # Errors
    /// The target cannot be looked into.
    fn remembered(&self) -> Result<Option<Remembered>> {
        Ok(None)
    }
}

/// What a sink's target remembers of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The highest incarnation that has committed output.
    pub incarnation: u32,
    /// Its highest checkpoint that has.
    pub checkpoint: u64,
    /// Where the job's checkpoints are, if it was not this job but one of the same name with checkpoints in another place.
    pub elsewhere: Option<String>,
}

/// Which subtask writes, in which life of the job.
#[derive(Clone, Copy, Debug)]
pub struct WriterTask {
    /// The subtask's index.
    pub subtask: u32,
    /// The job's incarnation: 0 at first, one more each time it starts from nothing over existing output.
    pub incarnation: u32,
    /// Differs at each start of the job, so that leftovers of another attempt are never mistaken for one's own.
    pub attempt: u64,
}

/// Writes the records of one subtask.
pub trait SinkWriter: Send {
    /// Writes records. May buffer; must not wait for a network or an fsync.
    ///
    /// # Errors
    /// The target cannot be written to, or a record does not fit it.
    fn write(&mut self, batch: &Batch) -> Result<()>;

    /// Ends what belongs to the checkpoint at a barrier. The checkpoint completes only after the returned job has succeeded.
    ///
    /// # Errors
    /// The target cannot be written to.
    fn prepare_commit(&mut self, checkpoint: u64) -> Result<Prepared>;
}

/// The outcome of [`SinkWriter::prepare_commit`].
#[derive(Default)]
pub struct Prepared {
    /// What to commit; `None` if nothing was written since the last barrier.
    pub committable: Option<Committable>,
    /// What must succeed before the checkpoint counts, such as an fsync.
    pub job: Option<Job>,
}
