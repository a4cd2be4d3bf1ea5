//! State in `RocksDB`: checkpoints of files, restored at other parallelism and by another backend, refused when they are damaged, and whole
//! after kills and on full disks.

#![cfg(feature = "rocksdb")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod damage;
mod folder;
mod full_disk;
mod kills;

use std::fs;

use tidemill_tests::cli::{FOLLOW, Workplace};

use self::folder::{Checkpoints, newest};

const CHECKPOINTS: &str = "tidemill-data/stock-out/checkpoints";
const ROCKSDB: [&str; 4] = ["--set", "state.backend=rocksdb", "--set", "state.memory=8MiB"];

/// Lets the job take some seconds for what it is given of the day, and then wait for more.
const SLOW: [&str; 6] = ["run", "job.yaml", "--set", "sources.pos-baskets.max_rate=8000", "--set", FOLLOW];

/// A job that was killed after some checkpoints of its day.
fn killed() -> Workplace {
    let place = Workplace::larkspur();
    let mut child = place.start(&[&SLOW[..], &ROCKSDB].concat());
    let third = |name: &String| folder::id(name).is_some_and(|id| id > 3);
    place.wait_until("the job gets to its third checkpoint", || {
        assert!(child.try_wait().unwrap().is_none(), "the job ended by itself");
        place.names(CHECKPOINTS).iter().any(third)
    });
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

/// Eighteen databases have more files than a shell lets a program open at first.
#[test]
fn many_databases_have_the_files_that_they_need() {
    let place = Workplace::larkspur();
    let wide = ["run", "job.yaml", "--set", "parallelism=6", "--set", "restart.strategy=none"];
    place.finish(place.start_limited("-n 90", &[&wide[..], &ROCKSDB].concat())).expect(0, &["finished"]);
    place.check_with_oracle();
}

/// The shared files of the checkpoint are linked into the live database, and the next checkpoint names them without writing them again.
#[test]
fn at_the_same_parallelism_files_are_taken_over() {
    let place = killed();
    let before = Checkpoints::of(&place);
    let shared = before.shared_of(&newest(&place));
    let inode = |name: &str| std::os::unix::fs::MetadataExt::ino(&fs::metadata(place.path(CHECKPOINTS).join(name)).unwrap());
    let inodes: Vec<u64> = shared.iter().map(|name| inode(name)).collect();
    assert!(!shared.is_empty(), "there is no shared file in {before:?}");
    let rare = ["--set", "sources.pos-baskets.max_rate=1000", "--set", FOLLOW, "--set", "checkpoints.interval=1h"];
    let child = place.start(&[&["run", "job.yaml"], &rare[..], &ROCKSDB].concat());
    place.wait_until("the job runs", || fs::read_to_string(place.path("stderr.log")).unwrap().contains("resumed from"));
    tidemill_tests::cli::signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped at checkpoint"]);
    let kept: Vec<&String> = Checkpoints::of(&place).shared_of(&newest(&place)).into_iter().filter_map(|name| shared.get(&name)).collect();
    assert!(!kept.is_empty(), "no file was taken over of {shared:?}");
    assert!(shared.iter().zip(inodes).filter(|(name, _)| kept.contains(name)).all(|(name, before)| inode(name) == before));
    place.run(&[&["run", "job.yaml"][..], &ROCKSDB].concat()).expect(0, &["resumed from checkpoint", "finished"]);
    place.check_with_oracle();
}

#[test]
fn a_checkpoint_of_files_can_be_looked_at_and_taken_over() {
    let place = killed();
    let saved = format!("{CHECKPOINTS}/{}", newest(&place));
    place.run(&["savepoint", "inspect", &saved]).expect(0, &["stock-out", "first-copy"]);
    let other = ["run", "job.yaml", "--from", &saved, "--new-incarnation", "--data-dir", "other"];
    place.run(&[&other[..], &ROCKSDB].concat()).expect(0, &["took over", "resumed from checkpoint", "finished"]);
}

/// A job that started from the checkpoint of another folder needs nothing of it once it has a checkpoint of its own.
#[test]
fn c8_a_checkpoint_started_from_may_be_deleted_after_the_next() {
    let place = killed();
    let saved = format!("{CHECKPOINTS}/{}", newest(&place));
    let there = ["run", "job.yaml", "--data-dir", "other"];
    let slowly = [&SLOW[2..], &["--from", &saved, "--new-incarnation"]].concat();
    let mut child = place.start(&[&there[..], &slowly, &ROCKSDB].concat());
    let id = |name: &str| name.rsplit_once('-').and_then(|(_, id)| id.parse::<u64>().ok());
    let is_next = |name: &String| id(name) > id(&saved) && place.path("other/checkpoints").join(name).join("manifest.json").exists();
    place.wait_until("the next checkpoint is complete", || place.names("other/checkpoints").iter().any(is_next));
    child.kill().unwrap();
    assert!(!place.finish(child).status.success());
    fs::remove_dir_all(place.path("tidemill-data")).unwrap();
    place.run(&[&there[..], &ROCKSDB].concat()).expect(0, &["resumed from checkpoint", "finished"]);
    place.check_with_oracle();
}

/// A checkpoint that the job itself goes on from is removed as any other, and the files of it that later ones name stay.
#[test]
fn c8_a_checkpoint_gone_on_from_is_removed_in_its_turn() {
    let place = killed();
    let before = newest(&place);
    place.run(&[&["run", "job.yaml"][..], &ROCKSDB].concat()).expect(0, &["resumed from checkpoint", "finished"]);
    assert!(!place.names(CHECKPOINTS).contains(&before), "{before} is still there");
    place.run(&["savepoint", "inspect", &format!("{CHECKPOINTS}/{}", newest(&place))]).expect(0, &["stock-out"]);
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
