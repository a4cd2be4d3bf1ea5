//! What a job starts from: its newest checkpoint, or nothing.

use std::sync::Arc;

use tidemill_core::checkpoint::manifest::{Manifest, OperatorState, Previous, StoredFile, StoredState};
use tidemill_core::checkpoint::snapshot::Snapshot;
use tidemill_core::key_group::{KeyGroup, range_of};
use tidemill_core::schema::Transcoder;
use tidemill_core::sink::Sink;
use tidemill_core::source::Split;
use tidemill_core::state::migrate::Change;
use tidemill_core::state::{Migration, OneNan};
use tidemill_core::worker::RestoredOperator;
use tidemill_core::{Error, Result};
use tidemill_wit::descriptor::StateDescriptor;
use tidemill_wit::schema::TypeTable;
use tracing::info;

use super::checkpoints::commit;
use super::doing::Doing;
use super::job::Job;
use super::many::at_most;
use super::plan::RestorePlan;
use crate::store::{CheckpointStore, shared_name};

/// What a job starts from.
#[derive(Default)]
pub struct Recovered {
    /// The checkpoint; 0 if the job starts from nothing.
    pub checkpoint: u64,
    /// The job's incarnation.
    pub incarnation: u32,
    /// Whether all input was processed: nothing is left to do.
    pub end_of_input: bool,
    /// The checkpoint, for those that follow.
    pub previous: Previous,
    /// Records read before.
    pub records_in: u64,
    /// The splits of each source by index, discovered ones included.
    pub splits: Vec<Vec<Split>>,
    /// The state of each operator by node index.
    pub operators: Vec<Option<RestoredOperator>>,
    /// The files that the checkpoint shares with those that follow.
    pub shared: Vec<StoredFile>,
}

/// Finishes the commits of the newest checkpoint, before any input is read, loads state and positions, cleans up after earlier attempts, and
/// looks for new splits.
///
/// # Errors
/// The job does not fit the checkpoint, a commit fails, a file is damaged, or there is output without a checkpoint.
pub fn recover(job: &Job, store: &CheckpointStore) -> Result<Recovered> {
    store.check_restored()?;
    recover_from(job, store, store.newest()?.as_ref())
}

/// As [`recover`], from the newest checkpoint that was read already.
pub(super) fn recover_from(job: &Job, store: &CheckpointStore, manifest: Option<&Manifest>) -> Result<Recovered> {
    let mut recovered = match manifest {
        Some(manifest) => {
            check(job, manifest, missing_of(manifest))?;
            check_sinks(job, manifest)?;
            if !store.is_committed(manifest.checkpoint)? {
                // Noted as after any commit: this checkpoint may be restored once more, after a reader has taken the output away.
                commit(store, manifest, &job.sinks, &Doing::default())?;
            }
            say_restoring(manifest);
            resume(job, store, manifest)?
        }
        None => begin(job, store)?,
    };
    for (uid, sink) in &job.sinks {
        sink.clean().map_err(|error| error.while_doing(format!("cleaning up after earlier attempts in sink {uid}")))?;
    }
    store.remove_unfinished()?;
    if !recovered.end_of_input {
        discover(job, &mut recovered.splits)?;
    }
    Ok(recovered)
}

/// Says what is about to be read: much of it takes long.
fn say_restoring(manifest: &Manifest) {
    let files = manifest.files.iter().map(|file| file.bytes);
    let shared = manifest.databases.iter().flat_map(|database| &database.files).map(|file| file.bytes);
    let bytes: u64 = files.chain(shared).fold(0, u64::saturating_add);
    if bytes > 0 && !manifest.end_of_input {
        let checkpoint = manifest.checkpoint;
        info!(checkpoint, bytes, "restoring {bytes} bytes of state from checkpoint {checkpoint}");
    }
}

/// Checks that no sink is ahead of the newest checkpoint: the output in between would be written twice.
///
/// # Errors
/// One is: a newer checkpoint was there and has been removed.
fn check_sinks(job: &Job, manifest: &Manifest) -> Result<()> {
    let (newest, incarnation) = (manifest.checkpoint, manifest.incarnation);
    for (uid, sink) in &job.sinks {
        let remembered = sink.remembered()?.filter(|remembered| remembered.elsewhere.is_none());
        let remembered = remembered.map(|remembered| (remembered.incarnation, remembered.checkpoint));
        if let Some((found, ahead)) = sink.newest_commit()?.max(remembered)
            && found == incarnation
            && ahead > newest
        {
            return Err(Error::corrupt(format!(
                "sink {uid} has committed output up to checkpoint {ahead}, but the newest checkpoint that is there is {newest}: a newer one was \
                 removed, and output would be written twice. restore chk-{ahead} from a backup, start from chk-{newest} with --from and \
                 --new-incarnation, or start again from nothing with --fresh"
            )));
        }
    }
    Ok(())
}

/// What becomes of stored state that the job does not have any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The restore is refused.
    Refused,
    /// It is dropped.
    Dropped,
}

