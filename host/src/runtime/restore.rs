//! A start from a savepoint: it becomes the job's newest checkpoint, so that whatever happens afterwards goes back to it and not behind it.

use std::path::PathBuf;

use tidemill_core::checkpoint::manifest::{Manifest, Restored, SinkCommittables, StateFile};
use tidemill_core::{Error, Result};
use tracing::{info, warn};

use super::checkpoints::commit;
use super::doing::Doing;
use super::job::Job;
use super::plan::{Fate, RestorePlan};
use super::recovery::{Missing, after, check, newest_commit};
use crate::savepoint::Contents;
use crate::store::CheckpointStore;
use crate::store::savepoint::Saved;

/// What a job starts from, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct From {
    /// The folder of a savepoint or checkpoint, or the manifest in it.
    pub path: PathBuf,
    /// What becomes of state in it that the job does not have.
    pub missing: Missing,
    /// Whether to begin a new incarnation, which writes beside what is already there.
    pub new_incarnation: bool,
}

/// Makes a savepoint the job's newest checkpoint, durably. Everything that can be refused is, before anything is changed.
///
/// # Errors
/// The job does not fit the savepoint, a sink is ahead of it, a file is damaged, or the copy cannot be stored.
pub fn take_over(job: &Job, store: &CheckpointStore, saved: &Saved, from: &From) -> Result<Manifest> {
    let doing = || format!("starting from {}", saved.name());
    let mut manifest = Manifest { job: job.name.clone(), ..saved.manifest.clone() };
    if saved.manifest.job != job.name && !from.new_incarnation {
        let (theirs, ours) = (&saved.manifest.job, &job.name);
        return Err(Error::config(format!(
            "{} is of job {theirs}, not of {ours}: name the job {theirs} to go on with it, or give --new-incarnation to begin {ours} from it, \
             with output of its own",
            saved.name()
        )));
    }
    check(job, &manifest, from.missing).map_err(|error| error.while_doing(doing()))?;
    let contents = Contents::read(saved)?;
    let ahead = ahead(job, store, saved)?;
    if let (Some(ahead), false) = (&ahead, from.new_incarnation) {
        return Err(Error::config(format!(
            "{ahead}, but {} is of checkpoint {}{}: going back would write the output in between again. run without --from to go on from \
             the newest checkpoint, or give --new-incarnation to write it again, knowingly, beside what is there",
            saved.name(),
            manifest.checkpoint,
            of_incarnation(manifest.incarnation)
        )));
    }
    let copy_of = begun_from(store, &saved.manifest)?;
    if !from.new_incarnation {
        store.check_restored()?;
        if let Some(newest) = copy_of {
            return go_on(store, newest, from);
        }
    }
    let again = copy_of.is_some() || store.restoring()?.is_some();
    match ahead {
        // The start before this one has seen to what the savepoint had still to commit, and a reader may have taken it away since.
        None if again => commit_newest(job, store)?,
        None => leave_out_what_is_gone(job, store, saved, from, &mut manifest)?,
        Some(_) => {
            warn_of_gaps(job, store, saved)?;
            // It may have to commit what the savepoint had not committed yet.
            commit_newest(job, store)?;
        }
    }
    say_what_is_dropped(&RestorePlan::new(job, &manifest, from.missing), &contents);
    if from.new_incarnation {
        manifest.incarnation = next_incarnation(job, store, &manifest)?;
    }
    if ahead.is_some() || again {
        // What the savepoint had still to commit has been committed since, or was replayed and committed under other names.
        manifest.sinks.clear();
        store.set_restoring(&absolute(from))?;
        store.keep_only(manifest.checkpoint)?;
    }
    copy(store, saved, from, manifest).map_err(|error| error.while_doing(doing()))
}

/// Which checkpoint of the job, or of what a sink holds, the savepoint is behind.
fn ahead(job: &Job, store: &CheckpointStore, saved: &Saved) -> Result<Option<String>> {
    let Manifest { checkpoint, incarnation, .. } = saved.manifest;
    for (uid, sink) in &job.sinks {
        if let Some((found, newest)) = newest_commit(&**sink)?
            && (found, newest) > (incarnation, checkpoint)
        {
            return Ok(Some(format!("sink {uid} has committed output up to checkpoint {newest}{}", of_incarnation(found))));
        }
    }
    let Some(newest) = store.newest()? else { return Ok(None) };
    let is_same = newest.checkpoint == checkpoint && same_cut(&newest, &saved.manifest);
    // A job that crashed after a savepoint gives its id, and smaller ones, to checkpoints of its own.
    let is_behind = match &saved.manifest.previous {
        Some(previous) => *previous == newest.as_previous()?,
        None => (newest.incarnation, newest.checkpoint) < (incarnation, checkpoint),
    };
    let (id, of) = (newest.checkpoint, of_incarnation(newest.incarnation));
    Ok((!is_same && !is_behind).then(|| format!("the job has gone on to its own checkpoint {id}{of}")))
}

