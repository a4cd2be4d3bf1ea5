//! The steps of a checkpoint that touch disks and sinks: persist each worker's part, write the manifest, commit, retain. They wait, so they
//! run away from the workers: on a thread in production, one by one under the seeded scheduler in simulations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tidemill_core::checkpoint::Event;
use tidemill_core::checkpoint::manifest::{
    Manifest, OperatorState, SinkCommittables, SourcePositions, StateFile, StoredDatabase, StoredFile, VERSION,
};
use tidemill_core::sink::{Committable, Sink};
use tidemill_core::source::Split;
use tidemill_core::state::{Frozen, FrozenFile};
use tidemill_core::worker::WorkerSnapshot;
use tidemill_core::{Error, Kind, Result, Timestamp};
use tracing::warn;

use self::whole::has_vanished;
use super::doing::Doing;
use super::history::{History, Verdict};
use super::job::Job;
use super::recovery::Recovered;
pub use super::saving::GivenUp;
use super::saving::Savepoint;
use crate::store::savepoint::SavepointFolder;
use crate::store::{CheckpointStore, shared_name};

mod whole;

/// A step of a checkpoint, to be done in the order in which it was asked for.
pub enum Task {
    /// A savepoint begins: this is where it goes.
    Save {
        /// Its id.
        checkpoint: u64,
        /// Its folder.
        folder: SavepointFolder,
        /// Whether it is also the job's newest checkpoint, as that of a stop is.
        also_checkpoint: bool,
        /// What the client called its request for it.
        trigger: String,
    },
    /// Make a worker's part durable.
    Persist(Box<WorkerSnapshot>),
    /// Write the manifest.
    Store {
        /// The checkpoint.
        checkpoint: u64,
        /// Whether it covers all input.
        end_of_input: bool,
    },
    /// Commit what the manifest names.
    Commit {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// Remove checkpoints that are no longer kept.
    Retain {
        /// The newest checkpoint.
        newest: u64,
    },
    /// Remove what a failed checkpoint left.
    Discard {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// Write down what became of a checkpoint.
    Note(Verdict),
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Save { checkpoint, folder, .. } => write!(f, "beginning savepoint {checkpoint} in {}", folder.dir().display()),
            Self::Persist(part) => write!(f, "writing the part of worker {} of checkpoint {}", part.worker, part.checkpoint),
            Self::Store { checkpoint, .. } => write!(f, "writing the manifest of checkpoint {checkpoint}"),
            Self::Commit { checkpoint } => write!(f, "committing checkpoint {checkpoint}"),
            Self::Retain { newest } => write!(f, "removing checkpoints before {newest}"),
            Self::Discard { checkpoint } => write!(f, "removing what is left of checkpoint {checkpoint}"),
            Self::Note(verdict) => write!(f, "writing down what became of checkpoint {}", verdict.checkpoint),
        }
    }
}

/// The checkpoints of a running job.
pub struct Checkpoints {
    store: CheckpointStore,
    sources: Vec<String>,
    sinks: Vec<(String, Arc<dyn Sink>)>,
    template: Manifest,
    retain: usize,
    parts: BTreeMap<u64, Vec<Part>>,
    /// Committables of checkpoints that failed after their barrier had passed: they belong to the next one.
    carried: Vec<(u32, Committable)>,
    /// The checkpoint that was stored last.
    stored: Option<Manifest>,
    /// The shared files that are there, by their contents: they are not copied again.
    shared: BTreeMap<String, StoredFile>,
    /// The paths of those that were there and have vanished, until it has been said.
    vanished: BTreeSet<String>,
    /// Savepoints that are being taken.
    savepoints: BTreeMap<u64, Savepoint>,
    /// The last savepoint, not of a stop, that was completed: it stays.
    saved: Option<u64>,
    history: History,
    doing: Doing,
    given_up: GivenUp,
}

/// One worker's part of a checkpoint, durable.
struct Part {
    file: StateFile,
    databases: Vec<StoredDatabase>,
    splits: Vec<(u32, Vec<Split>)>,
    committables: Vec<(u32, Committable)>,
    records_in: u64,
}