/// Loads state and positions of the store's newest checkpoint into a job that may differ from the one that took it. Sinks are left alone.
///
/// # Errors
/// There is no checkpoint, the job does not fit it, or a file is damaged.
pub fn restore(job: &Job, store: &CheckpointStore, missing: Missing) -> Result<Recovered> {
    let manifest = store.newest()?.ok_or_else(|| Error::config("there is no checkpoint to restore"))?;
    check(job, &manifest, missing)?;
    resume(job, store, &manifest)
}

/// Forgets all checkpoints, and remembers durably which incarnation comes next: one that has written nothing yet. What sinks have committed
/// stays; the new incarnation writes beside it.
///
/// # Errors
/// A checkpoint cannot be removed, or a sink cannot be listed.
pub fn forget(store: &CheckpointStore, sinks: &[(String, Arc<dyn Sink>)]) -> Result<()> {
    // A damaged manifest is no reason not to start again, but its incarnation is then known from the sinks alone.
    let mut newest =
        store.newest().ok().flatten().map(|manifest| manifest.incarnation).max(store.next_incarnation().unwrap_or(0).checked_sub(1));
    for (_, sink) in sinks {
        newest = newest.max(newest_commit(&**sink)?.map(|(incarnation, _)| incarnation));
    }
    store.set_next_incarnation(newest.map_or(Ok(0), after)?)?;
    store.clear()
}

/// The newest commit of the job in a sink, also if a reader has taken all output away since.
///
/// # Errors
/// The sink cannot be looked into.
pub(super) fn newest_commit(sink: &dyn Sink) -> Result<Option<(u32, u64)>> {
    let remembered = sink.remembered()?.map(|remembered| (remembered.incarnation, remembered.checkpoint));
    Ok(sink.newest_commit()?.max(remembered))
}

/// The incarnation after another.
///
/// # Errors
/// There is none: a part in a sink's folder has a name that no job gave it.
pub(super) fn after(incarnation: u32) -> Result<u32> {
    // No manifest holds a higher one.
    incarnation.checked_add(1).filter(|next| *next <= u32::MAX / 2).ok_or_else(|| {
        Error::config(format!(
            "no incarnation follows {incarnation}, which a part in a sink's folder has in its name: no job wrote that part, so remove it"
        ))
    })
}

fn begin(job: &Job, store: &CheckpointStore) -> Result<Recovered> {
    let incarnation = store.next_incarnation()?;
    for (uid, sink) in &job.sinks {
        let remembered = sink.remembered()?.filter(|remembered| remembered.incarnation >= incarnation);
        let elsewhere = remembered.and_then(|remembered| Some((remembered.checkpoint, remembered.elsewhere?)));
        let from = elsewhere.as_ref().map_or_else(String::new, |(checkpoint, place)| {
            format!(" (job {} committed checkpoint {checkpoint} with its checkpoints in {place}: --data-dir names that folder)", job.name)
        });
        if sink.newest_commit()?.is_some_and(|(newest, _)| newest >= incarnation) {
            return Err(Error::config(format!(
                "sink {uid} already holds committed output, but there is no checkpoint to go on from{from}: running the job again would \
                 repeat it. give the sink another place, empty it, or start a new incarnation beside it with --fresh"
            )));
        }
        if elsewhere.is_some() {
            return Err(Error::config(format!(
                "sink {uid} has held output of this job that has been taken away since, but there is no checkpoint to go on from{from}: \
                 running the job again would repeat it. give the sink another place, or start a new incarnation with --fresh"
            )));
        }
    }
    Ok(Recovered {
        incarnation,
        splits: job.sources.iter().map(|_| Vec::new()).collect(),
        operators: job.graph.nodes.iter().map(|_| None).collect(),
        ..Recovered::default()
    })
}

/// Whether the job fits the checkpoint, before anything is changed.
pub(super) fn check(job: &Job, manifest: &Manifest, missing: Missing) -> Result<()> {
    if manifest.job != job.name {
        return Err(Error::config(format!(
            "checkpoint {} is of job {}, not of {}: give each job its own --data-dir",
            manifest.checkpoint, manifest.job, job.name
        )));
    }
    let plan = RestorePlan::new(job, manifest, missing);
    let refusals: Vec<&str> = plan.refusals().collect();
    if refusals.is_empty() { Ok(()) } else { Err(Error::config(at_most(&refusals).join("\n"))) }
}

