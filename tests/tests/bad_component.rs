//! Components that are not what they should be.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tidemill_tests::cli::{CACHE, Workplace, component};

fn place(component: &str) -> Workplace {
    let place = Workplace::new();
    place.write(
        "job.yaml",
        format!(
            "name: pass\nsources:\n  - uid: in\n    file: {{ path: \"in/*.jsonl\", format: json }}\n    timestamp: ts\n\
             operators:\n  - uid: pass\n    input: in\n    key_by: [id]\n    component: {component}\n\
             sinks:\n  - {{ uid: out, input: pass, file: {{ path: out/main, format: json }} }}\n"
        ),
    );
    place.write("in/a.jsonl", "{\"id\": 1, \"ts\": 1, \"act\": \"pass\"}\n");
    place
}

#[test]
fn files_that_are_no_component_are_refused() {
    let good = fs::read(component("picky")).unwrap();
    let cases: [(&[u8], &str); 4] =
        [(b"#!/bin/sh", "WebAssembly"), (b"", "empty"), (b"\0asm\x01\0\0\0", "no guest"), (&good[..good.len() / 2], "cut")];
    for (bytes, expected) in cases {
        let place = place("bad.wasm");
        place.write("bad.wasm", bytes);
        let ended = place.run(&["run", "job.yaml"]);
        ended.expect(2, &["component bad"]);
        let text = ended.stderr.to_lowercase();
        assert!(expected.split('|').any(|word| text.contains(&word.to_lowercase())), "{expected}: {text}");
        place.run(&["component", "inspect", "bad.wasm"]).expect(2, &["bad"]);
        assert!(!place.path("out").exists());
    }
    place("absent.wasm").run(&["run", "job.yaml"]).expect(2, &["job.yaml:10", "absent.wasm"]);
}

#[test]
fn a_component_that_fails_to_open_ends_the_start() {
    let path = component("picky").display().to_string();
    for (act, expected) in [("trap", "asked to trap"), ("loop", "1 s"), ("recurse", "stack"), ("allocate", "MiB"), ("bad", "asked for it")]
    {
        let place = place(&path);
        let parameters = format!("operators.pass.parameters.open={act}");
        // Whatever the machine has to do besides: only what loops is to meet its deadline.
        let deadline = format!("operators.pass.limits.deadline={}", if act == "loop" { "1s" } else { "10m" });
        let ended = place.run(&["run", "job.yaml", "--set", &parameters, "--set", &deadline]);
        assert!([1, 2].contains(&ended.code()), "{act}: {ended:#?}");
        ended.expect(ended.code(), &["operator pass", expected]);
        assert!(place.visible("out/main").is_empty());
    }
}

#[test]
fn a_damaged_cache_is_made_anew() {
    let place = place(&component("picky").display().to_string());
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    let cache = CACHE;
    let names = place.names(cache);
    assert_eq!(names.len(), 1, "{names:?}");
    let path = place.path(cache).join(&names[0]);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    place.run(&["run", "job.yaml", "--fresh"]).expect(0, &["its cache entry is not used", "finished"]);
    assert_ne!(fs::read(&path).unwrap(), bytes);
    // Its checksum is right, but others may have written both.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    place.run(&["run", "job.yaml", "--fresh"]).expect(0, &["its mode 0666 lets other users write to it", "finished"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o022, 0, "it is replaced");
    fs::set_permissions(place.path(cache), fs::Permissions::from_mode(0o777)).unwrap();
    place.run(&["run", "job.yaml", "--fresh"]).expect(0, &["components are compiled at every start", "/cache` has mode 0777", "finished"]);
}
