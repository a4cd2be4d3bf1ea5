//! What a checkpoint or a stop waits for, and what a timer pass does that does not end: said at a bounded rate, for people.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Timestamp;
use tidemill_core::checkpoint::{Phase, Waiting};
use tidemill_core::operator::Effort;
use tidemill_core::time::Domain;
use tidemill_core::worker::{Node, OperatorStatistics, PassProgress, Pulse, WorkerStatistics};

use super::job::Job;
use crate::cli::numbers::{fine, length, time};
use crate::clock::since_start;

/// After so many milliseconds it is said what a checkpoint waits for.
const PATIENCE: i64 = 1_000;
/// So many milliseconds lie between two lines about checkpoints.
const AGAIN: i64 = 10_000;
/// After so many milliseconds it is said that a timer pass goes on.
const LONG_PASS: i64 = 5_000;
/// A pass that needs more milliseconds than this, three days, is said not to come to an end.
const ENDLESS: i64 = 3 * 86_400_000;
/// So many milliseconds lie between two lines about timer passes.
const PASS_AGAIN: i64 = 30_000;
/// A call that has taken so long is what its worker waits for, whatever took long before.
const LONG_CALL: Duration = Duration::from_millis(200);

/// What is known of a delay when something is to be said of it.
pub(super) struct Look<'a> {
    /// By the steady clock.
    pub(super) now: Timestamp,
    /// The checkpoint under way.
    pub(super) waiting: Option<Waiting>,
    /// What the workers have counted.
    pub(super) workers: &'a BTreeMap<u32, WorkerStatistics>,
    /// What the checkpoint thread does.
    pub(super) doing: Option<String>,
    /// Since when the job is about to stop.
    pub(super) stopping: Option<Timestamp>,
}

/// Remembers what was said when.
pub(super) struct Delays {
    /// What each worker does at the moment.
    pulses: Vec<Arc<Pulse>>,
    /// The names of the operators, by their order, and their nodes in the graph.
    operators: Vec<(String, usize)>,
    /// What each worker's operators had done when the checkpoint under way began.
    before: BTreeMap<u32, Vec<Effort>>,
    /// Whether it was said what the stop waits for.
    said_stop: bool,
    say_at: Timestamp,
    say_pass_at: Timestamp,
    /// The pass that each operator of each worker is at.
    passes: BTreeMap<(u32, usize), Pass>,
}

/// A timer pass, as it was when it was first seen.
struct Pass {
    horizon: Timestamp,
    since: Timestamp,
    at: Option<Timestamp>,
}

impl Delays {
    pub(super) fn new(job: &Job, pulses: Vec<Arc<Pulse>>) -> Self {
        let operators = job.graph.nodes.iter().enumerate().filter_map(|(node, kind)| match kind {
            Node::Operator(settings) => Some((settings.uid.clone(), node)),
            _ => None,
        });
        Self::of(operators.collect(), pulses)
    }

    fn of(operators: Vec<(String, usize)>, pulses: Vec<Arc<Pulse>>) -> Self {
        let (before, passes) = Default::default();
        Self { pulses, operators, before, said_stop: false, say_at: Timestamp::MIN, say_pass_at: Timestamp::MIN, passes }
    }

    /// A checkpoint begins.
    pub(super) fn begin(&mut self, workers: &BTreeMap<u32, WorkerStatistics>) {
        let efforts = |worker: &WorkerStatistics| worker.operators.iter().map(|operator| operator.effort).collect();
        self.before = workers.iter().map(|(index, worker)| (*index, efforts(worker))).collect();
    }

    /// What is to be said now of the checkpoint under way, if it takes long.
    pub(super) fn of_checkpoint(&mut self, look: &Look<'_>) -> Option<String> {
        let waiting = look.waiting.as_ref()?;
        let since = |then: Timestamp| look.now.0.saturating_sub(then.0);
        let stop_is_late = !self.said_stop && look.stopping.is_some_and(|then| since(then) >= PATIENCE);
        if !stop_is_late && (since(waiting.since) < PATIENCE || look.now < self.say_at) {
            return None;
        }
        self.said_stop |= stop_is_late;
        self.say_at = look.now.plus(AGAIN);
        let (id, age) = (waiting.checkpoint, span(since(waiting.since)));
        let what = self.held_up_by(look);
        Some(match look.stopping {
            Some(then) => format!(
                "the job has been stopping for {}: checkpoint {id}, begun {age} ago, {what}. A second Ctrl-C or SIGTERM ends the job at once; \
                 it then goes on from its last checkpoint",
                span(since(then))
            ),
            None => format!("checkpoint {id}, begun {age} ago, {what}"),
        })
    }