impl Checkpoints {
    /// For a job that starts from what was recovered.
    #[must_use]
    pub fn new(store: CheckpointStore, job: &Job, recovered: &Recovered) -> Self {
        let template = Manifest {
            version: VERSION,
            job: job.name.clone(),
            incarnation: recovered.incarnation,
            checkpoint: 0,
            created: 0,
            parallelism: job.parallelism,
            max_parallelism: job.graph.max_parallelism,
            end_of_input: false,
            records_in: recovered.records_in,
            savepoint: false,
            previous: Some(recovered.previous.clone()),
            trigger: None,
            cut: None,
            restored: None,
            files: Vec::new(),
            databases: Vec::new(),
            sources: Vec::new(),
            operators: job.operators.iter().map(super::job::JobOperator::state).collect::<Vec<OperatorState>>(),
            sinks: Vec::new(),
        };
        Self {
            store,
            sources: job.sources.iter().map(|(uid, _)| uid.clone()).collect(),
            sinks: job.sinks.clone(),
            template,
            retain: job.retain,
            parts: BTreeMap::new(),
            carried: Vec::new(),
            stored: None,
            shared: recovered.shared.iter().filter_map(|file| Some((shared_name(file)?.to_owned(), file.clone()))).collect(),
            vanished: BTreeSet::new(),
            savepoints: BTreeMap::new(),
            saved: None,
            history: History::new(job),
            doing: Doing::default(),
            given_up: GivenUp::default(),
        }
    }

    /// Writes the history of checkpoints into the job's folder.
    #[must_use]
    pub fn with_history(mut self, dir: PathBuf) -> Self {
        self.history.write_to(dir);
        self
    }

    /// Does a step, and returns what the coordinator should know of it.
    ///
    /// # Errors
    /// The job must fail. A storage error before the manifest is durable only fails the checkpoint, which the job may tolerate, and is
    /// returned as an event.
    pub fn perform(&mut self, task: Task, now: Timestamp) -> Result<Option<Event>> {
        self.doing.begin(task.to_string());
        let outcome = self.perform_task(task, now);
        self.doing.end();
        outcome
    }

    /// What is being done, for those who wait for it.
    #[must_use]
    pub fn doing(&self) -> &Doing {
        &self.doing
    }

    /// Tells it of checkpoints that are given up, whatever it is doing.
    #[must_use]
    pub fn given_up(&self) -> &GivenUp {
        &self.given_up
    }

    fn perform_task(&mut self, task: Task, now: Timestamp) -> Result<Option<Event>> {
        match task {
            Task::Save { checkpoint, folder, also_checkpoint, trigger } => {
                self.savepoints.insert(checkpoint, Savepoint { folder, also_checkpoint, trigger, files: Vec::new() });
                Ok(None)
            }
            Task::Persist(snapshot) => {
                let (worker, checkpoint) = (snapshot.worker, snapshot.checkpoint);
                checkpoint_failure(checkpoint, self.persist(*snapshot), Event::Acknowledged { worker, checkpoint })
            }
            // Given up while it waited: what was written of it is about to be discarded.
            Task::Store { checkpoint, .. } if self.given_up.has(checkpoint) => Ok(None),
            Task::Store { checkpoint, end_of_input } => {
                checkpoint_failure(checkpoint, self.store(checkpoint, end_of_input, now), Event::Stored { checkpoint })
            }
            Task::Commit { checkpoint } => {
                self.commit(checkpoint)?;
                Ok(Some(Event::Committed { checkpoint }))
            }
            // What cannot be removed now is removed later: it costs space, not correctness.
            Task::Retain { newest } => {
                if let Err(error) = self.store.retain(newest, self.retain).and_then(|()| self.clean_shared()) {
                    warn!(newest, "cannot remove old checkpoints: {}", error.chain());
                }
                Ok(None)
            }
            // It was complete before it was given up, and has been reported as stored.
            Task::Discard { checkpoint } if self.saved == Some(checkpoint) => Ok(None),
            Task::Discard { checkpoint } => {
                let left = self.discard(checkpoint).err().map(|error| error.chain());
                if let Some(left) = &left {
                    warn!(checkpoint, "cannot remove a failed checkpoint: {left}");
                }
                Ok(Some(Event::Discarded { checkpoint, left }))
            }
            Task::Note(verdict) => {
                self.history.note(verdict);
                Ok(None)
            }
        }
    }

