//! Watermarks of a source's subtask: one per split, combined by the minimum over the splits that are not idle (CONFORMANCE 1.2; Flink's
//! `BoundedOutOfOrdernessWatermarks` and `WatermarkOutputMultiplexer`).

use crate::Timestamp;

/// How watermarks follow from the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strategy {
    /// By how many milliseconds a record may be older than the newest before it.
    pub bound: i64,
    /// After how many milliseconds without records a split no longer holds the others back.
    pub idle_timeout: Option<i64>,
}

/// What a subtask has to tell downstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No more records with times up to this are expected.
    Advance(Timestamp),
    /// No records come now: do not wait for this subtask.
    Idle,
    /// Records come again.
    Active,
}

/// The watermarks of one subtask's splits.
#[derive(Clone, Debug)]
pub struct SplitWatermarks {
    strategy: Strategy,
    /// Whether the subtask ends with its splits.
    bounded: bool,
    splits: Vec<SplitProgress>,
    emitted: Timestamp,
    idle: bool,
    clock: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct SplitProgress {
    watermark: Timestamp,
    quiet: i64,
    /// Whether it was looked at and had nothing: only then does its idle clock run.
    waiting: bool,
    idle: bool,
    finished: bool,
}

impl SplitWatermarks {
    /// No splits yet. A subtask of an unbounded source without a split that is still read is idle: others may come.
    #[must_use]
    pub fn new(strategy: Strategy, bounded: bool) -> Self {
        Self { strategy, bounded, splits: Vec::new(), emitted: Timestamp::MIN, idle: false, clock: None }
    }

    /// Adds a split; it holds the watermark back until its first record. Returns its index.
    pub fn add(&mut self, finished: bool) -> usize {
        self.splits.push(SplitProgress { watermark: Timestamp::MIN, quiet: 0, waiting: false, idle: false, finished });
        self.splits.len() - 1
    }

    /// Takes in the newest time of a split's new records.
    pub fn record(&mut self, split: usize, newest: Timestamp) {
        let bound = self.strategy.bound;
        if let Some(split) = self.splits.get_mut(split) {
            split.watermark = split.watermark.max(newest.minus(bound).minus(1));
            split.quiet = 0;
            split.waiting = false;
            split.idle = false;
        }
    }

    /// Takes in that a split was looked at and had nothing.
    pub fn wait(&mut self, split: usize) {
        if let Some(split) = self.splits.get_mut(split) {
            split.waiting = true;
        }
    }

    /// Whether the last progress told was `Idle`.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    /// Takes a split that has ended out of the minimum.
    pub fn finish(&mut self, split: usize) {
        if let Some(split) = self.splits.get_mut(split) {
            split.finished = true;
        }
    }

    /// The watermark of a split, by which the next one to read is chosen.
    #[must_use]
    pub fn of(&self, split: usize) -> Timestamp {
        self.splits.get(split).map_or(Timestamp::MIN, |split| split.watermark)
    }

    /// The last watermark emitted.
    #[must_use]
    pub fn emitted(&self) -> Timestamp {
        self.emitted
    }

    /// Lets time pass: a split that has had nothing to read for longer than the timeout becomes idle. Time in which the subtask could not read (its
    /// output was blocked) does not count (FLINK-35886).
    pub fn pass_time(&mut self, now: Timestamp, could_read: bool) {
        let elapsed = now.0.saturating_sub(self.clock.map_or(now.0, |clock| clock.0)).max(0);
        self.clock = Some(now);
        if let (Some(timeout), true) = (self.strategy.idle_timeout, could_read) {
            for split in self.splits.iter_mut().filter(|split| split.waiting) {
                split.quiet = split.quiet.saturating_add(elapsed);
                split.idle |= split.quiet > timeout;
            }
        }
    }

