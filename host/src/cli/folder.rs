//! Where a job's folder is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;

use crate::disk::RealDisk;
use crate::runtime::revision::Revision;
use crate::spec::JobSpec;
use crate::store::CheckpointStore;

/// The folder that holds the job folders of a folder's specs.
const FOLDERS: &str = "tidemill-data";

/// The folder that is given on the command line or in the spec, else `tidemill-data/NAME` beside the spec. Earlier versions took that of the
/// working directory: if only it is there, it is used, with a warning.
pub(super) fn of_job(given: Option<&Path>, job: &Path, spec: &JobSpec) -> PathBuf {
    if let Some(dir) = given.or(spec.data_dir.as_deref()) {
        return dir.to_owned();
    }
    let own = Path::new(FOLDERS).join(&spec.name);
    let beside = job.parent().unwrap_or_else(|| Path::new("")).join(&own);
    if is_job_folder(&beside) || !is_job_folder(&own) || is_of_another_spec(&own, spec) {
        return beside;
    }
    warn!(
        "the job's folder is `{}` of the working directory, as of an earlier version; move it to where it is found from any directory: mkdir -p \
         {} && mv {} {}",
        own.display(),
        beside.parent().unwrap_or(&beside).display(),
        own.display(),
        beside.display()
    );
    own
}

/// Whether a job has run there.
fn is_job_folder(dir: &Path) -> bool {
    dir.join("checkpoints").is_dir()
}

/// Whether a job whose spec is in another folder has run there, in this version or a later one.
fn is_of_another_spec(dir: &Path, spec: &JobSpec) -> bool {
    let store = CheckpointStore::open(Arc::new(RealDisk), dir.join("checkpoints"));
    let text = store.ok().and_then(|store| store.revision().ok().flatten());
    text.and_then(|text| Revision::from_text(&text)).is_some_and(|revision| !revision.is_of_folder(&spec.folder))
}
