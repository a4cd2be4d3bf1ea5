//! The program as its users call it: what it says, and with which code it exits.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;
use tidemill::store::lock::JobLock;

const JOB: &str = "\
name: lines
sources:
  - { uid: baskets, file: { path: data.jsonl, format: json } }
operators:
  - { uid: lines, input: baskets, component: lines.wasm }
sinks:
  - { uid: out, input: lines, file: { path: out, format: json } }
";

fn folder(job: &str, component: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("job.yaml"), job).unwrap();
    fs::write(folder.path().join("lines.wasm"), component).unwrap();
    folder
}

fn tidemill(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
    let Output { status, stdout, stderr } = command.args(arguments).current_dir(folder).env_remove("RUST_LOG").output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_wrong_spec_is_refused_with_its_lines() {
    let folder = folder(&JOB.replace("name: lines", "name: lines\nparralelism: 2").replace("input: lines", "input: line"), "");
    let expected = "\
error: job.yaml:2:1: unknown field `parralelism`, did you mean `parallelism`?
error: job.yaml:8:24: there is no source or operator `line`, did you mean `lines`?
";
    for command in ["run", "validate"] {
        assert_eq!(tidemill(folder.path(), &[command, "job.yaml"]), (2, String::new(), expected.to_owned()));
    }
}

#[test]
fn a_spec_that_is_not_there_is_named() {
    let folder = folder(JOB, "");
    let (code, _, stderr) = tidemill(folder.path(), &["run", "jobs.yaml"]);
    assert_eq!((code, &*stderr), (2, "error: jobs.yaml: cannot read the job spec: No such file or directory (os error 2)\n"));
}

#[test]
fn overrides_are_checked_like_the_spec() {
    let folder = folder(JOB, "");
    let (code, _, stderr) = tidemill(folder.path(), &["validate", "job.yaml", "--set", "sources.basket.max_rate=5"]);
    let expected = "error: --set sources.basket.max_rate=5: `sources` has no item with uid `basket`, did you mean `baskets`?\n";
    assert_eq!((code, &*stderr), (2, expected));
}

#[test]
fn errors_are_json_if_wanted() {
    let folder = folder(&JOB.replace("name:", "nam:"), "");
    let (code, _, stderr) = tidemill(folder.path(), &["validate", "job.yaml", "--log-format", "json"]);
    let line: serde_json::Value = serde_json::from_str(&stderr).unwrap();
    let message = line["message"].as_str().unwrap();
    assert_eq!((code, &line["level"]), (2, &serde_json::json!("ERROR")));
    let expected = "\
job.yaml:1:1: unknown field `nam`, did you mean `name`?
job.yaml:1:1: missing field `name`: the job's name, of which its folder takes its name";
    assert_eq!(message, expected);
}

#[test]
fn what_is_not_a_component_is_refused() {
    let folder = folder(JOB, "(module)");
    for arguments in [&["component", "inspect", "lines.wasm"][..], &["validate", "job.yaml"], &["run", "job.yaml"]] {
        let (code, _, stderr) = tidemill(folder.path(), arguments);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.starts_with("error: component lines") && stderr.contains("is not WebAssembly"), "{stderr}");
    }
}

#[test]
fn a_job_folder_that_is_in_use_is_left_alone() {
    let folder = folder(JOB, "");
    let _lock = JobLock::acquire(&folder.path().join("state")).unwrap();
    let (code, _, stderr) = tidemill(folder.path(), &["run", "job.yaml", "--data-dir", "state"]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.starts_with("error: the job folder `state` is in use by process "), "{stderr}");
}

#[test]
fn the_command_line_is_explained() {
    let folder = folder(JOB, "");
    let (code, stdout, _) = tidemill(folder.path(), &["run", "--help"]);
    assert_eq!(code, 0);
    assert!(["--fresh", "--data-dir", "Exit codes:"].iter().all(|text| stdout.contains(text)), "{stdout}");
    let (code, stdout, _) = tidemill(folder.path(), &["--help"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("Exit codes:") && stdout.contains("130"), "{stdout}");
    assert_eq!(tidemill(folder.path(), &["run"]).0, 2);
    let (code, _, stderr) = tidemill(folder.path(), &["validate", "job.yaml", "--log-format", "json", "--log-level", "tidemill=loud"]);
    assert!(code == 2 && stderr.starts_with("error: `tidemill=loud` is not a log level"), "{stderr}");
}
