//! Requests by the names that their clients gave them (Flink's `triggerId`): one that is asked again is answered again, and not done again.
//! A client that lost the answer may so ask once more. What failed is forgotten, so that it can be tried again.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use tidemill_core::{Error, Result};

use super::control::{Granted, Reply};

/// So many answers are remembered.
const REMEMBERED: usize = 1000;

/// The requests that are under way or were granted, oldest first.
#[derive(Debug, Default)]
pub(super) struct Triggers(VecDeque<Trigger>);

#[derive(Debug)]
struct Trigger {
    id: String,
    /// Where its savepoint goes, if one was wanted.
    folder: Option<PathBuf>,
    granted: Option<Granted>,
    waiting: Vec<Sender<Result<Reply>>>,
}

impl Triggers {
    /// Whether a request of this id is under way or was granted.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.0.iter().any(|known| known.id == id)
    }

    /// Notes who asks. Returns whether the request is new: then somebody must see to it that it is answered.
    ///
    /// # Errors
    /// Another request is about to write into the same folder.
    pub(super) fn begin(&mut self, id: &str, folder: Option<&Path>, answer: Sender<Result<Reply>>) -> Result<bool> {
        if let Some(known) = self.0.iter_mut().find(|known| known.id == id) {
            match known.granted {
                // One who has gone away hears nothing.
                Some(granted) => _ = answer.send(Ok(Reply { granted, savepoint: known.folder.clone() })),
                None => known.waiting.push(answer),
            }
            return Ok(false);
        }
        if let Some(folder) = folder
            && self.0.iter().any(|other| other.granted.is_none() && other.folder.as_deref() == Some(folder))
        {
            return Err(Error::config(format!(
                "another savepoint is being written to {}: wait for it, or name another folder",
                folder.display()
            )));
        }
        self.0.push_back(Trigger { id: id.to_owned(), folder: folder.map(Path::to_owned), granted: None, waiting: vec![answer] });
        Ok(true)
    }

    /// Tells all who wait for a request what came of it.
    pub(super) fn answer(&mut self, id: &str, outcome: &Result<Granted>) {
        let Some(at) = self.0.iter().position(|known| known.id == id) else { return };
        let Some(trigger) = self.0.get_mut(at) else { return };
        for waiting in trigger.waiting.drain(..) {
            _ = waiting.send(match outcome {
                Ok(granted) => Ok(Reply { granted: *granted, savepoint: trigger.folder.clone() }),
                Err(error) => Err(Error::new(error.kind(), error.chain())),
            });
        }
        trigger.granted = outcome.as_ref().ok().copied();
        if outcome.is_err() {
            self.0.remove(at);
        }
        let surplus = self.0.len().saturating_sub(REMEMBERED);
        let mut old = self.0.iter().filter(|trigger| trigger.granted.is_some()).take(surplus).count();
        self.0.retain(|trigger| {
            let goes = old > 0 && trigger.granted.is_some();
            old -= usize::from(goes);
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::channel;

    use tidemill_core::Error;

    use super::{REMEMBERED, Triggers};
    use crate::runtime::control::{Granted, Reply};

    #[test]
    fn a_request_that_is_asked_again_is_answered_and_not_done_again() {
        let (mut triggers, sp) = (Triggers::default(), Path::new("/sp"));
        let receivers: Vec<_> = (0..2)
            .map(|again| {
                let (answer, receiver) = channel();
                assert_eq!(triggers.begin("a", Some(sp), answer).unwrap(), again == 0);
                receiver
            })
            .collect();
        let refused = triggers.begin("b", Some(sp), channel().0).unwrap_err().chain();
        assert!(refused.contains("another savepoint is being written to /sp"), "{refused}");
        triggers.answer("a", &Ok(Granted::Saved(7)));
        let reply = Reply { granted: Granted::Saved(7), savepoint: Some(sp.to_owned()) };
        for receiver in receivers {
            assert_eq!(receiver.recv().unwrap().unwrap(), reply);
        }
        let (answer, receiver) = channel();
        assert!(!triggers.begin("a", Some(Path::new("/other")), answer).unwrap());
        assert_eq!(receiver.recv().unwrap().unwrap(), reply);
    }

    #[test]
    fn what_failed_can_be_tried_again_and_old_answers_are_forgotten() {
        let mut triggers = Triggers::default();
        let (answer, receiver) = channel();
        assert!(triggers.begin("a", None, answer).unwrap());
        triggers.answer("a", &Err(Error::storage("full")));
        assert!(receiver.recv().unwrap().is_err());
        assert!(triggers.begin("a", None, channel().0).unwrap());
        for number in 0..=REMEMBERED {
            triggers.begin(&number.to_string(), None, channel().0).unwrap();
            triggers.answer(&number.to_string(), &Ok(Granted::Stopped(1)));
        }
        assert!(triggers.begin("0", None, channel().0).unwrap(), "the oldest answer is forgotten");
        assert!(!triggers.begin("a", None, channel().0).unwrap(), "what is under way is not");
    }
}
