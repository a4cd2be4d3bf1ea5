//! What a thread that may hang is doing, for messages.

use std::sync::{Arc, Mutex, PoisonError};

/// A line that says what is being done, shared between the thread that does it and those who wait.
#[derive(Clone, Debug, Default)]
pub struct Doing(Arc<Mutex<Option<String>>>);

impl Doing {
    /// Says what begins.
    pub fn begin(&self, what: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.into());
    }

    /// Says that it has ended.
    pub fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What is being done; `None`: nothing.
    #[must_use]
    pub fn what(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
