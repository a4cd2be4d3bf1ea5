//! Requests to a running job: handed in through the control socket, performed by the job's driver, answered once.

pub mod client;
pub mod socket;

mod api;
mod keys;
mod submit;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_core::job::{Outcome, Request};
use tidemill_core::{Error, Result};
use tokio::sync::oneshot::{Receiver, channel};

pub use self::submit::random_key;

use self::keys::Keys;
use crate::store::savepoint::SavepointFolder;

/// The requests to a job, shared with signal handlers and the control socket.
#[derive(Clone, Debug, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
    requests: Arc<Mutex<VecDeque<Pending>>>,
    keys: Arc<Mutex<Keys>>,
    waits_for: Arc<Mutex<Option<String>>>,
}

/// A request that is not answered yet. Dropping it answers with an error, so that no client waits for a request that was lost.
#[derive(Debug)]
pub struct Pending {
    /// What is asked.
    pub request: Request,
    /// Where its savepoint is written. `None` if it asks for none, and for a repeated rescale whose savepoint an earlier process has taken.
    pub folder: Option<SavepointFolder>,
    /// The idempotency key: a retry with the same key gets the same answer.
    pub key: String,
    keys: Arc<Mutex<Keys>>,
    answered: bool,
}

impl Control {
    /// Returns the flag that requests a stop at a checkpoint once it is set.
    #[must_use]
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Sets that flag.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether a stop was requested by a signal.
    #[must_use]
    pub fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Notes what the job waits for, for clients that wait too; `None`: for nothing.
    pub(super) fn set_waits_for(&self, what: Option<String>) {
        *self.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// Returns what the job waits for, if it has been waiting for long.
    pub(super) fn waits_for(&self) -> Option<String> {
        self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Queues a request, unless its key was used before: then the receiver gets the answer to the request that used it first. The receiver is
    /// closed if the job ends without an answer. `folder` creates the savepoint's folder, and is called only for a new request.
    ///
    /// # Errors
    /// The key was used for a request of another kind, or another savepoint is being written to the same folder.
    pub fn ask(
        &self,
        key: &str,
        request: Request,
        folder: impl FnOnce(Option<&Path>) -> Result<Option<SavepointFolder>>,
    ) -> Result<Receiver<Result<Outcome>>> {
        let (answer, receiver) = channel();
        if !self.keys().begin(key, &request, answer)? {
            return Ok(receiver);
        }
        match folder(request.savepoint()) {
            Ok(folder) => {
                let keys = Arc::clone(&self.keys);
                self.requests().push_back(Pending { request, folder, key: key.to_owned(), keys, answered: false });
            }
            Err(error) => self.keys().answer(key, Err(error)),
        }
        Ok(receiver)
    }

    /// Returns whether this process has a request of this key, or has performed it.
    pub(super) fn knows(&self, key: &str) -> bool {
        self.keys().knows(key)
    }

    /// Takes the oldest request.
    pub(super) fn next(&self) -> Option<Pending> {
        self.requests().pop_front()
    }

    /// Answers all requests that are queued now.
    pub(super) fn answer_all(&self, answer: impl Fn(&Request) -> Result<Outcome>) {
        while let Some(pending) = self.next() {
            let outcome = answer(&pending.request);
            pending.answer(outcome);
        }
    }

    /// Removes a request from the queue and answers it with an error. A request that the job has taken already is left alone.
    pub(super) fn withdraw(&self, key: &str, why: &str) {
        let pending = {
            let mut requests = self.requests();
            let at = requests.iter().position(|pending| pending.key == key);
            at.and_then(|at| requests.remove(at))
        };
        if let Some(pending) = pending {
            pending.answer(Err(Error::storage(why)));
        }
    }

    fn requests(&self) -> std::sync::MutexGuard<'_, VecDeque<Pending>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self) -> std::sync::MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    /// Answers the request. If it failed, its savepoint's folder is emptied first: a client that hears of a failure finds nothing there.
    pub fn answer(mut self, outcome: Result<Outcome>) {
        self.discard_and_say(outcome);
    }

    /// As [`answer`](Self::answer), but leaves the savepoint's folder alone: the checkpoint thread has written or emptied it.
    pub(super) fn answer_only(mut self, outcome: Result<Outcome>) {
        self.say(outcome);
    }

    /// Returns whether the savepoint that it asks for is complete, durably.
    pub(super) fn is_saved(&self) -> bool {
        self.folder.as_ref().is_some_and(|folder| folder.saved(&self.key).is_some())
    }

    fn discard_and_say(&mut self, outcome: Result<Outcome>) {
        let removed = match (&outcome, &self.folder) {
            (Err(_), Some(folder)) => folder.discard(),
            _ => Ok(()),
        };
        let outcome = match (outcome, removed) {
            (Err(error), Err(left)) => Err(Error::new(
                error.kind(),
                format!("{}; and what was written of its savepoint could not be removed: {}", error.chain(), left.chain()),
            )),
            (outcome, _) => outcome,
        };
        self.say(outcome);
    }

    fn say(&mut self, outcome: Result<Outcome>) {
        self.answered = true;
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).answer(&self.key, outcome);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.answered {
            self.discard_and_say(Err(lost()));
        }
    }
}

/// The answer to a request that the job did not perform before it ended.
pub(super) fn lost() -> Error {
    Error::storage("the job has ended without doing it: its log says what became of it")
}
