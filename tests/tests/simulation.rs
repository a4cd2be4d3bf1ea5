//! Whole jobs under a seeded scheduler, through power cuts, kills, stops, rescales, savepoints and a disk that tears and refuses writes. A
//! failing seed is printed; `TIDEMILL_SEED=n` replays it, `TIDEMILL_SEEDS=n` runs more.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use tidemill_core::Timestamp;
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
        let saving =
            [counts.with_files, counts.rescaled, counts.savepoints, counts.taken_over, counts.gone, counts.incarnations, counts.drains];
        assert!(!saving.contains(&0) && counts.pauses > 0 && counts.began_paused > 0, "{counts:?}");
        assert!(!counts.failures.is_empty() && !others.contains(&0), "{counts:?}");
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
