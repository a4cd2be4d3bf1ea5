//! A job from its first life to its end, through whatever befalls it, and what must be true all the time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tidemill::runtime::job::Job;
use tidemill::runtime::recovery::forget;
use tidemill::store::CheckpointStore;
use tidemill_core::disk::Disk;
use tidemill_core::sink::Sink;
use tidemill_core::worker::Node;
use tidemill_core::{Error, Kind, Timestamp, checkpoint};

use super::day::Day;
use super::faulty_disk::{self, DiskFault};
use super::files::files_backend;
use super::job::{DEAD_LETTERS, OUTPUTS, Shape, stock_out};
use super::life::{Breaks, CHECKPOINTS, End, Life, Phase, Tally};
use super::output::{is_visible, rows};
use super::pauses::Pauses;
use super::saving::{Savepoints, TakenOver};
use super::stored::{check_no_leftovers, check_whole};
use super::trouble::Trouble;
use crate::sim_disk::SimDisk;

/// After so many lives nothing befalls the job any more.
const LIVES: u64 = 12;
/// Far more steps than a job needs.
const STEPS: u64 = 2_000_000;
const FOREVER: i64 = i64::MAX / 2;
/// The folders of all sinks.
pub(super) const FOLDERS: [&str; 3] = [OUTPUTS[0], OUTPUTS[1], DEAD_LETTERS];

/// Changes a job so that it breaks a rule.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Wraps each sink of a process.
    pub sink: fn(Arc<dyn Sink>) -> Arc<dyn Sink>,
    /// The fault of the disk of the checkpoints.
    pub store: Option<DiskFault>,
    /// The fault of the disk of the sinks.
    pub output: Option<DiskFault>,
    /// Whether plain savepoints commit the output that they hold.
    pub savepoints_commit: bool,
}

impl Fault {
    /// No rule is broken.
    pub const NONE: Self = Self { sink: |sink| sink, store: None, output: None, savepoints_commit: false };
}

/// What happened, over all schedules.
#[derive(Debug, Default)]
pub struct Counts {
    /// Lives, from start to end.
    pub lives: u64,
    /// Power cuts by phase.
    pub power_cuts: BTreeMap<Phase, u64>,
    /// Kills by phase.
    pub kills: BTreeMap<Phase, u64>,
    /// Lives that failed because the disk did, by phase.
    pub failures: BTreeMap<Phase, u64>,
    /// Calls to the disk that failed.
    pub failed_calls: u64,
    /// Lives that the user stopped.
    pub stops: u64,
    /// Starts with another parallelism than the life before.
    pub rescales: u64,
    /// Starts from nothing over what was there.
    pub starts_over: u64,
    /// Checkpoints.
    pub checkpoints: Tally,
    /// Processes whose state is in files of its own.
    pub with_files: u64,
    /// Jobs that were given another parallelism while their process lived on.
    pub rescaled: u64,
    /// Savepoints that were completed.
    pub savepoints: u64,
    /// Savepoints that failed, with nothing left of them.
    pub not_saved: u64,
    /// Starts from a savepoint.
    pub taken_over: u64,
    /// Starts from a savepoint that were refused since its output was gone.
    pub gone: u64,
    /// Starts from a savepoint in a new incarnation.
    pub incarnations: u64,
    /// Stops at which all event time ended.
    pub drains: u64,
    /// Times in which nothing came in.
    pub pauses: u64,
    /// Lives that began in one.
    pub began_paused: u64,
}

/// How a life ended.
#[derive(Debug)]
enum Outcome {
    End(End),
    /// It was cut short.
    Cut,
    Failed(Error),
}

pub(super) struct Schedule<'a> {
    pub(super) rng: Rng,
    pub(super) day: Day,
    pub(super) disk: SimDisk,
    pub(super) fault: Fault,
    pub(super) counts: &'a mut Counts,
    /// The process that runs; `None` after it died.
    job: Option<Job>,
    parallelism: u32,
    now: Timestamp,
    /// The user wants to start from nothing.
    over: bool,
    /// The rows that a reader has taken out of each output folder.
    pub(super) taken: [Vec<String>; 3],
    /// The rows of earlier incarnations, in each output folder: what comes again in this one was to come again.
    pub(super) before: [Vec<String>; 3],
    /// Whether the user takes savepoints.
    pub(super) saves: bool,
    /// All event time may have ended before its time: the output says nothing until the job has started from nothing.
    pub(super) drains: bool,
    pub(super) savepoints: Savepoints,
    pauses: Pauses,
    /// What happened, for the one who looks for the reason of a failure.
    pub(super) story: Vec<String>,
}

