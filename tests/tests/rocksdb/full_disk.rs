//! Disks that are full while state in `RocksDB` is written, checkpointed, saved or restored.

use std::fs;

use tidemill_tests::cli::Workplace;
use tidemill_tests::small_disk::SmallDisk;

use super::{CHECKPOINTS, ROCKSDB, SLOW, killed};

const DELAYS: [&str; 4] = ["--set", "restart.initial=100ms", "--set", "restart.max=200ms"];
const NO_SPACE: &str = "No space left on device";

/// Gives the job a part of the day, waits until some of its output is committed, fills the disk and gives it the rest.
fn fill_amid(place: &Workplace, disk: &SmallDisk) {
    place.wait_until("something is committed", || !place.visible("out/alerts").is_empty());
    disk.fill();
    place.give(100);
}

/// Waits until the job has come further than the part of the day that it was given at first.
fn wait_for_more(place: &Workplace) {
    place.wait_until("the job goes on", || place.visible("out/alerts").len() > 6_000);
}

fn log(place: &Workplace) -> String {
    fs::read_to_string(place.path("stderr.log")).unwrap_or_default()
}

#[test]
fn a_job_whose_data_folder_is_full_stops_with_an_error_and_goes_on_when_there_is_space() {
    let place = Workplace::larkspur();
    let Some(disk) = SmallDisk::mount(&place, "tidemill-data", "48m") else { return };
    place.give(30);
    let child = place.start(&[&SLOW[..], &ROCKSDB, &["--set", "restart.strategy=none"]].concat());
    fill_amid(&place, &disk);
    place.finish(child).expect(1, &[NO_SPACE, "tidemill-data"]);
    let committed = place.visible("out/alerts").len();
    // The restore needs space too.
    place.run(&[&["run", "job.yaml", "--set", "restart.strategy=none"][..], &ROCKSDB].concat()).expect(1, &[NO_SPACE, "tidemill-data"]);
    // What the last checkpoint covers may have been committed since.
    assert!(place.visible("out/alerts").len() >= committed);
    disk.free();
    place.run(&[&["run", "job.yaml"][..], &ROCKSDB].concat()).expect(0, &["resumed from checkpoint", "finished"]);
    place.check_with_oracle();
    drop(disk);
}

/// A database that could not write makes no more writes: it is made anew from the last checkpoint.
#[test]
fn a_job_restarts_until_there_is_space_for_its_databases() {
    for tolerable in ["0", "100000"] {
        let place = Workplace::larkspur();
        let Some(disk) = SmallDisk::mount(&place, "tidemill-data", "48m") else { return };
        place.give(30);
        let tolerable = format!("checkpoints.tolerable_failures={tolerable}");
        let child = place.start(&[&SLOW[..], &ROCKSDB, &DELAYS, &["--set", &tolerable]].concat());
        fill_amid(&place, &disk);
        place.wait_until("the job notices", || log(&place).contains(NO_SPACE));
        disk.free();
        wait_for_more(&place);
        place.complete(child, &ROCKSDB).expect(0, &[NO_SPACE]);
        drop(disk);
    }
}

/// Live state on a disk of its own: flushes and compactions fail, checkpoints have space.
#[test]
fn a_database_without_space_is_made_anew_from_the_last_checkpoint() {
    let place = Workplace::larkspur();
    let Some(disk) = SmallDisk::mount(&place, "tidemill-data/stock-out/state", "16m") else { return };
    place.give(30);
    let child = place.start(&[&SLOW[..], &ROCKSDB, &DELAYS].concat());
    fill_amid(&place, &disk);
    place.wait_until("the job notices", || log(&place).contains("the job failed and restarts"));
    let said = log(&place);
    assert!(said.contains(NO_SPACE) && said.contains("/state/"), "{said}");
    disk.free();
    wait_for_more(&place);
    place.complete(child, &ROCKSDB).expect(0, &["resumed from checkpoint"]);
    drop(disk);
}

#[test]
fn a_savepoint_without_space_fails_and_the_job_goes_on() {
    for backend in [&ROCKSDB[..], &[]] {
        let place = Workplace::larkspur();
        let Some(disk) = SmallDisk::mount(&place, "small", "1m") else { return };
        disk.fill();
        let child = place.start(&[&SLOW[..], backend].concat());
        place.wait_until("some alerts are there", || place.visible("out/alerts").len() > 1_000);
        let created = place.command(&["savepoint", "create", "job.yaml", "small/sp"]).output().unwrap();
        let said = String::from_utf8_lossy(&created.stderr).into_owned();
        assert!(!created.status.success() && said.contains(NO_SPACE) && said.contains("small/sp"), "{said}");
        assert!(!place.path("small/sp/manifest.json").exists());
        disk.free();
        let created = place.command(&["savepoint", "create", "job.yaml", "small/sp"]).output().unwrap();
        let said = String::from_utf8_lossy(&created.stderr).into_owned();
        // A megabyte is too little for it, or it is enough: whole or not there.
        assert_eq!(created.status.success(), place.path("small/sp/manifest.json").exists(), "{said}");
        place.complete(child, backend);
        drop(disk);
    }
}

#[test]
fn a_start_from_a_savepoint_without_space_changes_nothing() {
    for backend in [&ROCKSDB[..], &[]] {
        let place = killed();
        let saved = format!("{CHECKPOINTS}/{}", super::newest(&place));
        let Some(disk) = SmallDisk::mount(&place, "other", "64m") else { return };
        disk.fill();
        let start = [&["run", "job.yaml", "--from", &saved, "--new-incarnation", "--data-dir", "other"][..], backend].concat();
        place.run(&[&start[..], &["--set", "restart.strategy=none"]].concat()).expect(1, &[NO_SPACE, "other"]);
        let is_there = |name: &String| place.path("other/checkpoints").join(name).join("manifest.json").exists();
        assert!(!place.names("other/checkpoints").iter().any(is_there));
        disk.free();
        place.run(&start).expect(0, &["took over", "resumed from checkpoint", "finished"]);
        drop(disk);
    }
}
