//! State in `RocksDB`: checkpoints of files, restored at other parallelism and by another backend, and refused when they are damaged.

#![cfg(feature = "rocksdb")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use tidemill_tests::cli::{PATIENCE, Workplace};

const CHECKPOINTS: &str = "tidemill-data/stock-out/checkpoints";
const ROCKSDB: [&str; 4] = ["--set", "state.backend=rocksdb", "--set", "state.memory=8MiB"];

/// A job that was killed after some checkpoints of its day.
#[expect(clippy::disallowed_methods, reason = "a limit for a test that hangs")]
fn killed() -> Workplace {
    let place = Workplace::larkspur();
    let slow = ["run", "job.yaml", "--set", "sources.pos-baskets.max_rate=10000"];
    let mut child = place.start(&[&slow[..], &ROCKSDB].concat());
    let begin = std::time::Instant::now();
    let third = |name: &String| name.strip_prefix("chk-").and_then(|id| id.parse::<u64>().ok()).is_some_and(|id| id > 3);
    while !place.names(CHECKPOINTS).iter().any(third) {
        assert!(child.try_wait().unwrap().is_none() && begin.elapsed() < PATIENCE, "the job did not get to its third checkpoint");
    }
    child.kill().unwrap();
    let ended = place.finish(child);
    assert!(!ended.status.success(), "{ended:#?}");
    place
}

#[test]
fn goes_on_at_other_parallelism_and_on_another_backend() {
    for more in [&["--set", "parallelism=3"][..], &["--set", "parallelism=1"], &["--set", "state.backend=memory"]] {
        let place = killed();
        let rocksdb = if more.iter().any(|word| word.contains("memory")) { &[][..] } else { &ROCKSDB };
        place.run(&[&["run", "job.yaml"], rocksdb, more].concat()).expect(0, &["resumed from checkpoint", "finished"]);
        place.check_with_oracle();
    }
}

/// The name of the newest checkpoint.
fn newest(place: &Workplace) -> String {
    let id = |name: &String| name.strip_prefix("chk-").and_then(|id| id.parse::<u64>().ok());
    let is_complete = |name: &String| place.path(CHECKPOINTS).join(name).join("manifest.json").exists();
    place.names(CHECKPOINTS).into_iter().filter(is_complete).max_by_key(id).unwrap()
}

#[test]
fn a_checkpoint_of_files_can_be_looked_at_and_taken_over() {
    let place = killed();
    let saved = format!("{CHECKPOINTS}/{}", newest(&place));
    place.run(&["savepoint", "inspect", &saved]).expect(0, &["stock-out", "first-copy"]);
    let other = ["run", "job.yaml", "--from", &saved, "--new-incarnation", "--data-dir", "other"];
    place.run(&[&other[..], &ROCKSDB].concat()).expect(0, &["took over", "resumed from checkpoint", "finished"]);
}

/// The files of databases that the newest checkpoint names, each once.
fn files(place: &Workplace) -> BTreeSet<PathBuf> {
    let folder = place.path(CHECKPOINTS);
    let newest = newest(place);
    let text = fs::read_to_string(folder.join(newest).join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(text.rsplit_once("\nxxh3").unwrap().0).unwrap();
    let databases = manifest["databases"].as_array().unwrap();
    databases
        .iter()
        .flat_map(|database| database["files"].as_array().unwrap())
        .map(|file| folder.join(file["path"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_flipped_bit_or_a_missing_end_is_refused_by_name() {
    let place = killed();
    let files = files(&place);
    assert!(files.iter().any(|path| path.extension().is_some_and(|end| end == "sst")), "no table among {files:?}");
    for path in files {
        let whole = fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        let Some(middle) = flipped.get_mut(whole.len() / 2) else { continue };
        *middle ^= 4;
        for damaged in [&flipped[..], &whole[..whole.len() - 1]] {
            fs::write(&path, damaged).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            place
                .run(&[&["run", "job.yaml"][..], &ROCKSDB].concat())
                .expect(1, &[&name, "is damaged", "start again from nothing with --fresh"]);
        }
        fs::write(&path, whole).unwrap();
    }
    place.run(&[&["run", "job.yaml"][..], &ROCKSDB].concat()).expect(0, &["resumed from checkpoint", "finished"]);
    place.check_with_oracle();
}

#[test]
fn a_checkpoint_writes_only_what_is_new_and_its_history_says_so() {
    let place = killed();
    place.run(&[&["run", "job.yaml"][..], &ROCKSDB].concat()).expect(0, &["finished"]);
    let shown = place.run(&["checkpoints", "job.yaml", "--format", "json"]);
    let records: Vec<serde_json::Value> = shown.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let number = |record: &serde_json::Value, name: &str| record[name].as_u64().unwrap();
    assert!(records.iter().all(|record| number(record, "uploaded_bytes") <= number(record, "bytes")), "{records:#?}");
    assert!(records.iter().any(|record| number(record, "uploaded_bytes") < number(record, "bytes")), "{records:#?}");
    let last = records.last().unwrap();
    let size = |uid: &str| {
        last["tasks"].as_array().unwrap().iter().filter(|task| task["uid"] == uid).map(|task| number(task, "bytes")).sum::<u64>()
    };
    assert!(size("first-copy") + size("stock-out") > number(last, "bytes") * 9 / 10, "{last:#}");
}
