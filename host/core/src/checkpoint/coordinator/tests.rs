use super::{Action, Coordinator, Event, Lost, Options, Phase};
use crate::Timestamp;
use crate::exchange::{Barrier, Purpose};

const OPTIONS: Options = Options { interval: 10, timeout: 50, min_pause: 3, tolerable_failures: 1 };

fn trigger(checkpoint: u64) -> Action {
    Action::Trigger(Barrier { checkpoint, ..Barrier::default() })
}

/// Feeds events with their times and collects all actions.
fn run(coordinator: &mut Coordinator, events: impl IntoIterator<Item = (i64, Event)>) -> Vec<Action> {
    events.into_iter().flat_map(|(now, event)| coordinator.on_event(event, Timestamp(now))).collect()
}

fn acknowledged(worker: u32, checkpoint: u64) -> Event {
    Event::Acknowledged { worker, checkpoint }
}

#[test]
fn a_checkpoint_is_stored_then_committed_then_the_next_begins() {
    let mut c = Coordinator::new(OPTIONS, 2, 6, Timestamp(0));
    let actions = run(
        &mut c,
        [
            (9, Event::Tick),
            (10, Event::Tick),
            (11, acknowledged(0, 7)),
            (12, acknowledged(0, 7)),
            (13, acknowledged(1, 7)),
            (40, Event::Tick),
            (41, Event::Stored { checkpoint: 7 }),
            (42, Event::Tick),
            (43, Event::Committed { checkpoint: 7 }),
            (45, Event::Tick),
            (46, Event::Tick),
        ],
    );
    let expected = [
        trigger(7),
        Action::Store { checkpoint: 7, end_of_input: false },
        Action::Commit { checkpoint: 7 },
        Action::Retain { newest: 7 },
        trigger(8),
    ];
    assert_eq!(actions, expected);
}

#[test]
fn the_end_of_input_takes_one_last_checkpoint_at_once() {
    let mut c = Coordinator::new(OPTIONS, 2, 0, Timestamp(0));
    let actions = run(
        &mut c,
        [
            (1, Event::EndOfInput { worker: 1 }),
            (2, Event::EndOfInput { worker: 0 }),
            (3, acknowledged(0, 1)),
            (3, acknowledged(1, 1)),
            (4, Event::Stored { checkpoint: 1 }),
            (5, Event::Committed { checkpoint: 1 }),
            (99, Event::Tick),
        ],
    );
    let expected = [
        trigger(1),
        Action::Store { checkpoint: 1, end_of_input: true },
        Action::Commit { checkpoint: 1 },
        Action::Retain { newest: 1 },
        Action::Finish { checkpoint: 1 },
    ];
    assert_eq!(actions, expected);
}

#[test]
fn a_stop_waits_for_the_checkpoint_under_way_and_then_takes_its_own() {
    let mut c = Coordinator::new(OPTIONS, 1, 0, Timestamp(0));
    let actions = run(
        &mut c,
        [
            (10, Event::Tick),
            (11, Event::Stop),
            (12, acknowledged(0, 1)),
            (13, Event::Stored { checkpoint: 1 }),
            (14, Event::Committed { checkpoint: 1 }),
            (15, acknowledged(0, 2)),
            (16, Event::Stored { checkpoint: 2 }),
            (17, Event::Committed { checkpoint: 2 }),
            (99, Event::Tick),
        ],
    );
    assert_eq!(actions.get(4), Some(&Action::Trigger(Barrier { checkpoint: 2, purpose: Purpose::Stop })));
    assert_eq!(actions.last(), Some(&Action::Stopped { checkpoint: 2 }));
}

