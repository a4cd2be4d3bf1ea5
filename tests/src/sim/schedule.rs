//! A job from its first life to its end, through whatever befalls it, and what must be true all the time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use serde_json::Value;
use tidemill::runtime::job::Job;
use tidemill::runtime::recovery::forget;
use tidemill::store::CheckpointStore;
use tidemill_core::disk::Disk;
use tidemill_core::sink::Sink;
use tidemill_core::worker::Node;
use tidemill_core::{Error, Kind, Timestamp, checkpoint};

use super::day::Day;
use super::job::{DEAD_LETTERS, OUTPUTS, Shape, stock_out};
use super::life::{CHECKPOINTS, End, Life, Phase, Tally};
use super::trouble::Trouble;
use crate::sim_disk::SimDisk;

/// After so many lives nothing befalls the job any more.
const LIVES: u64 = 12;
/// Far more steps than a job needs.
const STEPS: u64 = 2_000_000;
const FOREVER: i64 = i64::MAX / 2;
/// The folders of all sinks.
const FOLDERS: [&str; 3] = [OUTPUTS[0], OUTPUTS[1], DEAD_LETTERS];

/// Changes a job so that it breaks a rule.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Wraps each sink of a process.
    pub sink: fn(Arc<dyn Sink>) -> Arc<dyn Sink>,
    /// Wraps the disk of the checkpoints.
    pub store: fn(Arc<dyn Disk>) -> Arc<dyn Disk>,
    /// Wraps the disk of the sinks.
    pub output: fn(Arc<dyn Disk>) -> Arc<dyn Disk>,
}

impl Fault {
    /// No rule is broken.
    pub const NONE: Self = Self { sink: |sink| sink, store: |disk| disk, output: |disk| disk };
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
}

/// How a life ended.
enum Outcome {
    End(End),
    /// It was cut short.
    Cut,
    Failed(Error),
}

struct Schedule<'a> {
    rng: Rng,
    day: Day,
    disk: SimDisk,
    fault: Fault,
    counts: &'a mut Counts,
    /// The process that runs; `None` after it died.
    job: Option<Job>,
    parallelism: u32,
    now: Timestamp,
    /// The user wants to start from nothing.
    over: bool,
    /// The rows that a reader has taken out of each output folder.
    taken: [Vec<String>; 3],
}

/// Runs a job through all that the seed has for it until it has finished.
///
/// # Errors
/// What is wrong, if a promise was broken.
pub fn simulate(seed: u64, fault: Fault, counts: &mut Counts) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let (baskets, splits) = (rng.usize(20..300), rng.usize(1..5));
    let mut day = Day::new(seed, baskets, splits);
    day.spoil(&mut rng);
    let disk = SimDisk::new(seed);
    let mut schedule =
        Schedule { rng, day, disk, fault, counts, job: None, parallelism: 0, now: Timestamp(0), over: false, taken: Default::default() };
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
        let (outcome, phase) = self.run(&job, trouble, attempt)?;
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
            Outcome::End(End::Stopped) => self.counts.stops += 1,
            // A power cut may have brought back the name of a removed file just before.
            Outcome::End(End::Finished) if phase == Phase::Restore => return Ok(true),
            Outcome::End(End::Finished) => return self.check_tidy().map(|()| true),
        }
        self.check(false).map(|()| false)
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
        let disk = (self.fault.output)(Arc::new(self.disk.clone()));
        let mut job = stock_out(&self.day, shape, &disk)?;
        job.retain = self.rng.usize(1..4);
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
        let disk = (self.fault.store)(Arc::new(self.disk.clone()));
        if self.over {
            match self.start_over(job, &disk)? {
                Ok(()) => {}
                Err(_) if self.disk.is_down() => return Ok((Outcome::Cut, Phase::Restore)),
                Err(error) => return Ok((Outcome::Failed(error), Phase::Restore)),
            }
        }
        let mut life = match Life::start(job, &disk, self.rng.fork(), self.now, attempt) {
            Ok(Some(life)) => life,
            Ok(None) => return Ok((Outcome::End(End::Finished), Phase::Restore)),
            Err(_) if self.disk.is_down() => return Ok((Outcome::Cut, Phase::Restore)),
            Err(error) => return Ok((Outcome::Failed(error), Phase::Restore)),
        };
        self.check(false)?;
        self.take()?;
        let outcome = self.steps(&mut life, trouble);
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
            self.over = false;
            self.put_away()?;
        }
        Ok(forgotten)
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
                life.stop();
            }
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

    /// Whatever is visible is expected and there once; at the end it is everything.
    fn check(&self, finished: bool) -> Result<(), String> {
        let day = &self.day;
        let alerts = self.visible(0)?;
        let distinct: BTreeSet<_> = alerts.iter().cloned().collect();
        if distinct.len() != alerts.len() {
            return Err(format!("{} alerts are visible twice", alerts.len() - distinct.len()));
        }
        if let Some(alert) = distinct.difference(&day.alerts).next() {
            return Err(format!("unexpected alert {alert}"));
        }
        let mut late: BTreeMap<String, usize> = BTreeMap::new();
        for line in self.visible(1)? {
            *late.entry(line).or_default() += 1;
        }
        if let Some((line, times)) = late.iter().find(|(line, times)| day.late.get(*line).is_none_or(|expected| *times > expected)) {
            return Err(format!("late line {line} is visible {times} times"));
        }
        let value = |row: &String| serde_json::from_str::<Value>(row).ok()?.get("value")?.as_str().map(str::to_owned);
        let id = |row: &String| serde_json::from_str::<Value>(&value(row)?).ok()?.get("basket_id")?.as_str().map(str::to_owned);
        let dead: Vec<String> = self.visible(2)?.iter().filter_map(id).collect();
        let bad: BTreeSet<String> = dead.iter().cloned().collect();
        if bad.len() != dead.len() || !bad.is_subset(&day.bad) || (finished && bad != day.bad) {
            return Err(format!("the dead letters are {dead:?} of {:?}", day.bad));
        }
        if finished && (distinct != day.alerts || late != day.late) {
            let missing = (day.alerts.len() - distinct.len(), day.late.values().sum::<usize>() - late.values().sum::<usize>());
            return Err(format!("at the end {} alerts and {} late lines are missing", missing.0, missing.1));
        }
        Ok(())
    }

    /// What readers have seen in an output folder.
    fn visible(&self, output: usize) -> Result<Vec<String>, String> {
        let dir = FOLDERS.get(output).map_or("", |dir| *dir);
        let mut rows = rows(&self.disk, Path::new(dir))?;
        rows.extend(self.taken.get(output).into_iter().flatten().cloned());
        Ok(rows)
    }
}

/// The rows in the visible files of a folder, without the watermark that a late line saw.
fn rows(disk: &SimDisk, dir: &Path) -> Result<Vec<String>, String> {
    let mut rows = Vec::new();
    let paths = disk.list(dir).map_err(|error| error.to_string())?;
    for path in paths.iter().filter(|path| is_visible(path)) {
        let bytes = disk.read(path).map_err(|error| error.to_string())?;
        for line in String::from_utf8_lossy(&bytes).lines() {
            let broken = |what: &dyn std::fmt::Display| format!("{}: {what}: {line}", path.display());
            let mut row: Value = serde_json::from_str(line).map_err(|error| broken(&error))?;
            row.as_object_mut().ok_or_else(|| broken(&"not an object"))?.remove("watermark");
            rows.push(row.to_string());
        }
    }
    Ok(rows)
}

fn is_visible(path: &Path) -> bool {
    path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
}
