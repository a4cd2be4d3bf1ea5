//! The rules of committing (file sink, checkpoint storage) on a disk that crashes at any call: whatever happens, every row is visible at most
//! once at every moment, and exactly once in the end. The job around them is a loop of a few lines, so that a failure is theirs.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking, wherever in it")]

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tidemill::runtime::checkpoints::commit;
use tidemill::runtime::doing::Doing;
use tidemill::sink::file::{FileSink, FileSinkConfig, RowEncode};
use tidemill::store::CheckpointStore;
use tidemill_core::batch::{Batch, Origin};
use tidemill_core::checkpoint::manifest::{Manifest, SinkCommittables, VERSION};
use tidemill_core::disk::Disk;
use tidemill_core::sink::{Sink, SinkWriter, WriterTask};
use tidemill_core::{Kind, Result};
use tidemill_tests::sim_disk::{Faults, SimDisk};

const OUT: &str = "/out/alerts";
const CHECKPOINTS: &str = "/job/checkpoints";
const SUBTASKS: u32 = 2;
const ROWS: u64 = 60;

/// What the job does wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    RestoreDoesNotCommit,
    CommitBeforeManifest,
    NextCheckpointWithoutCommit,
    PartIsNotSynced,
    BeginningIsNotNoted,
}

/// What the job was doing when it was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Restore,
    Run,
    BeforeManifest,
    Manifest,
    Commit,
    AfterCommit,
}

struct Plain;

impl RowEncode for Plain {
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(payload);
        Ok(())
    }
}

/// One process of the job.
struct Life<'a> {
    rng: &'a mut Rng,
    fault: Fault,
    phase: Phase,
    store: CheckpointStore,
    sink: Arc<FileSink>,
    writers: Vec<Box<dyn SinkWriter>>,
    /// How many rows each subtask has written.
    positions: Vec<u64>,
    checkpoint: u64,
}

impl<'a> Life<'a> {
    fn new(disk: &SimDisk, rng: &'a mut Rng, fault: Fault) -> Result<Self> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let config = FileSinkConfig { dir: OUT.into(), job: 1, owner: None, extension: "jsonl".to_owned(), header: None };
        let sink = Arc::new(FileSink::new(config, Arc::clone(&disk), Arc::new(|| Box::new(Plain) as Box<dyn RowEncode>)));
        let store = CheckpointStore::open(disk, PathBuf::from(CHECKPOINTS))?;
        let (positions, phase) = (vec![0; SUBTASKS as usize], Phase::Restore);
        Ok(Self { rng, fault, phase, store, sink, writers: Vec::new(), positions, checkpoint: 0 })
    }

    fn run(&mut self, attempt: u64) -> Result<()> {
        if self.store.finished()?.is_some() {
            return Ok(());
        }
        if self.restore()? {
            return self.store.mark_finished(self.checkpoint);
        }
        for subtask in 0..SUBTASKS {
            self.writers.push(self.sink.writer(WriterTask { subtask, incarnation: 0, attempt })?);
        }
        loop {
            self.phase = Phase::Run;
            self.write_some()?;
            let end = self.positions.iter().all(|position| *position == ROWS);
            if end || self.rng.u8(..3) == 0 {
                self.complete(end)?;
            }
            if end {
                return self.store.mark_finished(self.checkpoint);
            }
        }
    }

    /// Goes back to the newest checkpoint. Returns whether the input had ended there.
    fn restore(&mut self) -> Result<bool> {
        let newest = self.store.newest()?;
        let mut ended = false;
        if let Some(manifest) = newest {
            for file in &manifest.files {
                let bytes = self.store.read_state(file)?;
                self.positions[file.worker as usize] = u64::from_le_bytes(bytes.try_into().unwrap());
            }
            if self.fault != Fault::RestoreDoesNotCommit && !self.store.is_committed(manifest.checkpoint)? {
                self.commit(&manifest)?;
            }
            (self.checkpoint, ended) = (manifest.checkpoint, manifest.end_of_input);
        }
        self.sink.clean()?;
        self.store.remove_unfinished()?;
        Ok(ended)
    }

    fn commit(&self, manifest: &Manifest) -> Result<()> {
        if self.fault == Fault::BeginningIsNotNoted {
            self.sink.commit(&manifest.sinks[0].committables)?;
            return self.store.mark_committed(manifest.checkpoint);
        }
        commit(&self.store, manifest, &[("alerts".to_owned(), Arc::clone(&self.sink) as _)], &Doing::default())
    }

