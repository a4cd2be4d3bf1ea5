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
mod life;
mod losses;
mod many;
mod threads;
mod triggers;
mod waiting;

use std::path::PathBuf;
use std::sync::Arc;

use tidemill_core::checkpoint::manifest::Manifest;
use tidemill_core::disk::Disk;
use tidemill_core::{Error, Result};
use tracing::{info, warn};

pub use assemble::{Assembly, Rig};
pub use control::Control;
pub use job::Job;
pub use progress::Progress;
pub use restore::From;

use self::gauge::Gauge;
use self::life::Life;
use self::recovery::forget;
use self::restore::take_over;
use self::socket::Socket;
use crate::clock::SystemClock;
use crate::disk::RealDisk;
use crate::guest::{ComponentCache, GuestEngine};
use crate::spec::JobSpec;
use crate::state;
use crate::store::CheckpointStore;
use crate::store::lock::JobLock;
use crate::store::savepoint::Saved;

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
    if !options.fresh && from.is_none() {
        store.check_restored()?;
    }
    let engine = GuestEngine::new()?;
    let cache = ComponentCache::new(options.data_dir.join("components"));
    let assembly = Assembly::load(spec, &engine, Some(&cache))?;
    assembly.warnings().for_each(|warning| warn!("{warning}"));
    // A damaged manifest is no reason not to start again.
    let mut newest = if options.fresh { None } else { store.newest()? };
    let fixed_by = from.as_ref().map_or(newest.as_ref(), |saved| Some(&saved.manifest));
    let mut job = assembly.job(max_parallelism(spec, fixed_by)?, id, &disk)?;
    job.backend = state::backend(spec.state, &options.data_dir.join("state"))?;
    let _sinks = connectors::lock_sinks(spec)?;
    if options.fresh {
        forget(&store, &job.sinks)?;
    }
    if let (Some(saved), Some(from)) = (&from, &options.from) {
        newest = Some(take_over(&job, &store, saved, from)?);
    }
    job.parallelism = parallelism(spec, &store, options.fresh || from.is_some(), job.graph.max_parallelism)?;
    let _socket = Socket::open(&options.data_dir, &options.control, &disk)?;
    let life = Life {
        job,
        dir: &options.data_dir,
        store: &store,
        control: &options.control,
        clock: Arc::new(SystemClock::default()),
        gauge: Gauge::new(),
        newest,
        asked: spec.parallelism,
        rescaling: None,
    };
    life.run(observer)
}

/// The number of workers: as the spec says, unless the job was rescaled and the process then died. A number that the user has changed
/// since, and any other beginning, ends that.
fn parallelism(spec: &JobSpec, store: &CheckpointStore, anew: bool, max: u32) -> Result<u32> {
    let asked = spec.parallelism;
    match store.rescale()? {
        Some(rescale) if !anew && rescale.asked == asked && rescale.to <= max => {
            let to = rescale.to;
            info!(parallelism = to, "goes on at parallelism {to}, to which the job was rescaled, instead of {asked}");
            Ok(to)
        }
        Some(_) => store.forget_rescale().map(|()| asked),
        None => Ok(asked),
    }
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