#[test]
fn a_savepoint_goes_first_is_not_committed_and_moves_no_checkpoint() {
    let mut c = Coordinator::new(OPTIONS, 1, 4, Timestamp(0));
    let failed = Event::Failed { checkpoint: 6, reason: "no space left".to_owned() };
    let actions = run(
        &mut c,
        [
            (3, Event::Savepoint),
            (3, Event::Savepoint),
            (4, acknowledged(0, 5)),
            (5, Event::Stored { checkpoint: 5 }),
            (6, failed),
            (10, Event::Tick),
            (11, Event::Discarded { checkpoint: 6, left: None }),
        ],
    );
    let savepoint = |checkpoint| Action::Trigger(Barrier { checkpoint, purpose: Purpose::Savepoint });
    let expected = [
        savepoint(5),
        Action::Store { checkpoint: 5, end_of_input: false },
        Action::Saved { checkpoint: 5 },
        savepoint(6),
        Action::Discard { checkpoint: 6 },
        trigger(7),
        Action::NotSaved { checkpoint: 6, reason: "no space left".to_owned() },
    ];
    assert_eq!(actions, expected);
}

/// A savepoint with id 1 that has timed out while its manifest was being written.
fn given_up() -> Coordinator {
    let mut c = Coordinator::new(OPTIONS, 1, 0, Timestamp(0));
    let actions = run(&mut c, [(1, Event::Savepoint), (2, acknowledged(0, 1)), (50, Event::Tick), (51, Event::Tick)]);
    assert_eq!(actions[2..], [Action::Discard { checkpoint: 1 }, trigger(2)], "nobody is told yet");
    c
}

#[test]
fn a_savepoint_that_was_written_before_it_could_be_given_up_is_there() {
    let mut c = given_up();
    assert_eq!(run(&mut c, [(52, Event::Stored { checkpoint: 1 })]), [Action::Saved { checkpoint: 1 }]);
    let left = Some("in use".to_owned());
    assert_eq!(run(&mut c, [(53, Event::Stored { checkpoint: 1 }), (53, Event::Discarded { checkpoint: 1, left })]), []);
}

#[test]
fn a_savepoint_that_was_given_up_has_failed_once_nothing_is_left_of_it() {
    let reason = "it did not complete within 50 ms".to_owned();
    let (mut c, discarded) = (given_up(), Event::Discarded { checkpoint: 1, left: None });
    let actions = run(&mut c, [(52, discarded), (53, Event::Stored { checkpoint: 1 })]);
    assert_eq!(actions, [Action::NotSaved { checkpoint: 1, reason: reason.clone() }]);
    let discarded = Event::Discarded { checkpoint: 1, left: Some("in use".to_owned()) };
    let reason = format!("{reason}; and what was written of it could not be removed: in use");
    assert_eq!(run(&mut given_up(), [(52, discarded)]), [Action::NotSaved { checkpoint: 1, reason }]);
}

#[test]
fn a_checkpoint_that_the_user_wants_is_taken_at_once_and_again_until_one_completes() {
    let mut c = Coordinator::new(OPTIONS, 1, 4, Timestamp(0));
    let failed = Event::Failed { checkpoint: 6, reason: "no space left".to_owned() };
    let actions = run(
        &mut c,
        [
            (1, Event::Savepoint),
            (2, Event::Checkpoint),
            (3, acknowledged(0, 5)),
            (4, Event::Stored { checkpoint: 5 }),
            (5, failed),
            (6, Event::Tick),
            (15, Event::Tick),
            (16, acknowledged(0, 7)),
            (17, Event::Stored { checkpoint: 7 }),
            (18, Event::Committed { checkpoint: 7 }),
            (24, Event::Tick),
        ],
    );
    let expected = [
        Action::Trigger(Barrier { checkpoint: 5, purpose: Purpose::Savepoint }),
        Action::Store { checkpoint: 5, end_of_input: false },
        Action::Saved { checkpoint: 5 },
        trigger(6),
        Action::Discard { checkpoint: 6 },
        trigger(7),
        Action::Store { checkpoint: 7, end_of_input: false },
        Action::Commit { checkpoint: 7 },
        Action::Retain { newest: 7 },
    ];
    assert_eq!(actions, expected);
}

