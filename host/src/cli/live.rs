//! What the user sees while a job runs: a live view on a terminal, else a log line a second.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tidemill_core::Timestamp;

use super::logging::Terminal;
use super::numbers::{bytes, count, length, rate, time};
use crate::runtime::Progress;
use crate::runtime::progress::{OperatorProgress, SourceProgress};

/// How often a line is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// How often there are also lines for each source and operator.
const PARTS_INTERVAL: Duration = Duration::from_secs(10);
/// So many counters of an operator are shown.
const MOST_COUNTERS: usize = 20;

/// The view of a running job.
pub(super) struct Live {
    bars: Option<MultiProgress>,
    lines: Vec<ProgressBar>,
    logged: Duration,
    parts_logged: Option<Duration>,
    stopping: bool,
}

impl Live {
    pub(super) fn new(terminal: &Terminal) -> Self {
        Self { bars: terminal.bars.clone(), lines: Vec::new(), logged: Duration::ZERO, parts_logged: None, stopping: false }
    }

    /// Shows where the job stands, and once that it is about to stop.
    pub(super) fn show(&mut self, progress: &Progress, stopping: bool) {
        if stopping && !self.stopping {
            self.stopping = true;
            tracing::info!("stopping at the next checkpoint; press Ctrl-C once more to stop at once");
        }
        match self.bars.clone() {
            Some(bars) => self.draw(&bars, &lines(progress)),
            // The first line comes with the first records.
            None if (self.logged.is_zero() && progress.records_in_now > 0) || progress.elapsed >= self.logged + LOG_INTERVAL => {
                self.log_whole(progress);
                if self.parts_logged.is_none_or(|logged| progress.elapsed >= logged + PARTS_INTERVAL) {
                    self.log_parts(progress);
                }
            }
            None => {}
        }
    }

    /// Logs where the job stands at its end; on a terminal that would only repeat the live view.
    pub(super) fn log(&mut self, progress: &Progress) {
        if self.bars.is_none() {
            self.log_whole(progress);
            self.log_parts(progress);
        }
    }

    fn log_whole(&mut self, progress: &Progress) {
        // The last line may have been the same moment's.
        if self.logged == progress.elapsed && !self.logged.is_zero() {
            return;
        }
        self.logged = progress.elapsed;
        let records_per_s = whole(progress.sources.iter().map(|source| source.records_per_second).sum());
        let timers: u64 = progress.operators.iter().map(|operator| operator.event_timers + operator.processing_timers).sum();
        tracing::info!(
            records_in = progress.records_in,
            records_per_s,
            invalid = progress.sources.iter().map(|source| source.invalid).sum::<u64>(),
            dead_letters = progress.operators.iter().map(|operator| operator.dead_letters).sum::<u64>(),
            checkpoint = progress.checkpoint.map_or(0, |checkpoint| checkpoint.id),
            watermark = shown(progress.sources.iter().filter_map(|source| source.watermark).min()),
            keys = progress.operators.iter().map(|operator| operator.keys).sum::<u64>(),
            timers,
            "progress"
        );
    }

    fn log_parts(&mut self, progress: &Progress) {
        if self.parts_logged.replace(progress.elapsed) == Some(progress.elapsed) {
            return;
        }
        for SourceProgress { uid, records_in, records_per_second, invalid, watermark, .. } in &progress.sources {
            let (records_per_s, watermark) = (whole(*records_per_second), shown(*watermark));
            tracing::info!(source = uid, records_in, records_per_s, invalid, watermark, "progress of source {uid}");
        }
        for operator in &progress.operators {
            let OperatorProgress { uid, keys, records_in, records_out, late, dead_letters, watermark, .. } = operator;
            let (timers, watermark) = (operator.event_timers + operator.processing_timers, shown(*watermark));
            let counters = (!operator.counters.is_empty()).then(|| counters(operator));
            tracing::info!(
                operator = uid,
                records_in,
                records_out,
                keys,
                timers,
                late,
                dead_letters,
                watermark,
                counters,
                "progress of operator {uid}"
            );
        }
    }

    /// Takes the live view away.
    pub(super) fn end(&mut self) {
        self.lines.drain(..).for_each(|line| line.finish_and_clear());
    }

    fn draw(&mut self, bars: &MultiProgress, lines: &[String]) {
        while self.lines.len() < lines.len() {
            let style = ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
            self.lines.push(bars.add(ProgressBar::no_length().with_style(style)));
        }
        for (line, text) in self.lines.iter().zip(lines) {
            line.set_message(text.clone());
            line.tick();
        }
    }
}

