use super::{Due, Pass, PassMemory, TimeDomain};
use crate::columns::Timers;

const EVENT: TimeDomain = TimeDomain::EventTime;

/// Runs a pass over timers (time, slot) up to a horizon; `on_timer` may register and delete. Returns what fired, as (time, slot, row).
fn run(rows: &[(i64, u32)], horizon: i64, mut on_timer: impl FnMut(&mut Pass<'_>, Due)) -> Vec<(i64, u32, u32)> {
    let (timestamp, slot): (Vec<i64>, Vec<u32>) = rows.iter().copied().unzip();
    let timers = Timers { domain: EVENT as u8, slot: &slot, timestamp: &timestamp, horizon };
    let (mut memory, mut fired) = (PassMemory::default(), Vec::new());
    let mut pass = Pass::new(&timers, &mut memory);
    while let Some(due) = pass.next() {
        fired.push((due.timestamp, due.slot, due.row));
        on_timer(&mut pass, due);
    }
    fired
}

#[test]
fn timers_that_join_are_sorted_in_by_time_and_slot() {
    let fired = run(&[(10, 1), (20, 0), (20, 2), (30, 1)], 30, |pass, due| {
        if (due.timestamp, due.slot) == (10, 1) {
            for timestamp in [25, 20, 5, 30, 31] {
                assert_eq!(pass.register(EVENT, (timestamp, 1), due.row), timestamp <= 30);
            }
        }
    });
    assert_eq!(fired, [(10, 1, 0), (5, 1, 0), (20, 0, 1), (20, 1, 0), (20, 2, 2), (25, 1, 0), (30, 1, 3)]);
}

/// A host that fires timers one by one, to find a bad one, must not be given two in one.
#[test]
fn none_joins_a_call_with_the_least_horizon() {
    let fired = run(&[(20, 0)], i64::MIN, |pass, due| {
        for timestamp in [i64::MIN, 0, 20] {
            assert!(!pass.register(EVENT, (timestamp, 0), due.row) && !pass.delete(EVENT, (timestamp, 0)));
        }
    });
    assert_eq!(fired, [(20, 0, 0)]);
}

#[test]
fn a_fired_timer_fires_again_when_registered_again() {
    let mut left = 2;
    let fired = run(&[(10, 0), (10, 1)], 10, |pass, due| {
        if due.slot == 0 && left > 0 {
            left -= 1;
            assert!(pass.register(EVENT, (10, 0), due.row));
        }
    });
    assert_eq!(fired, [(10, 0, 0), (10, 0, 0), (10, 0, 0), (10, 1, 1)]);
}

#[test]
fn upcoming_rows_are_deleted_revived_and_never_doubled() {
    let fired = run(&[(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)], 10, |pass, due| {
        if due.timestamp == 1 {
            // A duplicate of a row, a row that is deleted for good, one that comes back.
            assert!(pass.register(EVENT, (2, 0), due.row));
            assert!(pass.delete(EVENT, (3, 0)));
            assert!(pass.delete(EVENT, (4, 0)) && pass.register(EVENT, (4, 0), due.row));
            // Of another key, or past: no effect.
            assert!(pass.delete(EVENT, (5, 1)) && pass.delete(EVENT, (1, 0)));
        }
    });
    assert_eq!(fired, [(1, 0, 0), (2, 0, 1), (4, 0, 3), (5, 0, 4)]);
}

#[test]
fn timers_that_joined_are_deleted_and_never_doubled() {
    let fired = run(&[(1, 0), (9, 0)], 9, |pass, due| {
        if due.timestamp == 1 {
            for timestamp in [4, 5, 5, 6, 6] {
                assert!(pass.register(EVENT, (timestamp, 0), due.row));
            }
            assert!(pass.delete(EVENT, (4, 0)));
        }
    });
    assert_eq!(fired, [(1, 0, 0), (5, 0, 0), (6, 0, 0), (9, 0, 1)]);
}

#[test]
fn descendants_name_the_row_that_they_come_from() {
    let fired = run(&[(1, 0), (2, 1)], 5, |pass, due| {
        if due.slot == 1 {
            pass.register(EVENT, (due.timestamp + 1, 1), due.row);
        }
    });
    assert_eq!(fired, [(1, 0, 0), (2, 1, 1), (3, 1, 1), (4, 1, 1), (5, 1, 1)]);
}

#[test]
fn the_other_clock_is_not_the_passs_business() {
    run(&[(1, 0)], 5, |pass, due| {
        assert!(!pass.register(TimeDomain::ProcessingTime, (1, 0), due.row));
        assert!(!pass.delete(TimeDomain::ProcessingTime, (1, 0)));
        assert!(!pass.delete(EVENT, (6, 0)));
    });
}

/// Against the plainest model: a set of timers, of which the least fires.
#[test]
fn random_passes_equal_a_set_of_timers() {
    use std::collections::BTreeSet;
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let rows: BTreeSet<(i64, u32)> = (0..rng.usize(0..12)).map(|_| (rng.i64(0..10), rng.u32(0..3))).collect();
        let horizon = rng.i64(9..12);
        let (mut model, mut budget) = (rows.clone(), 40);
        let mut expected = Vec::new();
        let rows: Vec<_> = rows.into_iter().collect();
        let fired = run(&rows, horizon, |pass, due| {
            expected.extend(model.pop_first());
            for _ in 0..rng.usize(0..4) {
                let at = (rng.i64(0..15), due.slot);
                let inside = at.0 <= horizon;
                if rng.bool() && budget > 0 {
                    budget -= 1;
                    assert_eq!(pass.register(EVENT, at, due.row), inside);
                    model.extend(inside.then_some(at));
                } else {
                    assert_eq!(pass.delete(EVENT, at), inside);
                    model.remove(&at);
                }
            }
        });
        let fired: Vec<_> = fired.into_iter().map(|(timestamp, slot, _)| (timestamp, slot)).collect();
        assert_eq!(fired, expected, "seed {seed}");
        assert!(model.is_empty(), "seed {seed}");
    }
}
