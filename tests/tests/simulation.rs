//! Whole jobs under a seeded scheduler, on a disk that crashes, tears and refuses writes. A failing seed is printed; `TIDEMILL_SEED=n`
//! replays it, `TIDEMILL_SEEDS=n` runs more.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking and tells what it did")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use serde_json::Value;
use tidemill::runtime::job::Job;
use tidemill_core::disk::Disk;
use tidemill_core::sink::{Committable, Sink, SinkWriter, WriterTask};
use tidemill_core::{Kind, Result};
use tidemill_tests::cli::number;
use tidemill_tests::sim::day::Day;
use tidemill_tests::sim::job::{OUTPUTS, Shape, stock_out};
use tidemill_tests::sim::life::{Life, Phase};
use tidemill_tests::sim_disk::{Faults, SimDisk};

/// After so many lives a job may run to its end.
const LIVES: u64 = 12;
const STEPS_TO_THE_END: u64 = 2_000_000;

#[derive(Default)]
struct Counts {
    crashes: BTreeMap<Phase, u64>,
    failures: BTreeMap<Phase, u64>,
}

/// Runs a job through crashes and failures until it has finished. What is wrong is returned.
fn simulate(seed: u64, wrap: fn(Arc<dyn Sink>) -> Arc<dyn Sink>, counts: &mut Counts) -> Result<(), String> {
    let mut rng = Rng::with_seed(seed);
    let shape = Shape {
        parallelism: rng.u32(1..4),
        queue_capacity: rng.usize(1..4),
        batch_rows: *rng.choice(&[1, 3, 64, 1024]).unwrap(),
        source_rows: rng.usize(1..40),
    };
    let (baskets, splits) = (rng.usize(20..120), rng.usize(1..5));
    let day = Day::new(seed, baskets, splits);
    let disk = SimDisk::new(seed);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut job = stock_out(&day, shape, &shared)?;
    wrap_sinks(&mut job, wrap);
    for attempt in 0.. {
        let (peaceful, crash) = (attempt >= LIVES, rng.u8(..3) > 0);
        let mut steps = STEPS_TO_THE_END;
        match (peaceful, crash, rng.bool()) {
            (true, ..) => {}
            // The machine stops amid a call to the disk, or between two steps.
            (false, true, true) => disk.stop_after(rng.u64(..90)),
            (false, true, false) => steps = rng.u64(..3000),
            (false, false, _) => disk.set_faults(Faults { probability: 0.03, kind: ErrorKind::StorageFull, ..Faults::default() }),
        }
        let mut phase = Phase::Restore;
        let outcome = Life::new(&job, &shared, &mut rng).and_then(|mut life| {
            let outcome = life.run(attempt, steps);
            phase = life.phase;
            outcome
        });
        let finished = match outcome {
            Ok(finished) => finished,
            Err(error) if error.kind() == Kind::Corrupt || peaceful => return Err(error.chain()),
            Err(_) => false,
        };
        if peaceful && !finished {
            return Err(format!("the job did not end within {STEPS_TO_THE_END} steps"));
        }
        if !finished {
            *if crash { &mut counts.crashes } else { &mut counts.failures }.entry(phase).or_default() += 1;
        }
        disk.set_faults(Faults::default());
        if crash || finished {
            disk.crash(&mut rng);
        }
        check(&disk, &day, finished)?;
        if finished {
            return Ok(());
        }
    }
    Ok(())
}

fn wrap_sinks(job: &mut Job, wrap: fn(Arc<dyn Sink>) -> Arc<dyn Sink>) {
    use tidemill_core::worker::Node;
    for (_, sink) in &mut job.sinks {
        *sink = wrap(Arc::clone(sink));
    }
    for node in &mut job.graph.nodes {
        if let Node::Sink(index, sink) = node {
            *sink = Arc::clone(&job.sinks[*index as usize].1);
        }
    }
}

