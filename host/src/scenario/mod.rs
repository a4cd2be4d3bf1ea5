//! Test cases: `*.case.yaml` files run against real components on the operator, state, timer and checkpoint code of production, by
//! [`Worker::step`](tidemill_core::worker::Worker::step) on virtual time.
//!
//! A case runs once per state backend and batch size. One thread steps all workers of a run in turn until none has anything to do, so that
//! a run is the same each time.

mod compare;
mod components;
mod disk;
mod emitted;
mod find;
mod job;
mod life;
pub mod metrics;
pub mod report;
mod run;
mod source;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tidemill_core::{Error, Result};

use self::components::Components;
use self::report::{CaseReport, Report};
use crate::guest::{GuestEngine, WORKER_STACK};
use crate::machine;
use crate::spec::case::{self, Context};

/// Which cases to run, and where components are.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Case files, and folders of them.
    pub paths: Vec<PathBuf>,
    /// Only the cases whose file or name has this text.
    pub filter: Option<String>,
    /// Where components are looked up by name, before `target/guests` in the working directory and those above it.
    pub components: Vec<PathBuf>,
}

/// Runs all cases, in parallel, and reports on them in the order of their files.
///
/// # Errors
/// A path does not exist, there is no case, or the WebAssembly engine does not start. What is wrong with a case is in the report.
pub fn run(options: &Options) -> Result<Report> {
    let files = find::case_files(&options.paths)?;
    if files.is_empty() {
        let paths: Vec<_> = options.paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Error::config(format!("there is no file *.case.yaml in {}", paths.join(", "))));
    }
    let components = Components::new(GuestEngine::new()?, options.components.clone());
    let mut cases = in_parallel(&files, |file: &PathBuf| report_on(file, &components, options.filter.as_deref()))?;
    let cases: Vec<CaseReport> = cases.drain(..).flatten().collect();
    match &options.filter {
        Some(filter) if cases.is_empty() => Err(Error::config(format!("no case has `{filter}` in its file or name"))),
        _ => Ok(Report { cases }),
    }
}

/// Runs the case in a file; nothing if the filter leaves it out.
fn report_on(file: &Path, components: &Components, filter: Option<&str>) -> Option<CaseReport> {
    let shown = file.display().to_string();
    let wanted = |name: &str| filter.is_none_or(|filter| shown.contains(filter) || name.contains(filter));
    let context = Context { component: &|name| components.find(name) };
    match case::load(file, &context) {
        Ok(case) => wanted(&case.name).then(|| run::all(&case, components)),
        Err(error) => wanted("").then(|| CaseReport::unreadable(shown.clone(), error.to_string())),
    }
}

/// Does the work for all items on as many threads as there are processors. The results are in the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::default();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = work(item);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            let spawned = thread::Builder::new().name("case".to_owned()).stack_size(WORKER_STACK).spawn_scoped(scope, work);
            machine::spawned("case", spawned)?;
        }
        Ok::<(), Error>(())
    })?;
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}
