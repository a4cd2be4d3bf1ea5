//! The operator's metrics by name. `docs/metrics.md` says what each means.

use tidemill_core::worker::OperatorStatistics;

/// How a metric is taken from what an operator's subtask has counted.
type Read = fn(&OperatorStatistics) -> u64;

const METRICS: &[(&str, Read)] = &[
    ("records_in", |operator| operator.metrics.records_in),
    ("records_out", |operator| operator.lanes.iter().sum()),
    ("late_records", |operator| operator.metrics.late_records),
    ("timers_fired", |operator| operator.metrics.timers_fired),
    ("dead_letters", |operator| operator.metrics.dead_letters),
    ("keys", |operator| operator.metrics.keys),
    ("event_timers_pending", |operator| operator.metrics.event_timers_pending),
    ("processing_timers_pending", |operator| operator.metrics.processing_timers_pending),
];

/// The names of all metrics.
#[must_use]
pub fn names() -> Vec<&'static str> {
    METRICS.iter().map(|(name, _)| *name).collect()
}

/// The value of a metric over all subtasks of an operator; `None` if there is no such metric.
#[must_use]
pub fn value<'a>(name: &str, subtasks: impl Iterator<Item = &'a OperatorStatistics>) -> Option<u64> {
    let (_, read) = METRICS.iter().find(|(known, _)| *known == name)?;
    Some(subtasks.map(read).sum())
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn the_documentation_lists_the_metrics_in_this_order() {
        let text = include_str!("../../../docs/metrics.md");
        let documented: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name).collect();
        assert_eq!(documented, names());
    }
}