/// Whatever is visible is expected and there once; at the end it is everything.
fn check(disk: &SimDisk, day: &Day, finished: bool) -> Result<(), String> {
    let alerts = visible(disk, OUTPUTS[0])?;
    let distinct: BTreeSet<_> = alerts.iter().cloned().collect();
    if distinct.len() != alerts.len() {
        return Err(format!("{} alerts are visible twice", alerts.len() - distinct.len()));
    }
    if let Some(alert) = distinct.difference(&day.alerts).next() {
        return Err(format!("unexpected alert {alert}"));
    }
    let mut late: BTreeMap<String, usize> = BTreeMap::new();
    for line in visible(disk, OUTPUTS[1])? {
        *late.entry(line).or_default() += 1;
    }
    if let Some((line, times)) = late.iter().find(|(line, times)| day.late.get(*line).is_none_or(|expected| *times > expected)) {
        return Err(format!("late line {line} is visible {times} times"));
    }
    if finished && (distinct != day.alerts || late != day.late) {
        let missing: Vec<_> = day.alerts.difference(&distinct).take(3).collect();
        return Err(format!("at the end {} alerts are missing, such as {missing:?}", day.alerts.len() - distinct.len()));
    }
    Ok(())
}

/// The rows in the visible files of a folder, without the watermark that a late line saw.
fn visible(disk: &SimDisk, dir: &str) -> Result<Vec<String>, String> {
    let mut rows = Vec::new();
    for path in disk.list(Path::new(dir)).map_err(|error| error.to_string())? {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("part-")) {
            let bytes = disk.read(&path).map_err(|error| error.to_string())?;
            for line in String::from_utf8_lossy(&bytes).lines() {
                let mut row: Value = serde_json::from_str(line).map_err(|error| format!("{}: {error}: {line}", path.display()))?;
                row.as_object_mut().unwrap().remove("watermark");
                rows.push(row.to_string());
            }
        }
    }
    Ok(rows)
}

#[test]
fn every_schedule_gives_the_answer_once() {
    let one = std::env::var("TIDEMILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or_else(|| 0..number("TIDEMILL_SEEDS", 10_000), |seed| seed..seed + 1);
    let (count, mut counts) = (seeds.end - seeds.start, Counts::default());
    for seed in seeds {
        if let Err(what) = simulate(seed, |sink| sink, &mut counts) {
            panic!("TIDEMILL_SEED={seed}: {what}");
        }
    }
    println!("{count} schedules; crashes {:?}; failed by the disk {:?}", counts.crashes, counts.failures);
    let phases = [Phase::Restore, Phase::Run, Phase::BeforeManifest, Phase::AfterManifest, Phase::Commit];
    assert!(one.is_some() || phases.iter().all(|phase| counts.crashes.contains_key(phase)), "a phase saw no crash: {:?}", counts.crashes);
}

#[test]
fn committers_that_break_a_rule_are_caught() {
    for (name, wrap) in [("forgets to commit", forgetful as fn(_) -> _), ("commits before the checkpoint", hasty)] {
        let caught = (0..300).filter(|&seed| simulate(seed, wrap, &mut Counts::default()).is_err()).count();
        println!("a sink that {name}: caught by {caught} of 300 schedules");
        assert!(caught > 0, "a sink that {name} was not caught");
    }
}

/// A sink that breaks a rule.
struct Broken {
    sink: Arc<dyn Sink>,
    hasty: bool,
}

/// Says that it has committed a single part without doing so.
fn forgetful(sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
    Arc::new(Broken { sink, hasty: false })
}

/// Commits when the checkpoint has only begun.
fn hasty(sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
    Arc::new(Broken { sink, hasty: true })
}

impl Sink for Broken {
    fn writer(&self, task: WriterTask) -> Result<Box<dyn SinkWriter>> {
        let writer = self.sink.writer(task)?;
        if self.hasty { Ok(Box::new(HastyWriter { writer, sink: Arc::clone(&self.sink) })) } else { Ok(writer) }
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        if self.hasty || committables.len() > 1 { self.sink.commit(committables) } else { Ok(()) }
    }

    fn clean(&self) -> Result<()> {
        self.sink.clean()
    }

    fn newest_incarnation(&self) -> Result<Option<u32>> {
        // The rule that would stop a restart over output without a checkpoint is not what is tested here.
        Ok(None)
    }
}

struct HastyWriter {
    writer: Box<dyn SinkWriter>,
    sink: Arc<dyn Sink>,
}

impl SinkWriter for HastyWriter {
    fn write(&mut self, batch: &tidemill_core::batch::Batch) -> Result<()> {
        self.writer.write(batch)
    }

    fn prepare_commit(&mut self, checkpoint: u64) -> Result<tidemill_core::sink::Prepared> {
        let mut prepared = self.writer.prepare_commit(checkpoint)?;
        if let Some(job) = prepared.job.take() {
            job()?;
        }
        if let Some(committable) = &prepared.committable {
            self.sink.commit(std::slice::from_ref(committable))?;
        }
        Ok(prepared)
    }
}