    fn write_some(&mut self) -> Result<()> {
        for (subtask, writer) in self.writers.iter_mut().enumerate() {
            let end = ROWS.min(self.positions[subtask] + self.rng.u64(..5));
            let mut batch = Batch::default();
            // Long rows, so that a part is written in several calls.
            (self.positions[subtask]..end)
                .for_each(|row| batch.push(format!("{subtask}/{row}/{:9000}", "").as_bytes(), None, Origin::NONE));
            writer.write(&batch)?;
            self.positions[subtask] = end;
        }
        Ok(())
    }

    fn complete(&mut self, end_of_input: bool) -> Result<()> {
        self.phase = Phase::BeforeManifest;
        self.checkpoint += 1;
        let (mut committables, mut states) = (Vec::new(), Vec::new());
        for (writer, worker) in self.writers.iter_mut().zip(0..) {
            let prepared = writer.prepare_commit(self.checkpoint)?;
            if self.fault != Fault::PartIsNotSynced {
                prepared.job.map_or(Ok(()), |job| job())?;
            }
            committables.extend(prepared.committable);
            let state = self.positions[worker as usize].to_le_bytes();
            states.push(self.store.write_state(self.checkpoint, worker, &state)?);
        }
        if self.fault == Fault::CommitBeforeManifest {
            self.sink.commit(&committables)?;
        }
        self.phase = Phase::Manifest;
        let sinks = vec![SinkCommittables { uid: "alerts".to_owned(), committables }];
        let manifest = Manifest {
            version: VERSION,
            checkpoint: self.checkpoint,
            parallelism: SUBTASKS,
            end_of_input,
            files: states,
            sinks,
            ..Manifest::default()
        };
        self.store.write_manifest(&manifest)?;
        self.phase = Phase::Commit;
        if self.fault == Fault::NextCheckpointWithoutCommit && self.rng.bool() {
            return Ok(());
        }
        self.commit(&manifest)?;
        self.phase = Phase::AfterCommit;
        self.store.retain(self.checkpoint, 1)
    }
}

/// How often each row is visible, or was when a reader took it away.
#[derive(Clone, Default)]
struct Rows(BTreeMap<String, usize>);

impl Rows {
    fn add_visible(&mut self, disk: &SimDisk) {
        for path in parts(disk) {
            let text = String::from_utf8_lossy(&disk.read(&path).unwrap()).into_owned();
            text.lines().for_each(|line| *self.0.entry(line.trim_end().to_owned()).or_default() += 1);
        }
    }

    /// A reader takes what is visible, once the machine has made it durable, as it does sooner or later.
    fn take(&mut self, disk: &SimDisk) {
        disk.sync_dir(Path::new(OUT)).unwrap();
        self.add_visible(disk);
        parts(disk).iter().for_each(|part| disk.take(part));
    }
}

fn parts(disk: &SimDisk) -> Vec<PathBuf> {
    let is_part = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_str().unwrap().starts_with("part-"));
    disk.list(Path::new(OUT)).unwrap().into_iter().filter(is_part).collect()
}

/// Runs a job through crashes and failed calls until it has finished. Counts where it was stopped. What is wrong is returned.
fn simulate(seed: u64, fault: Fault, stops: &mut BTreeMap<Phase, usize>) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let (disk, mut taken) = (SimDisk::new(seed), Rows::default());
    for attempt in 0.. {
        // After many lives the job may run to its end.
        let (crash, peaceful) = (rng.bool(), attempt > 25);
        match (peaceful, crash) {
            (true, _) => disk.set_faults(Faults::default()),
            (false, true) => disk.stop_after(rng.u64(..120)),
            (false, false) => disk.set_faults(Faults { probability: 0.02, kind: ErrorKind::Other, ..Faults::default() }),
        }
        let mut phase = Phase::Restore;
        let outcome = Life::new(&disk, &mut rng, fault).and_then(|mut life| {
            let outcome = life.run(attempt);
            phase = life.phase;
            outcome
        });
        let finished = match outcome {
            Ok(()) => true,
            Err(error) if error.kind() == Kind::Corrupt || peaceful => return Err(error.chain()),
            Err(_) => false,
        };
        if !finished {
            *stops.entry(phase).or_default() += 1;
        }
        disk.set_faults(Faults::default());
        if crash || finished {
            disk.crash(&mut rng);
        }
        if !disk.list(Path::new(OUT)).unwrap().is_empty() && rng.u8(..3) == 0 {
            taken.take(&disk);
        }
        let mut rows = taken.clone();
        rows.add_visible(&disk);
        let Rows(rows) = rows;
        if let Some((row, count)) = rows.iter().find(|(_, count)| **count != 1) {
            return Err(format!("row {row} is visible {count} times"));
        }
        if finished {
            let wanted = (0..SUBTASKS).flat_map(|subtask| (0..ROWS).map(move |row| format!("{subtask}/{row}/")));
            let missing = wanted.filter(|row| !rows.contains_key(row)).collect::<Vec<_>>();
            return if missing.is_empty() && rows.len() as u64 == u64::from(SUBTASKS) * ROWS {
                Ok(())
            } else {
                Err(format!("missing {missing:?}"))
            };
        }
    }
    Ok(())
}

