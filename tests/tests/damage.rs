//! Files that are damaged at random: checkpoints, job specs, case files, components. They are refused by name, or it makes no difference.
//! A failing seed is printed; `TIDEMILL_SEED=n` replays it.

#![expect(clippy::unwrap_used, reason = "a test cannot go on")]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use serde_json::{Value, json};
use tidemill::guest::GuestEngine;
use tidemill::runtime::job::Job;
use tidemill::runtime::recovery::{Missing, restore};
use tidemill::savepoint::{Contents, Selection, diff, dump};
use tidemill::spec::{self, Text, case};
use tidemill::store::CheckpointStore;
use tidemill::store::savepoint::Saved;
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

/// The JSON pointers of everything in a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| pointers(item, &format!("{at}/{index}"), found)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, item)| pointers(item, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found));
        }
        _ => {}
    }
}

/// A manifest with one number, name or list changed, whose checksum is right. Returns what was changed, too.
fn tampered(bytes: &[u8], rng: &mut Rng) -> (Vec<u8>, String) {
    let mut manifest: Value = serde_json::from_slice(bytes.split_at(bytes.len() - 23).0).unwrap();
    let mut all = Vec::new();
    pointers(&manifest, "", &mut all);
    let (at, other) = (rng.choice(&all).unwrap().clone(), rng.choice(&all).unwrap());
    let other = manifest.pointer(other).unwrap().clone();
    let place = manifest.pointer_mut(&at).unwrap();
    let numbers = [0, 1, 2, 63, 64, 127, 255, 256, 65_535, 65_536, u64::from(u32::MAX) - 1, u64::from(u32::MAX), 1 << 40, i64::MAX as u64];
    match place {
        Value::Number(number) if rng.u8(..4) > 0 => {
            let old = number.as_u64().unwrap_or(0);
            let near = [old.wrapping_add(1), old.wrapping_sub(1), old * 2, u64::MAX, u64::MAX - 1];
            let candidates = [&numbers[..], &near].concat();
            *place = (*rng.choice(&candidates).unwrap()).into();
        }
        Value::String(text) if rng.u8(..4) > 0 => {
            let names = ["", ".", "..", "/etc/passwd", "../../etc/passwd", "/dev/zero", "a/../b", "\0", "part-4294967295-1-0.jsonl", "x"];
            *text = if rng.u8(..8) == 0 { "n".repeat(100_000) } else { (*rng.choice(&names).unwrap()).to_owned() };
        }
        Value::Array(items) if !items.is_empty() && rng.u8(..4) > 0 => match rng.u8(..3) {
            0 => items.push(rng.choice(&*items).unwrap().clone()),
            1 => drop(items.remove(rng.usize(..items.len()))),
            _ => items.reverse(),
        },
        place => *place = if rng.bool() { other } else { json!([[[[[[[[[[[[]]]]]]]]]]]]) },
    }
    let mut text = serde_json::to_vec(&manifest).unwrap();
    let hash = xxhash_rust::xxh3::xxh3_64(&text);
    text.extend_from_slice(format!("\nxxh3 {hash:016x}\n").as_bytes());
    (text, at)
}

/// The most memory that this process has held, in KiB.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// All that the commands about savepoints read from one, in words.
fn look_into(disk: &Arc<dyn Disk>, dir: &Path) -> Result<String, tidemill_core::Error> {
    let saved = Saved::open(Arc::clone(disk), dir)?;
    let mut words = format!("{:?}", Contents::read(&saved)?);
    for operator in &saved.manifest.operators {
        for state in operator.states.iter().chain(&operator.broadcast_states) {
            let selection = Selection { operator: &operator.uid, state: &state.name, key: None };
            dump(&saved, &selection, &mut |row| {
                words.push_str(&serde_json::to_string(&row).unwrap_or_default());
                Ok(())
            })?;
        }
    }
    diff(&saved, &Saved::open(Arc::clone(disk), dir)?)?;
    Ok(words)
}

#[test]
fn a_tampered_manifest_is_refused_or_read_soundly() {
    let (mut job, mut disk, mut store) = job_with_checkpoints();
    let newest = store.newest().unwrap().unwrap().checkpoint;
    let chk = Path::new(CHECKPOINTS).join(format!("chk-{newest}"));
    let path = chk.join("manifest.json");
    let whole = disk.read(&path).unwrap();
    assert!(look_into(&disk, &chk).unwrap().len() > 1_000);
    let (mut refused, mut ran) = (0, 0);
    let all = seeds(4_000);
    for seed in all.clone() {
        let rng = &mut Rng::with_seed(seed);
        let (bytes, at) = tampered(&whole, rng);
        write(&*disk, &path, &bytes);
        let restored = read(&job, &store);
        let text = restored.as_ref().err().cloned().or_else(|| look_into(&disk, &chk).err().map(|error| error.chain()));
        assert!(text.as_ref().is_none_or(|text| !text.contains('\n')), "TIDEMILL_SEED={seed}: {at}: {text:?}");
        refused += u64::from(text.is_some());
        if restored.is_ok() && rng.u8(..8) == 0 {
            // It starts and runs, or says why not.
            ran += 1;
            if let Err(error) = run_a_while(&job, &disk, seed) {
                assert!(!error.chain().contains('\n'), "TIDEMILL_SEED={seed}: {at}: {}", error.chain());
            }
            (job, disk, store) = job_with_checkpoints();
        }
        write(&*disk, &path, &whole);
    }
    println!("{refused} of {} refused, {ran} run; peak memory {} KiB", all.end - all.start, peak_memory());
    assert!(peak_memory() < 1 << 20, "{} KiB", peak_memory());
}

fn run_a_while(job: &Job, disk: &Arc<dyn Disk>, seed: u64) -> Result<(), tidemill_core::Error> {
    let Some(mut life) = Life::start(job, disk, Rng::with_seed(seed), Timestamp(0), seed)? else { return Ok(()) };
    (0..500).try_for_each(|_| life.step().map(drop))
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
