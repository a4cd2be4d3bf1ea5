//! One job's life: recover, run, restart after failures, until it has finished or is stopped.

pub mod assemble;
pub mod checkpoints;
pub mod control;
pub mod doing;
pub mod history;
pub mod job;
pub mod plan;
pub mod progress;
pub mod recovery;
pub mod restart;
pub mod restore;
pub mod socket;

mod attempt;
mod connectors;

mod gauge;
mod io;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::checkpoint::manifest::Manifest;
use tidemill_core::disk::Disk;
use tidemill_core::{Error, Kind, Result};
use tracing::{info, warn};

pub use assemble::{Assembly, Rig};
pub use control::Control;
pub use job::Job;
pub use progress::Progress;
pub use restore::From;

use self::attempt::{Attempt, End};
use self::checkpoints::Checkpoints;
use self::gauge::Gauge;
use self::recovery::{Recovered, forget, recover, recover_from};
use self::restore::take_over;
use self::socket::Socket;
use crate::clock::{Clock, SystemClock};
use crate::disk::RealDisk;
use crate::guest::{ComponentCache, GuestEngine};
use crate::spec::JobSpec;
use crate::state;
use crate::store::CheckpointStore;
use crate::store::lock::JobLock;
use crate::store::savepoint::Saved;

/// The same failure of a component this many times in a row will not go away by itself.
const SAME_FAILURES: u32 = 3;

/// Is shown where the job stands, a few times a second.
pub type Observer<'a> = dyn FnMut(&Progress) + 'a;

/// How to run a job.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The folder for checkpoints and the component cache.
    pub data_dir: PathBuf,
    /// Whether to forget the checkpoints and start from nothing.
    pub fresh: bool,
    /// What the job starts from, if not from its own newest checkpoint.
    pub from: Option<From>,
    /// The user's wishes while it runs.
    pub control: Control,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All input is processed and committed.
    Finished {
        /// The last checkpoint.
        checkpoint: u64,
        /// Where it stood at the end.
        progress: Progress,
    },
    /// It had finished before: there was nothing to do.
    AlreadyFinished {
        /// The last checkpoint.
        checkpoint: u64,
    },
    /// It was stopped at a checkpoint, and goes on from there.
    Stopped {
        /// The checkpoint.
        checkpoint: u64,
        /// Where it stood then.
        progress: Progress,
    },
}

/// Runs a job until it has finished, is stopped, or has failed for good.
///
/// # Errors
/// The spec, a component or the data folder is not usable, or the job failed and its restart strategy gave up.
pub fn run(spec: &JobSpec, options: &RunOptions, observer: &mut Observer<'_>) -> Result<Outcome> {
    let _lock = JobLock::acquire(&options.data_dir)?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let store = CheckpointStore::open(Arc::clone(&disk), options.data_dir.join("checkpoints"))?;
    let id = store.claim(&spec.name)?;
    let from = options.from.as_ref().map(|from| Saved::open(Arc::clone(&disk), &from.path)).transpose()?;
    if !options.fresh
        && from.is_none()
        && let Some(checkpoint) = store.finished()?
    {
        return Ok(Outcome::AlreadyFinished { checkpoint });
    }
    let engine = GuestEngine::new()?;
    let cache = ComponentCache::new(options.data_dir.join("components"));
    let assembly = Assembly::load(spec, &engine, Some(&cache))?;
    assembly.warnings().for_each(|warning| warn!("{warning}"));
    // A damaged manifest is no reason not to start again.
    let mut newest = if options.fresh { None } else { store.newest()? };
    let fixed_by = from.as_ref().map_or(newest.as_ref(), |saved| Some(&saved.manifest));
    let mut job = assembly.job(max_parallelism(spec, fixed_by)?, id, &disk)?;
    job.backend = state::backend(spec.state, &options.data_dir.join("state"), spec.checkpoints.interval)?;
    let _sinks = connectors::lock_sinks(spec)?;
    if options.fresh {
        forget(&store, &job.sinks)?;
    }
    if let (Some(saved), Some(from)) = (&from, &options.from) {
        newest = Some(take_over(&job, &store, saved, from)?);
    }
    let _socket = Socket::open(&options.data_dir, &options.control, &disk)?;
    let clock = Arc::new(SystemClock::default());
    let dir = &options.data_dir;
    Life { job: &job, dir, store: &store, control: &options.control, clock, gauge: Gauge::new(), newest }.run(observer)
}

/// The number of key groups: fixed by the first checkpoint, until then as the spec says.
///
/// # Errors
/// The spec asks for more workers.
pub fn max_parallelism(spec: &JobSpec, newest: Option<&Manifest>) -> Result<u32> {
    let stored = newest.map(|manifest| manifest.max_parallelism);
    let max = spec.max_parallelism.or(stored).unwrap_or_else(|| spec.max_parallelism());
    if spec.parallelism > max {
        return Err(Error::config(format!(
            "parallelism {} is more than the max_parallelism {max} of the job's checkpoints, which is fixed by the first one",
            spec.parallelism
        )));
    }
    Ok(max)
}

