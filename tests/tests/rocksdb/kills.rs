//! SIGKILL at random moments under incremental checkpoints, with small memtables, deleted keys and aborted checkpoints: afterwards every
//! checkpoint that is kept restores, and no file stays that none of them names. `TIDEMILL_KILLS=n` kills more often.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::Duration;

use fastrand::Rng;
use tidemill_tests::cli::{Workplace, number, signal};

use super::folder::{Checkpoints, id};
use super::{CHECKPOINTS, ROCKSDB};

const SIGKILL: i32 = 9;
const ABORTED: &str = " failed: it did not complete";
/// Keeps what a checkpoint that fails has written from the next one's, and the job from failing with it.
const CHECKPOINTING: [&str; 6] =
    ["--set", "checkpoints.interval=20ms", "--set", "checkpoints.retain=3", "--set", "checkpoints.tolerable_failures=1000000"];
/// After so many kills the job is stopped in order, and its folder must be clean.
const STOPS: u64 = 5;
/// After so many kills the job goes on from a kept checkpoint in a copy of its folder.
const COPIES: u64 = 6;

#[test]
fn every_checkpoint_restores_and_no_file_stays_whenever_the_job_is_killed() {
    let (kills, seed) = (number("TIDEMILL_KILLS", 25), number("TIDEMILL_SEED", 1));
    let mut run = Run::new(kills, seed);
    while run.done < kills {
        run.kill();
    }
    let Run { place, counts, .. } = run;
    println!("seed {seed}: {kills} kills, {counts:#?}");
    place.run(&[&["run", "job.yaml"][..], &ROCKSDB].concat()).expect(0, &["finished"]);
    place.check_with_oracle();
    let needed = ["checkpoints restored", "checkpoints aborted", "files left by a kill", "stops", "copies that went on from a checkpoint"];
    let missed: Vec<_> = needed.into_iter().filter(|what| !counts.contains_key(what)).collect();
    assert!(missed.is_empty(), "never seen: {missed:?}");
}

/// A job that is killed again and again.
struct Run {
    place: Workplace,
    rng: Rng,
    /// Baskets a second, so that the day takes about as long as all kills.
    rate: String,
    done: u64,
    /// The shared files that no checkpoint named after the last kill: they must be gone once the job has started again.
    left: BTreeSet<String>,
    counts: BTreeMap<&'static str, usize>,
}

impl Run {
    fn new(kills: u64, seed: u64) -> Self {
        let rate = format!("sources.pos-baskets.max_rate={}", 29_652 * 1000 / (kills * 120).max(1));
        let (place, rng) = (Workplace::larkspur(), Rng::with_seed(seed));
        Self { place, rng, rate, done: 0, left: BTreeSet::new(), counts: BTreeMap::new() }
    }

    /// Starts the job and kills it, and looks at what is there.
    fn kill(&mut self) {
        let in_order = self.done % STOPS == STOPS - 1;
        // A timeout in which few checkpoints complete, in which some do, and in which all do, as that of a stop must.
        let timeout = format!("checkpoints.timeout={}", ["12ms", "30ms", "10m"][if in_order { 2 } else { self.rng.usize(..3) }]);
        let arguments = [&["run", "job.yaml", "--set", &self.rate, "--set", &timeout][..], &ROCKSDB, &CHECKPOINTING].concat();
        let mut child = self.place.start(&arguments);
        // Every fourth kill comes anywhere, be it in the start.
        if in_order || !self.rng.u8(..).is_multiple_of(4) {
            self.wait_for_a_checkpoint(&mut child);
        }
        if in_order {
            // On a slow machine it may have come to its end meanwhile.
            if child.try_wait().unwrap().is_none() {
                signal(&child, "-INT");
            }
        } else {
            std::thread::sleep(Duration::from_millis(self.rng.u64(0..350)));
            child.kill().unwrap();
        }
        let ended = self.place.finish(child);
        self.count("checkpoints aborted", ended.stderr.matches(ABORTED).count());
        if ended.stdout.contains("has finished") && ended.status.success() {
            self.place.check_with_oracle();
            (self.place, self.left) = (Workplace::larkspur(), BTreeSet::new());
            return;
        }
        self.done += 1;
        let started = has_started(&ended.stderr);
        if in_order {
            ended.expect(0, &["stopped at checkpoint"]);
            self.count("stops", 1);
            self.look(started, true);
        } else {
            assert_eq!(ended.status.signal(), Some(SIGKILL), "the job failed by itself: {ended:#?}");
            self.look(started, false);
        }
        if self.done.is_multiple_of(COPIES) {
            self.go_on_in_a_copy();
        }
    }

