//! Warnings that are said once, though what they tell of is found again and again.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::warn;

use crate::clock::since_start;

/// After this time the same warning is said again.
const AGAIN: Duration = Duration::from_secs(600);

/// So many different warnings of a source are said within [`AGAIN`].
const MOST: usize = 1000;

/// What has been said, and when.
#[derive(Debug, Default)]
pub(super) struct Notices {
    said: Mutex<HashMap<String, Duration>>,
}

impl Notices {
    /// Logs a warning of a source, unless it was logged a short time ago.
    pub(super) fn warn(&self, source: &str, text: &str) {
        let (mut said, now) = (self.said.lock().unwrap_or_else(PoisonError::into_inner), since_start());
        if said.get(text).is_some_and(|then| now.saturating_sub(*then) < AGAIN) {
            return;
        }
        if said.len() >= MOST {
            said.retain(|_, then| now.saturating_sub(*then) < AGAIN);
        }
        if said.len() < MOST {
            said.insert(text.to_owned(), now);
            warn!(source, "source {source}: {text}");
        }
    }

    #[cfg(test)]
    pub(super) fn said(&self) -> Vec<String> {
        let mut said: Vec<_> = self.said.lock().unwrap().keys().cloned().collect();
        said.sort();
        said
    }
}

/// A path for a message of one line: bytes that are not UTF-8 and control characters are escaped.
pub(super) fn shown(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    match path.to_str() {
        Some(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => format!("{path:?}").trim_matches('"').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::{Notices, shown};

    #[test]
    fn a_warning_is_said_once() {
        let notices = Notices::default();
        for text in ["one", "two", "one"] {
            notices.warn("in", text);
        }
        assert_eq!(notices.said(), ["one", "two"]);
    }

    #[test]
    fn a_path_is_shown_in_one_line() {
        assert_eq!(shown("data/ä \"b\".jsonl"), "data/ä \"b\".jsonl");
        assert_eq!(shown("data/a\nb.jsonl"), "data/a\\nb.jsonl");
        assert_eq!(shown(OsStr::from_bytes(b"data/\xffa.jsonl")), "data/\\xFFa.jsonl");
    }
}
