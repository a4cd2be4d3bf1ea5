//! Does what is asked of a running job through its control socket, at most once for each trigger id, and waits for the outcome.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use tidemill_core::disk::Disk;
use tidemill_core::{Error, Result};

use super::control::{Control, Granted, Reply, Rescaled, Wish};
use super::restore::has_read_as_far;
use super::socket::Ask;
use crate::store::CheckpointStore;
use crate::store::savepoint::{Saved, SavepointFolder};

/// A longer trigger id is rejected.
const LONGEST_TRIGGER: usize = 200;
/// A request that the job has not taken for this long, since it is starting, is taken back.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

/// Where a job's files are.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) checkpoints: PathBuf,
}

/// Hands a request in, unless an earlier process has done it, and waits for the outcome.
///
/// # Errors
/// It cannot be done, or it has failed: then nothing is left of its savepoint, unless the error says so.
pub(super) fn grant(ask: &Ask, control: &Control, place: &Place) -> Result<Reply> {
    let trigger = trigger_id(ask.trigger())?;
    let path = ask.savepoint().map(|path| resolved(&*place.disk, path));
    if !control.knows(&trigger)
        && let Some(reply) = done_before(ask, path.as_deref(), &trigger, place)?
    {
        return Ok(reply);
    }
    let mut folder = path.clone();
    // The folder is made first, so that one that cannot be written to stops nothing.
    let wish = || {
        let disk = Arc::clone(&place.disk);
        let savepoint = folder.take().map(|path| open_folder(disk, path, &trigger, &place.checkpoints)).transpose()?;
        let rescales = matches!(ask, Ask::Rescale { .. });
        // A rescale that an earlier process has begun, whose savepoint is there, is done without another one.
        let savepoint = match savepoint {
            Some(Folder::Taken(path)) if !rescales => return Err(taken(&path)),
            Some(Folder::Taken(_)) | None => None,
            Some(Folder::Free(folder)) => Some(folder),
        };
        Ok(match *ask {
            Ask::Savepoint { wait_committed, .. } => {
                let folder = savepoint.ok_or_else(|| Error::config("a savepoint needs a folder"))?;
                Wish::Savepoint { folder, wait_committed }
            }
            Ask::Stop { drain, .. } => Wish::Stop { savepoint, drain },
            Ask::Rescale { parallelism, .. } => Wish::Rescale { parallelism, savepoint },
        })
    };
    let answer = control.ask(&trigger, path.as_deref(), wish)?;
    let ended = || Err(Error::storage("the job has ended without doing it: its log says what became of it"));
    match answer.recv_timeout(TAKEN_WITHIN) {
        Ok(outcome) => return outcome,
        Err(RecvTimeoutError::Disconnected) => return ended(),
        Err(RecvTimeoutError::Timeout) => control.withdraw(
            &trigger,
            &format!(
                "the job has not begun to read for {} s since it is starting: nothing was done, so ask again later",
                TAKEN_WITHIN.as_secs()
            ),
        ),
    }
    answer.recv().unwrap_or_else(|_| ended())
}

/// The answer to a request that an earlier process has done, and whose answer was lost with it.
fn done_before(ask: &Ask, savepoint: Option<&Path>, trigger: &str, place: &Place) -> Result<Option<Reply>> {
    let (wait_committed, path) = match (ask, savepoint) {
        (Ask::Savepoint { wait_committed, .. }, Some(path)) => (*wait_committed, path),
        (Ask::Rescale { .. }, savepoint) => return rescaled_before(trigger, savepoint.map(Path::to_owned), place),
        _ => return Ok(None),
    };
    let Some(savepoint) = Saved::of_trigger(&place.disk, path, trigger) else { return Ok(None) };
    let reply = |granted| Ok(Some(Reply { granted, savepoint: Some(path.to_owned()) }));
    if !wait_committed {
        return reply(Granted::Saved(savepoint));
    }
    match covered_by(path, place)? {
        Some(checkpoint) => reply(Granted::SavedAndCommitted { savepoint, checkpoint }),
        None => Err(Error::storage(format!(
            "savepoint {savepoint} is in {}, taken before the job was started again, and the job has not completed a checkpoint since that \
             covers what the savepoint covers: ask again later, or take another savepoint",
            path.display()
        ))),
    }
}

