use std::cell::Cell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use tidemill_core::key_group::{hash_key, key_group};

use super::{DeadLetter, Harness};
use crate::failure::BatchFailure;
use crate::host::Level;
use crate::{
    BroadcastContext, BroadcastState, Context, Detector, Failure, KeyedBroadcastProcessFunction, KeyedProcessFunction, MapState,
    ReduceFunction, ReducingState, Schema, Timer, ValueState, ordered,
};

struct Sum;

impl ReduceFunction<i64> for Sum {
    fn reduce(older: i64, newer: i64) -> i64 {
        older + newer
    }
}

/// Adds up its records, and says the sum a second later, on both clocks, if it shall remind of it. A 0 asks for the sum at once.
#[derive(Detector)]
struct Adds {
    #[state(ttl = "1s")]
    sum: ReducingState<i64, Sum>,
}

impl KeyedProcessFunction for Adds {
    type Key = u8;
    type Input<'a> = (i64, bool);
    type Output<'a> = Option<i64>;

    fn process_element(&mut self, (n, remind): (i64, bool), ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        if n == 0 {
            let sum = self.sum.get(ctx)?.copied();
            ctx.emit(&sum);
            return Ok(());
        }
        if remind {
            ctx.register_event_time_timer(1_000);
            ctx.register_processing_time_timer(1_000);
        }
        self.sum.add(ctx, n)
    }

    fn on_timer(&mut self, _: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let sum = self.sum.get(ctx)?.copied();
        ctx.emit(&sum);
        Ok(())
    }
}

fn said<D: KeyedProcessFunction>(harness: &mut Harness<D>) -> Vec<Option<i64>> {
    harness.outputs::<Option<i64>>("main").unwrap().into_iter().map(|(_, sum)| sum).collect()
}

/// Case S5: one time for the whole value, which each `add` renews and a read does not.
#[test]
fn each_add_renews_the_time_to_live() {
    let mut harness = Harness::<Adds>::open(&()).unwrap();
    for (clock, n) in [(0, 1), (600, 10), (1_200, 0), (1_599, 0), (1_600, 0), (1_600, 5), (2_599, 0)] {
        harness.processing_time(clock).unwrap();
        harness.element(&1, 0, &(n, false)).unwrap();
    }
    assert_eq!(said(&mut harness), [Some(11), Some(11), None, Some(5)]);
}

#[test]
fn a_restore_brings_state_and_timers_back_and_nothing_else() {
    let mut harness = Harness::<Adds>::open(&()).unwrap();
    harness.element(&1, 0, &(1, true)).unwrap();
    let snapshot = harness.snapshot().unwrap();
    harness.element(&1, 5, &(10, false)).unwrap();
    harness.watermark(5_000).unwrap();
    assert_eq!((said(&mut harness), harness.pending_timers().unwrap()), (vec![Some(11)], 1));

    harness.element(&1, 6, &(100, false)).unwrap();
    harness.restore(&snapshot).unwrap();
    assert_eq!((harness.pending_timers().unwrap(), harness.stored().unwrap()), (2, 1));
    // The watermark is at its minimum again, so a lower one counts; what was said stays said.
    harness.watermark(1_000).unwrap();
    assert_eq!(said(&mut harness), [Some(11), Some(1)]);
    // The clock went on: what is overdue fires without being waited for, and the state has expired meanwhile.
    harness.processing_time(10_000).unwrap();
    harness.restore(&snapshot).unwrap();
    harness.processing_time(10_000).unwrap();
    assert_eq!(said(&mut harness)[2..], [None, None]);
}

#[derive(Detector)]
struct Next {
    first: ValueState<bool>,
    sum: ReducingState<i64, Sum>,
}

#[derive(Detector)]
struct Other {
    sum: ValueState<i64>,
}

#[derive(Detector)]
struct Renamed {
    first: ValueState<bool>,
}

