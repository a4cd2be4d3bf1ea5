//! The table at the end of a run.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentLineStyle, LineStyle, Table, TableStyle};

use super::numbers::{bytes, count, length, rate};
use crate::runtime::Progress;

/// So many counters of an operator are shown.
const MOST_COUNTERS: usize = 50;

/// What a run has done, as a table and totals.
pub(super) fn render(progress: &Progress) -> String {
    let mut table = Table::new();
    table.load_style(style()).set_header(["part", "name", "records", "of note"]);
    for source in &progress.sources {
        table.add_row(["source".to_owned(), source.uid.clone(), count(source.records_in), format!("{} invalid", count(source.invalid))]);
    }
    for operator in &progress.operators {
        let mut note = format!("{} keys, {} timers, {} late", count(operator.keys), count(operator.event_timers), count(operator.late));
        if operator.dead_letters > 0 {
            let _ = write!(note, ", {} dead letters", count(operator.dead_letters));
        }
        if operator.processing_timers > 0 {
            let _ = write!(note, ", {} processing-time timers not fired", count(operator.processing_timers));
        }
        table.add_row(["operator".to_owned(), operator.uid.clone(), count(operator.records_in), note]);
    }
    for operator in &progress.operators {
        for (name, n) in operator.counters.iter().take(MOST_COUNTERS) {
            table.add_row(["counter".to_owned(), format!("{}: {name}", operator.uid), count(*n), String::new()]);
        }
        if let Some(more) = operator.counters.len().checked_sub(MOST_COUNTERS).filter(|more| *more > 0) {
            table.add_row(["counter".to_owned(), format!("{}: and {more} more", operator.uid), String::new(), String::new()]);
        }
    }
    for (kind, lanes) in [("lane", &progress.lanes), ("sink", &progress.sinks)] {
        for lane in lanes {
            table.add_row([kind.to_owned(), lane.name.clone(), count(lane.records), String::new()]);
        }
    }
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{}\n\n{}{}\n", table.trim_fmt(), lost(progress), totals(progress))
}

/// A line for each lane by which records were lost.
fn lost(progress: &Progress) -> String {
    let mut text = String::new();
    for source in progress.sources.iter().filter(|source| source.invalid > 0 && !source.invalid_is_read) {
        let _ =
            writeln!(text, "{} invalid records of source {} were dropped: nothing reads {1}.invalid", count(source.invalid), source.uid);
    }
    for operator in progress.operators.iter().filter(|operator| operator.dead_letters > 0 && !operator.dead_letters_are_read) {
        let dropped = count(operator.dead_letters);
        let _ = writeln!(text, "{dropped} dead letters of operator {} were dropped: nothing reads {0}.dead-letter", operator.uid);
    }
    text
}

/// Columns of text with a line below the header.
pub(super) fn style() -> TableStyle {
    TableStyle::new()
        .header_lines(ContentLineStyle::none())
        .header_separator(LineStyle::none().fill('-'))
        .content_lines(ContentLineStyle::none())
}

fn totals(progress: &Progress) -> String {
    let (completed, failed) = progress.checkpoints;
    let resumed = progress.resumed_from.map_or_else(String::new, |checkpoint| {
        let all = count(progress.records_in);
        format!(" since this process resumed the job from checkpoint {checkpoint}, as in the table; {all} records since the job began")
    });
    let mut totals = format!(
        "{} records in {}: {} records/s{resumed}\ncheckpoints: {} completed, {} failed",
        count(progress.records_in_now),
        length(progress.elapsed),
        count(rate(progress.records_in_now, progress.elapsed)),
        count(completed),
        count(failed)
    );
    if let Some(last) = progress.checkpoint {
        let _ = write!(totals, ", the last is {} ({})", last.id, bytes(last.bytes));
    }
    if let Some(slowest) = progress.slowest_checkpoint {
        let (took, aligned) = (length(slowest.duration), length(slowest.aligned));
        let _ = write!(totals, ", the slowest was {} ({took}, its barriers {aligned})", slowest.id);
    }
    let _ = write!(totals, "; restarts: {}", progress.restarts);
    if progress.restarts > 0 {
        totals.push_str(" (what was read again after one is counted again)");
    }
    if let Some(peak) = peak_memory() {
        let _ = write!(totals, "; peak memory: {}", bytes(peak));
    }
    totals
}