#[test]
fn a_checkpoint_whose_files_are_gone_is_taken_again_and_fails_the_job_only_if_they_never_stay() {
    let options = Options { interval: 100_000, tolerable_failures: 0, ..OPTIONS };
    let mut c = Coordinator::new(options, 1, 0, Timestamp(0));
    let gone = |checkpoint| Event::Vanished { checkpoint, reason: "a file is gone".to_owned() };
    let mut at = 100_000;
    run(&mut c, [(at, Event::Tick)]);
    for checkpoint in 1..=10 {
        let actions = run(&mut c, [(at, gone(checkpoint)), (at + 999, Event::Tick), (at + 1_000, Event::Tick)]);
        assert_eq!(actions, [Action::Discard { checkpoint }, trigger(checkpoint + 1)]);
        assert!(c.take_lost().is_some_and(|lost| lost.reason == "a file is gone"));
        at += 1_000;
    }
    let reason = "checkpoint 11 failed: a file is gone".to_owned();
    assert_eq!(run(&mut c.clone(), [(at, gone(11))]), [Action::Discard { checkpoint: 11 }, Action::Fail { reason }]);
    let stored = [(at, acknowledged(0, 11)), (at, Event::Stored { checkpoint: 11 }), (at, Event::Committed { checkpoint: 11 })];
    assert_eq!(run(&mut c, stored).last(), Some(&Action::Retain { newest: 11 }));
    run(&mut c, [(at + 100_000, Event::Tick)]);
    assert_eq!(run(&mut c, [(at + 100_001, gone(12))]), [Action::Discard { checkpoint: 12 }], "it is counted anew");
}

#[test]
fn a_drain_is_a_stop_whose_barrier_ends_event_time() {
    let mut c = Coordinator::new(OPTIONS, 1, 0, Timestamp(0));
    let actions = run(&mut c, [(1, Event::Drain)]);
    assert_eq!(actions, [Action::Trigger(Barrier { checkpoint: 1, purpose: Purpose::Drain })]);
}

#[test]
fn failures_are_tolerated_up_to_the_limit_and_a_success_resets_them() {
    let mut c = Coordinator::new(OPTIONS, 1, 0, Timestamp(0));
    let failed = |checkpoint| Event::Failed { checkpoint, reason: "no space left".to_owned() };
    let actions = run(
        &mut c,
        [
            (10, Event::Tick),
            (11, failed(1)),
            (20, Event::Tick),
            (21, acknowledged(0, 2)),
            (22, Event::Stored { checkpoint: 2 }),
            (23, Event::Committed { checkpoint: 2 }),
            (30, Event::Tick),
            (80, Event::Tick),
            // Late: the checkpoint has already timed out.
            (81, acknowledged(0, 3)),
            (90, Event::Tick),
            (91, failed(4)),
        ],
    );
    let expected = [
        trigger(1),
        Action::Discard { checkpoint: 1 },
        trigger(2),
        Action::Store { checkpoint: 2, end_of_input: false },
        Action::Commit { checkpoint: 2 },
        Action::Retain { newest: 2 },
        trigger(3),
        Action::Discard { checkpoint: 3 },
        trigger(4),
        Action::Discard { checkpoint: 4 },
        Action::Fail { reason: "checkpoint 4 failed: no space left".to_owned() },
    ];
    assert_eq!(actions, expected);
}

#[test]
fn a_manifest_that_is_not_written_in_time_fails_its_checkpoint() {
    let mut c = Coordinator::new(OPTIONS, 1, 0, Timestamp(0));
    let actions = run(&mut c, [(10, Event::Tick), (20, acknowledged(0, 1)), (59, Event::Tick), (60, Event::Tick)]);
    let expected = [trigger(1), Action::Store { checkpoint: 1, end_of_input: false }, Action::Discard { checkpoint: 1 }, trigger(2)];
    assert_eq!(actions, expected);
    let reason = "it did not complete within 50 ms".to_owned();
    assert_eq!(c.take_lost(), Some(Lost { checkpoint: 1, phase: Phase::Storing, age: 50, missing: vec![], reason }));
    // It was written after all: too late.
    assert_eq!(run(&mut c, [(61, Event::Stored { checkpoint: 1 })]), []);
}

