use super::{AggregatingWindows, Arrival, FullWindows, ReducingWindows, Window, Windows};
use crate::testing::Harness;
use crate::{AggregateFunction, Context, Detector, Duration, Failure, KeyedProcessFunction, MergingAggregateFunction, Parameters};
use crate::{ReduceFunction, Schema, SideOutput, Timer};

const fn ms(millis: i64) -> Duration {
    Duration::from_millis(millis)
}

#[track_caller]
fn assigned(windows: Windows, timestamp: i64, expected: &[(i64, i64)]) {
    let found: Vec<_> = windows.of(timestamp).map(|Window { start, end }| (start, end)).collect();
    assert_eq!(found, expected, "{windows:?} at {timestamp}");
}

#[test]
fn times_have_the_windows_that_flink_gives_them() {
    let tumbling = Windows::tumbling(ms(10));
    assigned(tumbling, 0, &[(0, 10)]);
    assigned(tumbling, 9, &[(0, 10)]);
    assigned(tumbling, 10, &[(10, 20)]);
    assigned(tumbling, -1, &[(-10, 0)]);
    assigned(tumbling.offset(ms(3)), 2, &[(-7, 3)]);
    assigned(tumbling.offset(ms(-2)), 8, &[(8, 18)]);
    let sliding = Windows::sliding(ms(10), ms(5));
    assigned(sliding, 12, &[(10, 20), (5, 15)]);
    assigned(sliding, -5, &[(-5, 5), (-10, 0)]);
    assigned(Windows::sliding(ms(10), ms(4)), 9, &[(8, 18), (4, 14), (0, 10)]);
    let gaps = Windows::sliding(ms(2), ms(10));
    assigned(gaps, 11, &[(10, 12)]);
    assigned(gaps, 12, &[]);
    assigned(Windows::session(ms(7)), 5, &[(5, 12)]);
    assigned(tumbling, i64::MAX, &[(i64::MAX - 7, i64::MAX)]);
    assigned(sliding, i64::MIN, &[(i64::MIN, i64::MIN + 10)]);
    assigned(Windows::tumbling(ms(0)), 5, &[(5, 6)]);
}

struct Sum;

impl ReduceFunction<i64> for Sum {
    fn reduce(older: i64, newer: i64) -> i64 {
        older + newer
    }
}

/// The number of inputs and the largest.
struct Largest;

impl AggregateFunction for Largest {
    type Input = i64;
    type Accumulator = (u32, i64);
    type Output = String;

    fn create_accumulator() -> (u32, i64) {
        (0, i64::MIN)
    }

    fn add((count, largest): &mut (u32, i64), input: i64) {
        (*count, *largest) = (*count + 1, input.max(*largest));
    }

    fn get_result((count, largest): &(u32, i64)) -> String {
        format!("{largest} of {count}")
    }
}

impl MergingAggregateFunction for Largest {
    fn merge(older: (u32, i64), newer: (u32, i64)) -> (u32, i64) {
        (older.0 + newer.0, older.1.max(newer.1))
    }
}

#[derive(Clone, serde::Serialize, serde::Deserialize, Schema)]
struct Options {
    kind: u8,
    lateness: Duration,
}

/// Gathers in all three ways at once.
#[derive(Detector)]
struct Gathers {
    sums: ReducingWindows<i64, Sum>,
    largest: AggregatingWindows<Largest>,
    #[state(name = "everything")]
    all: FullWindows<i64>,
    late: SideOutput<i64>,
    options: Parameters<Options>,
}

impl Gathers {
    fn windows(&self) -> Windows {
        let windows = match self.options.kind {
            0 => Windows::tumbling(ms(10)),
            1 => Windows::sliding(ms(10), ms(5)),
            _ => Windows::session(ms(10)),
        };
        windows.allowed_lateness(self.options.lateness)
    }
}

impl KeyedProcessFunction for Gathers {
    type Key = u8;
    type Input<'a> = i64;
    type Output<'a> = String;

