//! Bad input: the message says where and what, and nothing else is lost.

use std::fs;
use std::io::Write;

use serde_json::{Value, json};
use tidemill_tests::cli::{Workplace, component};

/// A job that passes records on, with a sink for invalid rows.
fn place() -> Workplace {
    let place = Workplace::new();
    let component = component("picky");
    place.write(
        "job.yaml",
        format!(
            "name: pass\nsources:\n  - uid: in\n    file: {{ path: \"in/*.jsonl\", format: json }}\n    timestamp: ts\n\
             operators:\n  - uid: pass\n    input: in\n    key_by: [id]\n    component: {}\n\
             sinks:\n  - {{ uid: out, input: pass, file: {{ path: out/main, format: json }} }}\n\
             \x20 - {{ uid: bad, input: in.invalid, file: {{ path: out/bad, format: json }} }}\n",
            component.display()
        ),
    );
    place
}

fn good(id: i64) -> String {
    json!({"id": id, "ts": id, "act": "pass"}).to_string()
}

/// Runs rows between two good ones; returns what became of them.
fn between_good_rows(rows: &[u8]) -> (Vec<Value>, Vec<Value>) {
    let place = place();
    place.write("in/a.jsonl", [good(1).as_bytes(), b"\n", rows, b"\n", good(2).as_bytes(), b"\n"].concat());
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    let mut passed = place.visible("out/main");
    passed.sort_by_key(Value::as_i64);
    (passed, place.visible("out/bad"))
}

#[test]
fn rows_that_do_not_fit_go_to_the_invalid_lane_with_position_and_reason() {
    let deep = "[".repeat(100_000);
    let cases: [(&[u8], &str); 13] = [
        (b"{\"id\": 3, \"ts\": 3, \"ac", "EOF"),
        (b"not json", "expected"),
        (b"\xff\xfe{}", "UTF-8"),
        (b"{\"id\": 3, \"ts\": 3, \"act\": \"pa\0ss\"}", "control character"),
        (b"\0\0\0", "expected"),
        (b"{\"id\": \"3\", \"ts\": 3, \"act\": \"pass\"}", "id"),
        (b"{\"id\": 3, \"act\": \"pass\"}", "missing field `ts`"),
        (b"{\"id\": 3, \"ts\": null, \"act\": \"pass\"}", "ts"),
        (b"{\"id\": 9223372036854775808, \"ts\": 3, \"act\": \"pass\"}", "id"),
        (b"{\"id\": 1e400, \"ts\": 3, \"act\": \"pass\"}", "number out of range"),
        (b"{\"id\": 3.5, \"ts\": 3, \"act\": \"pass\"}", "id"),
        (b"[1, 2]", "expected"),
        (deep.as_bytes(), "expected"),
    ];
    for (row, reason) in cases {
        let (passed, bad) = between_good_rows(row);
        let shown = String::from_utf8_lossy(row.get(..60).unwrap_or(row)).into_owned();
        assert_eq!(passed, [json!(1), json!(2)], "{shown}");
        let [bad] = bad.as_slice() else { panic!("{shown}: {bad:?}") };
        assert!(bad["reason"].as_str().unwrap().contains(reason), "{shown}: {}", bad["reason"]);
        assert!(bad["position"].as_str().unwrap().ends_with("in/a.jsonl line 2"), "{}", bad["position"]);
        if let Ok(text) = std::str::from_utf8(row) {
            assert_eq!(bad["raw"], json!(text));
        } else {
            assert_eq!(bad["raw"], json!("//57fQ=="));
        }
    }
}

#[test]
fn odd_rows_that_fit_pass() {
    let cases: [&[u8]; 5] = [
        b"{\"id\": 3, \"ts\": 3, \"act\": \"pass\", \"unknown\": {\"a\": [1]}}",
        b"  {\"act\":\"pass\",\"ts\":-9000,\"id\":3}\r",
        b"{\"id\": 3, \"ts\": 9223372036854775807, \"act\": \"pass\"}",
        b"{\"id\": 3, \"ts\": -9223372036854775808, \"act\": \"pass\"}",
        b"\n\n{\"id\": 3, \"ts\": 3, \"act\": \"pass\"}\n",
    ];
    for row in cases {
        let (passed, bad) = between_good_rows(row);
        assert_eq!((passed, bad), (vec![json!(1), json!(2), json!(3)], vec![]), "{}", String::from_utf8_lossy(row));
    }
}

#[test]
fn half_a_last_line_is_a_record_and_an_empty_file_is_none() {
    let place = place();
    place.write("in/a.jsonl", good(1));
    place.write("in/b.jsonl", format!("{}\n{{\"id\": 4", good(2)));
    place.write("in/c.jsonl", "");
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    let mut passed = place.visible("out/main");
    passed.sort_by_key(Value::as_i64);
    assert_eq!(passed, [json!(1), json!(2)]);
    assert_eq!(place.visible("out/bad").len(), 1);
}