/// Runs a job through all that the seed has for it until it has finished.
///
/// # Errors
/// What is wrong, if a promise was broken.
pub fn simulate(seed: u64, fault: Fault, counts: &mut Counts) -> Result<(), String> {
    let mut rng = Rng::with_seed(!seed);
    let may_pause = rng.bool();
    run(seed, fault, counts, Pauses::new(rng, may_pause))
}

/// The same, but something comes in all the time.
///
/// # Errors
/// What is wrong, if a promise was broken.
pub fn simulate_busy(seed: u64, fault: Fault, counts: &mut Counts) -> Result<(), String> {
    run(seed, fault, counts, Pauses::new(Rng::with_seed(0), false))
}

fn run(seed: u64, fault: Fault, counts: &mut Counts, mut pauses: Pauses) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let (baskets, splits) = (rng.usize(20..300), rng.usize(1..5));
    let mut day = Day::new(seed, baskets, splits);
    day.spoil(&mut rng);
    pauses.prepare(&mut day);
    let disk = SimDisk::new(seed);
    let saves = rng.bool();
    let mut schedule = Schedule {
        rng,
        day,
        disk,
        fault,
        counts,
        job: None,
        parallelism: 0,
        now: Timestamp(0),
        over: false,
        taken: Default::default(),
        before: Default::default(),
        saves,
        drains: false,
        savepoints: Savepoints::default(),
        pauses,
        story: Vec::new(),
    };
    let outcome = (0..=LIVES).try_for_each(|attempt| match schedule.live(attempt) {
        Ok(false) => Ok(()),
        Ok(true) => Err(None),
        Err(what) => Err(Some(format!("life {attempt}: {what}"))),
    });
    match outcome {
        Err(None) => schedule.check_finished(),
        Err(Some(what)) => Err(what),
        Ok(()) => Err("the job has not finished".to_owned()),
    }
    .map_err(|what| format!("{what}; before that: {}", schedule.story.join(", ")))
}

