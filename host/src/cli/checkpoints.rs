//! `tidemill checkpoints`.

use clap::Args;
use comfy_table::{CellAlignment, Table};
use tidemill_core::{Error, Result};

use super::numbers::{bytes, count, fine, time};
use super::print;
use super::savepoint::Format;
use super::stop::JobFolder;
use super::summary::style;
use crate::runtime::history::{self, Kind, Outcome, Record};

/// How much of a reason the table shows.
const MOST_CHARS: usize = 80;

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    job: JobFolder,
    /// How many to show, the newest
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: usize,
    /// Show what this checkpoint took of each subtask
    #[arg(long, value_name = "ID", conflicts_with = "last")]
    id: Option<u64>,
    /// How to show them; JSON: an object a line, with times in milliseconds and microseconds as their names say
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn checkpoints(options: &Options) -> Result<()> {
    let mut records = history::read(&options.job.dir()?)?;
    match options.id {
        // After a start from nothing the same numbers come again.
        Some(id) => records = records.into_iter().rfind(|record| record.id == id).into_iter().collect(),
        None => records = records.split_off(records.len().saturating_sub(options.last)),
    }
    if let (Some(id), []) = (options.id, &records[..]) {
        return Err(Error::config(format!(
            "there is no checkpoint {id} in the history, which goes back only so far: name one that is shown without --id"
        )));
    }
    print(&match options.format {
        Format::Json => records.iter().filter_map(|record| serde_json::to_string(record).ok()).map(|line| format!("{line}\n")).collect(),
        Format::Text => text(&records, options.id.is_some()),
    });
    Ok(())
}

fn text(records: &[Record], with_tasks: bool) -> String {
    let mut text = overview(records);
    for record in records.iter().filter(|_| with_tasks) {
        if let Some(reason) = &record.reason {
            text.push_str(&format!("\nfailed: {reason}\n"));
        }
        text.push('\n');
        text.push_str(&tasks(record));
    }
    text
}

/// A row a checkpoint.
fn overview(records: &[Record]) -> String {
    let mut table = Table::new();
    table
        .load_style(style())
        .set_header(["id", "kind", "began", "outcome", "duration", "aligned", "stopped", "size", "uploaded", "of note"]);
    for record in records {
        table.add_row([
            record.id.to_string(),
            match record.kind {
                Kind::Checkpoint => "checkpoint".to_owned(),
                Kind::Savepoint => "savepoint".to_owned(),
            },
            time(record.began),
            match record.outcome {
                Outcome::Completed => "completed".to_owned(),
                Outcome::Failed => "failed".to_owned(),
            },
            fine(record.duration_ms.saturating_mul(1_000)),
            fine(record.aligned_us()),
            fine(record.stopped_us()),
            bytes(record.bytes),
            bytes(record.uploaded_bytes),
            shortened(record.reason.as_deref().unwrap_or_default()),
        ]);
    }
    finish(table, &[0, 4, 5, 6, 7, 8])
}

/// The begin of a text, so that it does not make the table of all too wide.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}..", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A row a subtask.
fn tasks(record: &Record) -> String {
    let mut table = Table::new();
    table.load_style(style()).set_header(["name", "subtask", "aligned", "stopped", "size"]);
    for task in &record.tasks {
        let subtask = count(u64::from(task.subtask));
        table.add_row([task.uid.clone(), subtask, fine(task.aligned_us), fine(task.stopped_us), bytes(task.bytes)]);
    }
    finish(table, &[1, 2, 3, 4])
}

fn finish(mut table: Table, numbers: &[usize]) -> String {
    for &column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n", table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::runtime::history::{Kind, Outcome, Record, TaskRecord};

    #[test]
    fn everything_has_its_column() {
        let task = |uid: &str, subtask| TaskRecord { uid: uid.to_owned(), subtask, aligned_us: 1_234, stopped_us: 40, bytes: 2_048 };
        let good = Record {
            id: 12,
            kind: Kind::Checkpoint,
            outcome: Outcome::Completed,
            reason: None,
            began: 1_786_788_000_123,
            duration_ms: 45,
            bytes: 3_200_000,
            uploaded_bytes: 9,
            tasks: vec![task("stock-out", 0), task("stock-out", 1)],
        };
        let bad =
            Record { kind: Kind::Savepoint, outcome: Outcome::Failed, reason: Some("no room".to_owned()), tasks: vec![], ..good.clone() };
        let shown = text(&[good, bad], true);
        assert!(shown.contains("\nfailed: no room\n") && super::shortened(&"ü".repeat(90)) == format!("{}..", "ü".repeat(80)), "{shown}");
        let expected = " id  kind        began                     outcome    duration  aligned  stopped     size  uploaded  of note\n";
        assert!(shown.starts_with(expected), "{shown}");
        for row in [
            " 12  checkpoint  2026-08-15T10:00:00.123Z  completed   45.0 ms   1.2 ms   0.0 ms  3.0 MiB       9 B\n",
            " 12  savepoint   2026-08-15T10:00:00.123Z  failed      45.0 ms   0.0 ms   0.0 ms  3.0 MiB       9 B  no room\n",
            " stock-out        1   1.2 ms   0.0 ms  2.0 KiB\n",
        ] {
            assert!(shown.contains(row), "{row} is missing in\n{shown}");
        }
    }
}
