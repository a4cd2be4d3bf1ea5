use super::Harness;
use crate::{Context, Detector, Failure, KeyedProcessFunction, ReduceFunction, ReducingState, Timer, ValueState};

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
