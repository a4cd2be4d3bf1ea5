//! How many rows one call gets: fewer while rows lead to much or take long, so that what one call makes stays small and nobody waits long for
//! its end, whatever the batch.

use std::time::Duration;

/// A call should not make more than so many bytes of output: downstream queues hold a few of these per edge.
const OUTPUT_BYTES: usize = 4 << 20;
/// A call should not need more than so many bytes of state in advance.
const STATE_BYTES: usize = 64 << 20;
/// A call should not take longer than this: barriers, stops and timers wait for its end.
pub(super) const SLICE: Duration = Duration::from_millis(25);
/// The rows that wait in front of a subtask should be processed within this time: a barrier waits behind them.
const DRAIN: Duration = Duration::from_millis(50);
/// After this a call with several rows is cut short, since one of its rows has become slow, and its rows go one by one.
const PATIENCE: Duration = Duration::from_millis(500);
/// How many rows the first call gets at most when nobody measures what calls take.
const FIRST_ROWS: usize = 64;
/// For so many calls the number of rows stays after it turned out that fewer rows do not take less time, or more rows take more.
const HOLD: u32 = 64;
/// What an output record costs besides its payload: time, origin, key.
const RECORD_BYTES: usize = 48;
/// One output record a row, as [`Pace::fan_out`] counts.
const ONE: usize = 1024;

/// How much one call took in and gave out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    /// Output records.
    pub(super) records: usize,
    /// The bytes of the output records.
    pub(super) output: usize,
    /// The bytes of the state that was prefetched.
    pub(super) state: usize,
    /// How long the call took; zero if nobody measures.
    pub(super) took: Duration,
}

impl Weight {
    /// Whether a call should not make as much.
    pub(super) fn is_heavy(&self) -> bool {
        self.bytes_out() > OUTPUT_BYTES || self.state > STATE_BYTES
    }

    /// Whether a call could make twice as much and more.
    fn is_light(&self) -> bool {
        self.bytes_out() < OUTPUT_BYTES / 4 && self.state < STATE_BYTES / 4 && self.took < SLICE / 2
    }

    fn bytes_out(&self) -> usize {
        self.output.saturating_add(self.records.saturating_mul(RECORD_BYTES))
    }
}

/// The number of rows that the next call gets at most. It changes how a batch is cut, never what comes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    rows: usize,
    most: usize,
    /// Whether it is measured what calls take.
    measured: bool,
    /// From how many channels rows come.
    channels: usize,
    /// The last call that took too long: its rows and its time, to tell whether fewer rows take less.
    slow: Option<(usize, Duration)>,
    /// How many rows were in light calls since the number of rows was last changed.
    light: usize,
    /// For so many slow calls the number of rows stays.
    hold: u32,
    /// What the last call took.
    took: Duration,
    /// What a row takes: the newest if it is the longest, else smoothed.
    per_row: Duration,
    /// Output records of a row, smoothed, in parts of [`ONE`].
    fan_out: usize,
}

