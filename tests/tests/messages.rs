//! What the program says about files, specs, components and values that it refuses: whole texts, in `tests/messages/*.txt`.
//!
//! A case is a title (`# ..`), what is changed (below), commands (`$ ..`) and, indented, what each says: its exit code and its lines that
//! begin with `error:` (of `$ test` also its report). Every case has its own folder with `job.yaml`, a record in `in/a.jsonl` and the components.
//!
//! - `replace A => B` changes the spec, `append A` adds a line to it; `\n` is a line break
//! - `write PATH: A` writes a file, `bytes PATH: HEX` one that is no text
//! - `$ rows PATH` shows reason and position of each invalid row or dead letter in a folder of output
//!
//! After a change that is meant, `TIDEMILL_BLESS=1 cargo test --release -p tidemill-tests --test messages` writes the files anew: read the difference.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::fs;

use tidemill_tests::cli::{Workplace, component, root};

const SPEC: &str = "\
name: pass
sources:
  - uid: in
    file: { path: \"in/*.jsonl\", format: json }
    timestamp: ts
operators:
  - uid: pass
    input: in
    key_by: [id]
    component: picky.wasm
sinks:
  - { uid: out, input: pass, file: { path: out/main, format: json } }
  - { uid: bad, input: in.invalid, file: { path: out/bad, format: json } }
";

const RECORD: &str = "{\"id\": 1, \"ts\": 1, \"act\": \"pass\"}\n";

#[test]
fn specs() {
    check("spec");
}

#[test]
fn components() {
    check("component");
}

#[test]
fn values() {
    check("value");
}

#[test]
fn cases_and_commands() {
    check("command");
}

/// Compares a file with what the program says now.
fn check(name: &str) {
    let path = root().join("tests/messages").join(name).with_extension("txt");
    let expected = fs::read_to_string(&path).unwrap();
    let actual: Vec<String> = expected.split("\n\n").map(|case| replay(case.trim_end())).collect();
    let actual = actual.join("\n\n") + "\n";
    if std::env::var_os("TIDEMILL_BLESS").is_some() {
        fs::write(&path, &actual).unwrap();
    }
    for (expected, actual) in expected.split("\n\n").zip(actual.split("\n\n")) {
        assert_eq!(expected, actual, "{}", path.display());
    }
    assert!(actual.matches("\n$ ").count() >= 5, "{} has lost its cases", path.display());
}

/// Does what a case says and returns the case with what came of it.
fn replay(case: &str) -> String {
    let place = Workplace::new();
    place.write("job.yaml", SPEC);
    place.write("in/a.jsonl", RECORD);
    for component_name in ["picky", "stock_out", "limits", "probe"] {
        fs::copy(component(component_name), place.path(format!("{component_name}.wasm"))).unwrap();
    }
    let mut text = String::new();
    for line in case.lines().filter(|line| !line.starts_with("    ")) {
        writeln!(text, "{line}").unwrap();
        if let Some(command) = line.strip_prefix("$ ") {
            say(&place, command, &mut text);
        } else if !line.starts_with("# ") {
            prepare(&place, line);
        }
    }
    text.trim_end().to_owned()
}

fn prepare(place: &Workplace, line: &str) {
    let spec = fs::read_to_string(place.path("job.yaml")).unwrap();
    let (word, rest) = line.split_once(' ').unwrap();
    let rest = rest.replace("\\n", "\n");
    match word {
        "replace" => {
            let (from, to) = rest.split_once(" => ").unwrap();
            assert!(spec.contains(from), "{line}: not in the spec");
            place.write("job.yaml", spec.replacen(from, to, 1));
        }
        "append" => place.write("job.yaml", spec + &rest + "\n"),
        "write" => {
            let (path, content) = rest.split_once(": ").unwrap();
            place.write(path, content);
        }
        "bytes" => {
            let (path, hex) = rest.split_once(": ").unwrap();
            let bytes: Vec<u8> = hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
            place.write(path, bytes);
        }
        _ => panic!("what is `{line}`?"),
    }
}

fn say(place: &Workplace, command: &str, text: &mut String) {
    let arguments: Vec<&str> = command.split(' ').collect();
    if let ["rows", folder] = arguments[..] {
        for row in place.visible(folder) {
            let [reason, position] = ["reason", "position"].map(|field| row[field].as_str().unwrap());
            writeln!(text, "    {position}: {reason}").unwrap();
        }
        return;
    }
    let ended = place.run(&arguments);
    writeln!(text, "    exit code {}", ended.code()).unwrap();
    // Of a job, not its log and summary; of cases, the report too.
    let report = if arguments[0] == "test" { ended.stdout.lines() } else { "".lines() };
    let errors = ended.stderr.lines().filter(|line| line.starts_with("error: "));
    for line in report.filter(|line| !line.is_empty()).chain(errors) {
        // A guest's frames depend on the compiler.
        let line = line.split_once(" (in ").map_or(line, |(line, _)| line).replace(&*place.path("").to_string_lossy(), "FOLDER/");
        writeln!(text, "    {line}").unwrap();
    }
    assert!(!ended.stderr.contains("panicked at host") && !text.contains(&*root().to_string_lossy()), "{ended:#?}");
}
