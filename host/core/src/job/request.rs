//! Requests to a running job, and their outcomes.
//!
//! One pair of types for everyone: the command line and the HTTP API serialize them, and the runtime performs them as they are. A request that
//! is retried with the same idempotency key (Flink's `triggerId`) gets the first request's outcome and is not performed again.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What is asked of a running job. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// A savepoint. The job continues.
    Savepoint {
        /// The folder of the savepoint, which must not exist yet, or be empty.
        path: PathBuf,
        /// Whether to wait until a checkpoint has committed the output that the savepoint covers.
        #[serde(default)]
        wait_committed: bool,
    },
    /// A stop at a checkpoint.
    Stop {
        /// The folder of a savepoint of that checkpoint.
        #[serde(default)]
        savepoint: Option<PathBuf>,
        /// Whether all event time ends first, so that every event-time timer fires: for a job that is stopped for good.
        #[serde(default)]
        drain: bool,
    },
    /// A stop at a checkpoint, from which the job resumes at once with another number of workers.
    Rescale {
        /// The number of workers.
        parallelism: u32,
        /// The folder of a savepoint of that checkpoint.
        #[serde(default)]
        savepoint: Option<PathBuf>,
    },
}

impl Request {
    /// Returns the folder of the savepoint that the request asks for.
    #[must_use]
    pub fn savepoint(&self) -> Option<&Path> {
        match self {
            Self::Savepoint { path, .. } => Some(path),
            Self::Stop { savepoint, .. } | Self::Rescale { savepoint, .. } => savepoint.as_deref(),
        }
    }

    /// Returns the request with another path for its savepoint, if it asks for one.
    #[must_use]
    pub fn at(mut self, folder: PathBuf) -> Self {
        match &mut self {
            Self::Savepoint { path, .. } => *path = folder,
            Self::Stop { savepoint, .. } | Self::Rescale { savepoint, .. } => _ = savepoint.as_mut().map(|path| *path = folder),
        }
        self
    }
}

/// What a request led to. `path` is the folder of the savepoint, if the request asked for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The savepoint exists.
    Saved {
        /// The id of the savepoint.
        savepoint: u64,
        /// Its folder.
        path: PathBuf,
        /// The checkpoint that committed the output that the savepoint covers, if the request waited for that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        committed_by: Option<u64>,
    },
    /// The job has stopped at a checkpoint.
    Stopped {
        /// The id of the checkpoint.
        checkpoint: u64,
        /// See above.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<PathBuf>,
    },
    /// The job had finished before it could stop.
    Finished {
        /// The id of its last checkpoint.
        checkpoint: u64,
        /// See above.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<PathBuf>,
    },
    /// The job runs with another number of workers.
    Rescaled {
        /// The id of the checkpoint from which the new workers resumed.
        checkpoint: u64,
        /// The number of workers before.
        from: u32,
        /// The number of workers now.
        to: u32,
        /// For how long no worker read anything, in milliseconds; `None` if the process that knew is gone.
        #[serde(default)]
        pause_ms: Option<u64>,
        /// The number of workers that the job spec or the command line asked for when the process began.
        asked: u32,
        /// See above.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<PathBuf>,
    },
}

impl Outcome {
    /// Returns the outcome of a request whose savepoint exists.
    #[must_use]
    pub fn saved(savepoint: u64, request: &Request, committed_by: Option<u64>) -> Self {
        Self::Saved { savepoint, path: request.savepoint().map(Path::to_owned).unwrap_or_default(), committed_by }
    }

    /// Returns the outcome of a request to stop.
    #[must_use]
    pub fn stopped(checkpoint: u64, request: &Request) -> Self {
        Self::Stopped { checkpoint, path: request.savepoint().map(Path::to_owned) }
    }

    /// Returns the outcome of a request to stop a job that finished first.
    #[must_use]
    pub fn finished(checkpoint: u64, request: &Request) -> Self {
        Self::Finished { checkpoint, path: request.savepoint().map(Path::to_owned) }
    }

    /// Returns the folder of the savepoint, if the request asked for one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Saved { path, .. } => Some(path),
            Self::Stopped { path, .. } | Self::Finished { path, .. } | Self::Rescaled { path, .. } => path.as_deref(),
        }
    }
}
