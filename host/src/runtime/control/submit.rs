//! Performs a request of a client of the control socket, at most once for each idempotency key, and waits for the outcome.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::disk::Disk;
use tidemill_core::job::{Outcome, Request};
use tidemill_core::{Error, Result};
use tokio::time::timeout;

use super::{Control, lost};
use crate::runtime::restore::has_read_as_far;
use crate::store::CheckpointStore;
use crate::store::place;
use crate::store::savepoint::{Saved, SavepointFolder};

/// Longer keys are rejected.
const LONGEST_KEY: usize = 200;
/// A request that the job does not take for this long, because it is starting, is withdrawn.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

/// Where a job's files are.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) checkpoints: PathBuf,
}

/// Queues a request, unless an earlier process has performed it, and waits for the outcome.
///
/// # Errors
/// It cannot be performed, or it has failed: then nothing is left of its savepoint, unless the error says so.
pub(super) async fn submit(request: Request, key: Option<&str>, control: &Control, place: &Place) -> Result<Outcome> {
    let key = checked(key)?;
    if let Some(path) = request.savepoint().filter(|path| !path.is_absolute()) {
        return Err(Error::config(format!("the folder of a savepoint is a path from the root, and `{}` is not", path.display())));
    }
    let folder = request.savepoint().map(|path| place::resolved(&*place.disk, path));
    let request = folder.into_iter().fold(request, Request::at);
    if !control.knows(&key)
        && let Some(outcome) = performed_before(&request, &key, place)?
    {
        return Ok(outcome);
    }
    let rescales = matches!(request, Request::Rescale { .. });
    // The folder is made first, so that one that cannot be written to stops nothing.
    let open = |path: Option<&Path>| match path.map(|path| open_folder(place, path, &key)).transpose()? {
        Some(Folder::Taken(path)) if !rescales => Err(taken(&path)),
        // A rescale that an earlier process has begun, whose savepoint exists, is done without another one.
        Some(Folder::Taken(_)) | None => Ok(None),
        Some(Folder::Free(folder)) => Ok(Some(folder)),
    };
    let mut answer = control.ask(&key, request, open)?;
    if let Ok(outcome) = timeout(TAKEN_WITHIN, &mut answer).await {
        return outcome.unwrap_or_else(|_| Err(lost()));
    }
    let seconds = TAKEN_WITHIN.as_secs();
    control.withdraw(
        &key,
        &format!("the job has not begun to read for {seconds} s since it is starting: nothing was done, so ask again later"),
    );
    answer.await.unwrap_or_else(|_| Err(lost()))
}

/// Returns the outcome of a request that an earlier process has performed, and whose answer was lost with that process.
fn performed_before(request: &Request, key: &str, place: &Place) -> Result<Option<Outcome>> {
    let (path, wait_committed) = match request {
        Request::Savepoint { path, wait_committed } => (path, *wait_committed),
        Request::Rescale { savepoint, .. } => return rescaled_before(key, savepoint.clone(), place),
        Request::Stop { .. } => return Ok(None),
    };
    let Some(savepoint) = Saved::of_trigger(&place.disk, path, key) else { return Ok(None) };
    let committed_by = if wait_committed { covered_by(path, place)? } else { None };
    if wait_committed && committed_by.is_none() {
        return Err(Error::storage(format!(
            "savepoint {savepoint} is in {}, taken before the job was started again, and the job has not completed a checkpoint since that \
             covers what the savepoint covers: ask again later, or take another savepoint",
            path.display()
        )));
    }
    Ok(Some(Outcome::Saved { savepoint, path: path.clone(), committed_by }))
}

/// The newest checkpoint, if its output is committed and covers all input that the savepoint covers.
fn covered_by(path: &Path, place: &Place) -> Result<Option<u64>> {
    let saved = Saved::open(Arc::clone(&place.disk), path)?;
    let store = CheckpointStore::open(Arc::clone(&place.disk), place.checkpoints.clone())?;
    let Some(newest) = store.newest()? else { return Ok(None) };
    let covers = newest.job == saved.manifest.job && has_read_as_far(&newest, &saved.manifest);
    Ok((covers && store.is_committed(newest.checkpoint)?).then_some(newest.checkpoint))
}

/// Returns the outcome of a rescale that is in effect already, because an earlier process has begun it for the same request.
fn rescaled_before(key: &str, path: Option<PathBuf>, place: &Place) -> Result<Option<Outcome>> {
    let store = CheckpointStore::open(Arc::clone(&place.disk), place.checkpoints.clone())?;
    let Some(rescale) = store.rescale()? else { return Ok(None) };
    let Some(request) = rescale.request.filter(|request| request.trigger == key) else { return Ok(None) };
    let (checkpoint, from, to, asked) = (request.checkpoint, request.from, rescale.to, rescale.asked);
    Ok(Some(Outcome::Rescaled { checkpoint, from, to, pause_ms: None, asked, path }))
}

/// Where a savepoint is written.
enum Folder {
    /// Into this folder.
    Free(SavepointFolder),
    /// The savepoint of this request is there, and its output is committed: an earlier process has taken it.
    Taken(PathBuf),
}

/// Creates the folder for a savepoint. A savepoint of the same request that was never committed is discarded: no client was told of it.
fn open_folder(Place { disk, checkpoints }: &Place, path: &Path, key: &str) -> Result<Folder> {
    place::check(&**disk, path, checkpoints)?;
    if Saved::of_trigger(disk, path, key).is_some() {
        if Saved::open(Arc::clone(disk), path)?.is_committed()? {
            return Ok(Folder::Taken(path.to_owned()));
        }
        SavepointFolder::of_request(Arc::clone(disk), path.to_owned()).discard()?;
    }
    SavepointFolder::create(Arc::clone(disk), path.to_owned()).map(Folder::Free)
}

fn taken(path: &Path) -> Error {
    Error::config(format!("the job had stopped for this trigger id, with the savepoint in {}, and was started again since", path.display()))
}

/// Returns the client's key for a request, or a random one.
pub(super) fn checked(key: Option<&str>) -> Result<String> {
    let Some(key) = key else { return Ok(random_key()) };
    if key.is_empty() || key.len() > LONGEST_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::config(format!("a trigger id has 1 to {LONGEST_KEY} visible ASCII characters and no space: `{key}` has not")));
    }
    Ok(key.to_owned())
}

/// Returns a random key, unique to the request.
#[must_use]
pub fn random_key() -> String {
    format!("{:032x}", fastrand::u128(..))
}