    /// What the checkpoint under way waits for: the rest of a sentence about it.
    pub(super) fn held_up_by(&self, look: &Look<'_>) -> String {
        let Some(waiting) = &look.waiting else { return "is not under way".to_owned() };
        match (&look.doing, waiting.phase) {
            (Some(doing), _) if waiting.phase != Phase::Collecting || waiting.missing.is_empty() => format!("waits for a disk: {doing}"),
            (doing, Phase::Collecting) => match self.slowest(look, &waiting.missing) {
                Some(slowest) => format!("waits for its barrier to pass {slowest}"),
                None => match doing {
                    Some(doing) => format!("waits for a disk: {doing}"),
                    None => format!("waits for its barrier to pass worker{}", list(&waiting.missing)),
                },
            },
            (_, phase) => format!("is {phase}"),
        }
    }

    /// The operator that a barrier waits for: one that is in a long call, else the one that has worked longest since the barrier began.
    fn slowest(&self, look: &Look<'_>, missing: &[u32]) -> Option<String> {
        let in_call = missing.iter().filter_map(|&worker| {
            let (node, began) = self.pulses.get(worker as usize)?.look()?;
            let took = since_start().saturating_sub(began);
            (took >= LONG_CALL).then_some((took, worker, node))
        });
        let in_call = in_call.max().and_then(|(took, worker, node)| {
            let index = self.operators.iter().position(|(_, at)| *at == node)?;
            Some((worker, index, Some(took)))
        });
        let (worker, index, in_call) = in_call.or_else(|| {
            let all = missing.iter().flat_map(|&worker| {
                let operators = look.workers.get(&worker).map_or(&[][..], |worker| &worker.operators);
                operators
                    .iter()
                    .enumerate()
                    .map(move |(index, operator)| (self.effort_since(worker, index, operator).time(), worker, index))
            });
            let (time, worker, index) = all.max()?;
            (!time.is_zero()).then_some((worker, index, None))
        })?;
        let (uid, _) = self.operators.get(index)?;
        let mut text = format!("operator {uid} of worker {worker}");
        if let Some(operator) = look.workers.get(&worker).and_then(|worker| worker.operators.get(index)) {
            text += &pace(self.effort_since(worker, index, operator), operator);
        }
        if let Some(took) = in_call {
            text += &format!(", whose call has taken {} by now", length(took));
        }
        Some(text)
    }

    fn effort_since(&self, worker: u32, index: usize, operator: &OperatorStatistics) -> Effort {
        let before = self.before.get(&worker).and_then(|efforts| efforts.get(index)).copied().unwrap_or_default();
        operator.effort.since(before)
    }

    /// What is to be said now of a timer pass that takes long.
    pub(super) fn of_pass(&mut self, look: &Look<'_>) -> Option<String> {
        let mut longest: Option<(i64, usize, PassProgress, Option<i64>)> = None;
        for (&worker, statistics) in look.workers {
            for (index, operator) in statistics.operators.iter().enumerate() {
                let Some(pass) = operator.pass.filter(|pass| pass.domain == Domain::Event) else {
                    self.passes.remove(&(worker, index));
                    continue;
                };
                let new = || Pass { horizon: pass.horizon, since: look.now, at: pass.at };
                let known = self.passes.entry((worker, index)).or_insert_with(new);
                if known.horizon != pass.horizon {
                    *known = new();
                }
                let age = look.now.0.saturating_sub(known.since.0);
                if age >= LONG_PASS && longest.is_none_or(|(longest, ..)| longest < age) {
                    longest = Some((age, index, pass, known.left(age, pass)));
                }
            }
        }
        let (age, index, pass, left) = longest?;
        if look.now < self.say_pass_at {
            return None;
        }
        self.say_pass_at = look.now.plus(PASS_AGAIN);
        let (uid, _) = self.operators.get(index)?;
        Some(long_pass(uid, age, pass, left))
    }
}

