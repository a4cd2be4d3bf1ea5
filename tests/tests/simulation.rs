//! Whole jobs under a seeded scheduler, through power cuts, kills, stops, rescales, savepoints and a disk that tears and refuses writes. A
//! failing seed is printed; `TIDEMILL_SEED=n` replays it, `TIDEMILL_SEEDS=n` runs more.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use tidemill::runtime::checkpoints::{Checkpoints, Task};
use tidemill::runtime::job::Job;
use tidemill::runtime::recovery::Recovered;
use tidemill::store::CheckpointStore;
use tidemill::store::savepoint::{Saved, SavepointFolder};
use tidemill_core::Timestamp;
use tidemill_core::checkpoint::{Action, Coordinator, Event, Options};
use tidemill_core::disk::Disk;
use tidemill_tests::cli::number;
use tidemill_tests::sim::broken::FAULTS;
use tidemill_tests::sim::day::Day;
use tidemill_tests::sim::job::{OUTPUTS, Shape, stock_out};
use tidemill_tests::sim::life::{Life, Phase};
use tidemill_tests::sim::schedule::{Counts, Fault, simulate, simulate_busy};
use tidemill_tests::sim::source::Gate;
use tidemill_tests::sim_disk::SimDisk;

const PHASES: [Phase; 5] = [Phase::Restore, Phase::Run, Phase::BeforeManifest, Phase::AfterManifest, Phase::Commit];

/// Schedules that once lost or repeated something, or could not go on.
const ONCE_FAILED: [u64; 4] = [1459, 2830, 3197, 3240];

#[test]
fn schedules_that_once_failed_do_not_any_more() {
    for seed in ONCE_FAILED {
        simulate_busy(seed, Fault::NONE, &mut Counts::default()).unwrap();
    }
}

