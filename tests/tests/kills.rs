//! The real binary under SIGKILL: at random moments, and aimed at checkpoints, commits and recoveries. Nothing is lost, nothing doubled.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test: it fails by panicking and says what it did"
)]

use std::collections::{BTreeMap, HashSet};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tidemill_tests::cli::{Ended, PATIENCE, Workplace, number};

/// What a kill waits for.
#[derive(Clone, Copy, Debug)]
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
const CHECKPOINTS: &str = "tidemill-data/stock-out/checkpoints";
const SIGKILL: i32 = 9;

impl Aim {
    fn name(self) -> &'static str {
        match self {
            Self::Anywhere => "aimed anywhere",
            Self::Recovery => "aimed at recovery",
            Self::BeforeManifest => "aimed before a manifest",
            Self::AfterManifest => "aimed after a manifest",
        }
    }
}

#[test]
fn every_alert_is_there_once_whenever_the_job_is_killed() {
    kill_again_and_again(&[]);
}

#[test]
#[cfg(feature = "rocksdb")]
fn every_alert_is_there_once_with_rocksdb() {
    // So little memory that many keys are put away.
    let place = kill_again_and_again(&["--set", "state.backend=rocksdb", "--set", "state.memory=8MiB"]);
    let shared = shared_files(&place);
    assert!(!shared.is_empty() && shared == named_files(&place), "files that no checkpoint names stay, or the other way round");
    assert!(place.names("tidemill-data/stock-out/state").len() <= 1, "databases of killed processes stay");
}

/// The shared files that are there.
#[cfg(feature = "rocksdb")]
fn shared_files(place: &Workplace) -> HashSet<String> {
    place.names(&format!("{CHECKPOINTS}/shared")).into_iter().map(|name| format!("shared/{name}")).collect()
}

/// The shared files that the manifests name.
#[cfg(feature = "rocksdb")]
fn named_files(place: &Workplace) -> HashSet<String> {
    let mut named = HashSet::new();
    for name in checkpoints(place).into_iter().filter_map(|(name, complete)| complete.then_some(name)) {
        let text = std::fs::read_to_string(place.path(CHECKPOINTS).join(name).join("manifest.json")).unwrap();
        let json = text.rsplit_once("\nxxh3").unwrap().0;
        let manifest: serde_json::Value = serde_json::from_str(json).unwrap();
        let files = manifest["databases"].as_array().into_iter().flatten().flat_map(|database| database["files"].as_array().unwrap());
        named.extend(files.map(|file| file["path"].as_str().unwrap().to_owned()).filter(|path| path.starts_with("shared/")));
    }
    named
}

/// Kills a job many times and lets it end; returns where it ran.
fn kill_again_and_again(more: &[&str]) -> Workplace {
    let (kills, seed) = (number("TIDEMILL_KILLS", 100), number("TIDEMILL_SEED", 1));
    let mut rng = Rng::with_seed(seed);
    let reference = expected();
    let mut place = Workplace::larkspur();
    let rate = format!("sources.pos-baskets.max_rate={}", 29_652 * 1000 / (kills * 90).max(1));
    let mut arguments = vec!["run", "job.yaml", "--set", &rate, "--set", "checkpoints.interval=20ms", "--set", "checkpoints.retain=2"];
    arguments.extend_from_slice(more);
    let (mut found, mut seen, mut shown, mut days) = (BTreeMap::<&str, u64>::new(), HashSet::new(), 0, 1);
    while shown < kills {
        let aim = AIMS[usize::try_from(shown % 4).unwrap()];
        let mut child = place.start(&arguments);
        let hit = wait_for(aim, &place, &mut child, &mut rng);
        child.kill().unwrap();
        let ended = place.finish(child);
        if ended.status.success() {
            // A fast machine: the rest of the kills goes to another run over the day.
            place.check_with_oracle();
            (place, seen, days) = (Workplace::larkspur(), HashSet::new(), days + 1);
            continue;
        }
        assert_eq!(ended.status.signal(), Some(SIGKILL), "the job failed by itself: {ended:#?}");
        shown += 1;
        *found.entry(aim.name()).or_default() += u64::from(hit);
        for circumstance in circumstances(&place, &ended) {
            *found.entry(circumstance).or_default() += 1;
        }
        let now = visible(&place, &reference, shown);
        assert!(seen.is_subset(&now), "kill {shown}: committed output is gone: {:?}", seen.difference(&now).next());
        seen = now;
    }
    println!("seed {seed}: {kills} kills over {days} runs of the day, of these {found:#?}");
    place.run(&[&["run", "job.yaml", "--set", "checkpoints.retain=2"], more].concat()).expect(0, &["finished"]);
    assert!(place.names("out/alerts").iter().all(|name| !name.starts_with('.')), "hidden parts are left");
    place.check_with_oracle();
    let missed: Vec<_> = AIMS.into_iter().take(usize::try_from(kills).unwrap()).filter(|aim| !found.contains_key(aim.name())).collect();
    assert!(missed.is_empty(), "never hit: {missed:?}");
    place
}

/// What a killed process left half done.
fn circumstances(place: &Workplace, ended: &Ended) -> Vec<&'static str> {
    let has = |name: &String, file: &str| place.path(CHECKPOINTS).join(name).join(file).exists();
    let folders: Vec<_> = place.names(CHECKPOINTS).into_iter().filter(|name| name.starts_with("chk-")).collect();
    let hidden = ["out/alerts", "out/late"].iter().flat_map(|folder| place.names(folder)).any(|name| name.starts_with('.'));
    let cases = [
        ("before the manifest", folders.iter().any(|name| !has(name, "manifest.json"))),
        (
            "after the manifest, before the end of the commit",
            folders.iter().any(|name| has(name, "manifest.json") && !has(name, "COMMITTED")),
        ),
        ("with hidden parts", hidden),
        ("after a resume", ended.stderr.contains("resumed from checkpoint")),
        ("before the start was complete", !ended.stderr.contains("resumed from") && !ended.stderr.contains("from nothing")),
    ];
    cases.into_iter().filter_map(|(name, is_so)| is_so.then_some(name)).collect()
}

/// All alerts of an undisturbed run, which the oracle has checked.
fn expected() -> HashSet<String> {
    let place = Workplace::larkspur();
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    place.check_with_oracle();
    place.visible("out/alerts").iter().map(ToString::to_string).collect()
}

/// The visible alerts: all expected, none twice.
fn visible(place: &Workplace, expected: &HashSet<String>, kill: u64) -> HashSet<String> {
    let mut seen = HashSet::new();
    for alert in place.visible("out/alerts") {
        let alert = alert.to_string();
        assert!(expected.contains(&alert), "kill {kill}: unexpected {alert}");
        assert!(seen.insert(alert.clone()), "kill {kill}: twice {alert}");
    }
    seen
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
    let complete = |name: &String| place.path(CHECKPOINTS).join(name).join("manifest.json").exists();
    place.names(CHECKPOINTS).into_iter().filter(|name| name.starts_with("chk-")).map(|name| (name.clone(), complete(&name))).collect()
}
