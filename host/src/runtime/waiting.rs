//! Those who wait for an answer when an attempt has ended.

use std::collections::{BTreeMap, VecDeque};

use tidemill_core::job::{Outcome, Request};
use tidemill_core::{Error, Result, Timestamp};

use super::attempt::End;
use super::control::Pending;

/// Those who wait for an answer when an attempt has ended.
pub(super) struct Waiting {
    /// For savepoints that have not begun.
    pub(super) savepoints: VecDeque<Pending>,
    /// For savepoints that have, by their ids.
    pub(super) saving: BTreeMap<u64, Pending>,
    /// For a checkpoint after a savepoint that exists, by its id.
    pub(super) committing: BTreeMap<u64, Pending>,
    /// For the stop, or the rescale.
    pub(super) stop: Option<Pending>,
    /// The checkpoint that the stop's savepoint is of.
    pub(super) saved_at: Option<u64>,
    /// When the sources were told to stop.
    pub(super) stopped_reading: Option<Timestamp>,
}

/// A job has stopped in order to go on with another number of workers.
pub(super) struct Rescaling {
    /// Who wants it.
    pub(super) pending: Pending,
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
        let (Ok(End::Stopped(checkpoint)), Some(Request::Rescale { parallelism, .. })) =
            (end, self.stop.as_ref().map(|stop| &stop.request))
        else {
            return None;
        };
        let (checkpoint, to, since) = (*checkpoint, *parallelism, self.stopped_reading.unwrap_or(now));
        self.stop.take().map(|pending| Rescaling { pending, checkpoint, to, since })
    }

    /// Tells them how it has ended. Nothing writes to their savepoints any more.
    pub(super) fn tell(self, end: &Result<End>) {
        let failed = |error: &Error| Error::new(error.kind(), format!("the job failed meanwhile: {}", error.chain()));
        let not_saved = || match end {
            Ok(End::Stopped(checkpoint) | End::Finished(checkpoint)) => ended_first(*checkpoint),
            Err(error) => failed(error),
        };
        for (savepoint, pending) in self.saving {
            // The job may have ended after the savepoint was written and before any client heard of it.
            let is_saved = pending.is_saved();
            match &pending.request {
                request @ Request::Savepoint { wait_committed: false, .. } if is_saved => {
                    let saved = Outcome::saved(savepoint, request, None);
                    pending.answer(Ok(saved));
                }
                Request::Savepoint { .. } if is_saved => tell_of_commit(savepoint, pending, end, &not_saved()),
                _ => pending.answer(Err(not_saved())),
            }
        }
        for (savepoint, pending) in self.committing {
            tell_of_commit(savepoint, pending, end, &not_saved());
        }
        for pending in self.savepoints {
            pending.answer(Err(not_saved()));
        }
        if let Some(pending) = self.stop {
            let request = &pending.request;
            let saves = pending.folder.is_some();
            let rescales = matches!(request, Request::Rescale { .. });
            let outcome = match end {
                Ok(End::Finished(checkpoint)) if rescales => Err(ended_first(*checkpoint)),
                Ok(End::Stopped(checkpoint)) => Ok(Outcome::stopped(*checkpoint, request)),
                Ok(End::Finished(checkpoint)) if !saves || self.saved_at == Some(*checkpoint) => {
                    Ok(Outcome::finished(*checkpoint, request))
                }
                Ok(End::Finished(checkpoint)) => Err(ended_first(*checkpoint)),
                Err(error) => Err(failed(error)),
            };
            pending.answer(outcome);
        }
    }
}

/// Tells whether the output of a savepoint, which exists, is committed now that the attempt has ended.
fn tell_of_commit(savepoint: u64, pending: Pending, end: &Result<End>, error: &Error) {
    if let Ok(End::Stopped(checkpoint) | End::Finished(checkpoint)) = *end
        && checkpoint > savepoint
    {
        let saved = Outcome::saved(savepoint, &pending.request, Some(checkpoint));
        return pending.answer_only(Ok(saved));
    }
    let place = pending.request.savepoint().map_or_else(String::new, |folder| format!(" in {}", folder.display()));
    let text = format!(
        "savepoint {savepoint} is{place}, but no checkpoint has committed the output that it covers: {}; the job writes that output again, so \
         take another savepoint when it runs",
        error.chain()
    );
    pending.answer_only(Err(Error::new(error.kind(), text)));
}