impl Pass {
    /// Returns for how many more milliseconds it lasts at its pace, if it has one.
    fn left(&self, age: i64, now: PassProgress) -> Option<i64> {
        let (before, at) = (self.at?, now.at?);
        let come = i128::from(at.0) - i128::from(before.0);
        let left = (i128::from(now.horizon.0) - i128::from(at.0)) * i128::from(age);
        (come > 0).then(|| i64::try_from(left / come).unwrap_or(i64::MAX))
    }
}

fn long_pass(uid: &str, age: i64, PassProgress { horizon, at, .. }: PassProgress, left: Option<i64>) -> String {
    let come = at.map_or_else(String::new, |at| format!("; they have come to {}", time(at.0)));
    let age = span(age);
    if horizon < Timestamp::MAX {
        let ends = match left {
            Some(left) if left > ENDLESS => format!(
                ". At this pace that takes {} more days: if a timer registers another one each time, as from a time before the first watermark, \
                 mend the component; a second Ctrl-C or SIGTERM ends the job at once",
                left / 86_400_000
            ),
            _ => String::new(),
        };
        return format!(
            "operator {uid} has fired the event-time timers up to the watermark {} for {age}{come}. Records behind the \
             watermark wait for the end of that, and barriers behind records{ends}",
            time(horizon.0)
        );
    }
    format!(
        "operator {uid} has fired the event-time timers that were left at the end of its input for {age}{come}. A timer that registers another \
         one each time never ends: `end_of_input: {{ timers: none }}` of the operator lets them be"
    )
}

/// How fast an operator is, for the end of a sentence.
fn pace(effort: Effort, operator: &OperatorStatistics) -> String {
    let per = |time: Duration, count: u64| u64::try_from(time.as_micros() / u128::from(count.max(1))).unwrap_or(u64::MAX);
    let mut text = String::new();
    if effort.records > 0 && effort.record_time >= effort.timer_time {
        text += &format!(", where a record takes {}", fine(per(effort.record_time, effort.records)));
    } else if effort.timers > 0 {
        text += &format!(", where a timer takes {}", fine(per(effort.timer_time, effort.timers)));
    }
    match operator.queued {
        0 => {}
        1 => text += ", with 1 record in front of it",
        queued => text += &format!(", with {queued} records in front of it"),
    }
    text
}

fn span(millis: i64) -> String {
    length(Duration::from_millis(millis.max(0).unsigned_abs()))
}

