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
pub mod revision;

mod attempt;
mod connectors;
mod delay;
mod earlier;
mod finished;
mod gauge;
mod io;
mod life;
mod losses;
mod many;
mod repeated;
mod saving;
mod threads;
mod waiting;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::checkpoint::manifest::Manifest;
use tidemill_core::disk::Disk;
use tidemill_core::job::{Outcome, Request};
use tidemill_core::{Error, Result};
use tracing::{info, warn};

pub use assemble::{Assembly, Rig};
pub use control::Control;
pub use job::Job;
pub use progress::Progress;
pub use restore::From;

use self::control::socket::Socket;
use self::finished::finished_before;
use self::gauge::Gauge;
use self::life::Life;
use self::plan::ComponentPlan;
use self::recovery::forget;
use self::repeated::Repeated;
use self::restore::take_over;
use self::revision::Revision;
use self::waiting::ended_first;
use crate::clock::SystemClock;
use crate::disk::RealDisk;
use crate::guarded;
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
    /// The folder for checkpoints and local state.
    pub data_dir: PathBuf,
    /// The folder for compiled components, if not that of the user.
    pub cache_dir: Option<PathBuf>,
    /// Whether to forget the checkpoints and start from nothing.
    pub fresh: bool,
    /// What the job starts from, if not from its own newest checkpoint.
    pub from: Option<From>,
    /// The user's wishes while it runs.
    pub control: Control,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub enum JobEnd {
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
        /// What the sources have by now that the job has not read, for people.
        unread: Vec<String>,
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
pub fn run(spec: &JobSpec, options: &RunOptions, observer: &mut Observer<'_>) -> Result<JobEnd> {
    let lock = JobLock::acquire(&options.data_dir)?;
    warn_if_open_to_all(&options.data_dir);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let store = CheckpointStore::open(Arc::clone(&disk), options.data_dir.join("checkpoints"))?;
    let id = store.claim(&spec.name)?;
    // From here on: what is asked while the job is starting is done when it runs.
    let mut socket = Socket::open(&options.data_dir, &spec.name, &options.control, &disk)?;
    let end = run_claimed(spec, options, id, &store, &disk, observer);
    answer_late(&options.control, &end);
    // ORDER: no client may come any more when another process can take the folder, and who has asked for a stop is told when it can.
    socket.close();
    drop(lock);
    drop(socket);
    end
}

/// As [`run`], in a folder that is locked and claimed for the job.
fn run_claimed(
    spec: &JobSpec,
    options: &RunOptions,
    id: u64,
    store: &CheckpointStore,
    disk: &Arc<dyn Disk>,
    observer: &mut Observer<'_>,
) -> Result<JobEnd> {
    let from = options.from.as_ref().map(|from| Saved::open(Arc::clone(disk), &from.path)).transpose()?;
    let goes_on = !options.fresh && from.is_none();
    let revision = Revision::of(spec)?;
    let changes = if goes_on { changes(store, &revision)? } else { Vec::new() };
    if goes_on {
        if let Some(checkpoint) = store.finished()? {
            return finished_before(spec, store, checkpoint, &changes);
        }
        store.check_restored()?;
    }
    let engine = GuestEngine::new()?;
    let cache = ComponentCache::of_user(options.cache_dir.as_deref(), &options.data_dir);
    let assembly = Assembly::load(spec, &engine, cache.as_ref())?.with_data_dir(&options.data_dir);
    assembly.warnings().for_each(|warning| warn!("{warning}"));
    if options.control.stop_requested() {
        // Compiling may have taken long, and nothing has begun.
        let checkpoint = store.newest()?.map_or(0, |manifest| manifest.checkpoint);
        return Ok(JobEnd::Stopped { checkpoint, progress: Progress::default() });
    }
    // A damaged manifest is no reason not to start again.
    let mut newest = if options.fresh { None } else { store.newest()? };
    let fixed_by = from.as_ref().map_or(newest.as_ref(), |saved| Some(&saved.manifest));
    let mut job = assembly.job(max_parallelism(spec, fixed_by)?, id, disk)?;
    job.backend = state::backend(spec.state, &options.data_dir.join("state"))?;
    let _sinks = connectors::lock_sinks(spec)?;
    if options.fresh {
        forget(store, &job.sinks)?;
    }
    if let (Some(saved), Some(from)) = (&from, &options.from) {
        newest = Some(take_over(&job, store, saved, from)?);
    }
    let mut changes = changes;
    if let Some(manifest) = &newest {
        name_components(&mut changes, ComponentPlan::all(&job, manifest));
    }
    job.parallelism = parallelism(spec, store, options.fresh || from.is_some(), job.graph.max_parallelism)?;
    let life = Life {
        job,
        dir: &options.data_dir,
        store,
        control: &options.control,
        clock: Arc::new(SystemClock::default()),
        gauge: Gauge::new(),
        newest,
        revision: Some((revision, changes)),
        asked: spec.parallelism,
        rescaling: None,
        repeated: Repeated::default(),
        resumed: 0,
    };
    life.run(observer)
}

/// Answers those who have asked since the job came to its end.
fn answer_late(control: &Control, end: &Result<JobEnd>) {
    control.answer_all(|request| match (end, request) {
        (Ok(JobEnd::Stopped { checkpoint, .. }), Request::Stop { savepoint: None, .. }) => Ok(Outcome::stopped(*checkpoint, request)),
        (Ok(JobEnd::Finished { checkpoint, .. }), Request::Stop { savepoint: None, .. }) => Ok(Outcome::finished(*checkpoint, request)),
        (Ok(JobEnd::Stopped { checkpoint, .. } | JobEnd::Finished { checkpoint, .. } | JobEnd::AlreadyFinished { checkpoint, .. }), _) => {
            Err(ended_first(*checkpoint))
        }
        (Err(error), _) => Err(Error::new(error.kind(), format!("the job has failed: {}", error.chain()))),
    });
}

fn warn_if_open_to_all(dir: &Path) {
    if let Some(mode) = guarded::open_to_all(dir) {
        let dir = dir.display();
        warn!(
            "every user of this machine can change the job's state, since its folder {dir} has mode {mode:04o}: remove that permission (chmod o-w)"
        );
    }
}

/// What has changed in the job since it last ran, as far as that was recorded.
fn changes(store: &CheckpointStore, now: &Revision) -> Result<Vec<String>> {
    let then = store.revision()?.and_then(|text| Revision::from_text(&text));
    Ok(then.map(|then| then.changes_to(now)).unwrap_or_default())
}

/// The checkpoint knows the digests of the components with which its state came about, also where a revision is not recorded.
fn name_components(changes: &mut Vec<String>, components: Vec<ComponentPlan>) {
    for component in components {
        let known = format!("operator {}: component ", component.uid);
        changes.retain(|change| !change.starts_with(&known));
        changes.push(component.to_string());
    }
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
