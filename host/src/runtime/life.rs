//! The loop around attempts: start again after a failure, go on with another number of workers, until the job has finished or is stopped.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::checkpoint::manifest::Manifest;
use tidemill_core::job::{Outcome, Request};
use tidemill_core::{Error, Kind, Result};
use tracing::{info, warn};

use super::attempt::{Attempt, End};
use super::checkpoints::Checkpoints;
use super::gauge::Gauge;
use super::recovery::{Recovered, recover, recover_from};
use super::repeated::Repeated;
use super::revision::Revision;
use super::waiting::Rescaling;
use super::{Control, Job, JobEnd, Observer, restart};
use crate::clock::{Clock, monotonic};
use crate::machine;
use crate::store::CheckpointStore;
use crate::store::parallelism::{self as store, Rescale};

/// A job from its first attempt to its end.
pub(super) struct Life<'a> {
    pub(super) job: Job,
    /// The job's folder.
    pub(super) dir: &'a Path,
    pub(super) store: &'a CheckpointStore,
    pub(super) control: &'a Control,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) gauge: Gauge,
    /// What the first attempt starts from, already read.
    pub(super) newest: Option<Manifest>,
    /// What the job is, and how that differs from what it was when it last ran; until the first attempt has begun.
    pub(super) revision: Option<(Revision, Vec<String>)>,
    /// How many workers the spec or the command line asked for.
    pub(super) asked: u32,
    /// The job has stopped, to go on with another number of workers.
    pub(super) rescaling: Option<Rescaling>,
    pub(super) repeated: Repeated,
    /// The checkpoint that the last attempt went on from.
    pub(super) resumed: u64,
}