fn list(workers: &[u32]) -> String {
    let names: Vec<_> = workers.iter().map(u32::to_string).collect();
    format!("{} {}", if workers.len() == 1 { "" } else { "s" }, names.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use tidemill_core::Timestamp;
    use tidemill_core::checkpoint::{Phase, Waiting};
    use tidemill_core::operator::{Effort, Metrics};
    use tidemill_core::sample::Samples;
    use tidemill_core::time::Domain;
    use tidemill_core::worker::{OperatorStatistics, PassProgress, WorkerStatistics};

    use super::{Delays, Look};

    fn operator(records: u64, queued: u64, pass: Option<PassProgress>) -> OperatorStatistics {
        let effort = Effort { records, record_time: Duration::from_millis(60) * u32::try_from(records).unwrap(), ..Effort::default() };
        OperatorStatistics {
            metrics: Metrics::default(),
            lanes: vec![],
            counters: vec![],
            dead_letter_samples: Samples::default(),
            watermark: Timestamp::MIN,
            effort,
            queued,
            pass,
        }
    }

    fn workers(operators: Vec<OperatorStatistics>) -> BTreeMap<u32, WorkerStatistics> {
        [(0, WorkerStatistics { operators, ..WorkerStatistics::default() })].into()
    }

    fn delays() -> Delays {
        Delays::of(vec![("fast".to_owned(), 1), ("slow".to_owned(), 2)], Vec::new())
    }

    #[test]
    fn the_slow_operator_is_named_after_a_second_and_then_now_and_then() {
        let mut delays = delays();
        delays.begin(&workers(vec![operator(500, 0, None), operator(3, 0, None)]));
        let workers = workers(vec![operator(510, 0, None), operator(23, 2, None)]);
        let mut said = |now: i64, stopping: Option<i64>| {
            let waiting = Waiting { checkpoint: 7, phase: Phase::Collecting, since: Timestamp(0), missing: vec![0] };
            let stopping = stopping.map(Timestamp);
            let look = Look { now: Timestamp(now), waiting: Some(waiting), workers: &workers, doing: None, stopping };
            delays.of_checkpoint(&look)
        };
        assert_eq!(said(999, None), None);
        let what = "waits for its barrier to pass operator slow of worker 0, where a record takes 60.0 ms, with 2 records in front of it";
        assert_eq!(said(1_200, None).unwrap(), format!("checkpoint 7, begun 1.2 s ago, {what}"));
        assert!(said(5_000, None).is_none() && said(11_199, None).is_none());
        assert!(said(11_200, None).is_some());
        // A stop is told of at once, whatever was said before.
        assert_eq!(said(12_999, Some(12_000)), None);
        let stop = said(13_000, Some(12_000)).unwrap();
        assert!(
            stop.starts_with(&format!("the job has been stopping for 1.0 s: checkpoint 7, begun 13.0 s ago, {what}. A second")),
            "{stop}"
        );
        assert!(said(13_100, Some(12_000)).is_none() && said(23_000, Some(12_000)).is_some());
    }

    #[test]
    fn a_disk_that_is_waited_for_is_named() {
        let (delays, none) = (delays(), BTreeMap::new());
        for (phase, missing) in [(Phase::Storing, vec![]), (Phase::Collecting, vec![0])] {
            let waiting = Some(Waiting { checkpoint: 7, phase, since: Timestamp(0), missing });
            let doing = Some("writing x".to_owned());
            let look = Look { now: Timestamp(5_000), waiting, workers: &none, doing, stopping: None };
            assert_eq!(delays.held_up_by(&look), "waits for a disk: writing x");
        }
    }

    #[test]
    fn a_pass_that_would_take_years_says_so() {
        let mut delays = delays();
        let mut said = |now: i64, at: i64| {
            let pass = PassProgress { domain: Domain::Event, horizon: Timestamp(0), at: Some(Timestamp(at)) };
            let workers = workers(vec![operator(0, 0, None), operator(0, 0, Some(pass))]);
            delays.of_pass(&Look { now: Timestamp(now), waiting: None, workers: &workers, doing: None, stopping: None })
        };
        assert!(said(0, i64::MIN + 60_000).is_none());
        let text = said(5_000, i64::MIN + 5_060_000).unwrap();
        assert!(text.contains("At this pace that takes 106751991 more days: if a timer registers another one each time"), "{text}");
        assert!(said(35_000, -1_000).is_some_and(|text| !text.contains("At this pace")));
    }

    #[test]
    fn a_pass_that_does_not_end_says_how_far_it_has_come_and_the_way_out() {
        let mut delays = delays();
        let mut said = |now: i64, horizon: Option<i64>| {
            let pass = horizon.map(|horizon| PassProgress { domain: Domain::Event, horizon: Timestamp(horizon), at: Some(Timestamp(0)) });
            let workers = workers(vec![operator(0, 0, None), operator(0, 0, pass)]);
            delays.of_pass(&Look { now: Timestamp(now), waiting: None, workers: &workers, doing: None, stopping: None })
        };
        assert!(said(0, Some(5)).is_none() && said(4_999, Some(5)).is_none());
        let text = said(5_000, Some(5)).unwrap();
        assert!(
            text.starts_with("operator slow has fired the event-time timers up to the watermark 1970-01-01T00:00:00.005Z for 5.0 s"),
            "{text}"
        );
        assert!(said(20_000, Some(5)).is_none(), "it was said");
        assert!(said(40_000, Some(i64::MAX)).is_none(), "another pass has begun");
        let last = said(45_000, Some(i64::MAX)).unwrap();
        assert!(last.contains("they have come to 1970-01-01T00:00:00.000Z") && last.contains("end_of_input: { timers: none }"), "{last}");
        assert!(said(46_000, None).is_none() && said(90_000, Some(i64::MAX)).is_none(), "it has ended meanwhile");
    }
}