impl Pace {
    /// Begins carefully: what one row leads to is not known yet.
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1);
        let (took, per_row) = (Duration::ZERO, Duration::ZERO);
        Self { rows: most.min(FIRST_ROWS), most, measured: false, channels: 1, slow: None, light: 0, hold: 0, took, per_row, fan_out: ONE }
    }

    /// From now on it is measured what calls take: begins with one row, since it may be a slow one.
    pub(super) fn begin_small(&mut self) {
        (self.rows, self.measured) = (1, true);
    }

    /// From how many channels rows come: each may bring its share of what the next call gets.
    pub(super) fn feed_from(&mut self, channels: usize) {
        self.channels = channels.max(1);
    }

    /// How many rows the next call gets at most; at least one.
    #[cfg(test)]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// How many rows the next call gets at most, if receivers have room for so many output records; at least one.
    pub(super) fn rows_into(&self, room: usize) -> usize {
        self.rows.min(self.fitting(room))
    }

    /// How many rows lead to no more than so many output records, as far as the rows so far tell.
    fn fitting(&self, room: usize) -> usize {
        if room == usize::MAX { room } else { (room.saturating_mul(ONE) / self.fan_out.max(ONE / 64)).max(1) }
    }

    /// How many rows may wait on each channel; [`usize::MAX`] without a limit. `room` is that of the receivers of what the rows lead to.
    pub(super) fn share(&self, room: usize) -> usize {
        // Twice as many as a call gets, so that a call can get more than the last one.
        let learned = if self.rows < self.most { self.rows * 2 } else { usize::MAX };
        let in_time = match self.per_row.as_nanos() {
            0 => usize::MAX,
            nanos => usize::try_from(DRAIN.as_nanos() / nanos).unwrap_or(usize::MAX),
        };
        // A call that takes its time however few rows it has must not be kept from getting more.
        match learned.min(in_time.max(self.rows)).min(self.fitting(room)) {
            usize::MAX => usize::MAX,
            rows => rows.div_ceil(self.channels).max(1),
        }
    }

    /// How long a call with several rows may take before it is cut short; `None` if nobody measures, so that nothing depends on time.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.measured.then(|| PATIENCE.max(self.took * 4))
    }

    /// Takes in what a call of so many rows made: fewer rows after a heavy or slow one, twice as many after a light one that had all it
    /// could get. `cut`: whether there was more to do.
    pub(super) fn after(&mut self, rows: usize, cut: bool, weight: Weight) {
        self.measure(rows, weight);
        if weight.is_heavy() {
            self.shrink(rows);
        } else if weight.took > SLICE {
            self.after_slow(rows, weight.took);
        } else if weight.is_light() {
            self.light = self.light.saturating_add(rows);
            // Of a batch that is spread over many receivers each gets little, which tells of the time of rows all the same.
            if cut || rows >= self.rows || self.measured && self.light >= self.rows {
                self.rows = (self.rows * 2).min(self.most);
                self.light = 0;
            }
        }
    }

    fn measure(&mut self, rows: usize, weight: Weight) {
        let rows = rows.max(1);
        self.took = weight.took;
        let per_row = weight.took / u32::try_from(rows).unwrap_or(u32::MAX);
        self.per_row = per_row.max((self.per_row * 3 + per_row) / 4);
        self.fan_out = (self.fan_out * 3 + weight.records.saturating_mul(ONE) / rows) / 4;
    }

    /// After a call that took too long: as many rows as would have been in time, unless a call takes its time however few rows it has. A
    /// single row that is slow is tried together with another one now and then, since most of its time may be the call's.
    fn after_slow(&mut self, rows: usize, took: Duration) {
        self.light = 0;
        if self.hold > 0 {
            self.hold -= 1;
            return;
        }
        match self.slow.take() {
            Some((more, longer)) if more > rows && took * 10 > longer * 7 => return self.keep(more),
            Some((fewer, shorter)) if fewer < rows && took * 10 > shorter * 13 => return self.keep(fewer),
            Some((fewer, _)) if fewer < rows => self.rows = (rows * 2).min(self.most),
            _ if rows > 1 => self.rows = in_time(rows, took),
            _ if took < PATIENCE => self.rows = 2.min(self.most),
            _ => self.rows = 1,
        }
        self.slow = Some((rows, took));
    }

    fn keep(&mut self, rows: usize) {
        (self.rows, self.hold) = (rows, HOLD);
    }

    /// After a call of so many rows that failed or was heavy.
    pub(super) fn shrink(&mut self, rows: usize) {
        self.rows = self.rows.min(rows / 2).max(1);
    }

    /// After a call with several rows that was cut short.
    pub(super) fn was_cut_short(&mut self) {
        (self.rows, self.slow, self.hold) = (1, None, 0);
        self.per_row = self.per_row.max(SLICE);
    }
}

