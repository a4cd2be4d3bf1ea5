//! The real binary under SIGKILL: at random moments, and aimed at checkpoints, commits and recoveries, while it is busy and while nothing
//! comes in. Nothing is lost, nothing doubled, and no start changes what it restores.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test: it fails by panicking and says what it did"
)]

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::OpenOptions;
use std::io::Write;
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

/// The lines of a day, given to a job bit by bit.
struct Feed {
    /// By file.
    lines: Vec<(String, VecDeque<String>)>,
}

impl Feed {
    /// Takes the day out of a place.
    fn of(place: &Workplace) -> Self {
        let take = |name: String| {
            let text = std::fs::read_to_string(place.path(&name)).unwrap();
            place.write(&name, "");
            (name, text.lines().map(str::to_owned).collect())
        };
        Self { lines: (0..larkspur::FILES).map(|file| take(format!("data/pos-{file}.jsonl"))).collect() }
    }

    fn left(&self) -> usize {
        self.lines.iter().map(|(_, lines)| lines.len()).sum()
    }

    /// Appends about so many lines, as many to each file.
    fn give(&mut self, place: &Workplace, count: usize) {
        for (name, lines) in &mut self.lines {
            let some = lines.len().min(count / larkspur::FILES + 1);
            let text: String = lines.drain(..some).map(|line| line + "\n").collect();
            let mut file = OpenOptions::new().append(true).open(place.path(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
    }
}

/// Kills a job many times and lets it end; returns where it ran. In every other of its lives nothing comes in: it takes checkpoint after
/// checkpoint of the same state, and starts again from one of them.
fn kill_again_and_again(more: &[&str]) -> Workplace {
    let (kills, seed) = (number("TIDEMILL_KILLS", 100), number("TIDEMILL_SEED", 1));
    let mut rng = Rng::with_seed(seed);
    let reference = expected();
    let place = Workplace::larkspur();
    let mut feed = Feed::of(&place);
    let portion = feed.left() * 2 / usize::try_from(kills).unwrap().max(1);
    // A busy life has something to do for a tenth of a second.
    let rate = format!("sources.pos-baskets.max_rate={}", (portion * 10).max(100));
    let common = ["run", "job.yaml", "--set", "checkpoints.retain=2"];
    let followed = ["--set", "sources.pos-baskets.file.follow=true", "--set", "checkpoints.interval=20ms"];
    let (mut found, mut seen) = (BTreeMap::<&str, u64>::new(), HashSet::new());
    for shown in 0..kills {
        let (aim, is_idle) = (AIMS[usize::try_from(shown / 2 % 4).unwrap()], shown % 2 == 1);
        let mut arguments = [&common[..], &followed, more].concat();
        if !is_idle {
            arguments.extend(["--set", &rate]);
            feed.give(&place, portion);
        }
        let mut child = place.start(&arguments);
        let quiet = is_idle && wait_for_checkpoints(3, &place, &mut child);
        let hit = wait_for(aim, &place, &mut child, &mut rng);
        child.kill().unwrap();
        let ended = place.finish(child);
        assert_eq!(ended.status.signal(), Some(SIGKILL), "the job ended by itself: {ended:#?}");
        *found.entry(aim.name()).or_default() += u64::from(hit);
        *found.entry("idle").or_default() += u64::from(quiet);
        for circumstance in circumstances(&place, &ended) {
            *found.entry(circumstance).or_default() += 1;
        }
        let now = visible(&place, &reference, shown);
        assert!(seen.is_subset(&now), "kill {shown}: committed output is gone: {:?}", seen.difference(&now).next());
        seen = now;
    }
    println!("seed {seed}: {kills} kills, of these {found:#?}");
    let rest = feed.left();
    feed.give(&place, rest);
    place.run(&[&common[..], more].concat()).expect(0, &["finished"]);
    assert!(place.names("out/alerts").iter().all(|name| !name.starts_with(".part")), "hidden parts are left");
    place.check_with_oracle();
    let missed: Vec<_> = AIMS.into_iter().take(usize::try_from(kills / 2).unwrap()).filter(|aim| !found.contains_key(aim.name())).collect();
    assert!(missed.is_empty() && found.contains_key("idle"), "never hit: {missed:?}");
    place
}

/// What a killed process left half done.
fn circumstances(place: &Workplace, ended: &Ended) -> Vec<&'static str> {
    let has = |name: &String, file: &str| place.path(CHECKPOINTS).join(name).join(file).exists();
    let folders: Vec<_> = place.names(CHECKPOINTS).into_iter().filter(|name| name.starts_with("chk-")).collect();
    let hidden = ["out/alerts", "out/late"].iter().flat_map(|folder| place.names(folder)).any(|name| name.starts_with(".part"));
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

/// Waits until so many checkpoints more are complete; returns whether they were before the job ended.
#[expect(clippy::disallowed_methods, reason = "a limit for a test that hangs")]
fn wait_for_checkpoints(count: u64, place: &Workplace, child: &mut Child) -> bool {
    let newest = || {
        let complete = checkpoints(place).into_iter().filter(|(_, complete)| *complete);
        complete.filter_map(|(name, _)| name.trim_start_matches("chk-").parse::<u64>().ok()).max().unwrap_or(0)
    };
    let (before, begin) = (newest(), Instant::now());
    while newest() < before + count {
        if child.try_wait().unwrap().is_some() || begin.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
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
