//! The same answer, whatever the parallelism, the batch size and the order of reading, from components and from native code.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use serde_json::Value;
use tidemill::guest::{ComponentCache, GuestEngine};
use tidemill::runtime::{Assembly, Job};
use tidemill_core::Timestamp;
use tidemill_core::disk::Disk;
use tidemill_core::operator::OperatorSettings;
use tidemill_core::worker::Node;
use tidemill_tests::cli::Workplace;
use tidemill_tests::sim::day::Day;
use tidemill_tests::sim::job::{OUTPUTS, Shape, stock_out};
use tidemill_tests::sim::life::Life;
use tidemill_tests::sim::source::Gate;
use tidemill_tests::sim_disk::SimDisk;

#[test]
fn the_program_gives_the_batch_answer_at_any_parallelism() {
    for parallelism in ["1", "2", "3", "7"] {
        let place = Workplace::larkspur();
        place.run(&["run", "job.yaml", "--set", &format!("parallelism={parallelism}")]).expect(0, &["finished"]);
        place.check_with_oracle();
    }
}

#[test]
fn the_program_gives_the_batch_answer_in_any_order_of_files() {
    // The names decide which worker reads a file, and in which order files are opened.
    for order in [[5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2]] {
        let place = Workplace::larkspur();
        for (from, to) in order.iter().enumerate() {
            fs::rename(place.path(format!("data/pos-{from}.jsonl")), place.path(format!("data/other-{to}"))).unwrap();
        }
        for index in 0..6 {
            fs::rename(place.path(format!("data/other-{index}")), place.path(format!("data/pos-{index}.jsonl"))).unwrap();
        }
        place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
        place.check_with_oracle();
    }
}

#[test]
fn native_detectors_give_the_batch_answer_at_any_batch_size() {
    let place = Workplace::larkspur();
    let day = larkspur_day(&place);
    for (parallelism, batch_rows, source_rows) in [(1, 1, 1), (1, 1024, 1024), (2, 1, 1024), (3, 7, 100), (3, 1024, 1)] {
        let shape = Shape { parallelism, queue_capacity: 1 + batch_rows % 4, batch_rows, source_rows, max_rate: None, moody: false };
        let disk = SimDisk::new(1);
        let mut job = stock_out(&day, shape, &(Arc::new(disk.clone()) as _), &Gate::default()).unwrap();
        job.checkpoints.interval = 10_000;
        check(&day, &run(&job, &disk), OUTPUTS.map(PathBuf::from), &shape);
    }
}

#[test]
fn components_give_the_batch_answer_at_any_batch_size() {
    let place = Workplace::larkspur();
    let day = larkspur_day(&place);
    let engine = GuestEngine::new().unwrap();
    let cache = ComponentCache::open(&place.path("components")).unwrap();
    for (parallelism, batch_rows) in [(1, 1), (1, 1024), (3, 1), (2, 100)] {
        let spec = tidemill::spec::load(&place.path("job.yaml"), &[format!("parallelism={parallelism}")]).unwrap();
        let disk = SimDisk::new(1);
        let assembly = Assembly::load(&spec, &engine, Some(&cache)).unwrap();
        let mut job = assembly.job(128, 0, &(Arc::new(disk.clone()) as _)).unwrap();
        set_batch_rows(&mut job, batch_rows);
        let outputs = [place.path("out/alerts"), place.path("out/late")];
        check(&day, &run(&job, &disk), outputs, &(parallelism, batch_rows));
    }
}

/// The day in the folder, whose answer has the counts of the story.
fn larkspur_day(place: &Workplace) -> Day {
    let day = Day::read(&place.path("data")).unwrap();
    let count = |kind: &str| day.alerts.iter().filter(|alert| alert.contains(kind)).count();
    let late: usize = day.late.values().sum();
    assert_eq!((day.alerts.len(), count("STOCK_OUT"), count("BOOK_ERROR"), late), (9_833, 6_779, 3_054, 1_141));
    day
}

/// The job has its settings in two places.
fn set_batch_rows(job: &mut Job, batch_rows: usize) {
    for operator in &mut job.operators {
        let old = &operator.settings;
        let mut settings = OperatorSettings::new(&*old.uid, Arc::clone(&old.factory), old.parameters.clone(), old.max_parallelism);
        settings.tables = Arc::clone(&old.tables);
        settings.states = old.states.clone();
        settings.splits = Arc::clone(&old.splits);
        settings.batch_rows = batch_rows;
        operator.settings = Arc::new(settings);
        *job.graph.nodes.get_mut(operator.node).expect("the operator's node") = Node::Operator(Arc::clone(&operator.settings));
    }
}

/// Runs an undisturbed job to its end.
fn run(job: &Job, disk: &SimDisk) -> SimDisk {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut life = Life::start(job, &shared, Rng::with_seed(1), Timestamp(0), 0).unwrap().unwrap();
    while life.step().unwrap().is_none() {}
    disk.clone()
}

/// Compares what is visible with the day's answer.
fn check(day: &Day, disk: &SimDisk, [alerts, late]: [PathBuf; 2], what: &dyn std::fmt::Debug) {
    let alerts = rows(disk, &alerts);
    let distinct: BTreeSet<_> = alerts.iter().cloned().collect();
    assert_eq!(distinct.len(), alerts.len(), "{what:?}: alerts are there twice");
    assert!(distinct == day.alerts, "{what:?}: {} of {} alerts are right", distinct.intersection(&day.alerts).count(), distinct.len());
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    rows(disk, &late).into_iter().for_each(|line| *found.entry(line).or_default() += 1);
    assert!(found == day.late, "{what:?}: the late lines differ");
}

/// The rows in a folder, without the watermark that a late line saw.
fn rows(disk: &SimDisk, dir: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    for path in disk.list(dir).unwrap() {
        assert!(!path.file_name().unwrap().to_string_lossy().starts_with('.'), "{} is left over", path.display());
        for line in String::from_utf8(disk.read(&path).unwrap()).unwrap().lines() {
            let mut row: Value = serde_json::from_str(line).unwrap();
            row.as_object_mut().unwrap().remove("watermark");
            rows.push(row.to_string());
        }
    }
    rows
}
