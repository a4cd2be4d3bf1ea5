//! Requests by their idempotency keys (Flink's `triggerId`): a retry gets the first request's outcome and is not performed again. A request
//! that failed is forgotten, so that it can be retried.

use std::collections::VecDeque;
use std::mem::discriminant;

use tidemill_core::job::{Outcome, Request};
use tidemill_core::{Error, Result};
use tokio::sync::oneshot::Sender;

/// The number of outcomes that are remembered.
const REMEMBERED: usize = 1000;

/// The requests that are under way or have an outcome, oldest first.
#[derive(Debug, Default)]
pub(super) struct Keys(VecDeque<Entry>);

#[derive(Debug)]
struct Entry {
    key: String,
    request: Request,
    outcome: Option<Outcome>,
    waiting: Vec<Sender<Result<Outcome>>>,
}

impl Keys {
    /// Returns whether a request of this key is under way or has an outcome.
    pub(super) fn knows(&self, key: &str) -> bool {
        self.0.iter().any(|known| known.key == key)
    }

    /// Notes who waits for the outcome of a request. Returns whether the key is new: then the caller must see to it that the request is
    /// answered.
    ///
    /// # Errors
    /// The key was used for a request of another kind, or another request is about to write to the same folder.
    pub(super) fn begin(&mut self, key: &str, request: &Request, answer: Sender<Result<Outcome>>) -> Result<bool> {
        if let Some(known) = self.0.iter_mut().find(|known| known.key == key) {
            if discriminant(&known.request) != discriminant(request) {
                return Err(Error::config("this trigger id was given to a request of another kind before: give this one an id of its own"));
            }
            match &known.outcome {
                // A client that has gone away hears nothing.
                Some(outcome) => _ = answer.send(Ok(outcome.clone())),
                None => known.waiting.push(answer),
            }
            return Ok(false);
        }
        if let Some(folder) = request.savepoint()
            && self.0.iter().any(|other| other.outcome.is_none() && other.request.savepoint() == Some(folder))
        {
            return Err(Error::config(format!(
                "another savepoint is being written to {}: wait for it, or name another folder",
                folder.display()
            )));
        }
        self.0.push_back(Entry { key: key.to_owned(), request: request.clone(), outcome: None, waiting: vec![answer] });
        Ok(true)
    }

    /// Tells all who wait for a request its outcome.
    pub(super) fn answer(&mut self, key: &str, outcome: Result<Outcome>) {
        let Some(at) = self.0.iter().position(|known| known.key == key) else { return };
        let Some(entry) = self.0.get_mut(at) else { return };
        for waiting in entry.waiting.drain(..) {
            _ = waiting.send(match &outcome {
                Ok(outcome) => Ok(outcome.clone()),
                Err(error) => Err(Error::new(error.kind(), error.chain())),
            });
        }
        match outcome {
            Ok(outcome) => entry.outcome = Some(outcome),
            Err(_) => _ = self.0.remove(at),
        }
        let surplus = self.0.len().saturating_sub(REMEMBERED);
        let mut old = self.0.iter().filter(|entry| entry.outcome.is_some()).take(surplus).count();
        self.0.retain(|entry| {
            let goes = old > 0 && entry.outcome.is_some();
            old -= usize::from(goes);
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tidemill_core::Error;
    use tidemill_core::job::{Outcome, Request};
    use tokio::sync::oneshot::channel;

    use super::{Keys, REMEMBERED};

    fn savepoint(path: &str) -> Request {
        Request::Savepoint { path: path.into(), wait_committed: false }
    }

    const STOP: Request = Request::Stop { savepoint: None, drain: false };

    #[test]
    fn a_retried_request_gets_the_first_outcome_and_is_not_performed_again() {
        let mut keys = Keys::default();
        let receivers: Vec<_> = (0..2)
            .map(|again| {
                let (answer, receiver) = channel();
                assert_eq!(keys.begin("a", &savepoint("/sp"), answer).unwrap(), again == 0);
                receiver
            })
            .collect();
        let refused = keys.begin("b", &savepoint("/sp"), channel().0).unwrap_err().chain();
        assert!(refused.contains("another savepoint is being written to /sp"), "{refused}");
        let refused = keys.begin("a", &STOP, channel().0).unwrap_err().chain();
        assert!(refused.contains("a request of another kind"), "{refused}");
        let saved = Outcome::Saved { savepoint: 7, path: PathBuf::from("/sp"), committed_by: None };
        keys.answer("a", Ok(saved.clone()));
        for receiver in receivers {
            assert_eq!(receiver.blocking_recv().unwrap().unwrap(), saved);
        }
        let (answer, receiver) = channel();
        assert!(!keys.begin("a", &savepoint("/other"), answer).unwrap());
        assert_eq!(receiver.blocking_recv().unwrap().unwrap(), saved);
    }

    #[test]
    fn a_failed_request_can_be_retried_and_old_outcomes_are_forgotten() {
        let mut keys = Keys::default();
        let (answer, receiver) = channel();
        assert!(keys.begin("a", &STOP, answer).unwrap());
        keys.answer("a", Err(Error::storage("full")));
        assert!(receiver.blocking_recv().unwrap().is_err());
        assert!(keys.begin("a", &STOP, channel().0).unwrap());
        for number in 0..=REMEMBERED {
            keys.begin(&number.to_string(), &STOP, channel().0).unwrap();
            keys.answer(&number.to_string(), Ok(Outcome::Stopped { checkpoint: 1, path: None }));
        }
        assert!(keys.begin("0", &STOP, channel().0).unwrap(), "the oldest outcome is forgotten");
        assert!(!keys.begin("a", &STOP, channel().0).unwrap(), "a request that is under way is not");
    }
}
