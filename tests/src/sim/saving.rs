//! Savepoints in simulations: taken at random moments, and started from.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill::runtime::job::Job;
use tidemill::runtime::recovery::Missing;
use tidemill::runtime::restore::{From, has_read_as_far, take_over};
use tidemill::store::CheckpointStore;
use tidemill::store::savepoint::{Saved, SavepointFolder};
use tidemill_core::disk::Disk;
use tidemill_core::{Kind, Result};

use super::faulty_disk;
use super::life::{CHECKPOINTS, Life};
use super::schedule::Schedule;
use super::stored::SAVEPOINTS;

/// The savepoints of a schedule.
#[derive(Default)]
pub(super) struct Savepoints {
    /// How many were asked for.
    asked: u64,
    /// Those that the user was told are there: they must stay.
    pub(super) completed: Vec<PathBuf>,
    /// Those from which the job may start: of its output nothing was put away since.
    usable: Vec<PathBuf>,
    /// Those after which all event time had ended: nobody goes on from them.
    drained: Option<PathBuf>,
    /// A start from this one in a new incarnation was interrupted: the user tries again.
    interrupted: Option<PathBuf>,
}

/// What came of a start from a savepoint.
pub(super) enum TakenOver {
    /// It is the job's newest checkpoint.
    Yes,
    /// The job goes on as it was.
    No,
    /// The disk, or a fault of it, hindered that.
    Failed(tidemill_core::Error),
}

impl Savepoints {
    fn next(&mut self) -> PathBuf {
        self.asked += 1;
        Path::new(SAVEPOINTS).join(format!("sp-{}", self.asked))
    }

    /// The user has put the output away and starts from nothing.
    pub(super) fn start_over(&mut self) {
        self.usable.clear();
        self.interrupted = None;
    }
}

impl Schedule<'_> {
    /// A folder for another savepoint, unless the disk hinders that.
    fn folder(&mut self) -> Option<SavepointFolder> {
        SavepointFolder::create(faulty_disk::view(&self.disk, self.fault.store), self.savepoints.next()).ok()
    }

    /// Now and then the user wants a savepoint.
    pub(super) fn maybe_save(&mut self, life: &mut Life) {
        if self.saves
            && self.rng.u16(..400) == 0
            && let Some(folder) = self.folder()
        {
            life.savepoint(folder);
        }
    }

    /// The user wants a stop, maybe with a savepoint, maybe with a drain.
    pub(super) fn stop(&mut self, life: &mut Life) {
        let folder = if self.saves && self.rng.bool() { self.folder() } else { None };
        let drain = self.saves && self.rng.u8(..6) == 0;
        if drain {
            self.drains = true;
            self.savepoints.drained = folder.as_ref().map(|folder| folder.dir().to_owned());
        }
        life.stop(folder, drain);
    }

    /// Notes the savepoints that the user has been told of. Nothing is left of those that have failed.
    pub(super) fn note_saved(&mut self, life: &mut Life) -> Result<(), String> {
        for dir in life.take_failed() {
            self.counts.not_saved += 1;
            if self.disk.is_down() {
                continue;
            }
            if let Some(left) = self.disk.list(&dir).map_err(|error| error.to_string())?.first() {
                return Err(format!("{} is left of a savepoint that has failed", left.display()));
            }
        }
        for dir in life.take_saved() {
            self.story.push(format!("{} is complete", dir.display()));
            self.counts.savepoints += 1;
            if self.savepoints.drained.as_ref() != Some(&dir) {
                self.savepoints.usable.push(dir.clone());
            }
            self.savepoints.completed.push(dir);
        }
        Ok(())
    }

    /// Now and then the user starts from a savepoint: where that is refused since the output would come again, in a new incarnation.
    pub(super) fn maybe_take_over(&mut self, job: &Job, disk: &Arc<dyn Disk>) -> Result<TakenOver, String> {
        if let Some(path) = self.savepoints.interrupted.clone() {
            return self.begin_from(job, disk, path);
        }
        if self.savepoints.usable.is_empty() || self.rng.u8(..5) > 0 {
            return Ok(TakenOver::No);
        }
        let path = self.rng.choice(&self.savepoints.usable).cloned().unwrap_or_default();
        match start_from(job, disk, path.clone(), false) {
            Ok(()) => {
                self.counts.taken_over += 1;
                self.story.push(format!("took over {}", path.display()));
                return Ok(TakenOver::Yes);
            }
            Err(error) if error.kind() != Kind::Config => return Ok(TakenOver::Failed(error)),
            Err(error) if error.chain().contains("they are gone") => {
                self.counts.gone += 1;
                return Ok(TakenOver::No);
            }
            Err(error) if !error.chain().contains("--new-incarnation") => return Err(error.chain()),
            Err(_) => {}
        }
        match may_lose(disk, &path) {
            Ok(true) => return Ok(TakenOver::No),
            Ok(false) => {}
            Err(error) => return Ok(TakenOver::Failed(error)),
        }
        self.begin_from(job, disk, path)
    }

    fn begin_from(&mut self, job: &Job, disk: &Arc<dyn Disk>, path: PathBuf) -> Result<TakenOver, String> {
        self.story.push(format!("a new incarnation from {}", path.display()));
        self.savepoints.interrupted = Some(path.clone());
        match start_from(job, disk, path, true) {
            Ok(()) => {
                self.savepoints.interrupted = None;
                self.counts.incarnations += 1;
                self.begin_incarnation()?;
                Ok(TakenOver::Yes)
            }
            Err(error) => Ok(TakenOver::Failed(error)),
        }
    }
}

fn start_from(job: &Job, disk: &Arc<dyn Disk>, path: PathBuf, new_incarnation: bool) -> Result<()> {
    let store = CheckpointStore::open(Arc::clone(disk), PathBuf::from(CHECKPOINTS))?;
    let saved = Saved::open(Arc::clone(disk), &path)?;
    take_over(job, &store, &saved, &From { path, missing: Missing::Refused, new_incarnation }).map(drop)
}

/// Whether the job has not read as far as the savepoint: what that has not committed may then be in no output, of which the user is
/// warned.
fn may_lose(disk: &Arc<dyn Disk>, path: &Path) -> Result<bool> {
    let newest = CheckpointStore::open(Arc::clone(disk), PathBuf::from(CHECKPOINTS))?.newest()?;
    let saved = Saved::open(Arc::clone(disk), path)?;
    Ok(!newest.is_some_and(|newest| has_read_as_far(&newest, &saved.manifest)))
}
