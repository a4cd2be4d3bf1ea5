//! Timer passes that are interrupted, and batches that are processed in parts.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;

use super::super::{Clocks, Report, Step, TaskPart, Worker, WorkerSnapshot};
use super::rig::{Options, World, restart, step};
use crate::Timestamp;
use crate::exchange::{Barrier, Purpose};
use crate::source::Split;

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
        worker.trigger(Barrier { checkpoint: 1, ..Barrier::default() }).unwrap();
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
fn of_the_splits_that_have_ended_the_newest_are_remembered() {
    let checkpoint = |worker: &mut Worker| {
        worker.trigger(Barrier { checkpoint: 1, ..Barrier::default() }).unwrap();
        loop {
            step(worker, 0);
            if let Some(snapshot) = snapshot(worker) {
                break snapshot;
            }
        }
    };
    for bounded in [false, true] {
        let world = World::of([(1, 1)]);
        let options = Options { bounded, ..Options::default() };
        let mut from = restart(checkpoint(&mut world.start(Options::default(), None)[0]));
        let split = |id, finished| Split { id, finished, invalid: 1, ..Split::new(&[], id.to_string()) };
        // The first is still read; so is the last, or it has ended long ago.
        from.splits = (0..10_011).map(|id| split(id, (1..10_006).contains(&id) || id == 10_010)).collect();
        let mut worker = world.start(options, Some(from)).remove(0);
        let (_, splits) = checkpoint(&mut worker).splits.remove(0);
        assert_eq!(splits.iter().fold(0, |sum, split| sum + split.invalid), 10_011, "max_invalid still counts them");
        let ids: Vec<_> = splits.iter().map(|split| split.id).collect();
        let expected: Vec<u32> = if bounded { (0..10_011).collect() } else { (0..1).chain(7..10_011).collect() };
        assert_eq!(ids, expected);
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
            worker.trigger(Barrier { checkpoint: 1, ..Barrier::default() }).unwrap();
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

thread_local! {
    /// A stopwatch that goes on by a second with each look.
    static SECONDS: Cell<u64> = const { Cell::new(0) };
}

#[test]
fn a_snapshot_says_how_long_each_task_has_waited_and_stood_still() {
    let world = World::of((0..20).map(|time| (time, time)));
    let mut workers = world.start(Options { workers: 2, ..Options::default() }, None);
    workers.iter_mut().for_each(|worker| worker.measure_by(|| Duration::from_secs(SECONDS.replace(SECONDS.get() + 1))));
    // Calls seem to take seconds, so records come one by one.
    let settle_all = |workers: &mut [Worker]| (0..50).for_each(|_| workers.iter_mut().for_each(settle));
    settle_all(&mut workers);
    let barrier = Barrier { checkpoint: 1, ..Barrier::default() };
    workers[0].trigger(barrier).unwrap();
    settle_all(&mut workers);
    // Meanwhile all channels from the second worker's source are waited for.
    SECONDS.set(SECONDS.get() + 1_000_000);
    workers[1].trigger(barrier).unwrap();
    settle_all(&mut workers);
    for worker in &mut workers {
        let tasks = snapshot(worker).unwrap().tasks;
        let [source, operator, sink] = tasks[..] else { panic!("{tasks:?}") };
        assert_eq!([source.node, operator.node, sink.node], [0, 1, 2]);
        assert!(tasks.iter().all(|task| task.stopped == Duration::from_secs(1)), "{tasks:?}");
        assert!((1_000_000..1_001_000).contains(&operator.aligned.as_secs()), "{tasks:?}");
        assert!([source, sink].iter().all(|TaskPart { aligned, bytes, .. }| aligned.is_zero() && *bytes == 0), "{tasks:?}");
        assert!(operator.bytes > 0, "{tasks:?}");
    }
}

thread_local! {
    static RANDOM: RefCell<(Rng, Duration)> = const { RefCell::new((Rng::with_seed(0), Duration::ZERO)) };
}

/// Gives a worker a stopwatch on which calls take any time at all, so that batches, passes and moments are cut anywhere.
fn measure_at_random(worker: &mut Worker, seed: u64) {
    RANDOM.with_borrow_mut(|random| random.0 = Rng::with_seed(seed));
    worker.measure_by(|| {
        RANDOM.with_borrow_mut(|(rng, time)| {
            *time += Duration::from_micros([0, 10, 1_000, 30_000, 70_000][rng.usize(..5)]);
            *time
        })
    });
}

/// The order in which one subtask must see records of ascending times: all timers up to a watermark before the next record, in order. Gives
/// the earliest time of the timers that are left.
fn check_order(lines: &[String]) -> Result<Option<i64>, String> {
    let (mut pending, mut watermark) = (BTreeSet::new(), i64::MIN);
    for line in lines {
        let parts: Vec<_> = line.split([' ', '@']).collect();
        let number = |at: usize| parts[at].parse::<i64>().unwrap();
        // Keys of one group and of several: the order among equal times is not checked here.
        let (key, time) = (number(1), number(2));
        let due = pending.first().filter(|(first, _)| *first <= watermark);
        match (parts[0], due) {
            ("e", Some(due)) => return Err(format!("{line} comes before the timer {due:?} of watermark {watermark}")),
            ("e", None) => {
                pending.insert((time, key));
            }
            (_, due) if due.is_some() && number(4) != watermark => return Err(format!("{line} amid the pass of watermark {watermark}")),
            _ => {
                watermark = number(4);
                if time > watermark || pending.first().is_none_or(|first| first.0 != time) || !pending.remove(&(time, key)) {
                    return Err(format!("{line} is not the next of {pending:?}"));
                }
            }
        }
    }
    Ok(pending.first().map(|(time, _)| *time))
}

#[test]
fn timers_and_records_keep_their_order_through_restarts_at_any_moment() {
    for seed in 0..300 {
        let (mut rng, mut time) = (Rng::with_seed(seed), 0);
        let records = (0..rng.usize(20..120)).map(|_| (time += rng.i64(0..4), (rng.i64(0..5), time)).1).collect::<Vec<_>>();
        let (mut committed, mut from, mut seen) = (Vec::new(), None, 0);
        for life in 0..6 {
            let options = Options { batch_rows: rng.usize(1..6), source_rows: rng.usize(1..40), ..Options::default() };
            let world = World::of(records.iter().copied().take(seen));
            let mut worker = world.start(options, from.take()).remove(0);
            if seed % 2 == 1 {
                measure_at_random(&mut worker, rng.u64(..));
            }
            let (mut now, steps) = (0, rng.i64(0..60));
            let snapshot = loop {
                // Records come bit by bit, so that passes and barriers come between them.
                if now < steps && rng.u8(..6) == 0 {
                    seen = (seen + rng.usize(..20)).min(records.len());
                    *world.records.lock().unwrap() = records[..seen].to_vec();
                }
                now += 1;
                if now == steps + 1 {
                    worker.trigger(Barrier { checkpoint: 1, ..Barrier::default() }).unwrap();
                }
                step(&mut worker, now * 20);
                if let Some(snapshot) = snapshot(&mut worker) {
                    break snapshot;
                }
            };
            from = Some(restart(snapshot));
            if life == 5 {
                *world.records.lock().unwrap() = records.clone();
                (now..now + 1_000).for_each(|now| _ = step(&mut worker, now * 20));
            }
            let lines = world.written();
            committed.extend(lines.into_iter().take_while(|line| life == 5 || line != "|").filter(|line| line != "|"));
        }
        let left = check_order(&committed).unwrap_or_else(|what| panic!("seed {seed}: {what}: {committed:#?}"));
        assert_eq!(left, Some(time), "seed {seed}: only the timers of the newest time are left");
        assert_eq!(committed.iter().filter(|line| line.starts_with('e')).count(), records.len(), "seed {seed}");
    }
}

#[test]
fn a_timer_that_renews_itself_lets_barriers_and_restores_through_at_the_end_of_input() {
    let options = Options { renewed_after: Some(10), bounded: true, ..Options::default() };
    let (mut from, mut fired): (_, Vec<String>) = (None, Vec::new());
    for life in 0..4 {
        let world = World::of([(1, 5), (1, 7)]);
        let mut worker = world.start(options, from.take()).remove(0);
        measure_at_random(&mut worker, life);
        // Nobody knows how far it comes: it goes on until it is told.
        (0..50).for_each(|_| _ = step(&mut worker, 0));
        worker.trigger(Barrier { checkpoint: life, purpose: Purpose::Stop }).unwrap();
        let stopped = (0..50).find_map(|_| {
            step(&mut worker, 0);
            snapshot(&mut worker)
        });
        from = Some(restart(stopped.expect("the barrier passes the timers")));
        fired.extend(world.written().into_iter().take_while(|line| line != "|").filter(|line| line.starts_with('t')));
    }
    // Each time once, in order: those of 5 and those of 7.
    let times = (0..).flat_map(|round| [5 + round * 10, 7 + round * 10]).take(fired.len()).collect::<Vec<i64>>();
    let expected = times.iter().map(|time| format!("t 1 {time} @{}", i64::MAX)).collect::<Vec<_>>();
    assert_eq!(fired, expected);
    assert!(fired.len() > 40, "{}", fired.len());
}

#[test]
fn timers_that_shall_not_fire_at_the_end_stay_also_after_a_restore_amid_the_last_pass() {
    let renewing = Options { renewed_after: Some(10), bounded: true, ..Options::default() };
    let ending = Options { stay_at_end: true, ..renewing };
    let world = World::of([(1, 5), (1, 7)]);
    let mut worker = world.start(renewing, None).remove(0);
    measure_at_random(&mut worker, 0);
    (0..20).for_each(|_| _ = step(&mut worker, 0));
    worker.trigger(Barrier { checkpoint: 1, ..Barrier::default() }).unwrap();
    let amid = (0..20).find_map(|_| {
        step(&mut worker, 0);
        snapshot(&mut worker)
    });
    for from in [None, Some(restart(amid.unwrap()))] {
        let world = World::of([(1, 5), (1, 7)]);
        let mut worker = world.start(ending, from).remove(0);
        settle(&mut worker);
        assert!(matches!(worker.report(), Some(Report::EndOfInput)), "it ends");
        let metrics = worker.statistics().operators[0].metrics;
        assert!(metrics.timers_fired <= 1 && metrics.event_timers_pending > 0, "{metrics:?}");
    }
}

#[test]
fn timers_of_the_clock_that_are_due_again_at_once_let_records_and_barriers_through() {
    let world = World::of((0..50).map(|time| (time, time)));
    let options = Options { processing_timer: Some(0), renewed_after: Some(1), source_rows: 1, ..Options::default() };
    let mut worker = world.start(options, None).remove(0);
    measure_at_random(&mut worker, 1);
    // Each pass takes as long as the clock needs to make its timers due again.
    let mut now = 0;
    let mut steps = |worker: &mut Worker, until: &dyn Fn(&mut Worker) -> bool| {
        for _ in 0..20_000 {
            now += 10;
            step(worker, now);
            if until(worker) {
                return;
            }
        }
        panic!("it never comes: {:?}", world.written().iter().filter(|line| line.starts_with('e')).count());
    };
    steps(&mut worker, &|_| world.written().iter().filter(|line| line.starts_with('e')).count() == 50);
    worker.trigger(Barrier { checkpoint: 1, ..Barrier::default() }).unwrap();
    steps(&mut worker, &|worker| snapshot(worker).is_some());
}
