//! What earlier attempts of this process have counted, so that its numbers go on over a rescale or a restart.

use std::collections::BTreeMap;

use tidemill_core::worker::WorkerStatistics;

/// The sums of all workers of the attempts that have ended. The graph is the same in all of them.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    sources: Vec<SourceCounts>,
    operators: Vec<OperatorCounts>,
    sinks: Vec<u64>,
}

/// The counts of a source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SourceCounts {
    pub(super) records: u64,
    pub(super) invalid: u64,
}

/// The counts of an operator.
#[derive(Clone, Debug, Default)]
pub(super) struct OperatorCounts {
    pub(super) records_in: u64,
    pub(super) late: u64,
    pub(super) dead_letters: u64,
    lanes: Vec<u64>,
    /// Those of the component, by name.
    counters: BTreeMap<String, u64>,
}

impl OperatorCounts {
    /// The records of all lanes.
    pub(super) fn records_out(&self) -> u64 {
        self.lanes.iter().sum()
    }

    /// The counters, with those of the current attempt.
    pub(super) fn counters(mut self, now: Vec<(String, u64)>) -> Vec<(String, u64)> {
        for (name, count) in now {
            let sum = self.counters.entry(name).or_default();
            *sum = sum.saturating_add(count);
        }
        self.counters.into_iter().collect()
    }
}

impl Earlier {
    /// Adds a worker whose attempt has ended.
    pub(super) fn add(&mut self, worker: &WorkerStatistics) {
        self.sources.resize(self.sources.len().max(worker.sources.len()), SourceCounts::default());
        for (counts, source) in self.sources.iter_mut().zip(&worker.sources) {
            counts.records += source.records;
            counts.invalid += source.invalid;
        }
        self.operators.resize(self.operators.len().max(worker.operators.len()), OperatorCounts::default());
        for (counts, operator) in self.operators.iter_mut().zip(&worker.operators) {
            counts.records_in += operator.metrics.records_in;
            counts.late += operator.metrics.late_records;
            counts.dead_letters += operator.metrics.dead_letters;
            for (name, count) in &operator.counters {
                let sum = counts.counters.entry(name.to_string()).or_default();
                *sum = sum.saturating_add(*count);
            }
            add_up(&mut counts.lanes, &operator.lanes);
        }
        add_up(&mut self.sinks, &worker.sinks);
    }

    /// The counts of a source.
    pub(super) fn source(&self, index: usize) -> SourceCounts {
        self.sources.get(index).copied().unwrap_or_default()
    }

    /// The counts of an operator.
    pub(super) fn operator(&self, index: usize) -> OperatorCounts {
        self.operators.get(index).cloned().unwrap_or_default()
    }

    /// The records that an operator has sent to a lane.
    pub(super) fn lane(&self, operator: usize, lane: usize) -> u64 {
        self.operators.get(operator).and_then(|counts| counts.lanes.get(lane)).copied().unwrap_or(0)
    }

    /// The records that a sink has written.
    pub(super) fn sink(&self, index: usize) -> u64 {
        self.sinks.get(index).copied().unwrap_or(0)
    }
}

fn add_up(sums: &mut Vec<u64>, counts: &[u64]) {
    sums.resize(sums.len().max(counts.len()), 0);
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

#[cfg(test)]
mod tests {
    use tidemill_core::Timestamp;
    use tidemill_core::operator::{Effort, Metrics};
    use tidemill_core::sample::Samples;
    use tidemill_core::worker::{OperatorStatistics, SourceStatistics, WorkerStatistics};

    use super::Earlier;

    #[test]
    fn what_several_attempts_have_counted_is_added_up() {
        let worker = |records| WorkerStatistics {
            sources: vec![SourceStatistics { records, invalid: 1, invalid_samples: Samples::default(), watermark: Timestamp::MIN }],
            operators: vec![OperatorStatistics {
                metrics: Metrics { records_in: records, late_records: 2, dead_letters: 3, ..Metrics::default() },
                lanes: vec![1, records],
                counters: vec![("c".into(), records)],
                dead_letter_samples: Samples::default(),
                watermark: Timestamp::MIN,
                effort: Effort::default(),
                queued: 0,
                pass: None,
            }],
            sinks: vec![records],
        };
        let mut earlier = Earlier::default();
        for records in [5, 70] {
            earlier.add(&worker(records));
        }
        let (source, operator) = (earlier.source(0), earlier.operator(0));
        assert_eq!((source.records, source.invalid, operator.records_in, operator.late), (75, 2, 75, 4));
        assert_eq!((earlier.lane(0, 0), earlier.lane(0, 1), earlier.sink(0)), (2, 75, 75));
        assert_eq!((operator.dead_letters, operator.records_out()), (6, 77));
        assert_eq!(operator.counters(vec![("b".to_owned(), 1), ("c".to_owned(), 4)]), [("b".to_owned(), 1), ("c".to_owned(), 79)]);
        assert_eq!((earlier.source(1).records, earlier.lane(3, 0), earlier.sink(9)), (0, 0, 0));
    }
}
