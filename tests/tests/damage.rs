//! Files that are damaged at random: checkpoints, job specs, case files, components. They are refused by name, or it makes no difference.
//! A failing seed is printed; `TIDEMILL_SEED=n` replays it.

#![expect(clippy::unwrap_used, reason = "a test cannot go on")]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tidemill::guest::GuestEngine;
use tidemill::runtime::job::Job;
use tidemill::runtime::recovery::{Missing, restore};
use tidemill::spec::{self, Text, case};
use tidemill::store::CheckpointStore;
use tidemill_core::Timestamp;
use tidemill_core::disk::Disk;
use tidemill_tests::cli::{component, root};
use tidemill_tests::sim::day::Day;
use tidemill_tests::sim::job::{Shape, stock_out};
use tidemill_tests::sim::life::{CHECKPOINTS, Life};
use tidemill_tests::sim::source::Gate;
use tidemill_tests::sim_disk::SimDisk;

/// The name under which the simulated job claims its folder.
const JOB: &str = "stock-out";

fn seeds(count: u64) -> Range<u64> {
    let one = std::env::var("TIDEMILL_SEED").ok().and_then(|seed| seed.parse().ok());
    one.map_or_else(|| 0..count, |seed: u64| seed..seed + 1)
}

/// Bytes that are not these: bits flipped, an end cut off or added, a piece repeated or filled with zeros.
fn damaged(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    let at = rng.usize(0..bytes.len().max(1));
    let end = (at + rng.usize(1..64)).min(bytes.len());
    match rng.u8(0..8) {
        0 => changed.truncate(at),
        1 => changed.extend((0..rng.usize(1..9)).map(|_| rng.u8(..))),
        2 => changed.get_mut(at..end).unwrap_or(&mut []).fill(0),
        3 => drop(changed.splice(at..at, bytes.get(at..end).unwrap_or_default().to_vec())),
        4 => drop(changed.drain(at.min(end)..end)),
        _ => (0..rng.u8(1..4)).for_each(|_| {
            if let Some(byte) = changed.get_mut(rng.usize(0..bytes.len().max(1))) {
                *byte ^= 1 << rng.u8(0..8);
            }
        }),
    }
    changed
}

/// A job that has taken checkpoints, its disk and the store.
fn job_with_checkpoints() -> (Job, Arc<dyn Disk>, CheckpointStore) {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(7));
    let shape = Shape { parallelism: 2, queue_capacity: 4, batch_rows: 16, source_rows: 16, max_rate: None, moody: false };
    let job = stock_out(&Day::new(7, 400, 3), shape, &disk, &Gate::default()).unwrap();
    let mut life = Life::start(&job, &disk, Rng::with_seed(7), Timestamp(0), 1).unwrap().unwrap();
    while life.tally().committed < 3 {
        assert_eq!(life.step().unwrap(), None, "the day is too short");
    }
    let store = CheckpointStore::open(Arc::clone(&disk), PathBuf::from(CHECKPOINTS)).unwrap();
    store.claim(JOB).unwrap();
    store.set_next_incarnation(12).unwrap();
    (job, disk, store)
}

/// All that a start reads from a checkpoint folder, in words.
fn read(job: &Job, store: &CheckpointStore) -> Result<String, String> {
    let all = || {
        let (owner, finished, incarnation) = (store.claim(JOB)?, store.finished()?, store.next_incarnation()?);
        let found = restore(job, store, Missing::Refused)?;
        let groups: Vec<_> =
            found.operators.iter().map(|operator| operator.as_ref().map(|operator| (&operator.groups, &operator.passes))).collect();
        let (id, splits, records) = (found.checkpoint, &found.splits, found.records_in);
        let committed = store.is_committed(id)? || store.is_committing(id)?;
        Ok(format!("{owner} {finished:?} {incarnation} {committed} {id} {} {records} {splits:?} {groups:?}", found.incarnation))
    };
    all().map_err(|error: tidemill_core::Error| error.chain())
}

fn files(disk: &dyn Disk, dir: &Path) -> Vec<PathBuf> {
    let below = disk.list(dir).unwrap();
    below.into_iter().flat_map(|path| if disk.read(&path).is_ok() { vec![path] } else { files(disk, &path) }).collect()
}

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
    let mut file = disk.create(path).unwrap();
    file.write(bytes).unwrap();
    file.sync().unwrap();
}

#[test]
fn a_damaged_checkpoint_folder_is_refused_by_name_or_as_good_as_new() {
    let (job, disk, store) = job_with_checkpoints();
    let whole = read(&job, &store).unwrap();
    assert!(whole.contains("KeyGroup"), "there is no state: {whole}");
    let all = files(&*disk, Path::new(CHECKPOINTS));
    let mut refused = std::collections::BTreeMap::<String, u64>::new();
    for seed in seeds(3_000) {
        let rng = &mut Rng::with_seed(seed);
        let path = &all[rng.usize(0..all.len())];
        let bytes = disk.read(path).unwrap();
        write(&*disk, path, &damaged(&bytes, rng));
        match read(&job, &store) {
            Ok(found) => assert!(found == whole, "TIDEMILL_SEED={seed}: {} is damaged, but read otherwise:\n{found}", path.display()),
            Err(text) => {
                assert!(text.contains(&path.display().to_string()) && !text.contains('\n'), "TIDEMILL_SEED={seed}: {text}");
                *refused.entry(path.display().to_string()).or_default() += 1;
            }
        }
        write(&*disk, path, &bytes);
    }
    println!("{refused:#?}");
    assert_eq!(read(&job, &store).unwrap(), whole);
}

#[test]
fn damaged_specs_and_cases_are_read_or_refused_by_name() {
    let base = root().join("examples/larkspur");
    let job = fs::read(base.join("job.yaml")).unwrap();
    let case = fs::read(root().join("tests/conformance/more/dead-letters.case.yaml")).unwrap();
    let find = |name: &str| Ok(PathBuf::from(format!("/built/{name}.wasm")));
    let context = case::Context { component: &find };
    let mut counts = [0; 4];
    for seed in seeds(6_000) {
        let rng = &mut Rng::with_seed(seed);
        let is_job = rng.bool();
        let text = String::from_utf8_lossy(&damaged(if is_job { &job } else { &case }, rng)).into_owned();
        let text = Text { text: &text, file: "some.yaml", base: &base };
        let refused = if is_job {
            spec::parse(&text, &[], &|_| None).err().map(|error| error.to_string())
        } else {
            case::parse(&text, &context).err().map(|error| error.to_string())
        };
        counts[usize::from(is_job) * 2 + usize::from(refused.is_some())] += 1;
        if let Some(text) = refused {
            assert!(text.lines().all(|line| line.starts_with("some.yaml")), "TIDEMILL_SEED={seed}: {text}");
        }
    }
    println!("cases and specs, read and refused: {counts:?}");
}

#[test]
fn a_damaged_component_is_refused_by_name_or_still_a_component() {
    let bytes = fs::read(component("hostile")).unwrap();
    let engine = GuestEngine::new().unwrap();
    let mut refused = 0;
    let seeds = seeds(150);
    for seed in seeds.clone() {
        if let Err(error) = engine.load("damaged", &damaged(&bytes, &mut Rng::with_seed(seed)), None) {
            let text = error.chain();
            assert!(text.starts_with("component damaged ") && !text.contains('\n'), "TIDEMILL_SEED={seed}: {text}");
            refused += 1;
        }
    }
    println!("{refused} of {} refused", seeds.end - seeds.start);
}
