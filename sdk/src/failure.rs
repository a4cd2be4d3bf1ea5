//! How a detector says that something is wrong.

use std::fmt;

/// What is wrong with a record or timer, or with the whole job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// This record or timer cannot be processed; the operator's error policy decides what becomes of it.
    BadRecord(String),
    /// The job must fail.
    Fatal(String),
}

/// A failure of a batch: which row, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchFailure {
    /// This row cannot be processed. A timer that joined the pass counts as the row from which it descends.
    BadRecord(u32, String),
    /// The job must fail.
    Fatal(String),
}

impl Failure {
    /// This record or timer cannot be processed.
    pub fn bad_record(reason: impl Into<String>) -> Self {
        Self::BadRecord(reason.into())
    }

    /// The job must fail.
    pub fn fatal(reason: impl Into<String>) -> Self {
        Self::Fatal(reason.into())
    }

    /// The same failure, said of a row.
    pub(crate) fn at(self, row: u32) -> BatchFailure {
        match self {
            Self::BadRecord(reason) => BatchFailure::BadRecord(row, reason),
            Self::Fatal(reason) => BatchFailure::Fatal(reason),
        }
    }
}

/// A text is the reason why a record is bad.
impl From<&str> for Failure {
    fn from(reason: &str) -> Self {
        Self::BadRecord(reason.to_owned())
    }
}

/// A text is the reason why a record is bad.
impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::BadRecord(reason)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadRecord(reason) => write!(f, "bad record: {reason}"),
            Self::Fatal(reason) => write!(f, "fatal: {reason}"),
        }
    }
}

impl fmt::Display for BatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadRecord(row, reason) => write!(f, "bad record in row {row}: {reason}"),
            Self::Fatal(reason) => write!(f, "fatal: {reason}"),
        }
    }
}

impl std::error::Error for Failure {}
impl std::error::Error for BatchFailure {}