/// The most memory that the process has held, in bytes; `None` where the system does not tell.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1_024)
}

/// The progress of a job, for tests.
#[cfg(test)]
pub(super) fn sample() -> Progress {
    use std::time::Duration;

    use tidemill_core::Timestamp;

    use crate::runtime::progress::{CheckpointProgress, LaneProgress, OperatorProgress, SourceProgress};

    let lane = |name: &str| LaneProgress { name: name.to_owned(), records: 9_833 };
    Progress {
        sources: vec![SourceProgress {
            uid: "baskets".to_owned(),
            records_in: 50_000,
            records_per_second: 12_345.6,
            invalid: 2,
            invalid_is_read: true,
            watermark: Some(Timestamp(1_786_788_000_123)),
        }],
        operators: vec![OperatorProgress {
            uid: "stock-out".to_owned(),
            keys: 37_897,
            event_timers: 1,
            processing_timers: 2,
            records_in: 47_570,
            late: 1_141,
            dead_letters: 0,
            dead_letters_are_read: true,
            records_out: 9_833,
            watermark: Some(Timestamp(1_786_788_000_000)),
            counters: vec![("closed".to_owned(), 12), ("returned".to_owned(), 1_234)],
        }],
        lanes: vec![lane("stock-out")],
        sinks: vec![lane("alerts")],
        checkpoint: Some(CheckpointProgress { id: 12, duration: Duration::from_millis(45), aligned: Duration::ZERO, bytes: 3_200_000 }),
        slowest_checkpoint: Some(CheckpointProgress {
            id: 7,
            duration: Duration::from_millis(89),
            aligned: Duration::from_millis(31),
            bytes: 9,
        }),
        checkpoints: (12, 0),
        restarts: 1,
        resumed_from: None,
        records_in: 60_000,
        records_in_now: 50_000,
        elapsed: Duration::from_millis(4_200),
    }
}

#[cfg(test)]
mod tests {
    use super::{peak_memory, render, sample};

    #[test]
    fn the_summary_has_a_row_for_everything() {
        let rendered = render(&sample());
        let (body, memory) = rendered.split_once("; peak memory: ").unwrap();
        let rule = "-".repeat(111);
        let expected = format!(
            " part      name                 records  of note
{rule}
 source    baskets               50,000  2 invalid
 operator  stock-out             47,570  37,897 keys, 1 timers, 1,141 late, 2 processing-time timers not fired
 counter   stock-out: closed         12
 counter   stock-out: returned    1,234
 lane      stock-out              9,833
 sink      alerts                 9,833

50,000 records in 4.2 s: 11,905 records/s
checkpoints: 12 completed, 0 failed, the last is 12 (3.0 MiB), the slowest was 7 (89 ms, its barriers 31 ms); restarts: 1 (what was read again after one is counted again)"
        );
        assert_eq!(body, expected);
        assert!(memory.ends_with("iB\n"), "{memory}");
    }

    #[test]
    fn a_resumed_run_says_what_its_counts_cover() {
        let rendered = render(&crate::runtime::Progress { resumed_from: Some(7), ..sample() });
        let expected =
            "11,905 records/s since this process resumed the job from checkpoint 7, as in the table; 60,000 records since the job began\n";
        assert!(rendered.contains(expected), "{rendered}");
    }

    #[test]
    fn the_system_tells_the_peak_memory() {
        assert!(peak_memory().unwrap() > 1 << 20);
    }
}
