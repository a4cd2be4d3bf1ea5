//! The job that a case runs: its operator between a source of steps and an observer, put together as any job is.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Result;
use tidemill_core::disk::Disk;
use tidemill_core::key_group::{MAX_PARALLELISM_LIMIT, default_max_parallelism};

use super::components::Components;
use super::disk::MemoryDisk;
use crate::guest::Limits;
use crate::runtime::{Assembly, Job, Rig};
use crate::source::file::{OnGone, OnReplaced};
use crate::spec::JobSpec;
use crate::spec::case::{Case, Setup};
use crate::spec::error::{At, Place, SpecError};
use crate::spec::job::{Checkpoints, FileSource, Format, MAX_WORKERS, Restart, Source, SourceConnector, StateBackend, Stream, Watermark};
use crate::spec::plan::MAIN;

/// The uid of the source.
const SOURCE: &str = "case";
/// The uid of the source of broadcast records, which no component's name can be.
const BROADCAST: &str = "case.broadcast";
/// How long a call may take: half of what it may in a job, since a case with a detector that loops waits for it in each run.
const DEADLINE: Duration = Duration::from_secs(5);

/// Puts the job together. `stored` is the number of key groups of what it goes on from, which is fixed.
///
/// # Errors
/// The setup does not fit the component, or the parallelism the number of key groups.
pub(super) fn assemble(case: &Case, setup: &Setup, components: &Components, stored: Option<u32>, rig: Rig) -> Result<Job> {
    let max_parallelism = check_parallelism(setup, stored).map_err(|(at, message)| SpecError::one(&*case.file, at.clone(), message))?;
    let component = components.load(&setup.operator.component.value)?;
    let spec = spec(case, setup, component.descriptor().broadcast.is_some());
    let loaded = HashMap::from([(setup.operator.uid.value.clone(), component)]);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
    Assembly::new(&spec, loaded)?.with_rig(rig).job(max_parallelism, 0, &disk)
}

/// The number of key groups, or what is wrong with it or with the number of workers, and where.
fn check_parallelism(setup: &Setup, stored: Option<u32>) -> Result<u32, (&Place, String)> {
    let At { value: parallelism, at } = &setup.parallelism;
    let given = setup.max_parallelism.as_ref();
    let max = given.map(|max| max.value).or(stored).unwrap_or_else(|| default_max_parallelism(*parallelism));
    if let Some(given) = given.filter(|_| max > MAX_PARALLELISM_LIMIT) {
        return Err((&given.at, format!("max_parallelism must be at most {MAX_PARALLELISM_LIMIT}, not {max}")));
    }
    if *parallelism > MAX_WORKERS {
        return Err((at, format!("parallelism must be at most {MAX_WORKERS}, not {parallelism}")));
    }
    if *parallelism > max {
        let whose = if stored.is_some() { ", which is fixed by the first checkpoint" } else { "" };
        return Err((at, format!("parallelism {parallelism} is more than the max_parallelism {max}{whose}")));
    }
    Ok(max)
}

fn spec(case: &Case, setup: &Setup, broadcast: bool) -> JobSpec {
    let at = &setup.operator.uid.at;
    let stream = |uid: &str| Stream { uid: uid.to_owned(), lane: MAIN.to_owned(), at: at.clone() };
    let mut operator = setup.operator.clone();
    operator.inputs = vec![stream(SOURCE)];
    operator.broadcast = broadcast.then(|| stream(BROADCAST)).into_iter().collect();
    operator.limits = Limits { deadline: DEADLINE, ..Limits::default() };
    let source = |uid: &str| Source {
        uid: At { value: uid.to_owned(), at: at.clone() },
        connector: SourceConnector::File(FileSource {
            pattern: At { value: String::new(), at: Place::Whole },
            base: PathBuf::new(),
            format: Format::Json,
            follow: false,
            max_record_bytes: 0,
            on_replaced: OnReplaced::Fail,
            on_gone: OnGone::Fail,
        }),
        max_rate: None,
        timestamp: None,
        watermark: Watermark::default(),
        on_invalid: None,
        max_invalid: None,
    };
    JobSpec {
        file: case.file.clone(),
        folder: PathBuf::new(),
        name: SOURCE.to_owned(),
        parallelism: setup.parallelism.value,
        max_parallelism: setup.max_parallelism.as_ref().map(|max| max.value),
        state: StateBackend::Memory,
        checkpoints: Checkpoints::default(),
        restart: Restart::None,
        data_dir: None::<PathBuf>,
        sources: std::iter::once(SOURCE).chain(broadcast.then_some(BROADCAST)).map(source).collect(),
        operators: vec![operator],
        sinks: Vec::new(),
    }
}