    /// What is new since the last call. Never regresses. When all splits are idle, the newest watermark of any comes first, whichever
    /// became idle last (FLINK-38454), then `Idle`.
    pub fn poll(&mut self) -> Option<Progress> {
        let mut open = self.splits.iter().filter(|split| !split.finished).peekable();
        if !self.idle && self.splits.iter().all(|split| split.finished && !self.bounded) {
            // A subtask without a split must not hold the others back.
            self.idle = true;
            return Some(Progress::Idle);
        }
        open.peek()?;
        let all_idle = open.clone().all(|split| split.idle);
        let combined = if all_idle {
            open.map(|split| split.watermark).max()
        } else {
            open.filter(|split| !split.idle).map(|split| split.watermark).min()
        };
        if self.idle && !all_idle {
            self.idle = false;
            return Some(Progress::Active);
        }
        if let Some(watermark) = combined.filter(|watermark| *watermark > self.emitted) {
            self.emitted = watermark;
            return Some(Progress::Advance(watermark));
        }
        if all_idle && !self.idle {
            self.idle = true;
            return Some(Progress::Idle);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Progress, SplitWatermarks, Strategy};
    use crate::Timestamp;

    fn watermarks(bound: i64, idle_timeout: Option<i64>, splits: usize) -> SplitWatermarks {
        let mut watermarks = SplitWatermarks::new(Strategy { bound, idle_timeout }, true);
        (0..splits).for_each(|_| _ = watermarks.add(false));
        watermarks
    }

    fn all(watermarks: &mut SplitWatermarks) -> Vec<Progress> {
        std::iter::from_fn(|| watermarks.poll()).collect()
    }

    #[test]
    fn an_unbounded_subtask_is_idle_once_its_splits_have_ended() {
        for (bounded, expected) in [(true, &[][..]), (false, &[Progress::Idle])] {
            let mut w = SplitWatermarks::new(Strategy::default(), bounded);
            w.add(false);
            w.record(0, Timestamp(10));
            assert_eq!(all(&mut w), [Progress::Advance(Timestamp(9))]);
            w.finish(0);
            assert_eq!(all(&mut w), expected);
            let next = w.add(false);
            w.record(next, Timestamp(20));
            assert!(all(&mut w).ends_with(&[Progress::Advance(Timestamp(19))]));
        }
    }

    #[test]
    fn bound_and_no_regress() {
        let mut w = watermarks(200, None, 1);
        assert_eq!(all(&mut w), []);
        w.record(0, Timestamp(1000));
        assert_eq!(all(&mut w), [Progress::Advance(Timestamp(799))]);
        w.record(0, Timestamp(500));
        assert_eq!(all(&mut w), []);
    }

    #[test]
    fn minimum_over_splits() {
        let mut w = watermarks(0, None, 2);
        w.record(0, Timestamp(100));
        assert_eq!(all(&mut w), []);
        w.record(1, Timestamp(50));
        assert_eq!(all(&mut w), [Progress::Advance(Timestamp(49))]);
        w.record(1, Timestamp(120));
        assert_eq!(all(&mut w), [Progress::Advance(Timestamp(99))]);
        w.finish(0);
        assert_eq!(all(&mut w), [Progress::Advance(Timestamp(119))]);
    }

    #[test]
    fn all_idle_flushes_the_maximum_in_either_order() {
        for order in [[0, 1], [1, 0]] {
            let mut w = watermarks(0, Some(10), 2);
            w.pass_time(Timestamp(0), true);
            w.record(0, Timestamp(5));
            w.record(1, Timestamp(4));
            all(&mut w);
            w.wait(order[0]);
            w.pass_time(Timestamp(11), true);
            w.wait(order[1]);
            all(&mut w);
            w.pass_time(Timestamp(22), true);
            let last = all(&mut w);
            assert_eq!((w.emitted(), last.last()), (Timestamp(4), Some(&Progress::Idle)), "{order:?}");
            w.record(0, Timestamp(1));
            assert_eq!(all(&mut w), [Progress::Active]);
        }
    }

    #[test]
    fn a_subtask_without_splits_is_idle_at_once_and_active_with_its_first() {
        let mut w = watermarks(0, None, 0);
        assert_eq!(all(&mut w), [Progress::Idle]);
        w.add(false);
        assert_eq!(all(&mut w), [Progress::Active]);
    }

    #[test]
    fn a_split_that_was_not_looked_at_is_not_idle() {
        let mut w = watermarks(0, Some(10), 2);
        w.pass_time(Timestamp(0), true);
        w.record(0, Timestamp(5));
        w.record(1, Timestamp(50));
        all(&mut w);
        w.pass_time(Timestamp(9000), true);
        assert_eq!(all(&mut w), []);
    }

    #[test]
    fn blocked_time_does_not_make_idle() {
        let mut w = watermarks(0, Some(10), 1);
        w.pass_time(Timestamp(0), true);
        w.record(0, Timestamp(5));
        w.wait(0);
        all(&mut w);
        w.pass_time(Timestamp(5000), false);
        assert_eq!(all(&mut w), []);
        w.pass_time(Timestamp(5010), true);
        assert_eq!(all(&mut w), []);
        w.pass_time(Timestamp(5011), true);
        assert_eq!(all(&mut w), [Progress::Idle]);
    }
}