    fn process_element(&mut self, n: i64, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let windows = self.windows();
        let arrivals = [
            self.sums.add(ctx, &windows, n, |window, sum, ctx| say(ctx, "sum", window, sum))?,
            self.largest.add(ctx, &windows, n, |window, largest, ctx| say(ctx, "largest", window, &largest))?,
            self.all.add(ctx, &windows, n, |window, all, ctx| say(ctx, "all", window, &format!("{all:?}")))?,
        ];
        assert!(arrivals.iter().all(|arrival| *arrival == arrivals[0]));
        if arrivals[0] == Arrival::Late {
            self.late.emit(ctx, &n);
        }
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let windows = self.windows();
        self.sums.on_timer(ctx, &windows, timer, |window, sum, ctx| say(ctx, "sum", window, sum))?;
        self.largest.on_timer(ctx, &windows, timer, |window, largest, ctx| say(ctx, "largest", window, &largest))?;
        self.all.on_timer(ctx, &windows, timer, |window, all, ctx| say(ctx, "all", window, &format!("{all:?}")))
    }
}

fn say(ctx: &mut Context<'_, Gathers>, what: &str, window: Window, result: &dyn std::fmt::Display) -> Result<(), Failure> {
    ctx.emit(&format!("{what} {}..{} {result}", window.start, window.end));
    Ok(())
}

enum Step {
    At(i64, i64),
    Watermark(i64),
    /// What the sums say since the last look.
    Sums(&'static [&'static str]),
    Late(&'static [i64]),
}
use Step::{At, Late, Sums, Watermark};

const TUMBLING: u8 = 0;
const SLIDING: u8 = 1;
const SESSION: u8 = 2;

/// Runs steps at several batch sizes, to the end of input. All is gone then.
#[track_caller]
fn check(kind: u8, lateness: i64, steps: &[Step]) -> Vec<String> {
    let run = |rows| {
        let mut harness = Harness::<Gathers>::open(&Options { kind, lateness: ms(lateness) }).unwrap().batch_rows(rows);
        let (mut sums_seen, mut late_seen) = (0, 0);
        for step in steps {
            match step {
                At(timestamp, n) => harness.element(&1, *timestamp, n).unwrap(),
                Watermark(timestamp) => harness.watermark(*timestamp).unwrap(),
                Sums(expected) => {
                    let said = harness.outputs::<String>("main").unwrap();
                    let sums: Vec<_> = said.iter().filter_map(|(_, text)| text.strip_prefix("sum ")).collect();
                    assert_eq!(sums[sums_seen..], **expected, "{rows} rows a batch");
                    sums_seen = sums.len();
                }
                Late(expected) => {
                    let late: Vec<_> = harness.outputs::<i64>("late").unwrap().into_iter().map(|(_, n)| n).collect();
                    assert_eq!(late[late_seen..], **expected, "{rows} rows a batch");
                    late_seen = late.len();
                }
            }
        }
        harness.watermark(i64::MAX).unwrap();
        assert_eq!((harness.stored().unwrap(), harness.pending_timers().unwrap()), (0, 0));
        harness.outputs::<String>("main").unwrap().into_iter().map(|(_, text)| text).collect::<Vec<_>>()
    };
    let all = run(1024);
    [1, 2].into_iter().for_each(|rows| assert_eq!(run(rows), all));
    all
}

#[test]
fn a_tumbling_window_fires_when_the_watermark_reaches_its_last_millisecond() {
    let all = check(
        TUMBLING,
        0,
        &[
            At(3, 1),
            At(9, 2),
            At(10, 5),
            Watermark(8),
            Sums(&[]),
            // Its time is behind the watermark, but its window is not.
            At(4, 4),
            Watermark(9),
            Sums(&["0..10 7"]),
            Late(&[]),
            At(9, 8),
            Late(&[8]),
            Watermark(19),
            Sums(&["10..20 5"]),
        ],
    );
    let expected =
        ["sum 0..10 7", "largest 0..10 4 of 3", "all 0..10 [1, 2, 4]", "sum 10..20 5", "largest 10..20 5 of 1", "all 10..20 [5]"];
    assert_eq!(all, expected);
}

#[test]
fn a_record_belongs_to_all_sliding_windows_and_is_late_when_the_last_is_gone() {
    check(
        SLIDING,
        0,
        &[
            At(7, 1),
            Watermark(9),
            Sums(&["0..10 1"]),
            // 0..10 is gone, 5..15 is not.
            At(8, 2),
            Late(&[]),
            Watermark(14),
            Sums(&["5..15 3"]),
            At(9, 4),
            Late(&[4]),
            At(12, 8),
            Watermark(19),
            Sums(&["10..20 8"]),
        ],
    );
}

