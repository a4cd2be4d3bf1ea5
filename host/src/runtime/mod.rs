//! One job's life: what a run is told, and how it ends.

pub mod progress;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_core::{Error, Result};

pub use self::progress::Progress;
use crate::guest::GuestEngine;
use crate::spec::JobSpec;
use crate::spec::plan::{Plan, bind};

/// What is told of the progress, several times a second.
pub type Observer<'a> = dyn FnMut(&Progress) + 'a;

/// The user's wishes while a job runs.
#[derive(Clone, Debug, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
}

impl Control {
    /// Whether the job is to stop at a checkpoint.
    #[must_use]
    pub fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The flag that asks the job to stop at a checkpoint when it is set.
    #[must_use]
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

/// How a job is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The job's folder, for checkpoints and local state.
    pub data_dir: PathBuf,
    /// Whether to forget all checkpoints and start a new incarnation.
    pub fresh: bool,
    /// The user's wishes.
    pub control: Control,
}

/// How a run ended, if not by an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All input was processed and all output committed.
    Finished(Progress),
    /// The job had finished before; nothing was done.
    AlreadyFinished {
        /// Its last checkpoint.
        checkpoint: u64,
    },
    /// The job was asked to stop, and can go on from a checkpoint.
    Stopped {
        /// That checkpoint.
        checkpoint: u64,
        /// How far it came.
        progress: Progress,
    },
}

/// Runs a job until it has finished, fails for good, or is stopped.
///
/// # Errors
/// The spec does not fit its components, the folder is in use, or the job failed and is not restarted.
pub fn run(spec: &JobSpec, options: &RunOptions, _observer: &mut Observer<'_>) -> Result<Outcome> {
    check(spec)?;
    Err(Error::config(format!("this build cannot run jobs, so {} is left alone", options.data_dir.display())))
}

/// Checks that the components of a spec can be loaded and fit it. Returns what is allowed, but probably not meant.
///
/// # Errors
/// A component cannot be loaded, or the spec does not fit it.
pub fn check(spec: &JobSpec) -> Result<Vec<String>> {
    let plan = Plan::of(spec)?;
    let engine = GuestEngine::new()?;
    let mut descriptors = HashMap::new();
    for operator in &spec.operators {
        let path = &operator.component.value;
        let reading = || Error::config(format!("reading the component {}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| reading().caused_by(error))?;
        let component = engine.load(&path.display().to_string(), &bytes, None)?;
        descriptors.insert(operator.uid.value.clone(), component.descriptor().clone());
    }
    bind(spec, &plan, &descriptors)?;
    Ok(plan.warnings.iter().map(|warning| format!("{}: {}", warning.at.within(&spec.file), warning.message)).collect())
}