    /// Makes a worker's part durable: first what its sinks wrote, then its state.
    ///
    /// # Errors
    /// A connector error means that output may be lost: the job must fail. A storage error fails the checkpoint only.
    fn persist(&mut self, mut snapshot: WorkerSnapshot) -> Result<()> {
        let checkpoint = snapshot.checkpoint;
        for job in std::mem::take(&mut snapshot.jobs) {
            job()?;
        }
        if self.given_up.has(checkpoint) {
            // A slow disk would fall further and further behind.
            self.carried.extend(snapshot.committables);
            return Ok(());
        }
        // Kept even if the state cannot be written: the next checkpoint commits them.
        let written = self.write_state(&mut snapshot);
        match written {
            Ok((file, databases)) => {
                self.history.stored(checkpoint, snapshot.worker, &snapshot.tasks, file.bytes, &databases);
                let part =
                    Part { file, databases, splits: snapshot.splits, committables: snapshot.committables, records_in: snapshot.records_in };
                self.parts.entry(checkpoint).or_default().push(part);
                Ok(())
            }
            Err(error) => {
                self.carried.extend(snapshot.committables);
                Err(error)
            }
        }
    }

    /// Writes a worker's state: that of a savepoint whole, in a file that any backend can read; that of a checkpoint as it comes.
    ///
    /// # Errors
    /// A file did not become durable.
    fn write_state(&mut self, snapshot: &mut WorkerSnapshot) -> Result<(StateFile, Vec<StoredDatabase>)> {
        let (checkpoint, worker) = (snapshot.checkpoint, snapshot.worker);
        if let Some(savepoint) = self.savepoints.get_mut(&checkpoint) {
            let file = savepoint.folder.stream_state(worker, &mut |out| snapshot.write(true, out))?;
            self.history.uploaded(checkpoint, file.bytes);
            if !savepoint.also_checkpoint {
                return Ok((file, Vec::new()));
            }
            savepoint.files.push(file);
        }
        let file = self.store.stream_state(checkpoint, worker, &mut |out| snapshot.write(false, out))?;
        self.history.uploaded(checkpoint, file.bytes);
        let frozen = std::mem::take(&mut snapshot.frozen);
        let databases = self.store_databases(checkpoint, worker, frozen);
        self.warn_of_vanished(checkpoint);
        Ok((file, databases?))
    }

    /// Stores the files of frozen state that are not stored yet. What fails amid it is removed when the checkpoint is discarded.
    ///
    /// # Errors
    /// A file did not become durable.
    fn store_databases(&mut self, checkpoint: u64, worker: u32, frozen: Vec<(String, Box<dyn Frozen>)>) -> Result<Vec<StoredDatabase>> {
        let mut databases = Vec::with_capacity(frozen.len());
        for (number, (operator, mut frozen)) in frozen.into_iter().enumerate() {
            let made = frozen.files()?;
            let mut files = Vec::with_capacity(made.len());
            for FrozenFile { name, path, content } in &made {
                let stored = content.as_ref().map(|content| self.stored_already(content)).transpose()?.flatten();
                if let Some(stored) = stored {
                    files.push(stored);
                    continue;
                }
                let stored = match content {
                    None => self.store.store_own(path, name, checkpoint, &format!("state-{worker}-{number}"))?,
                    Some(content) => self.store.store_shared(path, name, content)?,
                };
                self.history.uploaded(checkpoint, stored.bytes);
                if let Some(content) = content {
                    self.shared.insert(content.clone(), stored.clone());
                }
                files.push(stored);
            }
            databases.push(StoredDatabase { operator, worker, format: frozen.format(), files });
        }
        Ok(databases)
    }