/// How many of so many rows would have been in time; at least one, and fewer than there were.
fn in_time(rows: usize, took: Duration) -> usize {
    let fitting = (rows as u128 * SLICE.as_nanos()) / took.as_nanos().max(1);
    usize::try_from(fitting).unwrap_or(1).clamp(1, (rows - 1).max(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{DRAIN, FIRST_ROWS, OUTPUT_BYTES, PATIENCE, Pace, SLICE, Weight};

    #[test]
    fn heavy_calls_become_smaller_and_light_ones_larger_again() {
        let mut pace = Pace::new(100);
        assert_eq!(pace.rows(), FIRST_ROWS);
        pace.after(FIRST_ROWS, true, Weight::default());
        let heavy = Weight { output: OUTPUT_BYTES + 1, ..Weight::default() };
        let rows = |pace: &mut Pace, weight| {
            pace.after(pace.rows(), true, weight);
            pace.rows()
        };
        assert_eq!([heavy; 8].map(|weight| rows(&mut pace, weight)), [50, 25, 12, 6, 3, 1, 1, 1]);
        let middling = Weight { output: OUTPUT_BYTES / 2, ..Weight::default() };
        assert_eq!(rows(&mut pace, middling), 1);
        assert_eq!([Weight::default(); 8].map(|weight| rows(&mut pace, weight)), [2, 4, 8, 16, 32, 64, 100, 100]);
        let many = Weight { records: OUTPUT_BYTES / 16, ..Weight::default() };
        assert_eq!(rows(&mut pace, many), 50);
        pace.after(7, false, Weight::default());
        assert_eq!(pace.rows(), 50, "a small batch says nothing of large ones");
    }

    /// Lets an operator whose calls take `fixed` and `each` row so long, in microseconds, make so many full calls.
    fn run(pace: &mut Pace, calls: usize, fixed: u64, each: u64) -> Vec<usize> {
        let call = |_| {
            let rows = pace.rows().min(pace.share(usize::MAX).saturating_mul(pace.channels));
            let took = Duration::from_micros(fixed + each * rows as u64);
            pace.after(rows, false, Weight { records: rows, took, ..Weight::default() });
            rows
        };
        (0..calls).map(call).collect()
    }

    fn measured(channels: usize) -> Pace {
        let mut pace = Pace::new(1024);
        pace.begin_small();
        pace.feed_from(channels);
        pace
    }

    #[test]
    fn fast_rows_are_not_limited_after_a_few_calls() {
        for channels in [1, 8] {
            let mut pace = measured(channels);
            assert_eq!(run(&mut pace, 11, 2, 1), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], "{channels} channels");
            assert!(pace.share(usize::MAX) > 4 * 1024, "{channels} channels: {}", pace.share(usize::MAX));
        }
    }

    #[test]
    fn batches_that_are_spread_over_many_receivers_do_not_stay_small() {
        let mut pace = measured(8);
        for _ in 0..400 {
            pace.after((pace.rows() / 64).max(1), false, Weight { took: Duration::from_micros(5), ..Weight::default() });
        }
        assert_eq!(pace.rows(), 1024);
    }

    #[test]
    fn slow_rows_come_a_few_at_a_time_and_few_wait() {
        for (each, most) in [(60_000, 2), (5_000, 5), (1_000, 25), (100, 250)] {
            let mut pace = measured(2);
            let rows = run(&mut pace, 200, 0, each);
            assert!(rows.iter().all(|rows| *rows <= most), "{each} us a row: {rows:?}");
            let waiting = Duration::from_micros(each) * u32::try_from(pace.share(usize::MAX) * 2).unwrap();
            assert!(waiting <= DRAIN.max(Duration::from_micros(each * 2)), "{each} us a row: {waiting:?}");
            // They become fast again.
            assert_eq!(run(&mut pace, 120, 0, 1).last(), Some(&1024));
        }
    }

    #[test]
    fn calls_that_take_long_however_few_rows_they_have_keep_their_rows() {
        let mut pace = measured(1);
        let rows = run(&mut pace, 2_000, 100_000, 10);
        let mean = rows.iter().sum::<usize>() / rows.len();
        assert!(mean > 500, "{mean} rows a call");
    }

    #[test]
    fn a_call_that_was_cut_short_makes_the_next_ones_small() {
        let mut pace = measured(1);
        run(&mut pace, 20, 0, 1);
        assert_eq!((pace.patience(), Pace::new(7).patience()), (Some(PATIENCE), None));
        pace.was_cut_short();
        assert_eq!((pace.rows(), pace.share(usize::MAX)), (1, 2));
        pace.after(1, true, Weight { took: Duration::from_secs(3), ..Weight::default() });
        assert_eq!((pace.rows(), pace.share(usize::MAX), pace.patience()), (1, 1, Some(Duration::from_secs(12))));
    }

    #[test]
    fn a_slow_receiver_makes_the_calls_in_front_of_it_small() {
        let mut pace = measured(2);
        run(&mut pace, 20, 0, 1);
        assert_eq!((pace.rows_into(usize::MAX), pace.rows_into(3), pace.share(3)), (1024, 3, 2));
        // Ten records come of a row.
        (0..40).for_each(|_| pace.after(100, false, Weight { records: 1000, took: SLICE / 2, ..Weight::default() }));
        assert_eq!((pace.rows_into(100), pace.rows_into(3), pace.share(100)), (10, 1, 5));
        // Of most rows comes nothing.
        (0..40).for_each(|_| pace.after(1000, false, Weight { took: SLICE / 2, ..Weight::default() }));
        assert_eq!(pace.rows_into(1), 64);
    }
}