/// The lines of the live view.
fn lines(progress: &Progress) -> Vec<String> {
    let mut lines = Vec::new();
    for source in &progress.sources {
        let watermark = shown(source.watermark);
        lines.push(format!(
            "source      {:<18} {:>12} records {:>10}/s  watermark {watermark}{}",
            source.uid,
            count(source.records_in),
            count(whole(source.records_per_second)),
            if source.invalid > 0 { format!("  {} invalid", count(source.invalid)) } else { String::new() },
        ));
    }
    for operator in &progress.operators {
        lines.push(format!(
            "operator    {:<18} {:>12} records {:>10} keys  {} timers{}",
            operator.uid,
            count(operator.records_in),
            count(operator.keys),
            count(operator.event_timers + operator.processing_timers),
            if operator.late > 0 { format!("  {} late", count(operator.late)) } else { String::new() }
                + &if operator.dead_letters > 0 { format!("  {} dead letters", count(operator.dead_letters)) } else { String::new() },
        ));
        if !operator.counters.is_empty() {
            lines.push(format!("counters    {:<18} {}", operator.uid, counters(operator)));
        }
    }
    for lane in &progress.lanes {
        lines.push(format!("lane        {:<18} {:>12} records", lane.name, count(lane.records)));
    }
    for sink in &progress.sinks {
        lines.push(format!("sink        {:<18} {:>12} records", sink.name, count(sink.records)));
    }
    let checkpoint = progress.checkpoint.map_or_else(
        || "none yet".to_owned(),
        |checkpoint| format!("{}  in {}  {}", checkpoint.id, length(checkpoint.duration), bytes(checkpoint.bytes)),
    );
    let restarts = if progress.restarts > 0 { format!("  {} restart(s)", progress.restarts) } else { String::new() };
    lines.push(format!("checkpoint  {checkpoint}{restarts}"));
    let before = match progress.resumed_from {
        Some(checkpoint) => format!("  {} since the job began, resumed from checkpoint {checkpoint}", count(progress.records_in)),
        None => String::new(),
    };
    lines.push(format!(
        "elapsed     {}  {} records  {}/s on average{before}",
        length(progress.elapsed),
        count(progress.records_in_now),
        count(rate(progress.records_in_now, progress.elapsed))
    ));
    lines
}

/// A watermark as a time.
fn shown(watermark: Option<Timestamp>) -> String {
    watermark.map_or_else(|| "none yet".to_owned(), |watermark| time(watermark.0))
}

/// The counters of an operator in one line.
fn counters(operator: &OperatorProgress) -> String {
    let shown = operator.counters.iter().take(MOST_COUNTERS).map(|(name, n)| format!("{name} {}", count(*n)));
    let more = operator.counters.len().checked_sub(MOST_COUNTERS).filter(|more| *more > 0).map(|more| format!("and {more} more"));
    shown.chain(more).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate, which a cast holds within the range of u64")]
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

#[cfg(test)]
mod tests {
    use super::lines;
    use crate::cli::summary::sample;
    use crate::runtime::Progress;

    #[test]
    fn the_view_has_a_line_for_everything() {
        let expected = "\
source      baskets                  50,000 records     12,346/s  watermark 2026-08-15T10:00:00.123Z  2 invalid
operator    stock-out                47,570 records     37,897 keys  3 timers  1,141 late
counters    stock-out          closed 12, returned 1,234
lane        stock-out                 9,833 records
sink        alerts                    9,833 records
checkpoint  12  in 45 ms  3.0 MiB  1 restart(s)
elapsed     4.2 s  50,000 records  11,905/s on average";
        assert_eq!(lines(&sample()).join("\n"), expected);
    }

    #[test]
    fn the_view_of_a_job_that_was_resumed_tells_its_records_from_those_of_the_process() {
        let resumed = lines(&Progress { resumed_from: Some(7), ..sample() });
        let expected = "elapsed     4.2 s  50,000 records  11,905/s on average  60,000 since the job began, resumed from checkpoint 7";
        assert_eq!(resumed.last().map(String::as_str), Some(expected));
    }

    #[test]
    fn a_job_that_has_just_begun_has_little_to_show() {
        assert_eq!(lines(&Progress::default()), ["checkpoint  none yet", "elapsed     0 ms  0 records  0/s on average"]);
    }
}