    /// Removes the shared files that no checkpoint needs, neither a complete one nor one under way.
    fn clean_shared(&mut self) -> Result<()> {
        let under_way = self.parts.values().flatten().flat_map(|part| &part.databases).flat_map(|database| &database.files);
        let under_way = under_way.map(|file| file.path.clone()).collect();
        // What a cleaning has removed that then failed is not known: all is stored anew then.
        let shared = std::mem::take(&mut self.shared);
        let kept = self.store.clean_shared(under_way)?;
        // What the newest checkpoint names and is not there has vanished.
        let named = self.stored.iter().flat_map(|manifest| &manifest.databases).flat_map(|database| &database.files);
        let gone = named.filter(|file| shared_name(file).is_some() && !kept.contains(&file.path));
        self.vanished.extend(gone.map(|file| file.path.clone()));
        self.shared = shared.into_iter().filter(|(_, file)| kept.contains(&file.path)).collect();
        Ok(())
    }

    /// Writes the manifest from all workers' parts. Parts of older checkpoints, which never completed, hand over their committables.
    ///
    /// # Errors
    /// The manifest may not have become durable: the checkpoint fails.
    fn store(&mut self, checkpoint: u64, end_of_input: bool, now: Timestamp) -> Result<()> {
        let later = self.parts.split_off(&(checkpoint + 1));
        let parts = self.parts.remove(&checkpoint).unwrap_or_default();
        for (_, failed) in std::mem::replace(&mut self.parts, later) {
            self.carried.extend(failed.into_iter().flat_map(|part| part.committables));
        }
        let mut manifest = Manifest { checkpoint, end_of_input, created: now.0, ..self.template.clone() };
        manifest.sources = self.sources.iter().map(|uid| SourcePositions { uid: uid.clone(), splits: Vec::new() }).collect();
        manifest.sinks = self.sinks.iter().map(|(uid, _)| SinkCommittables { uid: uid.clone(), committables: Vec::new() }).collect();
        for part in parts {
            manifest.records_in += part.records_in;
            manifest.files.push(part.file);
            manifest.databases.extend(part.databases);
            for (source, splits) in part.splits {
                if let Some(positions) = manifest.sources.get_mut(source as usize) {
                    positions.splits.extend(splits);
                }
            }
            self.carried.extend(part.committables);
        }
        manifest.files.sort_by_key(|file| file.worker);
        manifest.databases.sort_by(|a, b| (&a.operator, a.worker).cmp(&(&b.operator, b.worker)));
        manifest.sources.iter_mut().for_each(|positions| positions.splits.sort_by_key(|split| split.id));
        for (sink, committable) in &self.carried {
            if let Some(sink) = manifest.sinks.get_mut(*sink as usize) {
                sink.committables.push(committable.clone());
            }
        }
        manifest.mark_cut();
        self.check_whole(&manifest)?;
        if let Some(savepoint) = self.savepoints.get(&checkpoint) {
            savepoint.complete(&manifest)?;
            if !savepoint.also_checkpoint {
                // What it has not committed stays with the next checkpoint.
                self.savepoints.remove(&checkpoint);
                self.saved = Some(checkpoint);
                return Ok(());
            }
        }
        self.store.keep_claim()?;
        self.store.write_manifest(&manifest)?;
        self.template.previous = Some(manifest.as_previous()?);
        self.carried.clear();
        self.stored = Some(manifest);
        Ok(())
    }

    /// Commits the checkpoint that was stored last.
    ///
    /// # Errors
    /// A commit did not happen, or may not have: the job must fail; the restore commits.
    fn commit(&mut self, checkpoint: u64) -> Result<()> {
        let Some(manifest) = &self.stored else { return Ok(()) };
        commit(&self.store, manifest, &self.sinks, &self.doing)?;
        match self.savepoints.remove(&checkpoint) {
            Some(Savepoint { folder, .. }) => folder.mark_committed(),
            None => Ok(()),
        }
    }

