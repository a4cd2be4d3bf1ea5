//! What is wrong with a job spec, and where.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use tidemill_core::Error;

/// Where a part of a job spec was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The spec as a whole.
    Whole,
    /// In the file; both counted from 1.
    File {
        /// The line.
        line: u64,
        /// The column, in characters.
        column: u64,
    },
    /// In an override on the command line, given as it was written: `path=value`.
    Override(Arc<str>),
}

impl Place {
    /// The place as a prefix of a message about `file`, such as `job.yaml:12:5`.
    #[must_use]
    pub fn within(&self, file: &str) -> String {
        match self {
            Self::Whole => file.to_owned(),
            Self::File { line, column } => format!("{file}:{line}:{column}"),
            Self::Override(text) => format!("--set {text}"),
        }
    }

    /// The place in `file` that a message begins with, and the rest: the reverse of [`within`](Self::within) and `: `.
    #[must_use]
    pub fn split<'a>(message: &'a str, file: &str) -> Option<(Self, &'a str)> {
        let rest = message.strip_prefix(file)?.strip_prefix(':')?;
        if let Some(rest) = rest.strip_prefix(' ') {
            return Some((Self::Whole, rest));
        }
        let (line, rest) = rest.split_once(':')?;
        let (column, rest) = rest.split_once(": ")?;
        Some((Self::File { line: line.parse().ok()?, column: column.parse().ok()? }, rest))
    }
}

/// A value of the spec with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub at: Place,
}

/// One thing that is wrong, or merely doubtful.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is.
    pub at: Place,
    /// What it is and what to do.
    pub message: String,
}

/// Everything that is wrong with a job spec, one line each when displayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The file, as the user named it.
    pub file: String,
    /// The problems, by line.
    pub problems: Vec<Problem>,
}

impl SpecError {
    /// An error with one problem.
    pub fn one(file: impl Into<String>, at: Place, message: impl Into<String>) -> Self {
        Self { file: file.into(), problems: vec![Problem { at, message: message.into() }] }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}: {}", problem.at.within(&self.file), problem.message)?;
        }
        Ok(())
    }
}

impl StdError for SpecError {}

impl From<SpecError> for Error {
    fn from(error: SpecError) -> Self {
        Self::config(error.to_string())
    }
}

/// Collects problems, so that a user sees all of them at once.
#[derive(Debug, Default)]
pub(super) struct Problems {
    list: Vec<Problem>,
    /// How many more were found.
    more: usize,
}

/// So many problems are told at once.
const MOST_PROBLEMS: usize = 100;

impl Problems {
    pub(super) fn add(&mut self, at: &Place, message: impl Into<String>) {
        if self.list.len() < MOST_PROBLEMS {
            self.list.push(Problem { at: at.clone(), message: message.into() });
        } else {
            self.more += 1;
        }
    }

    /// The same with a message that takes time to find: it is not asked for if it would not be told.
    pub(super) fn add_with(&mut self, at: &Place, message: impl FnOnce() -> String) {
        if self.list.len() < MOST_PROBLEMS { self.add(at, message()) } else { self.more += 1 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn into_list(self) -> Vec<Problem> {
        self.list
    }

    /// An error with all problems, or `value` if there are none.
    pub(super) fn into_result<T>(self, file: &str, value: T) -> Result<T, SpecError> {
        if self.list.is_empty() { Ok(value) } else { Err(self.into_error(file)) }
    }

    /// An error with all problems in the order of the file.
    pub(super) fn into_error(self, file: &str) -> SpecError {
        let mut problems = self.list;
        problems.sort_by_key(|problem| match problem.at {
            Place::Whole => (0, 0),
            Place::File { line, column } => (line, column),
            Place::Override(_) => (u64::MAX, 0),
        });
        if self.more > 0 {
            problems.push(Problem { at: Place::Whole, message: format!("there are {} more errors", self.more) });
        }
        SpecError { file: file.to_owned(), problems }
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn a_place_is_found_again_at_the_front_of_a_message() {
        for at in [Place::Whole, Place::File { line: 3, column: 14 }] {
            let message = format!("{}: it is: wrong", at.within("a/b.yaml"));
            assert_eq!(Place::split(&message, "a/b.yaml"), Some((at, "it is: wrong")));
        }
        for message in ["a/b.yaml:3: wrong", "a/b.yaml:x:1: wrong", "other.yaml:1:2: wrong", "a/b.yaml"] {
            assert_eq!(Place::split(message, "a/b.yaml"), None, "{message}");
        }
    }
}
