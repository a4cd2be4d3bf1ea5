//! Jobs whose operators read several streams: unions, sources that wait for each other, broadcast rules.

use serde_json::{Value, json};
use tidemill_tests::cli::{Workplace, component, records, signal};

/// A union of two sources, which may not drift apart.
fn union() -> Workplace {
    let place = Workplace::new();
    let source = |uid: &str| {
        format!(
            "  - uid: {uid}\n    file: {{ path: \"{uid}/*.jsonl\", format: json }}\n    timestamp: ts\n    \
             watermark: {{ align_with: all, max_drift: 1ms, idle_timeout: 10ms }}\n"
        )
    };
    place.write(
        "job.yaml",
        format!(
            "name: union\nsources:\n{}{}operators:\n  - uid: picky\n    input: [one, two]\n    key_by: [id]\n    component: {}\n    \
             on_error: dead-letter\nsinks:\n  - {{ uid: out, input: picky, file: {{ path: out/main, format: json }} }}\n  \
             - {{ uid: dead, input: picky.dead-letter, file: {{ path: out/dead, format: json }} }}\n",
            source("one"),
            source("two"),
            component("picky").display()
        ),
    );
    place
}

#[test]
fn a_union_of_aligned_sources_reads_all_of_both() {
    for parallelism in 1..=3 {
        let place = union();
        place.write("one/a.jsonl", records(&["pass"; 3000]));
        place.write("two/a.jsonl", "{\"id\": 9000, \"ts\": 100000, \"act\": \"timer\"}\n{\"id\": 9001, \"ts\": -5, \"act\": \"pass\"}\n");
        place.write("two/b.jsonl", "");
        place.run(&["run", "job.yaml", "--set", &format!("parallelism={parallelism}")]).expect(0, &["finished"]);
        let mut ids: Vec<i64> = place.visible("out/main").iter().filter_map(Value::as_i64).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..3000).chain([9001]).collect::<Vec<_>>());
        assert_eq!(place.visible("out/dead").len(), 1, "the timer fires at the end of all inputs");
    }
}

#[test]
fn an_operator_reads_a_source_beside_another_operator() {
    let place = Workplace::new();
    let source = |uid: &str| format!("  - {{ uid: {uid}, file: {{ path: {uid}.jsonl, format: json }}, timestamp: event_ts }}\n");
    place.write(
        "job.yaml",
        format!(
            "name: beside\nsources:\n{}{}operators:\n  - {{ uid: first, input: tills, key_by: [basket_id], component: {:?} }}\n  \
             - {{ uid: lines, input: [first, web], component: {:?}, parameters: {{ business_date: \"2026-08-15\" }} }}\n\
             sinks:\n  - {{ uid: out, input: lines, file: {{ path: out/main, format: json }} }}\n",
            source("tills"),
            source("web"),
            component("first_copy").display().to_string(),
            component("basket_lines").display().to_string(),
        ),
    );
    let baskets = |ids: &[&str]| -> String {
        let basket = |id: &&str| {
            json!({"basket_id": id, "store_id": 1, "till_id": 1, "business_date": "2026-08-15", "event_ts": 1, "uploaded_at": 2,
                "lines": [{"sku": "A", "qty": 1}]})
        };
        ids.iter().map(|id| format!("{}\n", basket(id))).collect()
    };
    place.write("tills.jsonl", baskets(&["a", "a", "b"]));
    place.write("web.jsonl", baskets(&["b", "c"]));
    place.run(&["run", "job.yaml", "--set", "parallelism=2"]).expect(0, &["finished"]);
    let mut ids: Vec<String> =
        place.visible("out/main").iter().map(|line| line["basket_id"].as_str().unwrap_or("none").to_owned()).collect();
    ids.sort();
    assert_eq!(ids, ["a", "b", "b", "c"], "the copy is dropped, what came beside it is not looked at");
}

