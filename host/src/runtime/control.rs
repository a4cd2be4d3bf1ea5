//! What the user wants of a running job, asked by signals or through the control socket.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

use tidemill_core::{Error, Result};

use super::triggers::Triggers;
use crate::store::savepoint::SavepointFolder;

/// The user's wishes, shared with signal handlers and the control socket.
#[derive(Clone, Debug, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
    requests: Arc<Mutex<VecDeque<Request>>>,
    triggers: Arc<Mutex<Triggers>>,
}

/// What a request asks for.
pub enum Wish {
    /// A savepoint; the job goes on.
    Savepoint {
        /// Where it goes.
        folder: SavepointFolder,
        /// Whether to wait until a checkpoint commits the output that it covers.
        wait_committed: bool,
    },
    /// A stop at a checkpoint.
    Stop {
        /// A savepoint of it, if one is wanted.
        savepoint: Option<SavepointFolder>,
        /// Whether all event time ends first, for good.
        drain: bool,
    },
    /// A stop at a checkpoint, from which the job goes on at once with another number of workers.
    Rescale {
        /// How many.
        parallelism: u32,
        /// A savepoint of the checkpoint, if one is wanted.
        savepoint: Option<SavepointFolder>,
    },
}

/// A wish that has been granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// The savepoint with this id exists.
    Saved(u64),
    /// The savepoint exists, and all output that it covers is committed.
    SavedAndCommitted {
        /// Its id.
        savepoint: u64,
        /// The checkpoint that committed the output.
        checkpoint: u64,
    },
    /// The job has stopped at this checkpoint.
    Stopped(u64),
    /// The job had come to its end, with this checkpoint.
    Finished(u64),
    /// The job goes on with another number of workers.
    Rescaled(Rescaled),
}

/// How a rescale went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rescaled {
    /// The checkpoint from which the new workers go on.
    pub checkpoint: u64,
    /// How many workers there were.
    pub from: u32,
    /// How many there are.
    pub to: u32,
    /// For how long no worker read anything, in milliseconds; `None` if the process that knew is gone.
    pub pause: Option<u64>,
    /// How many the job spec or the command line asked for when the process began.
    pub asked: u32,
}

/// What is told to the one who asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What came of it.
    pub granted: Granted,
    /// Where the savepoint is, if one was wanted. A request whose trigger id was given before hears of that request's.
    pub savepoint: Option<PathBuf>,
}

/// A wish, and whom to tell what came of it.
pub struct Request {
    /// What is wanted.
    pub wish: Wish,
    /// What the client calls the request: asked again under the same name, it is answered again and not done again.
    pub trigger: String,
    triggers: Arc<Mutex<Triggers>>,
    answered: bool,
}

impl Control {
    /// The flag that requests a stop at a checkpoint once it is set.
    #[must_use]
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Sets that flag.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was requested by a signal.
    #[must_use]
    pub fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Hands in a wish under the client's name for it, unless it was handed in before: then the receiver gets the answer to that. The
    /// receiver is closed if the job ends without an answer. `folder` is where a savepoint will be, and `wish` is made last.
    ///
    /// # Errors
    /// The wish cannot be made, or another savepoint is being written to the same folder.
    pub fn ask(&self, trigger: &str, folder: Option<&Path>, wish: impl FnOnce() -> Result<Wish>) -> Result<Receiver<Result<Reply>>> {
        let (answer, receiver) = channel();
        if !self.triggers().begin(trigger, folder, answer)? {
            return Ok(receiver);
        }
        match wish() {
            Ok(wish) => {
                let request = Request { wish, trigger: trigger.to_owned(), triggers: Arc::clone(&self.triggers), answered: false };
                self.requests().push_back(request);
            }
            Err(error) => self.triggers().answer(trigger, &Err(error)),
        }
        Ok(receiver)
    }

    /// Whether a request of this trigger id is under way or was granted by this process.
    pub(super) fn knows(&self, trigger: &str) -> bool {
        self.triggers().knows(trigger)
    }

    /// Takes the oldest request.
    pub(super) fn next(&self) -> Option<Request> {
        self.requests().pop_front()
    }

    /// Answers whatever is asked now.
    pub(super) fn answer_all(&self, answer: impl Fn(&Wish) -> Result<Granted>) {
        while let Some(request) = self.next() {
            let outcome = answer(&request.wish);
            request.answer(outcome);
        }
    }

    /// Takes a request back that the job has not taken yet, and answers it. One that was taken is left alone: its answer is on the way.
    pub(super) fn withdraw(&self, trigger: &str, why: &str) {
        let request = {
            let mut requests = self.requests();
            let at = requests.iter().position(|request| request.trigger == trigger);
            at.and_then(|at| requests.remove(at))
        };
        if let Some(request) = request {
            request.answer(Err(Error::storage(why)));
        }
    }

    fn requests(&self) -> std::sync::MutexGuard<'_, VecDeque<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn triggers(&self) -> std::sync::MutexGuard<'_, Triggers> {
        self.triggers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wish {
    /// Where a savepoint goes, if one is wanted.
    #[must_use]
    pub fn folder(&self) -> Option<&SavepointFolder> {
        match self {
            Self::Savepoint { folder, .. } => Some(folder),
            Self::Stop { savepoint, .. } | Self::Rescale { savepoint, .. } => savepoint.as_ref(),
        }
    }
}

impl Request {
    /// Tells what came of it. One who has gone away hears nothing.
    #[expect(clippy::needless_pass_by_value, reason = "an answer is made to be given away")]
    pub fn answer(mut self, outcome: Result<Granted>) {
        self.tell(&outcome);
    }

    /// As [`answer`](Self::answer), but leaves the savepoint's folder alone: the checkpoint thread has seen to it.
    #[expect(clippy::needless_pass_by_value, reason = "an answer is made to be given away")]
    pub(super) fn answer_only(mut self, outcome: Result<Granted>) {
        self.say(&outcome);
    }

    /// Whether the savepoint that it asks for is complete, durably.
    pub(super) fn is_saved(&self) -> bool {
        self.wish.folder().is_some_and(|folder| folder.saved(&self.trigger).is_some())
    }

    /// Whoever is told of a failure finds nothing: a savepoint is removed before.
    fn tell(&mut self, outcome: &Result<Granted>) {
        let removed = match (outcome, self.wish.folder()) {
            (Err(_), Some(folder)) => folder.discard(),
            _ => Ok(()),
        };
        match (outcome, removed) {
            (Err(error), Err(left)) => {
                let text = format!("{}; and what was written of its savepoint could not be removed: {}", error.chain(), left.chain());
                self.say(&Err(Error::new(error.kind(), text)));
            }
            _ => self.say(outcome),
        }
    }

    fn say(&mut self, outcome: &Result<Granted>) {
        self.answered = true;
        self.triggers.lock().unwrap_or_else(PoisonError::into_inner).answer(&self.trigger, outcome);
    }
}

impl Drop for Request {
    /// Nobody waits for ever for a request that was lost.
    fn drop(&mut self) {
        if !self.answered {
            self.tell(&Err(Error::storage("the job has ended without doing it: its log says what became of it")));
        }
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.wish {
            Wish::Savepoint { .. } => "savepoint",
            Wish::Stop { .. } => "stop",
            Wish::Rescale { .. } => "rescale",
        })
    }
}
