//! The same answer, whatever the parallelism, the batch size and the order of reading.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use tidemill_core::Timestamp;
use tidemill_core::disk::Disk;
use tidemill_tests::cli::Workplace;
use tidemill_tests::sim::day::Day;
use tidemill_tests::sim::job::{OUTPUTS, Shape, stock_out};
use tidemill_tests::sim::life::Life;
use tidemill_tests::sim_disk::SimDisk;

#[test]
fn the_components_give_the_batch_answer_at_any_parallelism() {
    for parallelism in ["1", "2", "3", "7"] {
        let place = Workplace::larkspur();
        place.run(&["run", "job.yaml", "--set", &format!("parallelism={parallelism}")]).expect(0, &["finished"]);
        place.check_with_oracle();
    }
}

#[test]
fn the_components_give_the_batch_answer_in_any_order_of_files() {
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
fn batches_of_one_row_give_the_same_answer_as_batches_of_many() {
    let day = Day::new(7, 1500, 3);
    assert!(day.alerts.len() > 15 && !day.late.is_empty());
    for parallelism in 1..=3 {
        for (batch_rows, source_rows) in [(1, 1), (1, 1024), (3, 100), (1024, 7), (1024, 1024)] {
            let shape = Shape { parallelism, queue_capacity: 2, batch_rows, source_rows };
            assert_eq!(alerts(&day, shape), day.alerts, "{shape:?}");
        }
    }
}

/// The alerts of an undisturbed run.
fn alerts(day: &Day, shape: Shape) -> BTreeSet<String> {
    let disk = SimDisk::new(1);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let job = stock_out(day, shape, &shared).unwrap();
    let mut life = Life::start(&job, &shared, Rng::with_seed(1), Timestamp(0), 0).unwrap().unwrap();
    while life.step().unwrap().is_none() {}
    let mut found = BTreeSet::new();
    for path in disk.list(Path::new(OUTPUTS[0])).unwrap() {
        let text = String::from_utf8(disk.read(&path).unwrap()).unwrap();
        for line in text.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(found.insert(row.to_string()), "{line} is there twice");
        }
    }
    found
}
