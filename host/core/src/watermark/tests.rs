use super::{Progress, SplitWatermarks, Strategy};
use crate::Timestamp;

fn watermarks(bound: i64, idle_timeout: Option<i64>, splits: usize) -> SplitWatermarks {
    let mut watermarks = SplitWatermarks::new(Strategy { bound, idle_timeout });
    (0..splits).for_each(|split| assert_eq!(watermarks.add(false), split));
    watermarks.pass_time(Timestamp(0), true);
    watermarks
}

fn all(watermarks: &mut SplitWatermarks) -> Vec<Progress> {
    std::iter::from_fn(|| watermarks.poll()).collect()
}

fn advance(to: i64) -> Progress {
    Progress::Advance(Timestamp(to))
}

/// Time passes, and then the splits are looked at, which have nothing.
fn quiet(watermarks: &mut SplitWatermarks, now: i64, splits: &[usize]) {
    watermarks.pass_time(Timestamp(now), true);
    splits.iter().for_each(|&split| watermarks.wait(split));
}

#[test]
fn w1_the_bound_holds_back_and_nothing_regresses() {
    let mut w = watermarks(200, None, 1);
    assert_eq!(all(&mut w), [], "nothing before the first record");
    w.record(0, Timestamp(1000));
    assert_eq!(all(&mut w), [advance(799)]);
    w.record(0, Timestamp(500));
    assert_eq!(all(&mut w), []);
}

#[test]
fn w2_the_minimum_over_splits_counts() {
    let mut w = watermarks(0, None, 2);
    w.record(0, Timestamp(100));
    assert_eq!(all(&mut w), [], "both splits count from the beginning");
    w.record(1, Timestamp(50));
    assert_eq!(all(&mut w), [advance(49)]);
    w.record(1, Timestamp(120));
    assert_eq!(all(&mut w), [advance(99)]);
    w.finish(0);
    assert_eq!((all(&mut w), w.emitted()), (vec![advance(119)], Timestamp(119)));
}

#[test]
fn w4_all_idle_flushes_the_maximum_in_either_order() {
    for order in [[0, 1], [1, 0]] {
        let mut w = watermarks(0, Some(10), 2);
        w.record(0, Timestamp(5));
        w.record(1, Timestamp(4));
        assert_eq!(all(&mut w), [advance(3)]);
        quiet(&mut w, 0, &order[..1]);
        quiet(&mut w, 11, &order);
        let first = all(&mut w);
        quiet(&mut w, 22, &order);
        let last = [first, all(&mut w)].concat();
        assert_eq!(last, [advance(4), Progress::Idle], "{order:?}");
        w.record(0, Timestamp(1));
        assert_eq!(all(&mut w), [Progress::Active], "{order:?}");
    }
}

#[test]
fn w6_blocked_time_does_not_make_idle() {
    let mut w = watermarks(0, Some(500), 2);
    w.record(0, Timestamp(5));
    w.record(1, Timestamp(50));
    quiet(&mut w, 0, &[0, 1]);
    all(&mut w);
    w.pass_time(Timestamp(1), false);
    w.pass_time(Timestamp(5001), false);
    // Room again: the time before is not counted, and a split with a backlog is not idle whatever the clock says.
    quiet(&mut w, 5002, &[1]);
    assert_eq!(all(&mut w), []);
    w.record(0, Timestamp(60));
    assert_eq!(all(&mut w), [advance(49)]);
}

#[test]
fn w6_time_counts_only_if_the_split_could_be_read_at_both_its_ends() {
    for (before, after) in [(false, true), (true, false), (false, false)] {
        let mut w = watermarks(0, Some(500), 2);
        w.record(0, Timestamp(5));
        w.record(1, Timestamp(50));
        quiet(&mut w, 0, &[0]);
        all(&mut w);
        w.pass_time(Timestamp(1), before);
        w.pass_time(Timestamp(5001), after);
        w.pass_time(Timestamp(5002), true);
        w.wait(0);
        assert_eq!(all(&mut w), [], "{before}, then {after}");
    }
}

