//! Disks that are full and files that are damaged.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Command;

use tidemill_tests::cli::{FOLLOW, Workplace, signal};
use tidemill_tests::small_disk::SmallDisk;

/// It takes some seconds for what it is given of the day, and then waits for more.
const SLOW: [&str; 6] = ["run", "job.yaml", "--set", "sources.pos-baskets.max_rate=8000", "--set", FOLLOW];
const ONCE: [&str; 2] = ["--set", "restart.strategy=none"];
const CHECKPOINTS: &str = "tidemill-data/stock-out/checkpoints";

/// Waits until something is committed of the begin of the day, which is all that the job has been given.
fn wait_for_output(place: &Workplace) {
    place.wait_until("something is committed", || !place.visible("out/alerts").is_empty());
}

fn wait_for_log(place: &Workplace, said: &str) {
    place.wait_until("the job notices", || fs::read_to_string(place.path("stderr.log")).unwrap().contains(said));
}

/// Waits until the job has come further than the begin of the day.
fn wait_for_more(place: &Workplace) {
    place.wait_until("the job goes on", || place.visible("out/alerts").len() > 6_000);
}

#[test]
fn a_limit_on_file_sizes_stops_the_job_with_an_error_and_without_it_the_job_goes_on() {
    let place = Workplace::larkspur();
    place.give(20);
    // The state of the whole day outgrows this, that of its begin does not.
    let child = place.start_limited("-f 256", &[&SLOW[..], &ONCE].concat());
    wait_for_output(&place);
    place.give(100);
    place.finish(child).expect(1, &["File too large", "tidemill-data"]);
    place.run(&["run", "job.yaml"]).expect(0, &["resumed from checkpoint", "finished"]);
    place.check_with_oracle();
}

#[test]
fn a_job_restarts_until_its_files_may_grow() {
    let place = Workplace::larkspur();
    let delays = ["--set", "restart.initial=100ms", "--set", "restart.max=200ms"];
    let child = place.start_limited("-f 256", &[&SLOW[..], &delays].concat());
    wait_for_log(&place, "the job failed and restarts");
    let raised = Command::new("prlimit").args(["--pid", &child.id().to_string(), "--fsize=unlimited"]).status().unwrap();
    assert!(raised.success());
    wait_for_more(&place);
    place.complete(child, &[]).expect(0, &["File too large"]);
}

#[test]
fn a_full_disk_stops_the_job_with_an_error_and_space_lets_it_go_on() {
    for full in ["tidemill-data", "out"] {
        let place = Workplace::larkspur();
        let Some(disk) = SmallDisk::mount(&place, full, "12m") else { return };
        place.give(30);
        let child = place.start(&[&SLOW[..], &ONCE].concat());
        wait_for_output(&place);
        disk.fill();
        place.give(100);
        place.finish(child).expect(1, &["No space left on device", full]);
        assert!(place.visible("out/alerts").len() < 6_000);
        disk.free();
        place.run(&["run", "job.yaml"]).expect(0, &["resumed from checkpoint", "finished"]);
        place.check_with_oracle();
        drop(disk);
    }
}

/// Fills a disk while the job runs with these options, frees it when the log says this, and lets the job go on by itself.
fn goes_on_when_space_is_free(full: &str, options: &[&str], said: &str) {
    let place = Workplace::larkspur();
    let Some(disk) = SmallDisk::mount(&place, full, "12m") else { return };
    place.give(30);
    let child = place.start(&[&SLOW[..], options].concat());
    wait_for_output(&place);
    disk.fill();
    place.give(100);
    wait_for_log(&place, said);
    disk.free();
    wait_for_more(&place);
    place.complete(child, &[]).expect(0, &["No space left on device"]);
    drop(disk);
}

#[test]
fn a_job_restarts_until_a_full_disk_has_space() {
    for full in ["tidemill-data", "out"] {
        goes_on_when_space_is_free(full, &["--set", "restart.initial=100ms", "--set", "restart.max=200ms"], "the job failed and restarts");
    }
}

#[test]
fn a_job_may_tolerate_failed_checkpoints_and_commits_their_output_later() {
    let options = [&["--set", "checkpoints.tolerable_failures=100000"], &ONCE[..]].concat();
    goes_on_when_space_is_free("tidemill-data", &options, "No space left on device");
}

#[test]
fn damaged_checkpoints_are_refused_by_name_and_a_backup_helps() {
    let place = Workplace::larkspur();
    let child = place.start(&SLOW);
    place.wait_until("checkpoints complete", || {
        place.names(CHECKPOINTS).iter().any(|name| name.starts_with("chk-") && name.as_str() > "chk-3")
    });
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
    let newest = place.names(CHECKPOINTS).into_iter().find(|name| name.starts_with("chk-")).unwrap();
    for file in ["manifest.json", "worker-0.state", "worker-1.state"] {
        let path = place.path(CHECKPOINTS).join(&newest).join(file);
        let bytes = fs::read(&path).unwrap();
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 3] ^= 4;
        for damaged in [&flipped[..], &bytes[..bytes.len() / 2], b""] {
            fs::write(&path, damaged).unwrap();
            let visible = place.names("out/alerts");
            place.run(&["run", "job.yaml"]).expect(1, &[&format!("{newest}/{file}"), "--fresh"]);
            assert_eq!(place.names("out/alerts"), visible);
        }
        fs::write(&path, bytes).unwrap();
    }
    place.run(&["run", "job.yaml"]).expect(0, &["resumed", "finished"]);
    place.check_with_oracle();
}