#[test]
fn a_window_fires_again_for_each_late_record_until_the_lateness_is_over() {
    check(
        TUMBLING,
        5,
        &[
            At(1, 1),
            Watermark(9),
            Sums(&["0..10 1"]),
            At(2, 2),
            At(3, 4),
            Sums(&["0..10 3", "0..10 7"]),
            Watermark(13),
            At(4, 8),
            // A window that had no record on time.
            At(14, 1),
            Sums(&["0..10 15"]),
            Watermark(14),
            At(5, 16),
            Sums(&[]),
            Late(&[16]),
            Watermark(24),
            Sums(&["10..20 1"]),
            At(15, 32),
            Late(&[32]),
        ],
    );
    // First seen behind the watermark, within the lateness: fires at once.
    check(TUMBLING, 5, &[Watermark(12), At(3, 1), Sums(&["0..10 1"]), Watermark(14), Sums(&[]), At(3, 2), Late(&[2])]);
}

#[test]
fn a_cleanup_at_the_last_millisecond_of_another_window_fires_that_one() {
    check(
        TUMBLING,
        10,
        &[At(3, 1), At(13, 2), Watermark(19), Sums(&["0..10 1", "10..20 2"]), At(4, 4), Late(&[4]), At(14, 8), Sums(&["10..20 10"])],
    );
}

#[test]
fn sessions_that_meet_are_one() {
    let all = check(
        SESSION,
        0,
        &[
            At(0, 1),
            At(25, 2),
            At(5, 4),
            // 0..15 and 25..35 touch 15..25: one session.
            At(15, 8),
            Watermark(14),
            Sums(&[]),
            Watermark(34),
            Sums(&["0..35 15"]),
            At(36, 16),
            Watermark(45),
            Sums(&["36..46 16"]),
        ],
    );
    assert_eq!(all[2], "all 0..35 [1, 4, 2, 8]");
}

#[test]
fn a_late_record_that_meets_a_live_session_is_taken() {
    check(
        SESSION,
        0,
        &[
            At(20, 1),
            Watermark(15),
            // Its own session, 3..13, is gone, and so is 4..14; 10..20 meets 20..30.
            At(3, 2),
            Late(&[2]),
            At(10, 4),
            Late(&[]),
            Watermark(29),
            Sums(&["10..30 5"]),
        ],
    );
}

#[test]
fn a_session_that_has_fired_grows_and_fires_again() {
    check(
        SESSION,
        20,
        &[
            At(0, 1),
            Watermark(12),
            Sums(&["0..10 1"]),
            // 1..11 has passed: fires at once, for the session 0..11.
            At(1, 2),
            Sums(&["0..11 3"]),
            // 8..18 has not: the session fires when the watermark is there, and then once.
            At(8, 4),
            Sums(&[]),
            Watermark(17),
            Sums(&["0..18 7"]),
            Watermark(37),
            At(17, 8),
            Sums(&["17..27 8"]),
            At(16, 16),
            Sums(&["16..27 24"]),
            Late(&[]),
        ],
    );
}

#[test]
fn what_a_window_gathered_survives_a_restore_and_the_watermark_starts_again() {
    let mut harness = Harness::<Gathers>::open(&Options { kind: TUMBLING, lateness: ms(5) }).unwrap();
    harness.element(&1, 1, &1).unwrap();
    harness.watermark(10).unwrap();
    let snapshot = harness.snapshot().unwrap();
    harness.restore(&snapshot).unwrap();
    // The watermark is not known yet: the window, which has fired, fires when it comes.
    harness.element(&1, 2, &2).unwrap();
    harness.watermark(14).unwrap();
    let said = harness.outputs::<String>("main").unwrap();
    assert_eq!(
        said.iter().filter(|(_, text)| text.starts_with("sum")).map(|(_, text)| text).collect::<Vec<_>>(),
        ["sum 0..10 1", "sum 0..10 3"]
    );
    assert_eq!(harness.stored().unwrap(), 0);
}

#[test]
fn a_record_without_event_time_is_bad() {
    let mut harness = Harness::<Gathers>::open(&Options { kind: TUMBLING, lateness: ms(0) }).unwrap();
    harness.element(&1, None, &1).unwrap();
    let failure = harness.flush().unwrap_err().to_string();
    assert_eq!(failure, "bad record in row 0: the record has no event time, so it belongs to no window");
}
