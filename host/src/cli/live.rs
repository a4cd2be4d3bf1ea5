//! What the user sees while a job runs: a live view on a terminal, else a log line a second.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::logging::Terminal;
use super::numbers::{bytes, count, length, rate, time};
use crate::runtime::Progress;

/// How often a line is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The view of a running job.
pub(super) struct Live {
    bars: Option<MultiProgress>,
    lines: Vec<ProgressBar>,
    logged: Duration,
    stopping: bool,
}

impl Live {
    pub(super) fn new(terminal: &Terminal) -> Self {
        Self { bars: terminal.bars.clone(), lines: Vec::new(), logged: Duration::ZERO, stopping: false }
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
            None if self.logged.is_zero() && progress.records_in_now > 0 => self.log(progress),
            None if progress.elapsed >= self.logged + LOG_INTERVAL => self.log(progress),
            None => {}
        }
    }

    /// Logs where the job stands; on a terminal that would only repeat the live view.
    pub(super) fn log(&mut self, progress: &Progress) {
        // The last line may have been the same moment's.
        if self.bars.is_some() || (self.logged == progress.elapsed && !self.logged.is_zero()) {
            return;
        }
        self.logged = progress.elapsed;
        let records_per_s = whole(progress.sources.iter().map(|source| source.records_per_second).sum());
        let timers: u64 = progress.operators.iter().map(|operator| operator.event_timers + operator.processing_timers).sum();
        tracing::info!(
            records_in = progress.records_in,
            records_per_s,
            checkpoint = progress.checkpoint.map_or(0, |checkpoint| checkpoint.id),
            watermark = progress.sources.iter().filter_map(|source| source.watermark).min().map(|watermark| watermark.0),
            keys = progress.operators.iter().map(|operator| operator.keys).sum::<u64>(),
            timers,
            "progress"
        );
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
        let watermark = source.watermark.map_or_else(|| "none yet".to_owned(), |watermark| time(watermark.0));
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
            if operator.late > 0 { format!("  {} late", count(operator.late)) } else { String::new() },
        ));
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
    lines.push(format!(
        "elapsed     {}  {} records  {}/s on average",
        length(progress.elapsed),
        count(progress.records_in),
        count(rate(progress.records_in_now, progress.elapsed))
    ));
    lines
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
source      baskets                  60,000 records     12,346/s  watermark 2026-08-15 10:00:00.123  2 invalid
operator    stock-out                57,570 records     37,897 keys  3 timers  1,141 late
lane        stock-out                 9,833 records
sink        alerts                    9,833 records
checkpoint  12  in 45 ms  3.0 MiB  1 restart(s)
elapsed     4.2 s  60,000 records  11,905/s on average";
        assert_eq!(lines(&sample()).join("\n"), expected);
    }

    #[test]
    fn a_job_that_has_just_begun_has_little_to_show() {
        assert_eq!(lines(&Progress::default()), ["checkpoint  none yet", "elapsed     0 ms  0 records  0/s on average"]);
    }
}
