//! Small specs and exactly what is said about them.

mod bind;
mod environment;
mod graph;
mod large;
mod load;
mod values;

use std::path::Path;

use super::{JobSpec, SpecError, Text, parse};

/// A spec without faults, to which tests add some.
const JOB: &str = "\
name: stock-out
sources:
  - uid: baskets
    file: { path: \"data/*.jsonl\", format: json }
    timestamp: event_ts
operators:
  - uid: lines
    input: baskets
    component: basket_lines.wasm
sinks:
  - { uid: out, input: lines, file: { path: out/lines, format: json } }
";

fn read(text: &str, overrides: &[&str]) -> Result<JobSpec, SpecError> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let environment = |name: &str| match name {
        "DATA" => Some("/srv/data".to_owned()),
        "WORKERS" => Some("3".to_owned()),
        _ => None,
    };
    parse(&Text { text, file: "job.yaml", base: Path::new("/jobs") }, &overrides, &environment)
}

/// The messages about a text, one a line.
fn messages(text: &str) -> String {
    read(text, &[]).map_or_else(|error| error.to_string(), |_| "nothing is wrong".to_owned())
}

/// What is said about the good spec after something in it was replaced.
fn check(from: &str, to: &str, expected: &str) {
    assert!(JOB.contains(from), "{from}");
    assert_eq!(messages(&JOB.replacen(from, to, 1)), expected, "{to}");
}

/// What is said about the good spec with these lines after its name.
fn check_added(lines: &str, expected: &str) {
    check("sources:", &format!("{lines}\nsources:"), expected);
}