fn resume(job: &Job, store: &CheckpointStore, manifest: &Manifest) -> Result<Recovered> {
    let splits_of =
        |uid: &String| manifest.sources.iter().find(|positions| positions.uid == *uid).map(|positions| positions.splits.clone());
    let mut operators: Vec<Option<RestoredOperator>> = job.graph.nodes.iter().map(|_| None).collect();
    for file in manifest.files.iter().filter(|_| !manifest.end_of_input) {
        let bytes = store.read_state(file)?;
        let snapshot = Snapshot::parse(&bytes).map_err(|error| error.while_doing(format!("reading state file {}", file.path)))?;
        manifest.check_snapshot(file, &snapshot)?;
        for part in snapshot.operators {
            let Some(operator) = job.operators.iter().find(|operator| operator.uid == part.uid) else { continue };
            let stored = manifest.operators.iter().find(|state| state.uid == part.uid);
            let broadcast = &operator.settings.factory.descriptor().broadcast_states;
            if let Some(place) = operators.get_mut(operator.node) {
                let restored = place.get_or_insert_with(|| RestoredOperator {
                    states: stored.map(|stored| ids(&stored.states, &operator.settings.states)).unwrap_or_default(),
                    migration: stored.map(|stored| migration(&stored.states, &operator.settings.states)).unwrap_or_default(),
                    broadcast_states: stored.map(|stored| ids(&stored.broadcast_states, broadcast)).unwrap_or_default(),
                    broadcast_migration: stored.map(|stored| migration(&stored.broadcast_states, broadcast)).unwrap_or_default(),
                    one_nan: stored.and_then(|stored| one_nan(stored, stored.key.as_ref(), &stored.states, manifest)),
                    broadcast_one_nan: stored.and_then(|stored| one_nan(stored, None, &stored.broadcast_states, manifest)),
                    ..RestoredOperator::default()
                });
                restored.passes.extend(part.groups.iter().map(|(group, _)| (*group, part.pass)));
                for database in manifest.databases.iter().filter(|database| database.operator == part.uid && database.worker == file.worker)
                {
                    let groups = range_of(file.worker, manifest.max_parallelism, manifest.parallelism);
                    let of = |group| u16::try_from(group).ok().map(KeyGroup);
                    restored.passes.extend(groups.clone().filter_map(of).map(|group| (group, part.pass)));
                    restored.stored.push((job.open_stored)(store, database, groups, manifest.checkpoint)?);
                }
                restored.broadcast.extend_from_slice(part.broadcast);
                restored.groups.extend(part.groups.into_iter().map(|(group, bytes)| (group, bytes.to_vec())));
            }
        }
    }
    Ok(Recovered {
        checkpoint: manifest.checkpoint,
        incarnation: manifest.incarnation,
        end_of_input: manifest.end_of_input,
        previous: manifest.as_previous()?,
        records_in: manifest.records_in,
        splits: job.sources.iter().map(|(uid, _)| splits_of(uid).unwrap_or_default()).collect(),
        operators,
        shared: manifest
            .databases
            .iter()
            .flat_map(|database| &database.files)
            .filter(|file| shared_name(file).is_some())
            .cloned()
            .collect(),
    })
}

/// What becomes of state that the job does not have, when it starts from this checkpoint: a savepoint's copy remembers what was said.
fn missing_of(manifest: &Manifest) -> Missing {
    if manifest.restored.as_ref().is_some_and(|restored| restored.drop_missing) { Missing::Dropped } else { Missing::Refused }
}

/// How the values of stored states become those of today's types. The check before has found that they can.
fn migration(stored: &[StoredState], declared: &[StateDescriptor]) -> Migration {
    let change = |state: &StoredState| {
        let transcoder = declared.iter().find(|now| now.name == state.name).and_then(|now| Transcoder::new(&state.value, &now.value).ok());
        Change { name: state.name.clone(), transcoder: transcoder.filter(|transcoder| !transcoder.is_identity()) }
    };
    Migration::new(stored.iter().map(change).collect())
}

/// What puts state together that was stored under several NaNs, before NaN was one key.
fn one_nan(operator: &OperatorState, key: Option<&TypeTable>, states: &[StoredState], manifest: &Manifest) -> Option<OneNan> {
    let maps = states.iter().map(|state| state.entry_key.as_ref());
    let one = OneNan::of(key, maps, manifest.max_parallelism).filter(|_| !operator.one_nan)?;
    info!(
        operator = operator.uid,
        "checkpoint {} was stored before NaN was one key: what operator {} has under several is put together under one",
        manifest.checkpoint,
        operator.uid
    );
    Some(one)
}

/// Today's id of each stored state, by name.
fn ids(stored: &[StoredState], declared: &[StateDescriptor]) -> Vec<Option<u8>> {
    let id = |state: &StoredState| declared.iter().position(|now| now.name == state.name).and_then(|id| u8::try_from(id).ok());
    stored.iter().map(id).collect()
}

/// Looks at what has become of the splits, and adds those that are new to the sources, with ids that go on.
fn discover(job: &Job, splits: &mut [Vec<Split>]) -> Result<()> {
    for ((uid, source), known) in job.sources.iter().zip(splits) {
        source.resume(known).map_err(|error| error.while_doing(format!("resuming the splits of source {uid}")))?;
        source.discover(known).map_err(|error| error.while_doing(format!("looking for the splits of source {uid}")))?;
    }
    Ok(())
}
