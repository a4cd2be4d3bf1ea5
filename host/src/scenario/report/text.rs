//! The report for people: failures with expected and actual side by side, then the counts.

use std::fmt::Write as _;

use super::{CaseReport, Failure, Report, Row, RunReport, Status};

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
    let _ = writeln!(out, "FAILED {}: {}", case.file, case.name);
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
    let length = |row: &Row| row.expected.as_ref().map_or(0, |text| text.chars().count());
    let width = rows.iter().map(length).max().unwrap_or(0).clamp("expected".len(), WIDEST);
    let _ = writeln!(out, "      {:width$}   actual", "expected");
    for row in rows {
        let sign = if row.same { ' ' } else { '!' };
        let (expected, actual) = (row.expected.as_deref().unwrap_or("-"), row.actual.as_deref().unwrap_or("-"));
        let _ = writeln!(out, "    {sign} {expected:width$}   {actual}");
    }
}