/// The job has ended before it could do what was asked.
pub(super) fn ended_first(checkpoint: u64) -> Error {
    Error::config(format!("the job came to its end first, with checkpoint {checkpoint}"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};
    use std::sync::Arc;

    use tidemill_core::checkpoint::manifest::{Manifest, VERSION};
    use tidemill_core::{Error, Timestamp};

    use super::{End, Waiting};
    use crate::disk::RealDisk;
    use tidemill_core::job::{Outcome, Request};

    use crate::runtime::Control;
    use crate::store::savepoint::SavepointFolder;

    #[test]
    fn a_rescale_is_refused_if_the_job_ends_first() {
        for (end, said) in [
            (Ok(End::Finished(3)), "the job came to its end first, with checkpoint 3"),
            (Err(Error::storage("full")), "the job failed meanwhile: full"),
        ] {
            let control = Control::default();
            let answer = control.ask("id", Request::Rescale { parallelism: 5, savepoint: None }, |_| Ok(None)).unwrap();
            let mut waiting = Waiting {
                savepoints: VecDeque::new(),
                saving: BTreeMap::new(),
                committing: BTreeMap::new(),
                stop: control.next(),
                saved_at: None,
                stopped_reading: None,
            };
            assert!(waiting.take_rescaling(&end, Timestamp(0)).is_none());
            waiting.tell(&end);
            assert_eq!(answer.blocking_recv().unwrap().unwrap_err().chain(), said);
        }
    }

    #[test]
    fn a_savepoint_that_waits_for_its_commit_hears_of_the_end() {
        for (end, said) in [
            (Ok(End::Stopped(8)), Ok(Some(8))),
            (Ok(End::Finished(8)), Ok(Some(8))),
            (Err(Error::storage("full")), Err("no checkpoint has committed the output that it covers: the job failed meanwhile: full")),
        ] {
            let (root, control) = (tempfile::tempdir().unwrap(), Control::default());
            let folder = SavepointFolder::create(Arc::new(RealDisk), root.path().join("sp")).unwrap();
            folder.write_manifest(&Manifest { version: VERSION, savepoint: true, ..Manifest::default() }).unwrap();
            let request = Request::Savepoint { path: folder.dir().to_owned(), wait_committed: true };
            let answer = control.ask("id", request, |_| Ok(Some(folder.clone()))).unwrap();
            let committing = BTreeMap::from([(7, control.next().unwrap())]);
            let (savepoints, saving) = (VecDeque::new(), BTreeMap::new());
            Waiting { savepoints, saving, committing, stop: None, saved_at: None, stopped_reading: None }.tell(&end);
            match (answer.blocking_recv().unwrap(), said) {
                (Ok(outcome), Ok(committed_by)) => {
                    assert_eq!(outcome, Outcome::Saved { savepoint: 7, path: folder.dir().to_owned(), committed_by });
                }
                (Err(error), Err(text)) => assert!(error.chain().contains(text), "{}", error.chain()),
                (answer, _) => panic!("{answer:?}"),
            }
            assert!(folder.dir().join("manifest.json").exists(), "whatever is said of its output, it is there");
        }
    }

    #[test]
    fn a_savepoint_that_was_written_before_the_job_failed_is_there_and_one_that_was_not_leaves_nothing() {
        for written in [true, false] {
            let (root, control) = (tempfile::tempdir().unwrap(), Control::default());
            let folder = SavepointFolder::create(Arc::new(RealDisk), root.path().join("sp")).unwrap();
            folder.stream_state(0, &mut |out| out(b"state")).unwrap();
            if written {
                let trigger = Some("id".to_owned());
                folder
                    .write_manifest(&Manifest { version: VERSION, savepoint: true, checkpoint: 7, trigger, ..Manifest::default() })
                    .unwrap();
            }
            let request = Request::Savepoint { path: folder.dir().to_owned(), wait_committed: false };
            let answer = control.ask("id", request, |_| Ok(Some(folder.clone()))).unwrap();
            let saving = BTreeMap::from([(7, control.next().unwrap())]);
            let (savepoints, committing) = (VecDeque::new(), BTreeMap::new());
            let end = Err(Error::storage("full"));
            Waiting { savepoints, saving, committing, stop: None, saved_at: None, stopped_reading: None }.tell(&end);
            let answer = answer.blocking_recv().unwrap();
            assert_eq!(answer.is_ok_and(|outcome| matches!(outcome, Outcome::Saved { savepoint: 7, .. })), written);
            assert_eq!(SavepointFolder::create(Arc::new(RealDisk), folder.dir().to_owned()).is_ok(), !written);
        }
    }

    #[test]
    fn a_rescale_counts_its_pause_from_when_the_sources_stopped() {
        let control = Control::default();
        let _answer = control.ask("id", Request::Rescale { parallelism: 5, savepoint: None }, |_| Ok(None)).unwrap();
        let mut waiting = Waiting {
            savepoints: VecDeque::new(),
            saving: BTreeMap::new(),
            committing: BTreeMap::new(),
            stop: control.next(),
            saved_at: None,
            stopped_reading: Some(Timestamp(7)),
        };
        let rescaling = waiting.take_rescaling(&Ok(End::Stopped(3)), Timestamp(9)).unwrap();
        assert_eq!((rescaling.checkpoint, rescaling.to, rescaling.since), (3, 5, Timestamp(7)));
    }
}