/// A job from its first attempt to its end.
struct Life<'a> {
    job: &'a Job,
    /// The job's folder.
    dir: &'a Path,
    store: &'a CheckpointStore,
    control: &'a Control,
    clock: Arc<dyn Clock>,
    gauge: Gauge,
    /// What the first attempt starts from, already read.
    newest: Option<Manifest>,
}

impl Life<'_> {
    fn run(&mut self, observer: &mut Observer<'_>) -> Result<Outcome> {
        let mut backoff = restart::Backoff::new(self.job.restart);
        let mut repeated = Repeated::default();
        let mut has_run = false;
        loop {
            let failure = match self.attempt(&mut has_run, observer) {
                Ok(outcome) => return Ok(outcome),
                // What fails before anything has run is for the user to see at once.
                Err(failure) if !has_run || matches!(failure.kind(), Kind::Config | Kind::Corrupt | Kind::Busy) => return Err(failure),
                Err(failure) => failure,
            };
            repeated.check(&failure)?;
            let Some(delay) = backoff.on_failure(self.clock.steady(), fastrand::f64()) else {
                return Err(failure
                    .while_doing(format!("the job {} has failed, and its restart strategy allows no further restart", self.job.name)));
            };
            warn!(delay_ms = delay, "the job failed and restarts: {}", failure.chain());
            self.gauge.restarted();
            if !self.sleep(delay) {
                return Err(
                    failure.while_doing(format!("the job {} was stopped while it waited to restart after a failure", self.job.name))
                );
            }
        }
    }

    fn attempt(&mut self, has_run: &mut bool, observer: &mut Observer<'_>) -> Result<Outcome> {
        let found = match self.newest.take() {
            Some(manifest) => recover_from(self.job, self.store, Some(&manifest)),
            None => recover(self.job, self.store),
        };
        let recovered = found.map_err(|error| outside(error, *has_run))?;
        self.say_how_it_starts(&recovered);
        if recovered.end_of_input {
            return self.finish(recovered.checkpoint, observer);
        }
        self.gauge.attempt(recovered.checkpoint, recovered.records_in);
        let checkpoints = Checkpoints::new(self.store.clone(), self.job, &recovered).with_history(self.dir.to_owned());
        let started = Attempt::start(self.job, &self.clock, checkpoints, recovered, fastrand::u64(..));
        let mut attempt = started.map_err(|error| outside(error, *has_run))?;
        *has_run = true;
        let end = attempt.run(self.control, &mut self.gauge, observer);
        attempt.note_end(&end);
        let waiting = attempt.take_waiting();
        drop(attempt);
        waiting.tell(&end);
        match end? {
            End::Finished(checkpoint) => self.finish(checkpoint, observer),
            End::Stopped(checkpoint) => self.stopped(checkpoint, observer),
        }
    }

    fn say_how_it_starts(&self, recovered: &Recovered) {
        let (checkpoint, records_in) = (recovered.checkpoint, recovered.records_in);
        if checkpoint > 0 {
            info!(checkpoint, records_in, "resumed from checkpoint {checkpoint} of job {}", self.job.name);
        } else {
            info!(incarnation = recovered.incarnation, "started job {} from nothing", self.job.name);
        }
    }

    fn finish(&mut self, checkpoint: u64, observer: &mut Observer<'_>) -> Result<Outcome> {
        self.store.mark_finished(checkpoint)?;
        if !self.job.keep_on_finish {
            self.store.remove_all()?;
        }
        let progress = self.gauge.progress(self.job);
        observer(&progress);
        Ok(Outcome::Finished { checkpoint, progress })
    }

    fn stopped(&mut self, checkpoint: u64, observer: &mut Observer<'_>) -> Result<Outcome> {
        if !self.job.keep_on_cancel {
            self.store.remove_all()?;
        }
        let progress = self.gauge.progress(self.job);
        observer(&progress);
        Ok(Outcome::Stopped { checkpoint, progress })
    }

    /// Waits before a restart; returns whether to restart at all.
    fn sleep(&self, millis: i64) -> bool {
        let end = self.clock.steady().plus(millis);
        while self.clock.steady() < end {
            self.control.refuse_all("the job has failed and is about to restart: try again when it runs");
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

/// Counts failures of components that repeat in the same way: their text names the record.
#[derive(Default)]
struct Repeated {
    last: String,
    times: u32,
}

impl Repeated {
    /// A record that fails every time is not worth retrying for ever; a disk or a network that fails is.
    fn check(&mut self, failure: &Error) -> Result<()> {
        let this = failure.chain();
        self.times = if self.last == this { self.times + 1 } else { 1 };
        self.last = this;
        if self.times < SAME_FAILURES || failure.kind() != Kind::Guest {
            return Ok(());
        }
        Err(Error::guest(format!("the job has failed {SAME_FAILURES} times in the same way: {}", self.last)))
    }
}
