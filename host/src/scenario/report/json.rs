//! The report as JSON.

use serde_json::{Value, json};

use super::{CaseReport, Failure, Report, RunReport, Status};

pub(super) fn render(report: &Report) -> String {
    let report = json!({
        "passed": report.count(Status::Passed),
        "failed": report.count(Status::Failed),
        "unreadable": report.count(Status::Unreadable),
        "runs": report.runs(),
        "cases": report.cases.iter().map(case).collect::<Value>(),
    });
    format!("{report:#}\n")
}

fn case(case: &CaseReport) -> Value {
    let status = match case.status() {
        Status::Passed => "passed",
        Status::Failed => "failed",
        Status::Unreadable => "unreadable",
    };
    json!({
        "file": case.file,
        "name": case.name,
        "status": status,
        "problems": case.unreadable.as_deref().map(|problems| problems.lines().collect::<Vec<_>>()).unwrap_or_default(),
        "hint": case.hint(),
        "runs": case.runs.iter().map(run).collect::<Value>(),
    })
}

fn run(run: &RunReport) -> Value {
    json!({
        "backend": run.backend,
        "batch_rows": run.batch_rows,
        "status": if run.failure.is_none() { "passed" } else { "failed" },
        "failure": run.failure.as_ref().map(failure),
    })
}

fn failure(failure: &Failure) -> Value {
    let rows = failure.rows.iter().map(|row| json!({ "expected": row.expected, "actual": row.actual, "same": row.same }));
    json!({
        "step": failure.step,
        "action": failure.action,
        "line": failure.line,
        "column": failure.column,
        "message": failure.message,
        "comparison": rows.collect::<Value>(),
    })
}