#[test]
fn every_schedule_gives_the_answer_once() {
    let one = std::env::var("TIDEMILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or_else(|| 0..number("TIDEMILL_SEEDS", 2_000), |seed| seed..seed + 1);
    let (count, mut counts) = (seeds.end - seeds.start, Counts::default());
    for seed in seeds {
        if let Err(what) = simulate(seed, Fault::NONE, &mut counts) {
            panic!("TIDEMILL_SEED={seed}: {what}");
        }
    }
    println!("{count} schedules: {counts:#?}");
    if count >= 1_000 {
        for (name, by_phase) in [("power cut", &counts.power_cuts), ("kill", &counts.kills)] {
            assert!(PHASES.iter().all(|phase| by_phase.contains_key(phase)), "a phase saw no {name}: {by_phase:?}");
        }
        let others = [counts.failed_calls, counts.stops, counts.rescales, counts.starts_over, counts.checkpoints.failed];
        let saving = [counts.with_files, counts.rescaled, counts.savepoints, counts.not_saved, counts.taken_over];
        let starts = [counts.gone, counts.incarnations, counts.drains];
        assert!(!saving.contains(&0) && !starts.contains(&0) && counts.pauses > 0 && counts.began_paused > 0, "{counts:?}");
        assert!(!counts.failures.is_empty() && !others.contains(&0), "{counts:?}");
    }
}

/// Feeds an event to the coordinator and gives the checkpoint thread what follows, as the runtime does. Returns what those who asked hear.
fn feed(coordinator: &mut Coordinator, event: Event, tasks: &mut VecDeque<Task>, checkpoints: &Checkpoints) -> Vec<Action> {
    let mut heard = Vec::new();
    for action in coordinator.on_event(event, Timestamp(100)) {
        match action {
            Action::Store { checkpoint, end_of_input } => tasks.push_back(Task::Store { checkpoint, end_of_input }),
            Action::Discard { checkpoint } => {
                checkpoints.given_up().give_up(checkpoint);
                tasks.push_back(Task::Discard { checkpoint });
            }
            Action::Saved { .. } | Action::NotSaved { .. } => heard.push(action),
            _ => {}
        }
    }
    heard
}

/// A savepoint whose manifest the disk takes too long to write, and which is given up after so many steps of the checkpoint thread. The
/// thread's reports come late.
#[test]
fn a_savepoint_that_is_given_up_is_there_and_said_to_be_or_has_left_nothing() {
    for (steps, saved) in [(1, false), (2, true)] {
        let (disk, dir) = (SimDisk::new(1), Path::new("/savepoints/sp"));
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let shape = Shape { parallelism: 1, queue_capacity: 2, batch_rows: 16, source_rows: 4, max_rate: None, moody: false };
        // No worker writes a state file here: only a job without operators has none to write.
        let job = Job { operators: vec![], ..stock_out(&Day::new(1, 20, 1), shape, &shared, &Gate::default()).unwrap() };
        let store = CheckpointStore::open(Arc::clone(&shared), "/job/checkpoints".into()).unwrap();
        let mut checkpoints = Checkpoints::new(store, &job, &Recovered::default());
        let options = Options { interval: 1_000_000, timeout: 50, ..Options::default() };
        let mut coordinator = Coordinator::new(options, 1, 0, Timestamp(0));
        let (checkpoint, also_checkpoint, trigger) = (1, false, "sp".to_owned());
        let folder = || SavepointFolder::create(Arc::clone(&shared), dir.to_owned());
        let save = Task::Save { checkpoint, folder: folder().unwrap(), also_checkpoint, trigger };
        let mut tasks = VecDeque::from([save]);
        coordinator.on_event(Event::Savepoint, Timestamp(0));
        coordinator.on_event(Event::Acknowledged { worker: 0, checkpoint }, Timestamp(1)).into_iter().for_each(|action| {
            assert_eq!(action, Action::Store { checkpoint, end_of_input: false });
            tasks.push_back(Task::Store { checkpoint, end_of_input: false });
        });
        let mut reports = Vec::new();
        for _ in 0..steps {
            reports.extend(checkpoints.perform(tasks.pop_front().unwrap(), Timestamp(0)).unwrap());
        }
        assert_eq!(feed(&mut coordinator, Event::Tick, &mut tasks, &checkpoints), [], "nobody is told before it is certain");
        while let Some(task) = tasks.pop_front() {
            reports.extend(checkpoints.perform(task, Timestamp(0)).unwrap());
        }
        let heard: Vec<_> = reports.into_iter().flat_map(|event| feed(&mut coordinator, event, &mut tasks, &checkpoints)).collect();
        if saved {
            assert_eq!(heard, [Action::Saved { checkpoint }]);
            assert_eq!(Saved::open(Arc::clone(&shared), dir).unwrap().manifest.checkpoint, checkpoint);
            assert!(folder().err().unwrap().chain().contains("savepoint 1 of job"));
        } else {
            assert_eq!(heard, [Action::NotSaved { checkpoint, reason: "it did not complete within 50 ms".to_owned() }]);
            assert!(disk.list(dir).unwrap().is_empty());
            folder().unwrap();
        }
        assert!(tasks.is_empty());
    }
}

#[test]
fn a_job_that_breaks_a_rule_is_caught() {
    for (name, fault) in FAULTS {
        let caught = (0..200).filter(|&seed| simulate(seed, fault, &mut Counts::default()).is_err()).count();
        println!("{name}: caught by {caught} of 200 schedules");
        assert!(caught > 5, "{name}: caught by {caught} of 200 schedules");
    }
}

#[test]
fn output_that_a_restore_committed_may_be_taken_away() {
    let disk = SimDisk::new(1);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let shape = Shape { parallelism: 1, queue_capacity: 2, batch_rows: 16, source_rows: 4, max_rate: None, moody: false };
    let job = stock_out(&Day::new(1, 200, 1), shape, &shared, &Gate::default()).unwrap();
    let start = |attempt| Life::start(&job, &shared, Rng::with_seed(attempt), Timestamp(0), attempt);
    let parts = || OUTPUTS.iter().flat_map(|dir| disk.list(Path::new(dir)).unwrap()).collect::<Vec<_>>();

    // It dies each time when a manifest is durable, until the next restore has something to commit.
    for attempt in 0.. {
        let mut life = start(attempt).unwrap().unwrap();
        if !parts().is_empty() {
            break;
        }
        while life.phase() != Phase::AfterManifest {
            life.step().unwrap();
        }
    }
    parts().iter().for_each(|part| disk.take(part));
    assert!(start(1_000).unwrap().is_some());
}
