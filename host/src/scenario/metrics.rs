//! The operator's metrics by name. `docs/metrics.md` says what each means.

use std::collections::BTreeSet;

use tidemill_core::worker::OperatorStatistics;

use crate::spec::nearest::nearest;

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

/// What a name in `expect_metric` stands for.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// The value over all subtasks; `None`: there is nothing of that name.
    pub value: Option<u64>,
    /// The same in words.
    pub shown: String,
}

/// A metric of an operator, or a counter of its component. A counter that nothing was added to yet is 0, but a name like that of a metric
/// is taken for a slip.
#[must_use]
pub fn find(name: &str, subtasks: &[&OperatorStatistics]) -> Found {
    let known = |value: u64| Found { value: Some(value), shown: format!("{name}: {value}") };
    if let Some((_, read)) = METRICS.iter().find(|(known, _)| *known == name) {
        return known(subtasks.iter().map(|operator| read(operator)).sum());
    }
    let counted: BTreeSet<&str> = subtasks.iter().flat_map(|operator| operator.counters.iter().map(|(name, _)| &**name)).collect();
    if counted.contains(name) {
        let counts = subtasks.iter().flat_map(|operator| &operator.counters).filter(|(counter, _)| **counter == *name);
        return known(counts.fold(0, |sum, (_, n)| sum.saturating_add(*n)));
    }
    if let Some(meant) = nearest(name, names()) {
        return Found { value: None, shown: format!("there is no metric `{name}`, did you mean `{meant}`?") };
    }
    let others = if counted.is_empty() { "nothing".to_owned() } else { counted.into_iter().collect::<Vec<_>>().join(", ") };
    Found { value: Some(0), shown: format!("{name}: 0 (the component has counted {others})") }
}

#[cfg(test)]
mod tests {
    use tidemill_core::worker::OperatorStatistics;

    use super::{find, names};

    fn subtask(counters: &[(&str, u64)]) -> OperatorStatistics {
        OperatorStatistics {
            metrics: tidemill_core::operator::Metrics { records_in: 2, ..Default::default() },
            lanes: vec![],
            counters: counters.iter().map(|(name, n)| ((*name).into(), *n)).collect(),
            dead_letter_samples: tidemill_core::sample::Samples::default(),
            watermark: tidemill_core::Timestamp(0),
            effort: tidemill_core::operator::Effort::default(),
            queued: 0,
            pass: None,
        }
    }

    #[test]
    fn counters_are_found_beside_metrics() {
        let subtasks = [subtask(&[("mapped", 3), ("records_in", 9)]), subtask(&[("mapped", 4)])];
        let subtasks: Vec<_> = subtasks.iter().collect();
        let found = |name| {
            let found = find(name, &subtasks);
            (found.value, found.shown)
        };
        assert_eq!(found("records_in"), (Some(4), "records_in: 4".to_owned()));
        assert_eq!(found("mapped"), (Some(7), "mapped: 7".to_owned()));
        assert_eq!(found("lost"), (Some(0), "lost: 0 (the component has counted mapped, records_in)".to_owned()));
        assert_eq!(found("recrods_in"), (None, "there is no metric `recrods_in`, did you mean `records_in`?".to_owned()));
    }

    #[test]
    fn the_documentation_lists_the_metrics_in_this_order() {
        let text = include_str!("../../../docs/metrics.md");
        let documented: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name).collect();
        assert_eq!(documented, names());
    }
}