    /// Waits until a checkpoint has begun, or the job has ended.
    fn wait_for_a_checkpoint(&self, child: &mut Child) {
        let newest = || self.place.names(CHECKPOINTS).iter().filter_map(|name| id(name)).max();
        let before = newest();
        self.place.wait_until("a checkpoint has begun", || {
            let log = fs::read_to_string(self.place.path("stderr.log")).unwrap_or_default();
            (has_started(&log) && newest() > before) || log.contains(ABORTED) || child.try_wait().unwrap().is_some()
        });
    }

    /// Whether everything that is kept is whole, and nothing else is there.
    fn look(&mut self, started: bool, is_clean: bool) {
        let (done, checkpoints) = (self.done, Checkpoints::of(&self.place));
        for name in checkpoints.names() {
            let text = self.place.run(&["savepoint", "inspect", &format!("{CHECKPOINTS}/{name}")]);
            assert_eq!(text.code(), 0, "after kill {done}: {text:#?}");
            self.count("checkpoints restored", 1);
        }
        let unreferenced = checkpoints.unreferenced(&self.place);
        assert!(!is_clean || unreferenced.is_empty(), "after stop {done}: files that no checkpoint names: {unreferenced:?}");
        let shared: BTreeSet<String> = unreferenced.into_iter().filter(|path| path.starts_with("shared/")).collect();
        if started {
            // The name of a shared file is used once.
            let stayed: Vec<_> = self.left.intersection(&shared).collect();
            assert!(stayed.is_empty(), "after kill {done}: these stayed over a start: {stayed:?}");
        }
        self.count("files left by a kill", shared.len());
        self.left = if started { shared } else { self.left.union(&shared).cloned().collect() };
    }

    /// One of the kept checkpoints is gone on with in a copy of everything: the answer is that of the whole day.
    fn go_on_in_a_copy(&mut self) {
        let committed = |name: &&String| self.place.path(CHECKPOINTS).join(name).join("COMMITTED").exists();
        let checkpoints = Checkpoints::of(&self.place);
        let names: Vec<&String> = checkpoints.names().filter(committed).collect();
        if names.is_empty() {
            return;
        }
        let name = names[self.rng.usize(..names.len())];
        let copy = Workplace::new();
        let copied = Command::new("cp").arg("-a").arg(self.place.path(".")).arg(copy.path(".")).status().unwrap();
        assert!(copied.success());
        remove_output_after(&copy, id(name).unwrap());
        let saved = format!("{CHECKPOINTS}/{name}");
        let parallelism = ["1", "2", "3"][self.rng.usize(..3)];
        let backend = if self.rng.bool() { &ROCKSDB[..] } else { &[] };
        let from = ["run", "job.yaml", "--from", &saved, "--new-incarnation", "--data-dir", "other", "--parallelism", parallelism];
        copy.run(&[&from[..], backend].concat()).expect(0, &["took over", "finished"]);
        copy.check_with_oracle();
        self.count("copies that went on from a checkpoint", 1);
    }

    fn count(&mut self, what: &'static str, times: usize) {
        if times > 0 {
            *self.counts.entry(what).or_default() += times;
        }
    }
}

fn has_started(log: &str) -> bool {
    ["resumed from checkpoint", "from nothing"].iter().any(|said| log.contains(said))
}

/// Removes what sinks have written after a checkpoint.
fn remove_output_after(place: &Workplace, checkpoint: u64) {
    for folder in ["out/alerts", "out/late"] {
        for name in place.names(folder) {
            let numbers: Vec<u64> = name.trim_end_matches(".jsonl").split('-').filter_map(|part| part.parse().ok()).collect();
            if name.starts_with('.') || numbers.first().is_none_or(|first| *first > checkpoint) {
                fs::remove_file(place.path(folder).join(name)).unwrap();
            }
        }
    }
}