#[test]
fn a_line_of_100_mb_is_reported_and_the_rest_passes() {
    let place = place();
    place.write("in/a.jsonl", "");
    let mut file = fs::File::create(place.path("in/a.jsonl")).unwrap();
    writeln!(file, "{}", good(1)).unwrap();
    let chunk = vec![b'x'; 1 << 20];
    (0..100).for_each(|_| file.write_all(&chunk).unwrap());
    writeln!(file, "\n{}", good(2)).unwrap();
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    assert_eq!(place.visible("out/main").len(), 2);
    let bad = place.visible("out/bad");
    let reason = bad[0]["reason"].as_str().unwrap();
    assert!(bad.len() == 1 && reason.contains("104857600") && reason.contains("max_record_bytes"), "{reason}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let place = place();
    place.run(&["run", "job.yaml"]).expect(2, &["in/*.jsonl", "no file"]);
    fs::create_dir_all(place.path("in/folder.jsonl")).unwrap();
    place.run(&["run", "job.yaml"]).expect(2, &["no file matches"]);
    fs::remove_dir(place.path("in/folder.jsonl")).unwrap();
    fs::remove_dir(place.path("in")).unwrap();
    place.write("in", "a file where a folder should be");
    place.run(&["run", "job.yaml"]).expect(2, &["in"]);
}

#[test]
fn a_file_that_has_become_shorter_than_its_position_is_refused() {
    let place = place();
    let rows: String = (0..3000).map(|id| good(id) + "\n").collect();
    place.write("in/a.jsonl", &rows);
    let slow = ["--set", "sources.in.max_rate=500", "--set", "sources.in.file.follow=true", "--set", "checkpoints.interval=50ms"];
    let child = place.start(&[&["run", "job.yaml"][..], &slow].concat());
    place.wait_until("output is committed", || place.visible("out/main").len() > 100);
    let mut child = child;
    child.kill().unwrap();
    child.wait().unwrap();
    let before = place.visible("out/main").len();
    place.write("in/a.jsonl", good(1) + "\n");
    let ended = place.run(&["run", "job.yaml"]);
    assert_ne!(ended.code(), 0);
    ended.expect(ended.code(), &["in/a.jsonl"]);
    assert!(place.visible("out/main").len() >= before);
    place.write("in/a.jsonl", &rows);
    place.run(&["run", "job.yaml"]).expect(0, &["resumed", "finished"]);
    assert_eq!(place.visible("out/main").len(), 3000);
}

#[test]
fn specs_that_are_wrong_are_refused_with_place_and_remedy() {
    let place = place();
    let spec = fs::read_to_string(place.path("job.yaml")).unwrap();
    place.write("in/a.jsonl", good(1) + "\n");
    let cases = [
        (spec.replace("sources:", "sourcs:"), &["wrong.yaml:2", "unknown field `sourcs`", "`sources`"][..]),
        (spec.replace("uid: bad", "uid: out"), &["wrong.yaml:1", "`out`"]),
        (spec.replace("  - uid: pass\n    input: in", "  - input: in"), &["wrong.yaml:7", "uid"]),
        (spec.replace("input: in\n", "input: pass\n"), &["circle", "pass"]),
        (spec.replace("input: in.invalid", "input: in.invalit"), &["wrong.yaml:1", "invalit", "`invalid`"]),
        (spec.replace("input: pass,", "input: pass.maim,"), &["wrong.yaml:1", "maim", "main"]),
        (spec.replace("key_by: [id]", "key_by: [ids]"), &["wrong.yaml:9", "ids", "id"]),
        (spec.replace("key_by: [id]", "key_by: [id]\n    parameters: { open: 7 }"), &["wrong.yaml:10", "open"]),
        (spec.replace("key_by: [id]", "key_by: [id]\n    parameters: { opn: a }"), &["wrong.yaml:10", "opn", "open"]),
        (spec.replace("timestamp: ts", "timestamp: tss"), &["wrong.yaml:5", "tss", "ts"]),
        (spec.replace("timestamp: ts", "timestamp: act"), &["wrong.yaml:5", "act"]),
        ("name: pass\nsources: []\n".to_owned(), &["wrong.yaml:2", "at least one"]),
        ("name: [".to_owned(), &["wrong.yaml:1"]),
    ];
    for (text, expected) in cases {
        place.write("wrong.yaml", &text);
        for command in ["validate", "run"] {
            place.run(&[command, "wrong.yaml"]).expect(2, expected);
        }
    }
    assert!(!place.path("out").exists(), "a job that was refused has written something");
    place.run(&["run", "absent.yaml"]).expect(2, &["absent.yaml"]);
}