    /// Removes the files of a failed checkpoint; its committables stay for the next one.
    ///
    /// # Errors
    /// A file cannot be removed.
    fn discard(&mut self, checkpoint: u64) -> Result<()> {
        let failed = self.parts.remove(&checkpoint).unwrap_or_default();
        self.carried.extend(failed.into_iter().flat_map(|part| part.committables));
        // It was stored after all, but too late.
        if let Some(late) = self.stored.take_if(|stored| stored.checkpoint == checkpoint) {
            for (sink, SinkCommittables { committables, .. }) in (0..).zip(late.sinks) {
                self.carried.extend(committables.into_iter().map(|committable| (sink, committable)));
            }
        }
        match self.savepoints.remove(&checkpoint) {
            Some(Savepoint { folder, also_checkpoint: false, .. }) => folder.discard(),
            Some(Savepoint { folder, .. }) => folder.discard().and_then(|()| self.store.discard(checkpoint)),
            None => self.store.discard(checkpoint),
        }?;
        self.clean_shared()
    }

    /// The length of the state files of the checkpoint that was stored last.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        let databases =
            |manifest: &Manifest| manifest.databases.iter().flat_map(|database| &database.files).map(|file| file.bytes).sum::<u64>();
        self.stored.as_ref().map_or(0, |manifest| manifest.files.iter().map(|file| file.bytes).sum::<u64>() + databases(manifest))
    }
}

/// A storage error fails the checkpoint, which the spec may tolerate; any other fails the job.
fn checkpoint_failure(checkpoint: u64, outcome: Result<()>, done: Event) -> Result<Option<Event>> {
    match outcome {
        Ok(()) => Ok(Some(done)),
        Err(error) if error.kind() == Kind::Storage && has_vanished(&error) => {
            Ok(Some(Event::Vanished { checkpoint, reason: error.chain() }))
        }
        Err(error) if error.kind() == Kind::Storage => Ok(Some(Event::Failed { checkpoint, reason: error.chain() })),
        Err(error) => Err(error),
    }
}

/// Commits what a checkpoint's manifest names, and notes that durably: a reader may take committed output away, so a restore must not look
/// for it again. That it begins is noted before anything is visible, so that after a crash amid it what is gone can have been taken too.
///
/// # Errors
/// A sink that has something to commit is no longer in the job, or a commit did not happen.
pub fn commit(store: &CheckpointStore, manifest: &Manifest, sinks: &[(String, Arc<dyn Sink>)], doing: &Doing) -> Result<()> {
    let begun = store.is_committing(manifest.checkpoint)?;
    if !begun && manifest.sinks.iter().any(|sink| !sink.committables.is_empty()) {
        unless_gone(store, manifest.checkpoint, store.mark_committing(manifest.checkpoint))?;
    }
    commit_to_sinks(manifest, sinks, begun, doing)?;
    unless_gone(store, manifest.checkpoint, store.mark_committed(manifest.checkpoint))
}

/// A checkpoint that is removed while it is committed needs no note, since no restore reads it any more; the job writes the next one whole.
/// To fail here would end the job at its restart, which finds output and no checkpoint.
fn unless_gone(store: &CheckpointStore, checkpoint: u64, noted: Result<()>) -> Result<()> {
    match noted {
        Err(error) if has_vanished(&error) && !store.has_checkpoint(checkpoint)? => {
            warn!(checkpoint, "checkpoint {checkpoint} was removed while its output was committed: {}", error.chain());
            Ok(())
        }
        outcome => outcome,
    }
}

fn commit_to_sinks(manifest: &Manifest, sinks: &[(String, Arc<dyn Sink>)], begun: bool, doing: &Doing) -> Result<()> {
    for SinkCommittables { uid, committables } in &manifest.sinks {
        if committables.is_empty() {
            continue;
        }
        let Some((_, sink)) = sinks.iter().find(|(known, _)| known == uid) else {
            let id = manifest.checkpoint;
            return Err(Error::config(format!(
                "checkpoint {id} has output for sink {uid} that is not committed, but the job no longer has that sink: add it again, or \
                 start from nothing with --fresh"
            )));
        };
        let what = format!("committing checkpoint {} to sink {uid}", manifest.checkpoint);
        doing.begin(what.clone());
        let committed = if begun { sink.commit_again(committables) } else { sink.commit(committables) };
        committed.map_err(|error| error.while_doing(what))?;
    }
    Ok(())
}
