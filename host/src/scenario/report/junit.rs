//! The report as the XML that build servers read: a test case per case and run.

use std::fmt::Write as _;

use super::{CaseReport, Failure, Report};

pub(super) fn render(report: &Report) -> String {
    let failures = report.cases.iter().flat_map(|case| &case.runs).filter(|run| run.failure.is_some()).count();
    let errors = report.cases.iter().filter(|case| case.unreadable.is_some()).count();
    let tests = report.runs() + errors;
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, "<testsuites tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">");
    let _ = writeln!(out, "  <testsuite name=\"tidemill\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">");
    for case in &report.cases {
        write_case(&mut out, case);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn write_case(out: &mut String, case: &CaseReport) {
    let file = escaped(&case.file);
    if let Some(problems) = &case.unreadable {
        let _ = writeln!(out, "    <testcase classname=\"{file}\" name=\"{file}\"><error message=\"{}\"/></testcase>", escaped(problems));
    }
    for run in &case.runs {
        let name = escaped(&format!("{} ({}, batches of {})", case.name, run.backend, run.batch_rows));
        match &run.failure {
            None => _ = writeln!(out, "    <testcase classname=\"{file}\" name=\"{name}\"/>"),
            Some(failure) => {
                let _ = writeln!(out, "    <testcase classname=\"{file}\" name=\"{name}\">");
                let _ =
                    writeln!(out, "      <failure message=\"{}\">{}</failure>", escaped(&failure.message), escaped(&body(case, failure)));
                out.push_str("    </testcase>\n");
            }
        }
    }
}

fn body(case: &CaseReport, failure: &Failure) -> String {
    let mut text = format!("{}:{}:{}\n", case.file, failure.line, failure.column);
    if let Some(hint) = case.hint() {
        let _ = writeln!(text, "hint: {hint}");
    }
    for row in &failure.rows {
        let (expected, actual) = (row.expected.as_deref().unwrap_or("-"), row.actual.as_deref().unwrap_or("-"));
        let _ = writeln!(text, "{} expected {expected}, actual {actual}", if row.same { "same:" } else { "different:" });
    }
    text
}

/// Text for an attribute or an element. Characters that XML cannot hold at all are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..=char::MAX => out.push(letter),
            _ => out.push('\u{FFFD}'),
        }
    }
    out
}
