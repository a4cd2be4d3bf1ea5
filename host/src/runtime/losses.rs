//! Says of records that went wrong what they were: at once of the first, then at most once a minute.

use std::time::{Duration, Instant};

use tidemill_core::sample::Samples;
use tidemill_core::worker::{INVALID_LANE, Node, WorkerStatistics};
use tracing::warn;

use super::job::Job;
use crate::clock::monotonic;

/// How long nothing is said after a message about the same lane.
const PAUSE: Duration = Duration::from_secs(60);

/// What was said of each source's invalid records and of each operator's dead letters, by node of the graph.
#[derive(Debug, Default)]
pub(super) struct Losses {
    told: Vec<Told>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// When something was said last.
    at: Option<Instant>,
    /// How many records it covered, of the current attempt.
    count: u64,
}

impl Told {
    /// Whether to say something of so many records now, and how many of them are new.
    fn is_due(&mut self, count: u64, now: Instant) -> Option<(bool, u64)> {
        let new = count.saturating_sub(self.count);
        if new == 0 || self.at.is_some_and(|at| now.duration_since(at) < PAUSE) {
            return None;
        }
        let is_first = self.at.is_none();
        (self.at, self.count) = (Some(now), count);
        Some((is_first, new))
    }
}

impl Losses {
    /// Another attempt begins to count from 0.
    pub(super) fn attempt(&mut self) {
        self.told.iter_mut().for_each(|told| told.count = 0);
    }

    /// Looks at what the workers have counted.
    pub(super) fn check<'a>(&mut self, job: &Job, workers: &(impl Iterator<Item = &'a WorkerStatistics> + Clone)) {
        self.told.resize(job.graph.nodes.len(), Told::default());
        let (now, mut source, mut operator) = (monotonic(), 0, 0);
        for (node, told) in self.told.iter_mut().enumerate() {
            match job.graph.nodes.get(node) {
                Some(Node::Source(settings)) => {
                    let of = || workers.clone().filter_map(|worker| worker.sources.get(source));
                    if !job.is_read(node, INVALID_LANE)
                        && let Some((is_first, new)) = told.is_due(of().map(|source| source.invalid).sum(), now)
                    {
                        say_invalid(&settings.uid, is_first, new, of().map(|source| &source.invalid_samples));
                    }
                    source += 1;
                }
                Some(Node::Operator(settings)) => {
                    let of = || workers.clone().filter_map(|worker| worker.operators.get(operator));
                    if let Some((is_first, new)) = told.is_due(of().map(|operator| operator.metrics.dead_letters).sum(), now) {
                        let is_read = job.is_read(node, settings.dead_letter_lane());
                        say_dead_letters(&settings.uid, is_read, is_first, new, of().map(|operator| &operator.dead_letter_samples));
                    }
                    operator += 1;
                }
                Some(Node::Sink(..)) | None => {}
            }
        }
    }
}

fn say_invalid<'a>(uid: &str, is_first: bool, count: u64, samples: impl Iterator<Item = &'a Samples>) {
    let Some((place, reason)) = sample(is_first, samples) else { return };
    if is_first {
        warn!(
            source = uid,
            count,
            "the record at {place} of source {uid} is invalid and dropped, since nothing reads {uid}.invalid: {reason}; later ones are counted, and \
             told at most once a minute"
        );
    } else {
        warn!(
            source = uid,
            count,
            "{count} more invalid records of source {uid} were dropped, since nothing reads {uid}.invalid; the newest at {place}: {reason}"
        );
    }
}

fn say_dead_letters<'a>(uid: &str, is_read: bool, is_first: bool, count: u64, samples: impl Iterator<Item = &'a Samples>) {
    let Some((place, reason)) = sample(is_first, samples) else { return };
    let fate = if is_read { format!("sent to {uid}.dead-letter") } else { format!("dropped, since nothing reads {uid}.dead-letter") };
    if is_first {
        warn!(
            operator = uid,
            count, "operator {uid}: {place} was {fate}: {reason}; later ones are counted, and told at most once a minute"
        );
    } else {
        warn!(operator = uid, count, "operator {uid}: {count} more records or timers were {fate}; the newest: {place}: {reason}");
    }
}

/// Place and reason of the first record or of the newest, of whichever subtask has one.
fn sample<'a>(is_first: bool, mut samples: impl Iterator<Item = &'a Samples>) -> Option<(&'a str, &'a str)> {
    let sample = samples.find_map(|samples| if is_first { samples.first.as_ref() } else { samples.newest.as_ref() })?;
    Some((&sample.place, &sample.reason))
}

#[cfg(test)]
mod tests {
    use super::{PAUSE, Told};
    use crate::clock::monotonic;

    #[test]
    fn the_first_is_told_at_once_and_more_after_a_minute() {
        let (mut told, now) = (Told::default(), monotonic());
        assert_eq!(told.is_due(0, now), None);
        assert_eq!(told.is_due(2, now), Some((true, 2)));
        assert_eq!(told.is_due(5, now), None);
        assert_eq!(told.is_due(2, now + PAUSE), None, "nothing is new");
        assert_eq!(told.is_due(6, now + PAUSE), Some((false, 4)));
        told.count = 0;
        assert_eq!(told.is_due(3, now + PAUSE), None, "an attempt that begins anew does not speak sooner");
        assert_eq!(told.is_due(3, now + PAUSE * 2), Some((false, 3)));
    }
}
