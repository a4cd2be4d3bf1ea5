//! The report for people: failures with expected and actual side by side, then the counts.

use std::fmt::Write as _;

use super::{CaseReport, Failure, Report, Row, RunReport, Status};

/// How many rows of a comparison are shown, and how many of them before the first difference.
const SHOWN: usize = 60;
const BEFORE: usize = 10;
/// The widest column of expected records: what is longer pushes its neighbour to the right.
const WIDEST: usize = 90;

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    for case in &report.cases {
        if let Some(problems) = &case.unreadable {
            problems.lines().for_each(|line| _ = writeln!(out, "error: {line}"));
        }
        for (failure, runs) in case.failures() {
            write_failure(&mut out, case, failure, &runs);
        }
        if let Some(hint) = case.hint() {
            let _ = writeln!(out, "  hint: {hint}\n");
        }
    }
    let (passed, failed, unreadable) = (report.count(Status::Passed), report.count(Status::Failed), report.count(Status::Unreadable));
    let _ = write!(out, "{passed} passed, {failed} failed");
    if unreadable > 0 {
        let _ = write!(out, ", {unreadable} unreadable");
    }
    let _ = writeln!(out, " ({} runs)", report.runs());
    out
}

fn write_failure(out: &mut String, case: &CaseReport, failure: &Failure, runs: &[&RunReport]) {
    let Failure { line, column, action, .. } = failure;
    let word = if failure.unfit { "ERROR" } else { "FAILED" };
    let _ = writeln!(out, "{word} {}: {}", case.file, case.name);
    let step = failure.step.map_or_else(|| "at the start".to_owned(), |step| format!("step {step}, `{action}`"));
    let _ = writeln!(out, "  {}:{line}:{column}: {step}, {}: {}", case.file, which(case, runs), failure.message);
    write_rows(out, &failure.rows);
    out.push('\n');
}

/// The runs in words.
fn which(case: &CaseReport, runs: &[&RunReport]) -> String {
    if runs.len() == case.runs.len() {
        return "in every run".to_owned();
    }
    let runs: Vec<String> = runs.iter().map(|run| format!("{} batches of {}", run.backend, run.batch_rows)).collect();
    format!("on {}", runs.join(" and "))
}

fn write_rows(out: &mut String, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let first = rows.iter().position(|row| !row.same).unwrap_or(0).saturating_sub(BEFORE);
    let shown = rows.get(first..rows.len().min(first + SHOWN)).unwrap_or_default();
    let length = |row: &Row| row.expected.as_ref().map_or(0, |text| text.chars().count());
    let width = shown.iter().map(length).max().unwrap_or(0).clamp("expected".len(), WIDEST);
    let _ = writeln!(out, "      {:width$}   actual", "expected");
    if first > 0 {
        let _ = writeln!(out, "      ({first} rows as expected)");
    }
    for row in shown {
        let sign = if row.same { ' ' } else { '!' };
        let (expected, actual) = (row.expected.as_deref().unwrap_or("-"), row.actual.as_deref().unwrap_or("-"));
        let _ = writeln!(out, "    {sign} {expected:width$}   {actual}");
    }
    let left = rows.len() - first - shown.len();
    if left > 0 {
        let _ = writeln!(out, "      ({left} more rows)");
    }
}