/// The job's newest checkpoint, if it is the savepoint itself, taken over for an incarnation of its own by a start after which the job did not
/// get any further. What the savepoint had still to commit is then what that checkpoint has.
fn begun_from(store: &CheckpointStore, saved: &Manifest) -> Result<Option<Manifest>> {
    let is_copy =
        |newest: &Manifest| newest.checkpoint == saved.checkpoint && newest.incarnation > saved.incarnation && same_cut(newest, saved);
    Ok(store.newest()?.filter(is_copy))
}

/// Goes on from the copy of a savepoint that is there.
fn go_on(store: &CheckpointStore, mut newest: Manifest, from: &From) -> Result<Manifest> {
    newest.restored = Some(Restored { from: absolute(from), drop_missing: from.missing == Missing::Dropped });
    store.write_manifest(&newest)?;
    Ok(newest)
}

/// Most jobs have only one: then nothing is said of it.
fn of_incarnation(incarnation: u32) -> String {
    if incarnation == 0 { String::new() } else { format!(" of incarnation {incarnation}") }
}

/// Finishes the commits of the newest checkpoint, which a new incarnation is about to remove.
fn commit_newest(job: &Job, store: &CheckpointStore) -> Result<()> {
    match store.newest()? {
        Some(newest) if !store.is_committed(newest.checkpoint)? => commit(store, &newest, &job.sinks, &Doing::default()),
        _ => Ok(()),
    }
}

/// A job that went back behind the savepoint may have gone on without getting as far as the savepoint: what that had not committed is then in
/// no output.
fn warn_of_gaps(job: &Job, store: &CheckpointStore, saved: &Saved) -> Result<()> {
    if saved.is_committed()? || store.newest()?.is_some_and(|newest| has_read_as_far(&newest, &saved.manifest)) {
        return Ok(());
    }
    for SinkCommittables { uid, committables } in &saved.manifest.sinks {
        let Some((_, sink)) = job.sinks.iter().find(|(known, _)| known == uid) else { continue };
        let gone = sink.gone(committables)?.len();
        if gone > 0 {
            warn!(
                sink = uid,
                "{gone} part(s) of output for sink {uid} were not committed when {} was taken and are gone, and the job has not read as far \
                 again since: their rows may be in no output",
                saved.name()
            );
        }
    }
    Ok(())
}

/// Whether a checkpoint has read at least as far as another.
#[must_use]
pub fn has_read_as_far(a: &Manifest, b: &Manifest) -> bool {
    b.sources.iter().all(|theirs| {
        let ours = a.sources.iter().find(|ours| ours.uid == theirs.uid);
        theirs.splits.iter().all(|split| {
            let Some(ours) = ours else { return false };
            match ours.splits.iter().find(|same| same.id == split.id) {
                Some(same) => same.name == split.name && same.position >= split.position,
                // Ids have no gaps but those of splits that have ended and were forgotten.
                None => ours.splits.last().is_some_and(|last| last.id > split.id),
            }
        })
    })
}

/// A savepoint that was not committed names hidden output of the job, and a later start from a checkpoint before it removes that, in order
/// to write it again. The savepoint cannot be gone on from then without a gap in the output.
fn leave_out_what_is_gone(job: &Job, store: &CheckpointStore, saved: &Saved, from: &From, manifest: &mut Manifest) -> Result<()> {
    let id = manifest.checkpoint;
    let newest = store.newest()?;
    // What a commit has made visible may have been taken away by a reader.
    let begun = newest.as_ref().is_some_and(|newest| same_cut(newest, manifest)) && store.is_committing(id)?;
    if begun || saved.is_committed()? {
        return Ok(());
    }
    for SinkCommittables { uid, committables } in &mut manifest.sinks {
        let Some((_, sink)) = job.sinks.iter().find(|(known, _)| known == uid) else { continue };
        let gone = sink.gone(committables)?;
        if gone.is_empty() {
            continue;
        }
        let what =
            format!("{} has {} part(s) of output for sink {uid} that were not committed when it was taken", saved.name(), gone.len());
        if !from.new_incarnation {
            let instead = newest.as_ref().map_or_else(String::new, |newest| {
                format!("run without --from to go on from checkpoint {}, which writes that output again, or ", newest.checkpoint)
            });
            return Err(Error::config(format!(
                "{what}, and they are gone, since the job was started again after it: {instead}give --new-incarnation to start from it \
                 without that output"
            )));
        }
        warn!(sink = uid, "{what}, and they are gone: the new incarnation begins without that output");
        let mut index = 0..;
        committables.retain(|_| index.next().is_none_or(|index| !gone.contains(&index)));
    }
    Ok(())
}

