use super::{Rig, SOURCE, Shaped, Times};

const NONE: i64 = i64::MIN;

#[test]
fn w2_the_minimum_over_splits_of_several_workers() {
    let mut rig = Rig::new(&[Shaped { splits: 2, ..SOURCE }], 2);
    rig.feed(0, 0, &[(1, 100)]);
    assert_eq!(rig.watermark(), NONE, "the other worker's split has had nothing");
    rig.feed(0, 1, &[(1, 50)]);
    assert_eq!(rig.watermark(), 49);
    rig.feed(0, 1, &[(1, 120)]);
    assert_eq!(rig.watermark(), 99);
}

#[test]
fn w2_times_that_the_source_gives_move_the_watermark_unless_it_tells_watermarks() {
    for (times, watermark) in [(Times::Field, 119), (Times::Source, 119), (Times::SourceWithWatermarks, -880)] {
        let mut rig = Rig::new(&[Shaped { times, ..SOURCE }], 1);
        rig.feed(0, 0, &[(1, 100), (2, 120), (3, 90)]);
        // The last record is behind: it does not take the watermark back.
        assert_eq!(rig.watermark(), watermark);
        assert_eq!(rig.said().len(), 3);
    }
}

#[test]
fn w4_splits_of_two_workers_fall_idle_in_either_order() {
    for first in [0, 1] {
        let mut rig = Rig::new(&[Shaped { splits: 2, idle_timeout: Some(100), ..SOURCE }], 2);
        rig.feed(0, first, &[(1, [5, 4][first])]);
        rig.pass(40);
        rig.feed(0, 1 - first, &[(1, [5, 4][1 - first])]);
        rig.pass(400);
        assert_eq!(rig.watermark(), 4, "the first to fall idle is {first}");
        rig.feed(0, 0, &[(1, 30)]);
        rig.feed(0, 1, &[(1, 20)]);
        assert_eq!(rig.watermark(), 29, "split 1 comes back behind: it is ignored until it has caught up");
    }
}

#[test]
fn w7_a_source_waits_for_the_slowest_of_its_group() {
    let aligned = Shaped { max_drift: Some(20), idle_timeout: Some(500), ..SOURCE };
    let mut rig = Rig::new(&[aligned, aligned], 2);
    rig.feed(1, 0, &[(1, 51)]);
    rig.feed(0, 0, &(60..140).step_by(10).map(|time| (1, time + 1)).collect::<Vec<_>>());
    // B is at 50: A reads until it is above 70.
    assert_eq!(rig.read(0), 3, "at 60, 70 and 80");
    rig.feed(1, 0, &[(1, 91)]);
    assert_eq!(rig.read(0), 7, "up to the first one above 110");
    rig.pass(1000);
    assert_eq!(rig.read(0), 8, "an idle member holds nobody");

    rig.feed(1, 0, &[(1, 101)]);
    rig.feed(0, 0, &[(1, 141), (1, 151)]);
    assert_eq!(rig.read(0), 8, "130 is above 120: a member that is back counts");
    rig.end(1, 0);
    rig.pass(1000);
    assert_eq!(rig.read(0), 10, "a member that has ended holds nobody");
}

#[test]
fn w7_single_splits_of_one_subtask_wait_for_each_other() {
    let mut rig = Rig::new(&[Shaped { splits: 2, max_drift: Some(20), ..SOURCE }], 1);
    rig.feed(0, 0, &[(1, 1)]);
    rig.feed(0, 1, &[(1, 11), (1, 31), (1, 51)]);
    assert_eq!(rig.read(0), 3, "the second split has come to 30, and the first is at 0");
    rig.feed(0, 0, &[(1, 41)]);
    assert_eq!((rig.read(0), rig.watermark()), (5, 40));
}

#[test]
fn w8_a_subtask_without_a_split_holds_nobody() {
    let aligned = Shaped { max_drift: Some(20), ..SOURCE };
    let mut rig = Rig::new(&[aligned, aligned], 3);
    rig.feed(0, 0, &[(1, 11), (1, 500), (1, 501)]);
    assert_eq!(rig.read(0), 3, "the other source has had nothing yet");
    rig.feed(1, 0, &[(1, 1001)]);
    assert_eq!(rig.watermark(), 500);
}

#[test]
fn w8_aligned_bounded_sources_of_different_length_end() {
    let aligned = Shaped { splits: 2, bounded: true, max_drift: Some(0), ..SOURCE };
    let mut rig = Rig::new(&[aligned, aligned], 3);
    for source in 0..2 {
        rig.feed(source, 0, &[(1, 10), (2, 20)]);
        rig.feed(source, 1, &[(3, 15)]);
    }
    rig.feed(1, 1, &[(3, 500), (3, 900)]);
    (0..2).for_each(|source| (0..2).for_each(|split| rig.end(source, split)));
    rig.pass(100);
    assert_eq!((rig.read(0), rig.read(1), rig.watermark()), (3, 5, i64::MAX));
}

#[test]
fn w9_a_late_record_is_processed_and_counted() {
    let mut rig = Rig::new(&[SOURCE], 1);
    rig.feed(0, 0, &[(1, 101), (7, 50)]);
    assert_eq!(rig.said(), [(1, 101, NONE, -1), (7, 50, 100, -1)]);
    assert_eq!(rig.workers[0].statistics().operators[0].metrics.late_records, 1);
}

#[test]
fn w6_a_blocked_source_with_a_backlog_is_not_idle() {
    // The workers stand still for five seconds in the middle of both backlogs, of which one is far behind the other.
    let mut rig = Rig::new(&[Shaped { splits: 2, idle_timeout: Some(500), ..SOURCE }], 1);
    rig.feed(0, 0, &[(1, 1)]);
    rig.feed(0, 1, &[(1, 1001)]);
    rig.feeds[0].lock().unwrap()[0].0.extend((10..40).map(|time| (1, time)));
    rig.feeds[0].lock().unwrap()[1].0.extend((1010..1040).map(|time| (1, time)));
    rig.now += 5000;
    rig.run();
    assert_eq!((rig.read(0), rig.watermark()), (62, 38));
    assert_eq!(rig.workers[0].statistics().operators[0].metrics.late_records, 0);
}