#[test]
fn w6_a_slow_step_does_not_make_a_split_with_a_backlog_idle() {
    let mut w = watermarks(0, Some(500), 2);
    w.record(0, Timestamp(5));
    w.record(1, Timestamp(50));
    quiet(&mut w, 0, &[0, 1]);
    all(&mut w);
    // A step of five seconds, after which nothing has been looked at yet; then both are, and split 1 has records.
    quiet(&mut w, 5000, &[]);
    assert_eq!(all(&mut w), []);
    w.wait(0);
    w.record(1, Timestamp(70));
    assert_eq!(all(&mut w), [advance(69)], "split 0 is idle, split 1 is not");
}

#[test]
fn w6_the_clock_stands_still_while_a_split_is_paused() {
    let mut w = watermarks(0, Some(10), 1);
    w.record(0, Timestamp(100));
    quiet(&mut w, 0, &[0]);
    all(&mut w);
    w.pause_above(Timestamp(50));
    assert!(w.is_paused(0));
    w.pass_time(Timestamp(1000), true);
    w.pause_above(Timestamp(100));
    assert!(!w.is_paused(0));
    quiet(&mut w, 1010, &[0]);
    assert_eq!(all(&mut w), [], "ten milliseconds are not more than ten");
    quiet(&mut w, 1011, &[0]);
    assert_eq!(all(&mut w), [Progress::Idle]);
}

#[test]
fn a_resumed_split_counts_at_once_and_never_regresses() {
    let mut w = watermarks(0, Some(10), 2);
    w.record(0, Timestamp(100));
    w.record(1, Timestamp(50));
    quiet(&mut w, 0, &[1]);
    quiet(&mut w, 11, &[1]);
    assert_eq!(all(&mut w), [advance(99)]);
    w.record(1, Timestamp(60));
    w.record(0, Timestamp(200));
    assert_eq!(all(&mut w), [], "held back at once, not taken back");
    w.record(1, Timestamp(150));
    assert_eq!(all(&mut w), [advance(149)]);
}

#[test]
fn w8_a_subtask_without_splits_is_idle_at_once_and_active_with_its_first() {
    let mut w = watermarks(0, None, 0);
    assert_eq!((all(&mut w), w.is_idle(), w.reached()), (vec![Progress::Idle], true, None));
    w.add(false);
    assert_eq!((all(&mut w), w.is_idle(), w.reached()), (vec![Progress::Active], false, None));
}

#[test]
fn a_subtask_whose_splits_have_all_finished_is_idle() {
    let mut w = watermarks(0, Some(10), 2);
    w.record(0, Timestamp(5));
    w.record(1, Timestamp(9));
    assert_eq!(all(&mut w), [advance(4)]);
    w.finish(0);
    w.finish(1);
    assert_eq!((all(&mut w), w.reached()), (vec![Progress::Idle], None));
    w.add(false);
    assert_eq!(all(&mut w), [Progress::Active]);
}

#[test]
fn a_split_that_was_not_looked_at_is_not_idle() {
    let mut w = watermarks(0, Some(10), 2);
    w.record(0, Timestamp(5));
    w.record(1, Timestamp(50));
    quiet(&mut w, 0, &[0]);
    all(&mut w);
    quiet(&mut w, 9000, &[]);
    assert_eq!(all(&mut w), []);
    w.wait(0);
    assert_eq!(all(&mut w), [advance(49)], "now it is");
}

#[test]
fn the_ends_of_time_do_not_overflow() {
    let mut w = watermarks(i64::MAX, Some(i64::MAX), 1);
    w.record(0, Timestamp::MIN);
    quiet(&mut w, i64::MAX, &[0]);
    assert_eq!((all(&mut w), w.of(0)), (vec![], Timestamp::MIN));
    let mut w = watermarks(0, None, 1);
    w.record(0, Timestamp::MAX);
    assert_eq!(all(&mut w), [advance(i64::MAX - 1)], "only the end of input is the end of time");
}

#[test]
fn a_split_without_records_does_not_take_back_how_far_the_others_came() {
    let mut w = watermarks(0, None, 1);
    w.record(0, Timestamp(100));
    assert_eq!((all(&mut w), w.reached()), (vec![advance(99)], Some(Timestamp(99))));
    w.add(false);
    assert_eq!(w.reached(), Some(Timestamp(99)), "what was told still holds other sources of the group");
    w.record(1, Timestamp(50));
    assert_eq!(w.reached(), Some(Timestamp(99)));
}