fn next_incarnation(job: &Job, store: &CheckpointStore, manifest: &Manifest) -> Result<u32> {
    let mut newest = manifest.incarnation.max(store.next_incarnation()?.saturating_sub(1));
    newest = newest.max(store.newest()?.map_or(0, |newest| newest.incarnation));
    for (_, sink) in &job.sinks {
        newest = newest.max(newest_commit(&**sink)?.map_or(0, |(incarnation, _)| incarnation));
    }
    after(newest)
}

/// Whether two manifests are of the same moment of the same job: their state is the same, byte for byte.
fn same_cut(a: &Manifest, b: &Manifest) -> bool {
    if let (Some(a_cut), Some(b_cut)) = (&a.cut, &b.cut) {
        return a_cut == b_cut && a.sources == b.sources;
    }
    let files = |manifest: &Manifest| manifest.files.iter().map(|file| (file.worker, file.checksum.clone())).collect::<Vec<_>>();
    files(a) == files(b) && a.sources == b.sources
}

/// Copies the savepoint into the store, the manifest last.
fn copy(store: &CheckpointStore, saved: &Saved, from: &From, mut manifest: Manifest) -> Result<Manifest> {
    let id = manifest.checkpoint;
    let newest = store.newest()?.filter(|newest| newest.checkpoint == id);
    // The same stop's checkpoint: what it has committed stays known. A checkpoint of the job itself stays where it is.
    let same = newest.is_some_and(|newest| newest.sinks == manifest.sinks && newest.incarnation == manifest.incarnation);
    if !same && !store.is_place_of(id, saved.dir()) {
        store.discard(id)?;
    }
    let copy = |file: &StateFile| store.copy_state(id, file.worker, &saved.read_state(file)?);
    manifest.files = manifest.files.iter().map(copy).collect::<Result<_>>()?;
    for (number, database) in manifest.databases.iter_mut().enumerate() {
        let place = format!("state-{number}");
        let copied = database.files.iter().map(|file| saved.copy_file(file, store, id, &place));
        database.files = copied.collect::<Result<_>>()?;
    }
    (manifest.savepoint, manifest.trigger) = (false, None);
    manifest.restored = Some(Restored { from: absolute(from), drop_missing: from.missing == Missing::Dropped });
    if saved.is_committed()? || manifest.sinks.iter().all(|sink| sink.committables.is_empty()) {
        store.mark_committed(id)?;
    }
    store.unmark_finished()?;
    store.write_manifest(&manifest)?;
    store.unset_restoring()?;
    info!(checkpoint = id, "took over {} as checkpoint {id} of job {}", saved.name(), manifest.job);
    Ok(manifest)
}

fn absolute(from: &From) -> String {
    std::path::absolute(&from.path).unwrap_or_else(|_| from.path.clone()).display().to_string()
}

fn say_what_is_dropped(plan: &RestorePlan, contents: &Contents) {
    for uid in &plan.dropped_sources {
        warn!(source = uid, "dropped the positions of source {uid}");
    }
    for operator in &plan.operators {
        let uid = &operator.uid;
        let Some(found) = contents.operators.iter().find(|found| found.uid == *uid) else { continue };
        if operator.fate == Fate::Dropped {
            let timers = found.event_timers + found.processing_timers;
            warn!(operator = uid, "dropped all state of operator {uid}: {} keys, {timers} timers", found.keys);
        }
        for state in operator.states.iter().filter(|state| state.fate == Fate::Dropped) {
            let Some(found) = found.states.iter().find(|found| found.name == state.name) else { continue };
            let (name, keys, entries, bytes) = (&found.name, found.keys, found.entries, found.bytes);
            warn!(operator = uid, state = name, "dropped state {name} of operator {uid}: {entries} entries of {keys} keys, {bytes} bytes");
        }
    }
}
