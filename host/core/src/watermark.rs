//! Watermarks of a source's subtask: one per split, combined by the minimum over the splits that are not idle (Flink's
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
    splits: Vec<SplitProgress>,
    emitted: Timestamp,
    idle: bool,
    clock: Option<Timestamp>,
    /// Whether the subtask could read when the clock was last looked at.
    could_read: bool,
    /// Splits beyond this are not read: see [`pause_above`](Self::pause_above).
    limit: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct SplitProgress {
    watermark: Timestamp,
    /// For how long it has had nothing, in milliseconds: only time in which it could have been read.
    quiet: i64,
    /// Whether it had nothing when it was last looked at: only then does its idle clock run.
    waiting: bool,
    idle: bool,
    finished: bool,
}

impl SplitWatermarks {
    /// No splits yet. A subtask of an unbounded source without a split that is still read is idle: others may come.
    #[must_use]
    pub fn new(strategy: Strategy) -> Self {
        let (emitted, limit) = (Timestamp::MIN, Timestamp::MAX);
        Self { strategy, splits: Vec::new(), emitted, idle: false, clock: None, could_read: false, limit }
    }

    /// Adds a split; it holds the watermark back until its first record. Returns its index.
    pub fn add(&mut self, finished: bool) -> usize {
        self.splits.push(SplitProgress { watermark: Timestamp::MIN, quiet: 0, waiting: false, idle: false, finished });
        self.splits.len() - 1
    }

    /// Takes in that a split has records: it counts in the minimum again at once, which may hold progress back, but never takes it back.
    pub fn resume(&mut self, split: usize) {
        if let Some(split) = self.splits.get_mut(split) {
            split.quiet = 0;
            split.waiting = false;
            split.idle = false;
        }
    }

    /// Takes in the newest time of a split's new records.
    pub fn record(&mut self, split: usize, newest: Timestamp) {
        self.advance(split, newest.minus(self.strategy.bound).minus(1));
    }

    /// Takes in a watermark that the source itself tells.
    pub fn advance(&mut self, split: usize, watermark: Timestamp) {
        self.resume(split);
        if let Some(split) = self.splits.get_mut(split) {
            split.watermark = split.watermark.max(watermark);
        }
    }

    /// Takes in that a split was looked at and had nothing. It is idle if that has been so for longer than the timeout; a split that was
    /// not looked at never becomes idle, however late it is, since it may have records.
    pub fn wait(&mut self, split: usize) {
        if let Some(split) = self.splits.get_mut(split) {
            split.waiting = true;
            split.idle |= self.strategy.idle_timeout.is_some_and(|timeout| split.quiet > timeout);
        }
    }

    /// Lets time pass. Time in which a split could not be read does not count as quiet: the subtask's output was blocked at the beginning or
    /// the end of it (`could_read`), or the split was paused (FLINK-35886).
    pub fn pass_time(&mut self, now: Timestamp, could_read: bool) {
        let elapsed = now.0.saturating_sub(self.clock.map_or(now.0, |clock| clock.0)).max(0);
        self.clock = Some(now);
        let could_before = std::mem::replace(&mut self.could_read, could_read);
        let counts = could_before && could_read;
        let limit = self.limit;
        for split in self.splits.iter_mut().filter(|split| counts && split.waiting && split.watermark <= limit) {
            split.quiet = split.quiet.saturating_add(elapsed);
        }
    }

    /// Pauses the splits whose watermark is beyond the limit, so that none runs too far ahead of other sources.
    pub fn pause_above(&mut self, limit: Timestamp) {
        self.limit = limit;
    }

    /// Whether a split is paused.
    #[must_use]
    pub fn is_paused(&self, split: usize) -> bool {
        self.of(split) > self.limit
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

    /// Forgets a split that has ended. Those after it move up by one index.
    pub fn remove(&mut self, split: usize) {
        if split < self.splits.len() {
            self.splits.remove(split);
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

    /// How far the splits that are neither idle nor finished have come, or what was told already if one of them is behind that; `None` if there
    /// are none, or nothing was told and one has had no record yet.
    #[must_use]
    pub fn reached(&self) -> Option<Timestamp> {
        let active = self.splits.iter().filter(|split| !split.finished && !split.idle);
        active.map(|split| split.watermark).min().map(|least| least.max(self.emitted)).filter(|watermark| *watermark > Timestamp::MIN)
    }

    /// What is new since the last call. Never regresses. When all splits are idle, the newest watermark of any comes first, whichever
    /// became idle last (FLINK-38454), then `Idle`. A subtask without a split, or whose splits have all finished, is idle too: it must not
    /// hold the others back.
    pub fn poll(&mut self) -> Option<Progress> {
        let open = || self.splits.iter().filter(|split| !split.finished);
        let all_idle = open().all(|split| split.idle);
        if self.idle && !all_idle {
            self.idle = false;
            return Some(Progress::Active);
        }
        let combined = if all_idle {
            open().map(|split| split.watermark).max()
        } else {
            open().filter(|split| !split.idle).map(|split| split.watermark).min()
        };
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
mod tests;