impl Life<'_> {
    pub(super) fn run(mut self, observer: &mut Observer<'_>) -> Result<JobEnd> {
        let mut backoff = restart::Backoff::new(self.job.restart);
        let mut has_run = false;
        loop {
            let failure = match self.attempt(&mut has_run, observer) {
                Ok(Some(outcome)) => return Ok(outcome),
                Ok(None) => continue,
                // What fails before anything has run is for the user to see at once.
                Err(failure) if !has_run || matches!(failure.kind(), Kind::Config | Kind::Input | Kind::Corrupt | Kind::Busy) => {
                    return Err(failure);
                }
                Err(failure) => failure,
            };
            self.repeated.check(&failure, self.resumed)?;
            let Some(delay) = backoff.on_failure(self.clock.steady(), fastrand::f64()) else {
                return Err(failure
                    .while_doing(format!("the job {} has failed, and its restart strategy allows no further restart", self.job.name)));
            };
            warn!(delay_ms = delay, "the job failed and restarts: {}{}", failure.chain(), machine::advice(&failure));
            self.gauge.restarted();
            if !self.sleep(delay, &failure) {
                return Err(
                    failure.while_doing(format!("the job {} was stopped while it waited to restart after a failure", self.job.name))
                );
            }
        }
    }

    /// Runs until the end, or until the job has stopped to go on in another attempt.
    fn attempt(&mut self, has_run: &mut bool, observer: &mut Observer<'_>) -> Result<Option<JobEnd>> {
        let before = self.job.parallelism;
        let Some(rescaling) = self.rescaling.take() else { return self.attempt_as_it_is(has_run, observer, None) };
        match self.prepare(&rescaling) {
            Ok(()) => self.attempt_as_it_is(has_run, observer, Some((rescaling, before))),
            Err(error) => {
                // Nothing has changed: the job goes on as it was.
                rescaling.pending.answer(Err(error));
                self.attempt_as_it_is(has_run, observer, None)
            }
        }
    }

    /// Notes the new number of workers, so that it holds whatever happens from here on.
    fn prepare(&mut self, rescaling: &Rescaling) -> Result<()> {
        let trigger = rescaling.pending.key.clone();
        let request = store::Request { from: self.job.parallelism, checkpoint: rescaling.checkpoint, trigger };
        self.store.set_rescale(&Rescale { to: rescaling.to, asked: self.asked, request: Some(request) })?;
        self.job.parallelism = rescaling.to;
        Ok(())
    }

    fn attempt_as_it_is(
        &mut self,
        has_run: &mut bool,
        observer: &mut Observer<'_>,
        rescaling: Option<(Rescaling, u32)>,
    ) -> Result<Option<JobEnd>> {
        let began = monotonic();
        let recovered = match self.recover().and_then(|recovered| self.note_revision().map(|()| recovered)) {
            Ok(recovered) => recovered,
            Err(error) => return Err(self.undo(rescaling, outside(error, *has_run))),
        };
        self.say_how_it_starts(&recovered);
        self.resumed = recovered.checkpoint;
        self.repeated.begin(recovered.checkpoint, &recovered.splits);
        if recovered.end_of_input {
            return self.finish(recovered.checkpoint, observer).map(Some);
        }
        let resumed_from = recovered.checkpoint;
        self.gauge.attempt(recovered.checkpoint, recovered.records_in);
        let checkpoints = Checkpoints::new(self.store.clone(), &self.job, &recovered).with_history(self.dir.to_owned());
        let started = Attempt::start(&self.job, &self.clock, checkpoints, recovered, fastrand::u64(..));
        let mut attempt = match started {
            Ok(attempt) => attempt,
            Err(error) => return Err(self.undo(rescaling, outside(error, *has_run))),
        };
        if resumed_from > 0 {
            let took_ms = u64::try_from(monotonic().duration_since(began).as_millis()).unwrap_or(u64::MAX);
            info!(checkpoint = resumed_from, took_ms, "restored the state of checkpoint {resumed_from} in {took_ms} ms");
        }
        *has_run = true;
        if let Some((rescaling, before)) = rescaling {
            self.say_rescaled(rescaling, before);
        }
        let end = attempt.run(self.control, &mut self.gauge, observer);
        attempt.note_end(&end);
        let mut waiting = attempt.take_waiting();
        drop(attempt);
        self.rescaling = waiting.take_rescaling(&end, self.clock.steady());
        waiting.tell(&end);
        match end? {
            End::Stopped(_) if self.rescaling.is_some() => Ok(None),
            End::Finished(checkpoint) => self.finish(checkpoint, observer).map(Some),
            End::Stopped(checkpoint) => self.stopped(checkpoint, observer).map(Some),
        }
    }

    fn recover(&mut self) -> Result<Recovered> {
        match self.newest.take() {
            Some(manifest) => recover_from(&self.job, self.store, Some(&manifest)),
            None => recover(&self.job, self.store),
        }
    }

    /// Says once what has changed in the job since it last ran, and remembers what it is now. By then nothing of it was refused.
    fn note_revision(&mut self) -> Result<()> {
        let Some((revision, changes)) = &self.revision else { return Ok(()) };
        for change in changes {
            warn!("the job {} is not what it was when it last ran: {change}", self.job.name);
        }
        self.store.set_revision(&revision.to_text()?)?;
        self.revision = None;
        Ok(())
    }

    fn say_rescaled(&self, Rescaling { pending, checkpoint, to, since }: Rescaling, from: u32) {
        let pause = self.clock.steady().0.saturating_sub(since.0).max(0).unsigned_abs();
        info!(checkpoint, from, to, pause_ms = pause, "rescaled job {} from {from} to {to} workers in {pause} ms", self.job.name);
        let path = pending.request.savepoint().map(Path::to_owned);
        pending.answer(Ok(Outcome::Rescaled { checkpoint, from, to, pause_ms: Some(pause), asked: self.asked, path }));
    }

    /// The job could not start with the new number of workers: it goes on with the old one.
    fn undo(&mut self, rescaling: Option<(Rescaling, u32)>, error: Error) -> Error {
        let Some((Rescaling { pending, to, .. }, before)) = rescaling else { return error };
        self.job.parallelism = before;
        let undone = if before == self.asked {
            self.store.forget_rescale()
        } else {
            self.store.set_rescale(&Rescale { to: before, asked: self.asked, request: None })
        };
        let left = undone.err().map_or_else(String::new, |error| format!("; and it is still noted that it should: {}", error.chain()));
        let text = format!("the job could not start with {to} workers and goes on with {before}: {}{left}", error.chain());
        pending.answer(Err(Error::new(error.kind(), text)));
        error
    }

    fn say_how_it_starts(&self, recovered: &Recovered) {
        let (checkpoint, records_in) = (recovered.checkpoint, recovered.records_in);
        if checkpoint > 0 {
            info!(checkpoint, records_in, "resumed from checkpoint {checkpoint} of job {}", self.job.name);
        } else {
            info!(incarnation = recovered.incarnation, "started job {} from nothing", self.job.name);
        }
    }

    fn finish(&mut self, checkpoint: u64, observer: &mut Observer<'_>) -> Result<JobEnd> {
        self.store.mark_finished(checkpoint)?;
        self.store.forget_rescale()?;
        if !self.job.keep_on_finish {
            self.store.remove_all()?;
        }
        let progress = self.gauge.progress(&self.job);
        observer(&progress);
        Ok(JobEnd::Finished { checkpoint, progress })
    }

    fn stopped(&mut self, checkpoint: u64, observer: &mut Observer<'_>) -> Result<JobEnd> {
        // The next start is the user's again, with the number that the user writes.
        self.store.forget_rescale()?;
        if !self.job.keep_on_cancel {
            self.store.remove_all()?;
        }
        let progress = self.gauge.progress(&self.job);
        observer(&progress);
        Ok(JobEnd::Stopped { checkpoint, progress })
    }

    /// A job that waits to restart can only be stopped: it is at its newest checkpoint already.
    fn answer_asleep(&self, request: &Request, failure: &Error) -> Result<Outcome> {
        if let Request::Stop { savepoint: None, drain: false } = request {
            let checkpoint = self.store.newest()?.map_or(0, |newest| newest.checkpoint);
            self.control.stop();
            return Ok(Outcome::stopped(checkpoint, request));
        }
        Err(Error::storage(format!(
            "the job has failed and is about to restart: try again when it runs, or stop it at its newest checkpoint without a savepoint; it \
             failed since: {}",
            failure.chain()
        )))
    }

    /// Waits before a restart; returns whether to restart at all.
    fn sleep(&self, millis: i64, failure: &Error) -> bool {
        let end = self.clock.steady().plus(millis);
        while self.clock.steady() < end {
            self.control.answer_all(|request| self.answer_asleep(request, failure));
            if self.control.stop_requested() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

/// What a job that has run already finds wrong when it starts again has changed outside of it, such as a network disk that is away or a
/// process that is out of file handles: it may come right again, so it is retried.
fn outside(error: Error, has_run: bool) -> Error {
    if has_run && error.kind() == Kind::Config { Error::connector(error.chain()) } else { error }
}