#[test]
fn every_row_is_visible_exactly_once_whatever_crashes() {
    let mut stops = BTreeMap::new();
    for seed in 0..400 {
        if let Err(problem) = simulate(seed, Fault::None, &mut stops) {
            panic!("seed {seed}: {problem}");
        }
    }
    println!("stopped in {stops:?}");
    for phase in [Phase::Restore, Phase::Run, Phase::BeforeManifest, Phase::Manifest, Phase::Commit, Phase::AfterCommit] {
        assert!(stops.get(&phase).is_some_and(|count| *count > 20), "{phase:?}: {stops:?}");
    }
}

#[test]
fn a_job_that_breaks_a_rule_is_caught() {
    for fault in [
        Fault::RestoreDoesNotCommit,
        Fault::CommitBeforeManifest,
        Fault::NextCheckpointWithoutCommit,
        Fault::PartIsNotSynced,
        Fault::BeginningIsNotNoted,
    ] {
        let caught = (0..100).filter(|seed| simulate(*seed, fault, &mut BTreeMap::new()).is_err()).count();
        println!("{fault:?}: caught {caught} of 100");
        assert!(caught > 10, "{fault:?}: {caught}");
    }
}

#[test]
fn a_start_from_nothing_that_crashes_leaves_the_newest_checkpoint_or_none() {
    let mut left = BTreeMap::<Option<u64>, usize>::new();
    for seed in 0..300 {
        let (mut rng, disk) = (Rng::with_seed(seed), SimDisk::new(seed));
        let open = || CheckpointStore::open(Arc::new(disk.clone()), PathBuf::from(CHECKPOINTS)).unwrap();
        let store = open();
        for checkpoint in 1..=3 {
            let states = vec![store.write_state(checkpoint, 0, b"state").unwrap()];
            store.write_manifest(&Manifest { version: VERSION, checkpoint, files: states, ..Manifest::default() }).unwrap();
        }
        store.mark_finished(3).unwrap();
        disk.stop_after(rng.u64(..14));
        let cleared = store.clear().is_ok();
        disk.crash(&mut rng);
        let newest = open().newest().unwrap();
        assert!(!cleared || newest.is_none(), "seed {seed}");
        assert!(newest.is_some() || open().finished().unwrap().is_none(), "seed {seed}");
        if let Some(manifest) = &newest {
            assert_eq!(open().read_state(&manifest.files[0]).unwrap(), b"state", "seed {seed}");
        }
        *left.entry(newest.map(|manifest| manifest.checkpoint)).or_default() += 1;
    }
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [None, Some(3)], "{left:?}");
}

#[test]
fn output_is_committed_though_its_checkpoint_is_removed_meanwhile() {
    for note in ["COMMITTING", "COMMITTED"] {
        let (disk, mut rng) = (SimDisk::new(1), Rng::with_seed(1));
        let mut life = Life::new(&disk, &mut rng, Fault::None).unwrap();
        life.writers.push(life.sink.writer(WriterTask { subtask: 0, incarnation: 0, attempt: 1 }).unwrap());
        (0..9).for_each(|_| life.write_some().unwrap());
        disk.remove_folder_before(note);
        life.complete(false).unwrap();
        assert!(!life.store.has_checkpoint(1).unwrap(), "{note}");
        assert!(!parts(&disk).is_empty(), "{note}");
    }
}
