//! Combines the channels of one subtask's input: barriers are aligned, the watermark is the minimum over the active channels
//! (Flink's `StatusWatermarkValve` and `SingleCheckpointBarrierHandler`).

use crate::Timestamp;
use crate::exchange::Barrier;

/// The state of all channels of an input.
#[derive(Clone, Debug)]
pub struct Aligner {
    channels: Vec<Channel>,
    output: Timestamp,
    idle: bool,
    barrier: Option<Barrier>,
}

#[derive(Clone, Copy, Debug)]
struct Channel {
    watermark: Timestamp,
    idle: bool,
    /// Whether the channel counts in the minimum: one that returns from idle behind the output does not until it has caught up.
    counts: bool,
    /// Whether its barrier has arrived: nothing more is read from it until all have.
    held: bool,
    ended: bool,
}

/// What follows from a watermark or a change of status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The new watermark.
    pub watermark: Option<Timestamp>,
    /// The input became idle (`true`) or active (`false`).
    pub idle: Option<bool>,
}

impl Aligner {
    /// For this many channels.
    #[must_use]
    pub fn new(channels: usize) -> Self {
        let channel = Channel { watermark: Timestamp::MIN, idle: false, counts: true, held: false, ended: false };
        Self { channels: vec![channel; channels], output: Timestamp::MIN, idle: false, barrier: None }
    }

    /// Whether records may be read from a channel: its barrier has not arrived yet.
    #[must_use]
    pub fn readable(&self, channel: usize) -> bool {
        self.channels.get(channel).is_some_and(|channel| !channel.held)
    }

    /// Whether some channels wait for the barrier of others.
    #[must_use]
    pub fn is_aligning(&self) -> bool {
        self.barrier.is_some()
    }

    /// The watermark of a channel; the one furthest behind is read first.
    #[must_use]
    pub fn watermark_of(&self, channel: usize) -> Timestamp {
        self.channels.get(channel).map_or(Timestamp::MIN, |channel| channel.watermark)
    }

    /// Takes in a channel's watermark. Ignored while the channel is idle.
    pub fn watermark(&mut self, channel: usize, watermark: Timestamp) -> Outcome {
        let output = self.output;
        if let Some(channel) = self.channels.get_mut(channel).filter(|channel| !channel.idle && watermark > channel.watermark) {
            channel.watermark = watermark;
            channel.counts |= watermark >= output;
        }
        self.combine()
    }