#[test]
fn a_commit_that_does_not_end_in_time_fails_the_job() {
    let mut c = Coordinator::new(OPTIONS, 1, 0, Timestamp(0));
    let before = [(10, Event::Tick), (50, acknowledged(0, 1)), (59, Event::Stored { checkpoint: 1 }), (108, Event::Tick)];
    assert_eq!(run(&mut c, before).last(), Some(&Action::Commit { checkpoint: 1 }));
    let reason = "checkpoint 1 is durable, but its output was not committed within 50 ms".to_owned();
    assert_eq!(run(&mut c, [(109, Event::Tick)]), [Action::Fail { reason }]);
    assert!(c.take_lost().is_some_and(|lost| lost.phase == Phase::Committing && lost.age == 99));
    assert_eq!(run(&mut c, [(110, Event::Committed { checkpoint: 1 }), (500, Event::Tick)]), []);
}

#[test]
fn a_checkpoint_that_times_out_names_the_workers_that_did_not_answer() {
    let mut c = Coordinator::new(OPTIONS, 3, 0, Timestamp(0));
    run(&mut c, [(10, Event::Tick), (20, acknowledged(1, 1)), (60, Event::Tick)]);
    assert!(c.take_lost().is_some_and(|lost| lost.missing == [0, 2] && lost.phase == Phase::Collecting));
    assert_eq!(c.take_lost(), None);
}

#[test]
fn at_the_end_of_input_a_failed_checkpoint_is_followed_after_a_pause() {
    let mut c = Coordinator::new(OPTIONS, 1, 0, Timestamp(0));
    let failed = Event::Failed { checkpoint: 1, reason: "no space".to_owned() };
    let actions = run(&mut c, [(1, Event::EndOfInput { worker: 0 }), (2, failed), (3, Event::Tick), (10, Event::Tick)]);
    assert_eq!(actions, [trigger(1), Action::Discard { checkpoint: 1 }]);
    assert_eq!(run(&mut c, [(11, Event::Tick)]), [trigger(2)]);
}

#[test]
fn what_is_of_another_checkpoint_or_step_means_nothing() {
    let mut c = Coordinator::new(OPTIONS, 1, 4, Timestamp(0));
    let failed = |checkpoint| Event::Failed { checkpoint, reason: String::new() };
    let (stored, committed) = (|checkpoint| Event::Stored { checkpoint }, |checkpoint| Event::Committed { checkpoint });
    let nothing = |c: &mut Coordinator, events: &[Event]| {
        events.iter().for_each(|event| assert_eq!(c.on_event(event.clone(), Timestamp(12)), [], "{event:?}"));
    };
    assert_eq!(c.current(), None);
    nothing(&mut Coordinator::new(OPTIONS, 1, 4, Timestamp(12)), &[acknowledged(0, 5), stored(5), committed(5), failed(5)]);
    run(&mut c, [(10, Event::Tick)]);
    assert_eq!(c.current(), Some(5));
    nothing(&mut c, &[acknowledged(0, 4), acknowledged(0, 6), stored(5), committed(5), failed(4), failed(6)]);
    run(&mut c, [(12, acknowledged(0, 5))]);
    nothing(&mut c, &[acknowledged(0, 5), stored(4), committed(5), failed(6)]);
    run(&mut c, [(12, stored(5))]);
    nothing(&mut c, &[acknowledged(0, 5), stored(5), committed(4), failed(5)]);
    assert_eq!(run(&mut c, [(12, committed(5))]), [Action::Retain { newest: 5 }]);
    assert_eq!((c.current(), c.take_lost()), (None, None));
}
