//! The first five minutes of a detector's author: the commands that `tidemill new` and the README name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tidemill_tests::cli::{Workplace, root, tidemill};

/// A folder beside the program that outlives the test, so that the SDK's dependencies are compiled once.
fn cache() -> PathBuf {
    tidemill().ancestors().nth(2).unwrap().join("author")
}

/// Runs a command in a folder with the cache as cargo's; returns exit code and output.
fn run_in(folder: &Path, command: &mut Command) -> (i32, String) {
    command.current_dir(folder).env("CARGO_TARGET_DIR", cache().join("build")).env_remove("TIDEMILL_COMPONENTS").env_remove("RUST_LOG");
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    run_in(folder, Command::new(tidemill()).args(arguments))
}

/// Runs what must succeed; returns what it said.
fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let (code, text) = run(folder, arguments);
    assert_eq!(code, 0, "{arguments:?}: {text}");
    text
}

/// Builds a crate, with the fallback where the active toolchain cannot.
fn build(folder: &Path) -> String {
    let (code, text) = run(folder, &["build"]);
    if code == 1 && text.contains("--toolchain auto") {
        return succeed(folder, &["build", "--toolchain", "auto"]);
    }
    assert_eq!(code, 0, "{text}");
    text
}

fn rows(folder: &Path) -> Vec<Value> {
    let mut texts: Vec<String> = fs::read_dir(folder).unwrap().map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    texts.sort();
    texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn from_nothing_to_a_tested_running_detector() {
    // Always the same path, so that a repeated test leaves no second set of artifacts in the cache.
    let workplace = cache().join("work");
    let _ = fs::remove_dir_all(&workplace);
    fs::create_dir_all(&workplace).unwrap();

    let said = succeed(&workplace, &["new", "open-doors"]);
    let folder = workplace.join("open-doors");
    let steps: Vec<&str> =
        said.lines().filter_map(|line| Some(line.strip_prefix("    ")?.split_once('#').map_or(line, |(step, _)| step).trim())).collect();
    assert_eq!(steps, ["cd open-doors", "cargo test", "tidemill build", "tidemill test", "tidemill run job.yaml"]);

    let (code, text) = run_in(&folder, Command::new("cargo").arg("test"));
    assert!(code == 0 && text.contains("1 passed"), "{text}");
    let text = build(&folder);
    assert!(text.contains("open_doors.wasm, ") && folder.join("target/guests/open_doors.wasm").is_file(), "{text}");
    let text = succeed(&folder, &["test"]);
    assert!(text.contains("1 passed, 0 failed"), "{text}");
    succeed(&folder, &["validate", "job.yaml"]);
    succeed(&folder, &["run", "job.yaml"]);
    let back = json!({ "door": "back", "open_since": 1_786_752_060_000_i64 });
    let front = json!({ "door": "front", "open_since": 1_786_752_600_000_i64 });
    assert_eq!(rows(&folder.join("out/alerts")), [back, front]);
    assert!(succeed(&folder, &["run", "job.yaml"]).contains("has finished"));

    the_readme_is_true(&workplace);
    a_crate_that_does_not_compile_is_shown_cargos_words(&folder);
}

/// The README's example, in the place of the template's detector, finds what it says.
fn the_readme_is_true(workplace: &Path) {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, section) = readme.split_once("\n## Your own detector\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let (_, code) = section.split_once("```rust\n").unwrap();
    let (code, rest) = code.split_once("```").unwrap();
    let (_, spec) = rest.split_once("`job.yaml`:\n\n").unwrap();
    let spec: String =
        spec.lines().take_while(|line| line.is_empty() || line.starts_with("    ")).map(|line| format!("{line}\n")).collect();

    succeed(workplace, &["new", "big-orders"]);
    let folder = workplace.join("big-orders");
    fs::write(folder.join("src/lib.rs"), code).unwrap();
    fs::write(
        folder.join("job.yaml"),
        spec.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect::<String>(),
    )
    .unwrap();
    let order = |customer: &str, amount: i64, ts: i64| format!("{}\n", json!({ "customer": customer, "amount": amount, "ts": ts }));
    let orders: String =
        [order("ada", 700, 1), order("ada", 501, 2), order("bob", 900, 3), order("ada", 500, 4), order("ada", 502, 5)].concat();
    fs::write(folder.join("data/orders-1.jsonl"), orders).unwrap();
    build(&folder);
    succeed(&folder, &["run", "job.yaml"]);
    assert_eq!(rows(&folder.join("out/alerts")), [json!({ "customer": "ada", "big_orders": 3 })]);
}

fn a_crate_that_does_not_compile_is_shown_cargos_words(folder: &Path) {
    fs::write(folder.join("src/lib.rs"), "pub fn wrong() -> u8 { \"text\" }\n").unwrap();
    let (code, text) = run(folder, &["build"]);
    assert!(
        code == 1 && text.contains("mismatched types") && text.contains("building .: it failed, for the reason above"),
        "{code}: {text}"
    );
}

#[test]
fn what_cannot_be_made_is_refused_and_nothing_is_written() {
    let place = Workplace::new();
    place.run(&["new", "Big Orders"]).expect(2, &["`Big Orders` cannot be the name of a detector: it must begin with a lower-case letter"]);
    place.run(&["new", "doors", "--sdk", "nowhere"]).expect(2, &["finding the SDK: nowhere is not the folder `sdk`", "--sdk"]);
    assert!(!place.path("doors").exists() && !place.path("Big Orders").exists());

    place.write("doors/mine.txt", "mine");
    place.run(&["new", "doors"]).expect(2, &["making the crate doors: the folder exists"]);
    assert_eq!(place.names("doors"), ["mine.txt"]);
}

#[test]
fn a_build_without_a_crate_or_a_toolchain_says_what_to_do() {
    let place = Workplace::new();
    place.run(&["build"]).expect(2, &[". is no crate, for it has no Cargo.toml", "tidemill new"]);
    place.run(&["build", "absent"]).expect(2, &["absent is no crate"]);

    place.run(&["new", "doors"]).expect(0, &[]);
    let (code, text) = run_in(&place.path("doors"), Command::new(tidemill()).arg("build").env("RUSTC", "/bin/false"));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("no standard library for wasm32-unknown-unknown: run 'rustup target add wasm32-unknown-unknown'"), "{text}");
}
