//! Components that break the contract or go over their limits: the record that is to blame gets the error policy, the others go on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tidemill_tests::cli::{Workplace, component};

/// A job of one component, keyed by `key`.
fn place(name: &str, parameters: &str) -> Workplace {
    let place = Workplace::new();
    place.write(
        "job.yaml",
        format!(
            "name: sandbox\nrestart: {{ strategy: exponential-delay, initial: 10ms, max: 20ms }}\n\
             sources:\n  - uid: in\n    file: {{ path: \"in/*.jsonl\", format: json }}\n\
             operators:\n  - uid: guest\n    input: in\n    key_by: [key]\n    component: {}\n    parameters: {parameters}\n    limits: {{ deadline: 10m }}\n\
             sinks:\n  - {{ uid: out, input: guest, file: {{ path: out/main, format: json }} }}\n\
             \x20 - {{ uid: dead, input: guest.dead-letter, file: {{ path: out/dead, format: json }} }}\n",
            component(name).display()
        ),
    );
    place
}

/// Runs records of which the second one cannot be processed, with either error policy.
#[track_caller]
fn refused(name: &str, parameters: &str, records: &str, expected_reason: &str) {
    let place = place(name, parameters);
    place.write("in/a.jsonl", records);
    if expected_reason.contains("took longer than") {
        let spec = std::fs::read_to_string(place.path("job.yaml")).unwrap();
        place.write("job.yaml", spec.replace("deadline: 10m", "deadline: 1s"));
    }
    let failed = place.run(&["run", "job.yaml"]);
    failed.expect(1, &["operator guest", expected_reason]);
    assert!(place.visible("out/main").is_empty());

    let ended = place.run(&["run", "job.yaml", "--fresh", "--set", "operators.guest.on_error=dead-letter"]);
    ended.expect(0, &["finished"]);
    let keys: Vec<Value> = place.visible("out/main").iter().map(|record| record["key"].clone()).collect();
    assert_eq!(keys, [json!("a"), json!("c")], "{parameters}");
    let dead = place.visible("out/dead");
    assert_eq!(dead.len(), 1, "{dead:#?}");
    let reason = dead.iter().find_map(|letter| letter.get("reason")?.as_str()).unwrap();
    assert!(reason.contains(expected_reason), "{reason}");
    for run in [&failed, &ended] {
        let (_, peak) = run.stdout.rsplit_once("peak memory: ").unwrap_or(("", "0 MiB"));
        let peak = peak.split(" MiB").next().and_then(|number| number.parse::<f64>().ok()).unwrap();
        assert!(peak < 800.0, "{parameters}: {peak} MiB, with a guest that may have 256 MiB");
    }
}

#[test]
fn an_answer_that_breaks_the_contract_is_refused_with_its_reason() {
    let records: String = ["a", "b", "c"].iter().map(|key| format!("{{\"key\": \"{key}\"}}\n")).collect();
    for (attack, reason) in [
        ("wrong-slot", "writes.slot"),
        ("wrong-lane", "outputs.lane"),
        ("unequal-columns", "outputs.row"),
        ("backward-ends", "outputs.payload"),
        ("ends-past-bytes", "outputs.payload"),
        ("consumed-too-large", "says that it consumed 2 rows, but the call has 1"),
        ("huge-output", "needed more than its 256 MiB of memory"),
    ] {
        refused("hostile", &format!("{{ attack: {attack}, only: b }}"), &records, reason);
    }
}

#[test]
fn an_honest_answer_of_the_same_guest_passes() {
    let place = place("hostile", "{}");
    place.write("in/a.jsonl", "{\"key\": \"a\"}\n");
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    assert_eq!(place.visible("out/main"), [json!({ "key": "a" })]);
}

#[test]
fn a_record_that_traps_loops_recurses_or_allocates_harms_no_other() {
    for (op, reason) in [
        (json!("trap"), "it reached `unreachable`"),
        (json!("loop"), "took longer than 1 s"),
        (json!("recurse"), "ran out of stack"),
        (json!({ "allocate": 300 }), "needed more than its 256 MiB of memory"),
        (json!({ "unreachable_after": [{ "emit": "lost" }, { "put": 3 }] }), "it reached `unreachable`"),
        (json!({ "fail": "no good" }), "no good"),
    ] {
        let record = |key: &str, op: &Value| format!("{}\n", json!({ "key": key, "ops": [op] }));
        let passes = json!({ "emit": "here" });
        refused("probe", "{}", &[record("a", &passes), record("b", &op), record("c", &passes)].concat(), reason);
    }
}
