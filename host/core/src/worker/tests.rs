mod rig;

use rig::{Options, World, restart, step};

use super::{Clocks, Report, Step, Worker, WorkerSnapshot};
use crate::Timestamp;
use crate::exchange::Barrier;

/// Steps until nothing more happens.
fn settle(worker: &mut Worker) {
    while step(worker, 0) == Step::Worked {}
}

fn snapshot(worker: &mut Worker) -> Option<WorkerSnapshot> {
    match worker.report() {
        Some(Report::Snapshot(snapshot)) => Some(*snapshot),
        _ => None,
    }
}

#[test]
fn a_restore_finishes_the_timer_pass_that_a_checkpoint_interrupted() {
    let records = || (0..20).map(|time| (time % 3, time)).chain([(7, 1000)]);
    let options = Options { batch_rows: 4, ..Options::default() };
    let undisturbed = World::of(records());
    settle(&mut undisturbed.start(options, None)[0]);
    let timers = |world: &World| world.written().into_iter().filter(|line| line.starts_with('t')).collect::<Vec<_>>();
    let expected = (0..20).map(|time| format!("t {} {time} @999", time % 3)).collect::<Vec<_>>();
    assert_eq!(timers(&undisturbed), expected);

    for fired_before in (0..16).step_by(4) {
        let world = World::of(records());
        let mut worker = world.start(options, None).remove(0);
        while world.written().len() < 21 + fired_before {
            step(&mut worker, 0);
        }
        worker.trigger(Barrier { checkpoint: 1, stop: false }).unwrap();
        let snapshot = loop {
            step(&mut worker, 0);
            if let Some(snapshot) = snapshot(&mut worker) {
                break snapshot;
            }
        };
        let before = timers(&world);
        assert_eq!(before, expected[..before.len()]);
        assert!(before.len() < 20, "the barrier must not wait for the end of the pass: {before:?}");

        // What comes next is there already, and must wait.
        let after = World::of(records().chain([(5, 2000)]));
        settle(&mut after.start(options, Some(restart(snapshot)))[0]);
        let rest = ["e 5 2000 @0".to_owned(), "t 7 1000 @1999".to_owned()];
        assert_eq!(after.written(), [&expected[before.len()..], &rest].concat(), "{} timers fired before", before.len());
    }
}

#[test]
fn a_batch_that_leads_to_much_is_processed_in_parts_and_is_one_batch_all_the_same() {
    let (records, copies) = (1000, 200);
    let options = Options { fan_out: (copies, 300), processing_timer: Some(10), ..Options::default() };
    let world = World::of((0..records).map(|time| (time % 7, time)));
    let mut worker = world.start(options, None).remove(0);
    let (mut now, mut largest, mut before, mut triggered) = (0, 0, 0, false);
    loop {
        let worked = step(&mut worker, now);
        let written = world.written().len();
        largest = largest.max(written - before);
        before = written;
        now += 1;
        if written > 0 && !triggered {
            worker.trigger(Barrier { checkpoint: 1, stop: false }).unwrap();
            triggered = true;
        }
        if worked != Step::Worked && written > 0 {
            break;
        }
    }
    // 64 rows first, 3.8 MiB of payload, then fewer.
    assert!(largest <= 64 * copies, "{largest} records came of one turn");
    let written = world.written();
    let first = written.iter().position(|line| line == "|").unwrap();
    let elements = (0..records).flat_map(|time| vec![format!("e {} {time} @1", time % 7); copies]).collect::<Vec<_>>();
    // The whole batch, at the processing time of its first part, then the timers of the watermark, then (or amid them) the barrier; timers
    // of processing time that became due meanwhile come after the batch.
    assert_eq!(written[..elements.len()], elements);
    assert!(first >= elements.len() && snapshot(&mut worker).is_some());
    assert_eq!(written.iter().filter(|line| line.starts_with("p ")).count(), 7);
}

#[test]
fn a_source_reads_on_while_processing_time_stands_still() {
    let world = World::of([(1, 1)]);
    let mut worker = world.start(Options::default(), None).remove(0);
    let mut at = |steady| while worker.step(Clocks { processing: Timestamp(500), steady: Timestamp(steady) }).unwrap() == Step::Worked {};
    at(0);
    world.records.lock().unwrap().push((1, 2));
    at(1);
    assert_eq!(world.written(), ["e 1 1 @500"]);
    at(20);
    assert_eq!(world.written(), ["e 1 1 @500", "e 1 2 @500", "t 1 1 @1"]);
}
