//! The first five minutes of a detector's author: the commands that `tidemill new` and the README name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
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
    let parts = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some());
    let mut texts: Vec<String> = parts.map(|path| fs::read_to_string(path).unwrap()).collect();
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
    what_no_job_can_run_does_not_pass_as_built(&folder);
    a_crate_of_before_is_checked_for_overflow(&folder);
    a_crate_that_does_not_compile_is_shown_cargos_words(&folder);
}

/// A fenced block of the README.
struct Block<'a> {
    /// What follows the fence.
    language: &'a str,
    /// The file that the line before names, if it names one at its end.
    file: Option<&'a str>,
    text: &'a str,
}

fn blocks(section: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut parts = section.split("```");
    let mut before = parts.next().unwrap();
    while let (Some(block), Some(after)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        let said = before.trim_end();
        let file = said.strip_suffix(':').and_then(|said| said.split('`').nth_back(1)).filter(|_| language != "sh" && language != "text");
        blocks.push(Block { language, file, text });
        before = after;
    }
    blocks
}

/// The README's section on detectors does what it says, block by block: commands are run, files are written, output is compared.
fn the_readme_is_true(workplace: &Path) {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, section) = readme.split_once("\n## Your own detector\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    // The program as the commands name it. A build uses the fallback where the active toolchain cannot.
    let programs = workplace.join("bin");
    fs::create_dir_all(&programs).unwrap();
    let program = tidemill().display().to_string();
    let shim = format!(
        "#!/bin/bash\nif [[ $1 == build ]]; then '{program}' \"$@\" || exec '{program}' \"$@\" --toolchain auto; else exec '{program}' \"$@\"; fi\n"
    );
    fs::write(programs.join("tidemill"), shim).unwrap();
    fs::set_permissions(programs.join("tidemill"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());

    let (mut folder, mut said, mut files, mut unknown) = (workplace.to_owned(), String::new(), Vec::new(), Vec::new());
    for Block { language, file, text } in blocks(section) {
        match (language, file) {
            ("sh", None) => {
                let (code, output) = run_in(&folder, Command::new("bash").args(["-euo", "pipefail", "-c", text]).env("PATH", &path));
                assert_eq!(code, 0, "{text}: {output}");
                folder = workplace.join("big-orders");
                said = output;
            }
            ("text", None) => text.lines().for_each(|line| assert!(said.contains(line), "{line} is not in: {said}")),
            (_, Some(file)) => {
                fs::write(folder.join(file), text).unwrap();
                files.push(file);
            }
            (language, None) => unknown.push(language),
        }
    }
    assert!(unknown.is_empty(), "blocks of which it is not said what they are for: {unknown:?}");
    assert_eq!(files, ["src/lib.rs", "data/orders-1.jsonl", "cases/orders.case.yaml", "job.yaml"]);
    assert_eq!(rows(&folder.join("out/alerts")), [json!({ "customer": "ada", "big_orders": 3 })]);
}

fn what_no_job_can_run_does_not_pass_as_built(folder: &Path) {
    let code = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
    let export = "tidemill_sdk::export!(OpenDoors);";
    assert!(code.contains(export));
    let foreign = "#[link(wasm_import_module = \"__wbindgen_placeholder__\")]\nunsafe extern \"C\" { fn __wbindgen_describe(of: u32); }\n\
                   pub fn describe() { unsafe { __wbindgen_describe(1) } }\n";
    let called = code.replace("let open_since =", "describe(); let open_since =") + foreign;
    for (code, problem) in [(code.replace(export, ""), "export"), (called, "__wbindgen_placeholder__.__wbindgen_describe")] {
        fs::write(folder.join("src/lib.rs"), code).unwrap();
        let (code, text) = run_in(folder, Command::new(tidemill()).args(["build", "--toolchain", "auto"]));
        assert!(
            code == 1 && text.contains("building .: no job can run it: component open_doors.wasm") && text.contains(problem),
            "{code}: {text}"
        );
    }
    fs::write(folder.join("src/lib.rs"), code).unwrap();
}

/// Earlier manifests did not say what happens to a sum that is too large.
fn a_crate_of_before_is_checked_for_overflow(folder: &Path) {
    let edit = |file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        fs::write(folder.join(file), text.replace(from, to)).unwrap();
    };
    edit("Cargo.toml", "overflow-checks = true", "");
    edit(
        "src/lib.rs",
        "let open_since =",
        "let sum = i64::MAX + event.ts; ctx.log(tidemill_sdk::Level::Info, &sum.to_string()); let open_since =",
    );
    let case = "component: open_doors\nkey_by: [door]\nsteps:\n  - element: { ts: 1, value: { door: a, open: true, ts: 1 } }\n  - expect_error: add with overflow\n";
    fs::write(folder.join("cases/door.case.yaml"), case).unwrap();
    build(folder);
    assert!(succeed(folder, &["test"]).contains("1 passed, 0 failed"));
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
    for (name, why) in [
        ("Big Orders", "it must begin with a lower-case letter from a to z"),
        ("match", "Rust or cargo has another use for this word"),
        ("tidemill-core", "Rust or cargo has another use for this word"),
        ("my.doors", "it has a `.`"),
        (".", "it must begin"),
    ] {
        place.run(&["new", name]).expect(2, &[&format!("`{name}` cannot be the name of a detector: {why}")]);
        assert!(name == "." || !place.path(name).exists());
    }
    place.run(&["new", "doors", "--sdk", "nowhere"]).expect(2, &["finding the SDK: nowhere is not the folder `sdk`", "--sdk"]);
    assert!(!place.path("doors").exists());

    place.write("doors/mine.txt", "mine");
    place.run(&["new", "doors"]).expect(2, &["making the crate doors: it exists; take another name"]);
    assert_eq!(place.names("doors"), ["mine.txt"]);
    place.write("file", "mine");
    place.run(&["new", "file"]).expect(2, &["making the crate file: it exists"]);
    place.run(&["new", "file/doors"]).expect(2, &["making the crate file/doors: "]);
}

#[test]
fn a_crate_can_be_made_in_odd_places() {
    let place = Workplace::new();
    let said = place.run(&["new", "my folder/doors"]);
    said.expect(0, &[]);
    assert!(said.stdout.contains("    cd 'my folder/doors'\n"), "{}", said.stdout);
    place.write("work/Cargo.toml", "[workspace]\nmembers = [\"*\"]\n");
    let said = place.run(&["new", "work/alert"]);
    said.expect(0, &[]);
    assert!(
        said.stdout.contains("a workspace of its own, inside the one of ") && said.stdout.contains("work/Cargo.toml"),
        "{}",
        said.stdout
    );
    let code = fs::read_to_string(place.path("work/alert/src/lib.rs")).unwrap();
    assert!(code.contains("pub struct AlertFunction {") && code.contains("export!(AlertFunction)"), "{code}");
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
