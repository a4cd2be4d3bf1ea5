//! What the user wants of a running job, asked by signals or through the control socket.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_core::{Error, Result};

use crate::store::savepoint::SavepointFolder;

/// The user's wishes, shared with signal handlers and the control socket.
#[derive(Clone, Debug, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
    requests: Arc<Mutex<VecDeque<Request>>>,
}

/// What a request asks for.
pub enum Wish {
    /// A savepoint; the job goes on.
    Savepoint(SavepointFolder),
    /// A stop at a checkpoint.
    Stop {
        /// A savepoint of it, if one is wanted.
        savepoint: Option<SavepointFolder>,
        /// Whether all event time ends first, for good.
        drain: bool,
    },
}

/// A wish that has been granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// The savepoint with this id exists.
    Saved(u64),
    /// The job has stopped at this checkpoint.
    Stopped(u64),
    /// The job had come to its end, with this checkpoint.
    Finished(u64),
}

/// A wish, and whom to tell what came of it.
pub struct Request {
    /// What is wanted.
    pub wish: Wish,
    answer: Sender<Result<Granted>>,
}

impl Control {
    /// The flag that requests a stop at a checkpoint once it is set.
    #[must_use]
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether a stop was requested by a signal.
    #[must_use]
    pub fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Hands in a wish. The receiver gets the answer, or is closed if the job ends without one.
    #[must_use]
    pub fn ask(&self, wish: Wish) -> Receiver<Result<Granted>> {
        let (answer, receiver) = channel();
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push_back(Request { wish, answer });
        receiver
    }

    /// Takes the oldest request.
    pub(super) fn next(&self) -> Option<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Refuses whatever is asked now.
    pub(super) fn refuse_all(&self, why: &str) {
        while let Some(request) = self.next() {
            request.answer(Err(Error::storage(why)));
        }
    }
}

impl Request {
    /// Tells what came of it. One who has gone away hears nothing.
    pub fn answer(self, outcome: Result<Granted>) {
        if let (Err(_), Wish::Savepoint(folder) | Wish::Stop { savepoint: Some(folder), .. }) = (&outcome, &self.wish) {
            // Nothing is left of what was never finished; if it cannot be removed it is written over next time.
            _ = folder.discard();
        }
        _ = self.answer.send(outcome);
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.wish {
            Wish::Savepoint(_) => "savepoint",
            Wish::Stop { .. } => "stop",
        })
    }
}
