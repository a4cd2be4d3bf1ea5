//! Those who wait for an answer when an attempt has ended.

use std::collections::VecDeque;

use tidemill_core::{Error, Result, Timestamp};

use super::attempt::End;
use super::control::{Granted, Request, Wish};

/// Those who wait for an answer when an attempt has ended.
pub(super) struct Waiting {
    /// For savepoints.
    pub(super) savepoints: VecDeque<Request>,
    /// For the stop, or the rescale.
    pub(super) stop: Option<Request>,
    /// The checkpoint that the stop's savepoint is of.
    pub(super) saved_at: Option<u64>,
    /// When the sources were told to stop.
    pub(super) stopped_reading: Option<Timestamp>,
}

/// A job has stopped in order to go on with another number of workers.
pub(super) struct Rescaling {
    /// Who wants it.
    pub(super) request: Request,
    /// The checkpoint from which it goes on.
    pub(super) checkpoint: u64,
    /// With how many workers.
    pub(super) to: u32,
    /// Since when nothing is read.
    pub(super) since: Timestamp,
}

impl Waiting {
    /// Takes the rescale, if one was wanted and the job has stopped for it.
    pub(super) fn take_rescaling(&mut self, end: &Result<End>, now: Timestamp) -> Option<Rescaling> {
        let (Ok(End::Stopped(checkpoint)), Some(Wish::Rescale { parallelism, .. })) = (end, self.stop.as_ref().map(|stop| &stop.wish))
        else {
            return None;
        };
        let (checkpoint, to, since) = (*checkpoint, *parallelism, self.stopped_reading.unwrap_or(now));
        self.stop.take().map(|request| Rescaling { request, checkpoint, to, since })
    }

    /// Tells them how it has ended.
    pub(super) fn tell(self, end: &Result<End>) {
        let first = |checkpoint: u64| Error::config(format!("the job came to its end first, with checkpoint {checkpoint}"));
        let failed = |error: &Error| Error::new(error.kind(), format!("the job failed meanwhile: {}", error.chain()));
        for request in self.savepoints {
            request.answer(Err(match end {
                Ok(End::Stopped(checkpoint) | End::Finished(checkpoint)) => first(*checkpoint),
                Err(error) => failed(error),
            }));
        }
        if let Some(request) = self.stop {
            let saves = request.wish.folder().is_some();
            let rescales = matches!(request.wish, Wish::Rescale { .. });
            let outcome = match end {
                Ok(End::Finished(checkpoint)) if rescales => Err(first(*checkpoint)),
                Ok(End::Stopped(checkpoint)) => Ok(Granted::Stopped(*checkpoint)),
                Ok(End::Finished(checkpoint)) if !saves || self.saved_at == Some(*checkpoint) => Ok(Granted::Finished(*checkpoint)),
                Ok(End::Finished(checkpoint)) => Err(first(*checkpoint)),
                Err(error) => Err(failed(error)),
            };
            request.answer(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tidemill_core::{Error, Timestamp};

    use super::{End, Waiting};
    use crate::runtime::Control;
    use crate::runtime::control::Wish;

    #[test]
    fn a_rescale_is_refused_if_the_job_ends_first() {
        for (end, said) in [
            (Ok(End::Finished(3)), "the job came to its end first, with checkpoint 3"),
            (Err(Error::storage("full")), "the job failed meanwhile: full"),
        ] {
            let control = Control::default();
            let answer = control.ask("id", None, || Ok(Wish::Rescale { parallelism: 5, savepoint: None })).unwrap();
            let mut waiting = Waiting { savepoints: VecDeque::new(), stop: control.next(), saved_at: None, stopped_reading: None };
            assert!(waiting.take_rescaling(&end, Timestamp(0)).is_none());
            waiting.tell(&end);
            assert_eq!(answer.recv().unwrap().unwrap_err().chain(), said);
        }
    }

    #[test]
    fn a_rescale_counts_its_pause_from_when_the_sources_stopped() {
        let control = Control::default();
        let _answer = control.ask("id", None, || Ok(Wish::Rescale { parallelism: 5, savepoint: None })).unwrap();
        let mut waiting =
            Waiting { savepoints: VecDeque::new(), stop: control.next(), saved_at: None, stopped_reading: Some(Timestamp(7)) };
        let rescaling = waiting.take_rescaling(&Ok(End::Stopped(3)), Timestamp(9)).unwrap();
        assert_eq!((rescaling.checkpoint, rescaling.to, rescaling.since), (3, 5, Timestamp(7)));
    }
}