/// The newest checkpoint, if its output is committed and covers all input that the savepoint covers.
fn covered_by(path: &Path, place: &Place) -> Result<Option<u64>> {
    let saved = Saved::open(Arc::clone(&place.disk), path)?;
    let store = CheckpointStore::open(Arc::clone(&place.disk), place.checkpoints.clone())?;
    let Some(newest) = store.newest()? else { return Ok(None) };
    let covers = newest.job == saved.manifest.job && has_read_as_far(&newest, &saved.manifest);
    Ok((covers && store.is_committed(newest.checkpoint)?).then_some(newest.checkpoint))
}

/// The answer to a rescale that is in effect already, since an earlier process has begun it for the same request.
fn rescaled_before(trigger: &str, savepoint: Option<PathBuf>, place: &Place) -> Result<Option<Reply>> {
    let store = CheckpointStore::open(Arc::clone(&place.disk), place.checkpoints.clone())?;
    let Some(rescale) = store.rescale()? else { return Ok(None) };
    let Some(request) = rescale.request.filter(|request| request.trigger == trigger) else { return Ok(None) };
    let (from, to, asked) = (request.from, rescale.to, rescale.asked);
    let rescaled = Rescaled { checkpoint: request.checkpoint, from, to, pause: None, asked };
    Ok(Some(Reply { granted: Granted::Rescaled(rescaled), savepoint }))
}

/// Where a savepoint is to go.
enum Folder {
    /// Into this folder.
    Free(SavepointFolder),
    /// The savepoint of this request is there, and its output is committed: an earlier process has taken it.
    Taken(PathBuf),
}

/// Makes the folder for a savepoint. One of the same request that was never committed gives way: nobody was told of it.
fn open_folder(disk: Arc<dyn Disk>, path: PathBuf, trigger: &str, checkpoints: &Path) -> Result<Folder> {
    crate::store::place::check(&*disk, &path, checkpoints)?;
    if Saved::of_trigger(&disk, &path, trigger).is_some() {
        if Saved::open(Arc::clone(&disk), &path)?.is_committed()? {
            return Ok(Folder::Taken(path));
        }
        SavepointFolder::of_request(Arc::clone(&disk), path.clone()).discard()?;
    }
    SavepointFolder::create(disk, path).map(Folder::Free)
}

fn taken(path: &Path) -> Error {
    Error::config(format!("the job had stopped for this trigger id, with the savepoint in {}, and was started again since", path.display()))
}

/// The path by which a folder is known, whatever links lead to it, so that two requests for one folder are seen to be.
fn resolved(disk: &dyn Disk, path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|folder| Some((folder, disk.canonical(folder).ok()?)));
    match there.and_then(|(folder, real)| Some(real.join(path.strip_prefix(folder).ok()?))) {
        // An empty rest would end the path with a slash.
        Some(real) => real.components().collect(),
        None => path.to_owned(),
    }
}

/// The client's name for a request, or one that nobody else has.
fn trigger_id(given: Option<&String>) -> Result<String> {
    let Some(id) = given else { return Ok(random_trigger()) };
    if id.is_empty() || id.len() > LONGEST_TRIGGER || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::config(format!(
            "a trigger id has 1 to {LONGEST_TRIGGER} visible ASCII characters and no space: `{id}` has not"
        )));
    }
    Ok(id.clone())
}

/// A trigger id that nobody else has.
#[must_use]
pub fn random_trigger() -> String {
    format!("{:032x}", fastrand::u128(..))
}