    /// Takes in a channel's status.
    pub fn status(&mut self, channel: usize, idle: bool) -> Outcome {
        let output = self.output;
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.idle = idle;
            channel.counts = !idle && channel.watermark >= output;
        }
        self.combine()
    }

    /// Takes in the end of a channel's data. Returns whether all have ended.
    pub fn end(&mut self, channel: usize) -> bool {
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.ended = true;
        }
        self.channels.iter().all(|channel| channel.ended)
    }

    /// Takes in a channel's barrier and holds the channel. Once all have arrived, returns the barrier and releases all.
    pub fn barrier(&mut self, channel: usize, barrier: Barrier) -> Option<Barrier> {
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.held = true;
        }
        self.barrier = Some(barrier);
        if !self.channels.iter().all(|channel| channel.held) {
            return None;
        }
        self.channels.iter_mut().for_each(|channel| channel.held = false);
        self.barrier.take()
    }

    fn combine(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        // A channel that has reached the end of time has ended: it holds nobody back, and while others are only idle it must not take them to
        // the end of time either.
        let open = || self.channels.iter().filter(|channel| channel.watermark < Timestamp::MAX);
        let all_idle = open().all(|channel| channel.idle) && open().next().is_some();
        if self.idle && !all_idle {
            self.idle = false;
            outcome.idle = Some(false);
        }
        let combined = if all_idle {
            open().map(|channel| channel.watermark).max()
        } else if open().next().is_some() {
            open().filter(|channel| channel.counts).map(|channel| channel.watermark).min()
        } else {
            Some(Timestamp::MAX)
        };
        if let Some(watermark) = combined.filter(|watermark| *watermark > self.output) {
            self.output = watermark;
            outcome.watermark = Some(watermark);
        }
        if all_idle && !self.idle {
            self.idle = true;
            outcome.idle = Some(true);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::{Aligner, Outcome};
    use crate::Timestamp;
    use crate::exchange::Barrier;

    fn advance(to: i64) -> Outcome {
        Outcome { watermark: Some(Timestamp(to)), idle: None }
    }

    #[test]
    fn minimum_over_channels() {
        let mut a = Aligner::new(2);
        assert_eq!(a.watermark(0, Timestamp(10)), Outcome::default());
        assert_eq!(a.watermark(1, Timestamp(7)), advance(7));
        assert_eq!(a.watermark(1, Timestamp(5)), Outcome::default());
        assert_eq!((a.watermark_of(0), a.watermark_of(1)), (Timestamp(10), Timestamp(7)));
        assert_eq!(a.watermark(1, Timestamp(30)), advance(10));
    }

    #[test]
    fn idle_channels_do_not_count_and_come_back_unaligned() {
        let mut a = Aligner::new(2);
        a.watermark(0, Timestamp(10));
        a.watermark(1, Timestamp(3));
        assert_eq!(a.status(1, true), advance(10));
        assert_eq!(a.watermark(1, Timestamp(99)), Outcome::default());
        assert_eq!(a.watermark_of(1), Timestamp(3));
        assert_eq!(a.status(1, false), Outcome::default());
        // Channel 1 is behind the output: ignored until it has caught up.
        assert_eq!(a.watermark(0, Timestamp(20)), advance(20));
        assert_eq!(a.watermark(1, Timestamp(20)), Outcome::default());
        assert_eq!(a.watermark(0, Timestamp(40)), Outcome::default());
        assert_eq!(a.watermark(1, Timestamp(30)), advance(30));
    }

    #[test]
    fn all_idle_flushes_the_maximum() {
        let mut a = Aligner::new(2);
        a.watermark(0, Timestamp(5));
        a.watermark(1, Timestamp(4));
        a.status(0, true);
        assert_eq!(a.status(1, true), Outcome { watermark: Some(Timestamp(5)), idle: Some(true) });
        assert_eq!(a.status(0, false), Outcome { watermark: None, idle: Some(false) });
    }

    #[test]
    fn w4_all_idle_flushes_the_maximum_in_either_order() {
        for order in [[0, 1], [1, 0]] {
            let mut a = Aligner::new(2);
            a.watermark(0, Timestamp(5));
            a.watermark(1, Timestamp(4));
            let (first, last) = (a.status(order[0], true), a.status(order[1], true));
            assert_eq!(first.watermark.or(last.watermark), Some(Timestamp(5)), "{order:?}");
            assert_eq!((first.idle, last.idle), (None, Some(true)), "{order:?}");
        }
    }

    #[test]
    fn the_end_of_one_channel_is_not_the_end_of_time_for_idle_others() {
        let mut a = Aligner::new(2);
        a.watermark(0, Timestamp(10));
        assert_eq!(a.watermark(1, Timestamp(7)), advance(7));
        assert_eq!(a.watermark(1, Timestamp::MAX), advance(10));
        assert_eq!(a.status(0, true), Outcome { watermark: None, idle: Some(true) });
        assert_eq!(a.status(0, false), Outcome { watermark: None, idle: Some(false) });
        assert_eq!(a.watermark(0, Timestamp(20)), advance(20));
        assert_eq!(a.watermark(0, Timestamp::MAX), advance(i64::MAX));
        assert_eq!(a.watermark(0, Timestamp::MAX), Outcome::default());
    }

    #[test]
    fn barriers_hold_their_channels_until_all_have_arrived() {
        let mut a = Aligner::new(3);
        let barrier = Barrier { checkpoint: 7, ..Barrier::default() };
        assert_eq!(a.barrier(0, barrier), None);
        assert!(!a.readable(0) && a.readable(1));
        assert_eq!(a.barrier(2, barrier), None);
        assert_eq!(a.barrier(1, barrier), Some(barrier));
        assert!((0..3).all(|channel| a.readable(channel)));
    }

    #[test]
    fn the_end_is_the_end_of_all() {
        let mut a = Aligner::new(2);
        assert!(!a.end(1));
        assert!(a.end(0));
    }
}