impl Schedule<'_> {
    /// One life. Returns whether the job has finished.
    fn live(&mut self, attempt: u64) -> Result<bool, String> {
        let peaceful = attempt == LIVES;
        let trouble = if peaceful { Trouble::None } else { Trouble::random(&mut self.rng) };
        let mut job = self.job.take().map_or_else(|| self.process(), Ok)?;
        job.checkpoints = self.options(trouble);
        self.disk.set_faults(trouble.faults());
        if let Some(calls) = trouble.calls() {
            self.disk.stop_after(calls);
        }
        let failed_before = self.disk.failed();
        self.over |= !peaceful && attempt > 0 && self.rng.u8(..16) == 0;
        self.story.push(format!("life {attempt} with {trouble:?}"));
        let (outcome, phase) = self.run(&job, trouble, attempt)?;
        self.story.push(format!("its end {outcome:?} in {phase:?}"));
        self.counts.lives += 1;
        self.counts.rescales += u64::from(attempt > 0 && self.parallelism != job.parallelism);
        self.parallelism = job.parallelism;
        self.counts.failed_calls += self.disk.failed() - failed_before;
        self.disk.set_faults(Default::default());
        match outcome {
            Outcome::Cut => self.cut(trouble, phase)?,
            Outcome::Failed(error) if error.kind() == Kind::Corrupt || trouble == Trouble::None => return Err(error.chain()),
            Outcome::Failed(_) => {
                *self.counts.failures.entry(phase).or_default() += 1;
                self.take_between_lives()?;
                // The process restarts the job, or ends.
                self.job = self.rng.bool().then_some(job);
            }
            Outcome::End(End::Stopped) => {
                self.counts.stops += 1;
                self.counts.drains += u64::from(self.drains);
                self.rescale(job);
            }
            // A power cut may have brought back the name of a removed file just before.
            Outcome::End(End::Finished) if phase == Phase::Restore => return Ok(true),
            Outcome::End(End::Finished) => return self.check_tidy().map(|()| true),
        }
        // Whoever has ended all event time starts from nothing, if ever.
        self.over |= self.drains;
        check_whole(&self.disk, &self.savepoints.completed)?;
        self.check(false).map(|()| false)
    }

    /// After a stop the process may live on, with another number of workers.
    fn rescale(&mut self, mut job: Job) {
        if self.rng.bool() {
            job.parallelism = self.rng.u32(1..4);
            self.counts.rescaled += 1;
            self.job = Some(job);
        }
    }

    /// A new process: nothing of the one before is left in memory.
    fn process(&mut self) -> Result<Job, String> {
        let shape = Shape {
            parallelism: self.rng.u32(1..4),
            queue_capacity: self.rng.usize(1..5),
            batch_rows: 1 << self.rng.usize(..8),
            source_rows: self.rng.usize(1..12),
            max_rate: (self.rng.u8(..4) == 0).then(|| self.rng.u64(200..4_000)),
            moody: true,
        };
        let disk = faulty_disk::view(&self.disk, self.fault.output);
        let mut job = stock_out(&self.day, shape, &disk, &self.pauses.gate)?;
        job.retain = self.rng.usize(1..4);
        if self.rng.u8(..3) == 0 {
            self.counts.with_files += 1;
            self.disk.set_links(self.pauses.links());
            job.backend = files_backend(&faulty_disk::view(&self.disk, None), self.counts.with_files)?;
        }
        for (_, sink) in &mut job.sinks {
            *sink = (self.fault.sink)(Arc::clone(sink));
        }
        for node in &mut job.graph.nodes {
            if let Node::Sink(index, sink) = node
                && let Some((_, wrapped)) = job.sinks.get(*index as usize)
            {
                *sink = Arc::clone(wrapped);
            }
        }
        Ok(job)
    }

    /// Checkpoints may take too long while something else is wrong as well, and the job may bear it or not.
    fn options(&mut self, trouble: Trouble) -> checkpoint::Options {
        let rng = &mut self.rng;
        let (interval, min_pause) = (rng.i64(1..40), rng.i64(..20));
        match trouble {
            Trouble::None => checkpoint::Options { interval, timeout: FOREVER, min_pause, tolerable_failures: 0 },
            _ => {
                let timeout = if rng.u8(..4) == 0 { rng.i64(20..200) } else { FOREVER };
                let tolerable_failures = if timeout < FOREVER { 1000 } else { rng.u32(..4) };
                checkpoint::Options { interval, timeout, min_pause, tolerable_failures }
            }
        }
    }

    /// Lives until the end, whichever comes first. Returns in which phase it came.
    fn run(&mut self, job: &Job, trouble: Trouble, attempt: u64) -> Result<(Outcome, Phase), String> {
        let disk = faulty_disk::view(&self.disk, self.fault.store);
        if self.over {
            match self.start_over(job, &disk)? {
                Ok(()) => {}
                Err(_) if self.disk.is_down() => return Ok((Outcome::Cut, Phase::Restore)),
                Err(error) => return Ok((Outcome::Failed(error), Phase::Restore)),
            }
        }
        if attempt > 0 && !self.drains {
            match self.maybe_take_over(job, &disk)? {
                TakenOver::Yes | TakenOver::No => {}
                TakenOver::Failed(_) if self.disk.is_down() => return Ok((Outcome::Cut, Phase::Restore)),
                TakenOver::Failed(error) => return Ok((Outcome::Failed(error), Phase::Restore)),
            }
        }
        let mut life = match Life::start(job, &disk, self.rng.fork(), self.now, attempt) {
            Ok(Some(life)) => life,
            Ok(None) => return Ok((Outcome::End(End::Finished), Phase::Restore)),
            Err(_) if self.disk.is_down() => return Ok((Outcome::Cut, Phase::Restore)),
            Err(error) => return Ok((Outcome::Failed(error), Phase::Restore)),
        };
        self.counts.began_paused += u64::from(self.pauses.is_paused());
        check_no_leftovers(&self.disk)?;
        check_whole(&self.disk, &self.savepoints.completed)?;
        if self.fault.savepoints_commit {
            life.break_rule(Breaks { sinks: job.sinks.clone(), disk: Arc::clone(&disk) });
        }
        self.check(false)?;
        self.take()?;
        let outcome = self.steps(&mut life, trouble);
        self.note_saved(&mut life)?;
        self.now = life.now();
        self.counts.checkpoints.committed += life.tally().committed;
        self.counts.checkpoints.failed += life.tally().failed;
        let outcome = outcome?;
        let phase = life.phase();
        if let Outcome::Failed(_) = outcome {
            life.wind_down();
        }
        Ok((outcome, phase))
    }

    /// The user starts from nothing, and puts away what was there. If that fails midway, the user tries again.
    fn start_over(&mut self, job: &Job, disk: &Arc<dyn Disk>) -> Result<Result<(), Error>, String> {
        let store = match CheckpointStore::open(Arc::clone(disk), PathBuf::from(CHECKPOINTS)) {
            Ok(store) => store,
            Err(error) => return Ok(Err(error)),
        };
        let forgotten = forget(&store, &job.sinks);
        if forgotten.is_ok() {
            self.counts.starts_over += 1;
            self.story.push("started over".to_owned());
            (self.over, self.drains) = (false, false);
            self.before = Default::default();
            self.savepoints.start_over();
            self.put_away()?;
        }
        Ok(forgotten)
    }

    /// What is there is of an earlier incarnation from now on.
    pub(super) fn begin_incarnation(&mut self) -> Result<(), String> {
        for output in 0..FOLDERS.len() {
            let rows = self.visible(output)?;
            self.before.get_mut(output).into_iter().for_each(|before| before.extend(rows.iter().cloned()));
        }
        self.put_away()
    }

    fn put_away(&mut self) -> Result<(), String> {
        for (dir, taken) in FOLDERS.iter().zip(&mut self.taken) {
            taken.clear();
            let paths = self.disk.list(Path::new(dir)).map_err(|error| error.to_string())?;
            paths.iter().filter(|path| is_visible(path)).for_each(|path| self.disk.take(path));
        }
        Ok(())
    }

    fn steps(&mut self, life: &mut Life, trouble: Trouble) -> Result<Outcome, String> {
        let mut in_phase: BTreeMap<Phase, u64> = BTreeMap::new();
        for step in 0..STEPS {
            let phase = life.phase();
            let steps_in_phase = in_phase.entry(phase).or_default();
            *steps_in_phase += 1;
            if trouble.cut().is_some_and(|when| when.is_now(step, phase, *steps_in_phase)) {
                return Ok(Outcome::Cut);
            }
            if trouble == Trouble::Stop(step) {
                self.stop(life);
            }
            self.maybe_save(life);
            self.counts.pauses += u64::from(self.pauses.step());
            let committed = life.tally().committed;
            let stepped = life.step();
            if self.disk.is_down() {
                return Ok(Outcome::Cut);
            }
            match stepped {
                Err(error) => return Ok(Outcome::Failed(error)),
                Ok(Some(end)) => return Ok(Outcome::End(end)),
                Ok(None) => {}
            }
            if life.tally().committed > committed {
                self.pauses.committed();
                self.note_saved(life)?;
                if self.rng.u8(..8) == 0 {
                    check_whole(&self.disk, &self.savepoints.completed)?;
                }
                self.check(false)?;
                self.take()?;
            }
        }
        // Nothing is wrong with a life whose checkpoints all take too long, so long as the next one gets on.
        if trouble == Trouble::None { Err(format!("the job did not end within {STEPS} steps")) } else { Ok(Outcome::Cut) }
    }

    /// Now and then a reader takes away what is visible: what was committed is no longer the job's.
    fn take(&mut self) -> Result<(), String> {
        if self.rng.u8(..8) > 0 {
            return Ok(());
        }
        for (dir, taken) in FOLDERS.iter().zip(&mut self.taken) {
            taken.extend(rows(&self.disk, Path::new(dir))?);
            let paths = self.disk.list(Path::new(dir)).map_err(|error| error.to_string())?;
            paths.iter().filter(|path| is_visible(path)).for_each(|path| self.disk.take(path));
        }
        Ok(())
    }

    /// While no process runs, a reader may take what an interrupted commit has made visible, once the machine has made it durable.
    fn take_between_lives(&mut self) -> Result<(), String> {
        for dir in FOLDERS {
            if !self.disk.list(Path::new(dir)).is_ok_and(|paths| paths.is_empty()) {
                self.disk.sync_dir(Path::new(dir)).map_err(|error| error.to_string())?;
            }
        }
        self.take()
    }

    fn cut(&mut self, trouble: Trouble, phase: Phase) -> Result<(), String> {
        if let Trouble::PowerCut(_) = trouble {
            *self.counts.power_cuts.entry(phase).or_default() += 1;
            self.disk.crash(&mut self.rng);
            Ok(())
        } else {
            *self.counts.kills.entry(phase).or_default() += 1;
            self.disk.kill();
            self.take_between_lives()
        }
    }

    /// A job that has run to its end leaves no hidden part.
    fn check_tidy(&self) -> Result<(), String> {
        let hidden = FOLDERS.iter().flat_map(|dir| self.disk.list(Path::new(dir)).unwrap_or_default()).find(|path| !is_visible(path));
        hidden.map_or(Ok(()), |path| Err(format!("{} is left over", path.display())))
    }

    /// The job has finished, and nothing can change that: not a power cut, not another start.
    fn check_finished(&mut self) -> Result<(), String> {
        self.check(true)?;
        self.disk.crash(&mut self.rng);
        self.check(true)?;
        let job = self.process()?;
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let life = Life::start(&job, &disk, self.rng.fork(), self.now, LIVES + 1).map_err(|error| error.chain())?;
        if life.is_some() || !disk.list(Path::new(CHECKPOINTS)).is_ok_and(|paths| paths.iter().any(|path| path.ends_with("FINISHED"))) {
            return Err("the job does not know any more that it has finished".to_owned());
        }
        self.check(true)
    }
}