macro_rules! reads {
    ($($detector:ident: $read:expr),*) => { $(
        impl KeyedProcessFunction for $detector {
            type Key = u8;
            type Input<'a> = i64;
            type Output<'a> = Option<i64>;

            fn process_element(&mut self, _: i64, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
                let read: fn(&mut Self, &mut Context<'_, Self>) -> Result<Option<i64>, Failure> = $read;
                let read = read(self, ctx)?;
                ctx.emit(&read);
                Ok(())
            }
        }
    )* };
}

reads! {
    Next: |detector, ctx| Ok(detector.first.value(ctx)?.map(|&first| i64::from(first)).or(detector.sum.get(ctx)?.copied())),
    Other: |detector, ctx| Ok(detector.sum.value(ctx)?.copied()),
    Renamed: |detector, ctx| Ok(detector.first.value(ctx)?.map(|&first| i64::from(first)))
}

#[test]
fn another_version_finds_its_states_by_name() {
    let mut harness = Harness::<Adds>::open(&()).unwrap();
    harness.element(&1, 0, &(7, true)).unwrap();
    let snapshot = harness.snapshot().unwrap();
    let mut next = Harness::<Next>::open(&()).unwrap();
    next.restore(&snapshot).unwrap();
    next.element(&1, 0, &0).unwrap();
    assert_eq!(said(&mut next), [Some(7)]);

    let other = Harness::<Other>::open(&()).unwrap().restore(&snapshot).unwrap_err();
    assert_eq!(other, "the state sum of the snapshot is of another kind or type than the detector declares");
    let renamed = Harness::<Renamed>::open(&()).unwrap().restore(&snapshot).unwrap_err();
    assert_eq!(renamed, "the snapshot has the state sum, which the detector does not declare");
}

/// Sets a timer per record, counts its records without a state to go by, and says which key's timer has fired. Negative records are bad.
#[derive(Detector)]
struct Rings {
    #[detector(skip)]
    not_to_be_sent: Rc<Cell<u32>>,
    held: MapState<i64, String>,
}

impl KeyedProcessFunction for Rings {
    type Key = String;
    type Input<'a> = i64;
    type Output<'a> = String;

    fn process_element(&mut self, time: i64, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        self.not_to_be_sent.set(self.not_to_be_sent.get() + 1);
        ctx.count("seen", 1);
        if time < 0 {
            return Err(Failure::bad_record("too early"));
        }
        self.held.put(ctx, &time, "x".repeat(200));
        ctx.register_event_time_timer(time);
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        if timer.timestamp == 13 {
            return Err(Failure::bad_record("a bad time"));
        }
        let key = ctx.key()?;
        ctx.emit(key);
        Ok(())
    }
}

fn rings() -> Harness<Rings> {
    Harness::open(&()).unwrap()
}

fn texts<D: KeyedProcessFunction>(harness: &mut Harness<D>) -> Vec<String> {
    harness.outputs::<String>("main").unwrap().into_iter().map(|(_, text)| text).collect()
}

#[test]
fn equal_timer_times_fire_in_the_order_of_a_job() {
    let keys: Vec<String> = (0..300).map(|n| format!("key {n}")).collect();
    let mut expected = keys.clone();
    expected.sort_by_key(|key| {
        let mut encoded = Vec::new();
        ordered::append(key, &mut encoded).unwrap();
        (key_group(hash_key(&encoded), 128), encoded)
    });
    assert!(!expected.is_sorted(), "the key groups matter");
    for rows in [1, 7, 100, 1024] {
        let mut harness = rings().batch_rows(rows);
        keys.iter().for_each(|key| harness.element(key, 1, &50).unwrap());
        harness.watermark(50).unwrap();
        assert_eq!(texts(&mut harness), expected, "{rows} rows a batch");
    }
}

#[test]
fn counters_watermarks_and_late_records_can_be_asserted() {
    let mut harness = rings();
    assert_eq!((harness.current_watermark(), harness.counter("seen").unwrap()), (i64::MIN, 0));
    harness.watermark(5).unwrap();
    for (timestamp, time) in [(5, 1), (6, 2), (4, 3)] {
        harness.element(&"a".to_owned(), timestamp, &time).unwrap();
    }
    harness.element(&"a".to_owned(), None, &9).unwrap();
    assert_eq!((harness.late_records().unwrap(), harness.counter("seen").unwrap(), harness.counter("absent").unwrap()), (2, 4, 0));
    assert_eq!(harness.counters().unwrap().into_iter().collect::<Vec<_>>(), [("seen".to_owned(), 4)]);
    assert_eq!(harness.current_watermark(), 5);
    assert_eq!(harness.log().first(), Some(&(Level::Debug, "seen +1".to_owned())));
}

#[test]
fn bad_records_and_timers_become_dead_letters_where_that_is_wanted() {
    let mut harness = rings().dead_letter();
    for (timestamp, time) in [(1, 7), (2, -1), (3, 13), (4, 20)] {
        harness.element(&"a".to_owned(), timestamp, &time).unwrap();
    }
    harness.watermark(30).unwrap();
    let letter = |reason: &str, timestamp, value: &str| {
        let (reason, value) = (reason.to_owned(), value.to_owned());
        DeadLetter { reason, timestamp: Some(timestamp), value }
    };
    let timer = r#"{"domain":"event","timestamp":13,"key":"a"}"#;
    assert_eq!(harness.dead_letters().unwrap(), [letter("too early", 2, "-1"), letter("a bad time", 13, timer)]);
    assert_eq!((texts(&mut harness).len(), harness.pending_timers().unwrap()), (2, 0));
    assert_eq!(harness.counter("seen").unwrap(), 3, "what a bad record did is undone");
}

#[test]
fn a_failed_timer_fails_again_as_in_a_job_that_restarts() {
    let mut harness = rings();
    harness.element(&"a".to_owned(), 1, &7).unwrap();
    let before = harness.snapshot().unwrap();
    harness.element(&"a".to_owned(), 1, &13).unwrap();
    let bad = Err(BatchFailure::BadRecord(1, "a bad time".to_owned()));
    assert_eq!(harness.watermark(20), bad);
    harness.element(&"a".to_owned(), 1, &8).unwrap();
    assert!(matches!(harness.flush(), Err(BatchFailure::BadRecord(_, reason)) if reason == "a bad time"));
    harness.restore(&before).unwrap();
    harness.watermark(20).unwrap();
    assert_eq!(texts(&mut harness), ["a", "a"], "the first timer fired, and again after the restore");
}

#[test]
fn expired_content_is_not_stored() {
    let mut harness = Harness::<Adds>::open(&()).unwrap();
    harness.element(&1, 0, &(1, false)).unwrap();
    assert_eq!(harness.stored().unwrap(), 1);
    harness.processing_time(999).unwrap();
    assert_eq!(harness.stored().unwrap(), 1);
    harness.processing_time(1_000).unwrap();
    assert_eq!(harness.stored().unwrap(), 0);
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
struct Old {
    seen: i32,
    gone: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
struct New {
    #[serde(default)]
    note: Option<String>,
    #[serde(alias = "seen")]
    count: i64,
}

macro_rules! keeps {
    ($detector:ident, $value:ty) => {
        /// Keeps what it gets, by key and as a rule for all.
        #[derive(Detector)]
        #[detector(name = "keeps", broadcast)]
        struct $detector {
            kept: ValueState<$value>,
            rules: BroadcastState<u8, $value>,
        }

        impl KeyedProcessFunction for $detector {
            type Key = u8;
            type Input<'a> = Option<$value>;
            type Output<'a> = (Option<$value>, Option<$value>);

            fn process_element(&mut self, value: Option<$value>, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
                match value {
                    Some(value) => self.kept.update(ctx, value),
                    None => {
                        let kept = (self.kept.value(ctx)?.cloned(), self.rules.get(ctx, &1)?.cloned());
                        ctx.emit(&kept);
                    }
                }
                Ok(())
            }
        }

        impl KeyedBroadcastProcessFunction for $detector {
            type Broadcast<'a> = $value;

            fn process_broadcast_element(&mut self, value: $value, ctx: &mut BroadcastContext<'_, Self>) -> Result<(), Failure> {
                self.rules.put(ctx, &1, value);
                Ok(())
            }
        }
    };
}

keeps!(KeepsOld, Old);
keeps!(KeepsNew, New);

#[test]
fn another_version_takes_state_over_as_its_types_say() {
    let mut old = Harness::<KeepsOld>::open(&()).unwrap();
    old.element(&1, 0, &Some(Old { seen: 7, gone: true })).unwrap();
    old.broadcast(0, &Old { seen: 8, gone: false }).unwrap();
    let snapshot = old.snapshot().unwrap();
    let mut new = Harness::<KeepsNew>::open(&()).unwrap();
    new.restore(&snapshot).unwrap();
    new.element(&1, 0, &None).unwrap();
    let of = |count| Some(New { note: None, count });
    assert_eq!(new.outputs::<(Option<New>, Option<New>)>("main").unwrap(), [(Some(0), (of(7), of(8)))]);
    // There is no way back: `gone` has no default.
    let refused = old.restore(&new.snapshot().unwrap()).unwrap_err();
    assert!(refused.starts_with("the state kept of the snapshot is of another type than the detector declares: "), "{refused}");
}
