//! The conformance cases: each is a case file, a Rust test or pending, and all case files hold. Some of the Rust tests are here.
#![expect(clippy::unwrap_used, reason = "a test cannot go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use fastrand::Rng;
use tidemill::runtime::job::Job;
use tidemill::runtime::recovery::{Missing, restore};
use tidemill::store::CheckpointStore;
use tidemill_core::Timestamp;
use tidemill_core::checkpoint::{Action, Coordinator, Event, Options};
use tidemill_core::disk::Disk;
use tidemill_tests::cli::{Workplace, component, records, root, tidemill};
use tidemill_tests::sim::day::Day;
use tidemill_tests::sim::job::{Shape, stock_out};
use tidemill_tests::sim::life::{CHECKPOINTS, Life};
use tidemill_tests::sim::source::Gate;
use tidemill_tests::sim_disk::SimDisk;

const IDS: [&str; 50] = [
    "T1", "T2", "T4", "T5", "T7", "T8", "T9", "W1", "W2", "W4", "W6", "W7", "W8", "W9", "S1", "S2", "S3", "S5", "S6", "S8", "K1", "K2",
    "K4", "R1", "R2", "R4", "R7", "R8", "R9", "C1", "C2", "C4", "C5", "C6", "C8", "F1", "F3", "A1", "A3", "A5", "B1", "B3", "B5", "B6",
    "I1", "I2", "I4", "I5", "M1", "M3",
];

fn folder() -> PathBuf {
    root().join("tests/conformance")
}

/// The rows of the table in a file: id and the rest.
fn table(file: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(folder().join(file)).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    rows.filter(|(id, _)| *id != "id").map(|(id, rest)| (id.to_owned(), rest.to_owned())).collect()
}

