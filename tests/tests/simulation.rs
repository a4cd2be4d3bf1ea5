//! Whole jobs under a seeded scheduler, through power cuts, kills, stops, rescales and a disk that tears and refuses writes. A failing seed
//! is printed; `TIDEMILL_SEED=n` replays it, `TIDEMILL_SEEDS=n` runs more.

use tidemill_tests::cli::number;
use tidemill_tests::sim::broken::FAULTS;
use tidemill_tests::sim::life::Phase;
use tidemill_tests::sim::schedule::{Counts, Fault, simulate};

const PHASES: [Phase; 5] = [Phase::Restore, Phase::Run, Phase::BeforeManifest, Phase::AfterManifest, Phase::Commit];

#[test]
fn every_schedule_gives_the_answer_once() {
    let one = std::env::var("TIDEMILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or_else(|| 0..number("TIDEMILL_SEEDS", 3_000), |seed| seed..seed + 1);
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
        let others = [counts.failed_calls, counts.stops, counts.rescales, counts.checkpoints.failed];
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
