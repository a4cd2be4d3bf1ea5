//! The job that a case runs: its operator between a source of steps and an observer, put together as any job is.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::disk::Disk;
use tidemill_core::key_group::{MAX_PARALLELISM_LIMIT, default_max_parallelism};
use tidemill_core::{Error, Result};

use super::components::Components;
use super::disk::MemoryDisk;
use crate::guest::Limits;
use crate::runtime::{Assembly, Job, Rig};
use crate::spec::JobSpec;
use crate::spec::case::{Case, Setup};
use crate::spec::error::{At, Place};
use crate::spec::job::{Checkpoints, FileSource, Format, MAX_WORKERS, Restart, Source, SourceConnector, StateBackend, Stream, Watermark};
use crate::spec::plan::MAIN;

/// The uid of the source.
const SOURCE: &str = "case";
/// How long a call may take: half of what it may in a job, since a case with a detector that loops waits for it in each run.
const DEADLINE: Duration = Duration::from_secs(5);

/// Puts the job together. `stored` is the number of key groups of what it goes on from, which is fixed.
///
/// # Errors
/// The setup does not fit the component, or the parallelism the number of key groups.
pub(super) fn assemble(case: &Case, setup: &Setup, components: &Components, stored: Option<u32>, rig: Rig) -> Result<Job> {
    let spec = spec(case, setup);
    let max_parallelism = setup.max_parallelism.or(stored).unwrap_or_else(|| default_max_parallelism(setup.parallelism));
    check_parallelism(setup.parallelism, max_parallelism, stored.is_some())?;
    let component = components.load(&setup.operator.component.value)?;
    let loaded = HashMap::from([(setup.operator.uid.value.clone(), component)]);
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
    Assembly::new(&spec, loaded)?.with_rig(rig).job(max_parallelism, 0, &disk)
}

fn check_parallelism(parallelism: u32, max: u32, stored: bool) -> Result<()> {
    if max > MAX_PARALLELISM_LIMIT {
        return Err(Error::config(format!("max_parallelism must be at most {MAX_PARALLELISM_LIMIT}, not {max}")));
    }
    if parallelism > MAX_WORKERS {
        return Err(Error::config(format!("parallelism must be at most {MAX_WORKERS}, not {parallelism}")));
    }
    if parallelism > max {
        let whose = if stored { ", which is fixed by the first checkpoint" } else { "" };
        return Err(Error::config(format!("parallelism {parallelism} is more than the max_parallelism {max}{whose}")));
    }
    Ok(())
}

fn spec(case: &Case, setup: &Setup) -> JobSpec {
    let at = setup.operator.uid.at.clone();
    let mut operator = setup.operator.clone();
    operator.inputs = vec![Stream { uid: SOURCE.to_owned(), lane: MAIN.to_owned(), at: at.clone() }];
    operator.limits = Limits { deadline: DEADLINE, ..Limits::default() };
    let source = Source {
        uid: At { value: SOURCE.to_owned(), at: at.clone() },
        connector: SourceConnector::File(FileSource {
            pattern: At { value: String::new(), at: Place::Whole },
            base: PathBuf::new(),
            format: Format::Json,
            follow: false,
            max_record_bytes: 0,
        }),
        max_rate: None,
        timestamp: None,
        watermark: Watermark::default(),
    };
    JobSpec {
        file: case.file.clone(),
        name: SOURCE.to_owned(),
        parallelism: setup.parallelism,
        max_parallelism: setup.max_parallelism,
        state: StateBackend::Memory,
        checkpoints: Checkpoints::default(),
        restart: Restart::None,
        data_dir: None::<PathBuf>,
        sources: vec![source],
        operators: vec![operator],
        sinks: Vec::new(),
    }
}
