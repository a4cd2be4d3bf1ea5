//! One error type, sorted by who must act.

use std::error::Error as StdError;
use std::fmt;

use crate::batch::Origin;

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who must act on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The job spec, or what it names, is wrong: the user must change it. Never retried.
    Config,
    /// Another process has what is needed. Never retried.
    Busy,
    /// A record of the input is not what the job takes: the user must mend it, or say what becomes of such records. Never retried.
    Input,
    /// A component misbehaved: its author must act. Retried from the last checkpoint.
    Guest,
    /// A source or sink failed: retried from the last checkpoint.
    Connector,
    /// Checkpoint storage failed: retried from the last checkpoint.
    Storage,
    /// Stored data is not what was written. Never retried.
    Corrupt,
    /// The machine or a limit of the process lacks something, such as threads or memory: retried from the last checkpoint, but not at the first
    /// start.
    Machine,
}

/// Where a failure of a component comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// What is the same whenever the failure repeats, whatever the record: the operator and the place in its component.
    pub what: String,
    /// The source record that led to it, if none of timers was the cause.
    pub record: Option<Origin>,
    /// The time of the timer that fails whenever it fires. `None` also for one that was too slow: it may be in time when it is retried.
    pub timer: Option<i64>,
}

/// What was being done, to which object, what is wrong; causes are chained by [`source`](StdError::source).
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    /// What stands for the failure when it repeats, and where it was: boxed, since few errors have it.
    site: Option<Box<Site>>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error with this message and no cause.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), site: None, cause: None }
    }

    /// An error of [`Kind::Config`].
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Kind::Config, message)
    }

    /// An error of [`Kind::Input`].
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Kind::Input, message)
    }

    /// An error of [`Kind::Guest`].
    pub fn guest(message: impl Into<String>) -> Self {
        Self::new(Kind::Guest, message)
    }

    /// An error of [`Kind::Connector`].
    pub fn connector(message: impl Into<String>) -> Self {
        Self::new(Kind::Connector, message)
    }

    /// An error of [`Kind::Storage`].
    pub fn storage(message: impl Into<String>) -> Self {
        Self::new(Kind::Storage, message)
    }

    /// An error of [`Kind::Corrupt`].
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Kind::Corrupt, message)
    }

    /// The same error with its cause.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// This error as the cause of one of the same kind that says what was being done.
    #[must_use]
    pub fn while_doing(self, message: impl Into<String>) -> Self {
        let site = self.site.clone();
        Self { kind: self.kind, message: message.into(), site, cause: Some(Box::new(self)) }
    }

    /// The same error, of which it is known where it comes from.
    #[must_use]
    pub fn at(mut self, site: Site) -> Self {
        self.site = Some(Box::new(site));
        self
    }

    /// Where it comes from, if that is known.
    #[must_use]
    pub fn site(&self) -> Option<&Site> {
        self.site.as_deref()
    }

    /// Who must act.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The message and those of all causes, joined by `: `.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}
