//! A running job of a case: from its start or a restore to a crash, a failure or the next restore.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Waker;

use tidemill_core::disk::Disk;
use tidemill_core::exchange::Barrier;
use tidemill_core::operator::Observer;
use tidemill_core::source::{Source, Split};
use tidemill_core::worker::{Report, Step, Worker, WorkerSetup, build};
use tidemill_core::{Error, Result, Timestamp};
use tidemill_wit::descriptor::Descriptor;

use super::components::Components;
use super::emitted::{Emission, Recorder};
use super::metrics;
use super::source::{SPLIT, StepSource};
use crate::runtime::checkpoints::{Checkpoints, Task};
use crate::runtime::recovery::{Missing, Recovered, restore};
use crate::runtime::{Job, Rig};
use crate::spec::case::{Case, Setup};
use crate::state::backend_on;
use crate::store::CheckpointStore;

use super::job::assemble;

/// So many rounds of steps end any case that ends: a million timers one by one take two million.
const MOST_ROUNDS: u32 = 4_000_000;

/// What a job starts from.
#[derive(Clone)]
pub(super) struct Start {
    /// Where state and checkpoints of the whole run are.
    pub(super) disk: Arc<dyn Disk>,
    /// The setup.
    pub(super) setup: Setup,
    /// A checkpoint or savepoint, alone in its store; `None`: it starts empty.
    pub(super) from: Option<CheckpointStore>,
    /// What becomes of state in it that the job does not have.
    pub(super) missing: Missing,
    /// Whether what the component logs is dropped: it would be the same in every run of the case.
    pub(super) is_silent: bool,
}

/// Whether processing-time timers may fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timers {
    /// Those that are due do.
    Fire,
    /// They wait, due or not.
    Wait,
}

/// A running job.
pub(super) struct Life {
    disk: Arc<dyn Disk>,
    job: Job,
    workers: Vec<Worker>,
    input: StepSource,
    broadcast: StepSource,
    recorder: Arc<Recorder>,
}

impl Life {
    /// Builds the job; nothing runs yet.
    ///
    /// # Errors
    /// The job does not fit its component, or not what it goes on from, or cannot be opened.
    pub(super) fn start(case: &Case, start: &Start, components: &Components, batch_rows: usize) -> Result<Self> {
        let (input, broadcast, recorder) = (StepSource::default(), StepSource::default(), Arc::new(Recorder::default()));
        let sources = [&input, &broadcast].map(|source| Arc::new(source.clone()) as Arc<dyn Source>).into();
        let observer = Arc::clone(&recorder) as Arc<dyn Observer>;
        let rig = Rig { sources, observer, batch_rows, is_silent: start.is_silent };
        let stored = match &start.from {
            Some(store) => store.newest()?.map(|manifest| manifest.max_parallelism),
            None => None,
        };
        let mut job = assemble(case, &start.setup, components, stored, rig)?;
        job.backend = backend_on(&start.disk, start.setup.backend.live(), batch_rows > 1)?;
        let recovered = match &start.from {
            Some(store) => restore(&job, store, start.missing)?,
            None => Recovered { operators: job.graph.nodes.iter().map(|_| None).collect(), ..Recovered::default() },
        };
        // Steps are never replayed, so the input goes on with the next one wherever the snapshot stood.
        let split = Split::new(&[], SPLIT);
        let setup = WorkerSetup {
            wakers: (0..job.parallelism).map(|_| Waker::noop().clone()).collect(),
            queue_capacity: job.queue_capacity,
            backend: Arc::clone(&job.backend),
            splits: vec![vec![split]; job.sources.len()],
            restored: recovered.operators,
            incarnation: 0,
            attempt: 0,
        };
        let workers = build(&job.graph, &setup)?;
        Ok(Self { disk: Arc::clone(&start.disk), job, workers, input, broadcast, recorder })
    }

    /// The input.
    pub(super) fn source(&self) -> &StepSource {
        &self.input
    }

    /// The input for broadcast records.
    pub(super) fn broadcast(&self) -> &StepSource {
        &self.broadcast
    }

    /// Both inputs have come to this watermark.
    pub(super) fn watermark(&self, watermark: i64) {
        self.input.watermark(watermark);
        self.broadcast.watermark(watermark);
    }

    /// Nothing more comes in.
    pub(super) fn end(&self) {
        self.input.end();
        self.broadcast.end();
    }

    /// What the component says about itself.
    pub(super) fn descriptor(&self) -> Option<&Descriptor> {
        self.job.operators.first().map(|operator| operator.settings.factory.descriptor())
    }

    /// Gives each worker a step in turn until none has anything to do. If one fails, the others still do what has come to them: how far they
    /// had got by then hangs on the size of batches.
    ///
    /// # Errors
    /// The job has failed. If several workers have, the first one's failure is told.
    pub(super) fn drive(&mut self, now: i64, timers: Timers) -> Result<()> {
        for worker in &mut self.workers {
            worker.hold_processing_timers(timers == Timers::Wait);
            worker.wake_sources();
        }
        let mut failures = BTreeMap::new();
        for _ in 0..MOST_ROUNDS {
            let mut worked = false;
            for (index, worker) in self.workers.iter_mut().enumerate() {
                if failures.contains_key(&index) {
                    continue;
                }
                match worker.step(Timestamp(now)) {
                    Ok(step) => worked |= step == Step::Worked,
                    Err(error) => _ = failures.insert(index, error),
                }
            }
            if !worked {
                return failures.pop_first().map_or(Ok(()), |(_, error)| Err(error));
            }
        }
        Err(Error::guest(format!("the job is still at work after {MOST_ROUNDS} rounds: does a timer register itself again and again?")))
    }

    /// Takes what was emitted since the last call, in order.
    pub(super) fn take_emitted(&self) -> Vec<Emission> {
        self.recorder.take()
    }

    /// Takes a checkpoint as production does, into a store of its own.
    ///
    /// # Errors
    /// The job has failed.
    pub(super) fn snapshot(&mut self, checkpoint: u64, now: i64) -> Result<CheckpointStore> {
        let store = CheckpointStore::open(Arc::clone(&self.disk), PathBuf::from(format!("checkpoints-{checkpoint}")))?;
        let mut checkpoints = Checkpoints::new(store.clone(), &self.job, &Recovered::default());
        for worker in &mut self.workers {
            worker.trigger(Barrier { checkpoint, ..Barrier::default() })?;
        }
        self.drive(now, Timers::Wait)?;
        let mut parts = 0;
        for worker in &mut self.workers {
            while let Some(report) = worker.report() {
                if let Report::Snapshot(snapshot) = report {
                    checkpoints.perform(Task::Persist(snapshot), Timestamp(now))?;
                    parts += 1;
                }
            }
        }
        if parts != self.workers.len() {
            return Err(Error::storage(format!("{parts} of {} workers have taken part in the checkpoint", self.workers.len())));
        }
        checkpoints.perform(Task::Store { checkpoint, end_of_input: false }, Timestamp(now))?;
        Ok(store)
    }

    /// The value of one of the operator's metrics, or of a counter of its component.
    pub(super) fn metric(&self, name: &str) -> metrics::Found {
        let statistics: Vec<_> = self.workers.iter().map(Worker::statistics).collect();
        let subtasks: Vec<_> = statistics.iter().flat_map(|worker| &worker.operators).collect();
        metrics::find(name, &subtasks)
    }
}
