//! The real binary under SIGKILL: at random moments, and aimed at checkpoints, commits and recoveries. Nothing is lost, nothing doubled.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashSet};
use std::process::Child;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tidemill_tests::cli::{PATIENCE, Workplace, number};

/// What a kill waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Aim {
    /// A random while after the start.
    Anywhere,
    /// The first milliseconds, in which the job recovers.
    Recovery,
    /// A checkpoint folder without manifest.
    BeforeManifest,
    /// A new manifest, whose output is about to be committed.
    AfterManifest,
}

const AIMS: [Aim; 4] = [Aim::Anywhere, Aim::Recovery, Aim::BeforeManifest, Aim::AfterManifest];

#[test]
fn every_alert_is_there_once_whenever_the_job_is_killed() {
    let (kills, seed) = (number("TIDEMILL_KILLS", 100), number("TIDEMILL_SEED", 1));
    let mut rng = Rng::with_seed(seed);
    let reference = expected();
    let place = Workplace::larkspur();
    let rate = format!("sources.pos-baskets.max_rate={}", 29_652 * 1000 / (kills * 90).max(1));
    let arguments = ["run", "job.yaml", "--set", &rate, "--set", "checkpoints.interval=20ms", "--set", "checkpoints.retain=2"];
    let (mut found, mut resumed, mut finished) = (BTreeMap::<Aim, u64>::new(), 0, false);
    for kill in 0..kills {
        let aim = AIMS[usize::try_from(kill % 4).unwrap()];
        let mut child = place.start(&arguments);
        let hit = wait_for(aim, &place, &mut child, &mut rng);
        child.kill().unwrap();
        let ended = place.finish(child);
        if ended.status.success() {
            finished = true;
            break;
        }
        *found.entry(aim).or_default() += u64::from(hit);
        resumed += u64::from(ended.stderr.contains("resumed from checkpoint"));
        check_visible(&place, &reference, kill);
    }
    println!("seed {seed}: kills that hit their aim {found:?}, of {kills}; starts that resumed: {resumed}; finished early: {finished}");
    place.run(&["run", "job.yaml", "--set", "checkpoints.retain=2"]).expect(0, &["finished"]);
    assert!(place.names("out/alerts").iter().all(|name| !name.starts_with('.')), "hidden parts are left");
    place.check_with_oracle();
    assert!(AIMS.iter().all(|aim| found.get(aim).is_some_and(|hits| *hits > 0)), "an aim was never hit: {found:?}");
}

/// All alerts of an undisturbed run, which the oracle has checked.
fn expected() -> HashSet<String> {
    let place = Workplace::larkspur();
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    place.check_with_oracle();
    place.visible("out/alerts").iter().map(ToString::to_string).collect()
}

fn check_visible(place: &Workplace, expected: &HashSet<String>, kill: u64) {
    let mut seen = HashSet::new();
    for alert in place.visible("out/alerts") {
        let alert = alert.to_string();
        assert!(expected.contains(&alert), "kill {kill}: unexpected {alert}");
        assert!(seen.insert(alert.clone()), "kill {kill}: twice {alert}");
    }
}

/// Waits for the moment to kill; returns whether it came before the job ended.
#[expect(clippy::disallowed_methods, reason = "random moments and a limit for a test that hangs")]
fn wait_for(aim: Aim, place: &Workplace, child: &mut Child, rng: &mut Rng) -> bool {
    let before = checkpoints(place);
    let random = Duration::from_millis(match aim {
        Aim::Anywhere => rng.u64(40..250),
        Aim::Recovery => rng.u64(0..60),
        Aim::BeforeManifest | Aim::AfterManifest => rng.u64(0..80),
    });
    std::thread::sleep(random);
    let begin = Instant::now();
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        let now = checkpoints(place);
        let is_so = match aim {
            Aim::Anywhere | Aim::Recovery => true,
            Aim::BeforeManifest => now.iter().any(|(name, complete)| !complete && !before.contains_key(name)),
            Aim::AfterManifest => now.iter().any(|(name, complete)| *complete && !before.contains_key(name)),
        };
        // A checkpoint folder without manifest lives for about a millisecond: one may be missed, but not for ever.
        if is_so || begin.elapsed() > PATIENCE {
            return is_so;
        }
    }
}

/// The checkpoint folders, and whether each has its manifest.
fn checkpoints(place: &Workplace) -> BTreeMap<String, bool> {
    let dir = "tidemill-data/stock-out/checkpoints";
    let complete = |name: &String| place.path(dir).join(name).join("manifest.json").exists();
    place.names(dir).into_iter().filter(|name| name.starts_with("chk-")).map(|name| (name.clone(), complete(&name))).collect()
}