/// All Rust code of the repository but for guests' builds.
fn code(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            code(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_case_is_in_exactly_one_place() {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(id) = name.strip_suffix(".case.yaml") {
            places.entry(id.to_owned()).or_default().push("case file");
        }
    }
    for (file, place) in [("README.md", "table"), ("PENDING.md", "pending")] {
        table(file).into_iter().for_each(|(id, _)| places.entry(id).or_default().push(place));
    }
    let unknown: Vec<_> = places.keys().filter(|id| !IDS.contains(&id.as_str())).collect();
    assert!(unknown.is_empty(), "not an id: {unknown:?}");
    let wrong: Vec<_> = IDS.iter().map(|id| (id, places.get(*id))).filter(|(_, at)| at.is_none_or(|at| at.len() != 1)).collect();
    assert!(wrong.is_empty(), "not in exactly one place: {wrong:?}");
    assert_eq!(IDS.iter().collect::<BTreeSet<_>>().len(), IDS.len());
}

#[test]
fn the_tests_in_the_table_exist() {
    let mut all = String::new();
    ["host", "sdk", "wit", "tests"].iter().for_each(|part| code(&root().join(part), &mut all));
    for (id, tests) in table("README.md") {
        let names: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{id} names no test");
        for name in names {
            assert!(all.contains(&format!("#[test]\nfn {name}()")) || all.contains(&format!("#[test]\n    fn {name}()")), "{id}: {name}");
        }
    }
}

#[test]
fn every_case_file_holds() {
    let mut command = Command::new(tidemill());
    command.arg("test").arg(folder()).arg("--components").arg(component("probe").parent().unwrap());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{text}");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// A job that has taken checkpoints, and their store.
fn job_with_checkpoints() -> (Job, CheckpointStore) {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(7));
    let shape = Shape { parallelism: 2, queue_capacity: 4, batch_rows: 16, source_rows: 16, max_rate: None, moody: false };
    let job = stock_out(&Day::new(7, 400, 3), shape, &disk, &Gate::default()).unwrap();
    let mut life = Life::start(&job, &disk, Rng::with_seed(7), Timestamp(0), 1).unwrap().unwrap();
    while life.tally().committed < 3 {
        assert_eq!(life.step().unwrap(), None, "the day is too short");
    }
    (job, CheckpointStore::open(disk, PathBuf::from(CHECKPOINTS)).unwrap())
}

/// How many bytes of state each operator finds.
fn found(job: &Job, store: &CheckpointStore, missing: Missing) -> Result<BTreeMap<String, usize>, String> {
    let recovered = restore(job, store, missing).map_err(|error| error.chain())?;
    let bytes = |node: usize| match recovered.operators.get(node) {
        Some(Some(operator)) => operator.groups.iter().map(|(_, bytes)| bytes.len()).sum(),
        _ => 0,
    };
    Ok(job.operators.iter().map(|operator| (operator.uid.clone(), bytes(operator.node))).collect())
}

#[test]
fn r1_state_of_a_renamed_operator_is_refused_unless_it_may_be_dropped() {
    let (mut job, store) = job_with_checkpoints();
    let before = found(&job, &store, Missing::Refused).unwrap();
    assert!(before["first-copy"] > 0 && before["stock-out"] > 0, "{before:?}");
    job.operators[2].uid = "renamed".to_owned();
    let refusal = found(&job, &store, Missing::Refused).unwrap_err();
    assert!(refusal.contains("stock-out"), "{refusal}");
    let after = found(&job, &store, Missing::Dropped).unwrap();
    assert_eq!((after["renamed"], after["first-copy"]), (0, before["first-copy"]));
}

#[test]
fn r2_state_is_found_by_uid_whatever_the_order_of_operators() {
    let (mut job, store) = job_with_checkpoints();
    let before = found(&job, &store, Missing::Refused).unwrap();
    job.operators.reverse();
    assert_eq!(found(&job, &store, Missing::Refused).unwrap(), before);
    // The same uid at another place of the graph.
    let nodes: Vec<usize> = job.operators.iter().map(|operator| operator.node).rev().collect();
    job.operators.iter_mut().zip(nodes).for_each(|(operator, node)| operator.node = node);
    assert_eq!(found(&job, &store, Missing::Refused).unwrap(), before);
}

#[test]
fn c5_the_pause_counts_from_the_completion_of_a_checkpoint() {
    let options = Options { interval: 1_000, timeout: 60_000, min_pause: 2_000, tolerable_failures: 0 };
    let mut coordinator = Coordinator::new(options, 1, 0, Timestamp(0));
    let (mut begun, mut completed) = (Vec::new(), Vec::new());
    for now in 0..20_000 {
        let mut events = vec![Event::Tick];
        // A checkpoint takes three seconds.
        if let Some(&(checkpoint, at)) = begun.last()
            && now == at + 3_000
        {
            events.extend([Event::Acknowledged { worker: 0, checkpoint }, Event::Stored { checkpoint }, Event::Committed { checkpoint }]);
            completed.push(now);
        }
        for event in events {
            for action in coordinator.on_event(event, Timestamp(now)) {
                if let Action::Trigger(barrier) = action {
                    assert_eq!(begun.len(), completed.len(), "two at once");
                    begun.push((barrier.checkpoint, now));
                }
            }
        }
    }
    assert!(begun.len() >= 3, "{begun:?}");
    for (completed, (_, next)) in completed.iter().zip(begun.iter().skip(1)) {
        assert!(next - completed >= 2_000, "{completed} to {next}");
    }
}

#[test]
fn c6_checkpoints_are_kept_or_deleted_as_the_spec_says_and_always_kept_after_a_failure() {
    let kept = |place: &Workplace| place.names("tidemill-data/picky/checkpoints").iter().any(|name| name.starts_with("chk-"));
    for (policy, expected) in [("keep", true), ("delete", false)] {
        let on_finish = format!("checkpoints.on_finish={policy}");
        let place = Workplace::picky("");
        place.write("in/a.jsonl", records(&["pass"; 5]));
        place.run(&["run", "job.yaml", "--set", &on_finish]).expect(0, &["finished"]);
        assert_eq!(kept(&place), expected, "{on_finish}");

        let on_cancel = format!("checkpoints.on_cancel={policy}");
        let place = Workplace::picky(", follow: true");
        place.write("in/a.jsonl", records(&["pass"; 5]));
        let child = place.start(&["run", "job.yaml", "--set", &on_cancel]);
        place.wait_until("the output is committed", || place.visible("out/main").len() == 5);
        tidemill_tests::cli::signal(&child, "-INT");
        place.finish(child).expect(0, &["stopped"]);
        assert_eq!(kept(&place), expected, "{on_cancel}");

        let place = Workplace::picky(", follow: true");
        place.write("in/a.jsonl", records(&["pass"; 5]));
        let child = place.start(&["run", "job.yaml", "--set", &on_finish, "--set", &on_cancel, "--set", "restart={strategy: none}"]);
        place.wait_until("the output is committed", || place.visible("out/main").len() == 5);
        place.write("in/b.jsonl", records(&["fatal"]));
        place.finish(child).expect(1, &["asked for the end"]);
        assert!(kept(&place), "{policy}");
    }
}