/// A job that checks payments against rules, and follows its files.
fn limits(more: &str) -> Workplace {
    let place = Workplace::new();
    place.write(
        "job.yaml",
        format!(
            "name: limits\ncheckpoints: {{ interval: 50ms }}\nsources:\n\
             \x20 - {{ uid: payments, file: {{ path: \"payments/*.jsonl\", format: json, follow: true }}, timestamp: ts }}\n\
             \x20 - {{ uid: rules, file: {{ path: \"rules/*.jsonl\", format: json, follow: true }}, watermark: {{ idle_timeout: 1s }} }}\n\
             operators:\n  - uid: limits\n    input: payments\n    broadcast: rules\n    key_by: [account]\n    component: {}\n    \
             on_error: dead-letter\n{more}sinks:\n  - {{ uid: out, input: limits, file: {{ path: out/main, format: json }} }}\n  \
             - {{ uid: dead, input: limits.dead-letter, file: {{ path: out/dead, format: json }} }}\n",
            component("limits").display()
        ),
    );
    place
}

#[test]
fn broadcast_rules_survive_a_stop_and_reach_more_workers() {
    let place = limits("");
    place.write("payments/none.jsonl", "");
    // The last one is bad: once its letter is out, a checkpoint covers all of them.
    let rules = [json!({"name": "big", "limit": 100}), json!({"name": "gone", "limit": 1}), json!({"name": "gone", "limit": null})];
    let rules: String = rules.iter().map(|rule| format!("{rule}\n")).collect();
    place.write("rules/a.jsonl", rules + "{\"name\": \"bad\", \"limit\": -1}\n");
    let child = place.start(&["run", "job.yaml", "--set", "parallelism=2"]);
    place.wait_until("the rules have been read", || !place.visible("out/dead").is_empty());
    signal(&child, "-INT");
    place.finish(child).expect(0, &["stopped"]);
    let letters = place.visible("out/dead");
    assert_eq!((letters.len(), letters[0]["reason"].as_str()), (1, Some("a limit is at least 0")));
    assert_eq!(letters[0]["value"], r#"{"name":"bad","limit":-1}"#);
    assert_eq!(letters[0]["source"], "rules");

    let pay = |account: u32| format!("{}\n", json!({"account": account.to_string(), "ts": 1, "amount": 60}));
    place.write("payments/a.jsonl", (0..20).chain(0..20).map(pay).collect::<String>());
    let child = place.start(&["run", "job.yaml", "--set", "parallelism=3"]);
    place.wait_until("every account is over its limit", || place.visible("out/main").len() >= 20);
    signal(&child, "-INT");
    place.finish(child).expect(0, &["resumed", "stopped"]);
    let mut breaches: Vec<Value> = place.visible("out/main");
    breaches.sort_by_key(|breach| breach["account"].as_str().and_then(|account| account.parse::<u32>().ok()));
    let expected = |account: u32| json!({"account": account.to_string(), "rule": "big", "total": 120});
    assert_eq!(breaches, (0..20).map(expected).collect::<Vec<_>>());
}

#[test]
fn what_does_not_fit_is_refused_with_both_types() {
    let place = limits("");
    let other = format!(
        "  - {{ uid: other, input: [payments, limits], broadcast: rules, key_by: [account], component: {:?} }}\nsinks:\n",
        component("limits").display().to_string()
    );
    let spec = std::fs::read_to_string(place.path("job.yaml")).unwrap_or_default();
    place.write("other.yaml", spec.replace("sinks:\n", &other));
    place
        .run(&["validate", "other.yaml"])
        .expect(2, &["other.yaml:13", "operator `other` takes", "amount: i64", "but `limits` carries", "total: i64"]);

    place.write("sink.yaml", spec.replace("input: limits,", "input: [limits, limits.dead-letter],"));
    place.run(&["validate", "sink.yaml"]).expect(2, &["sink.yaml:14", "sink `out` gets", "from `limits`", "from `limits.dead-letter`"]);

    let broadcast = other.replace("[payments, limits], broadcast: rules", "payments, broadcast: [rules, limits]");
    place.write("broadcast.yaml", spec.replace("sinks:\n", &broadcast));
    place.run(&["validate", "broadcast.yaml"]).expect(2, &["broadcast.yaml:13", "as broadcast records, but `limits` carries"]);
}
