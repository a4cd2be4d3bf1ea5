use std::path::Path;
use std::time::Duration;

use tidemill_wit::descriptor::TtlUpdate;

use super::{JOB, check, check_added, messages, read};
use crate::source::file::{OnGone, OnReplaced};
use crate::spec::job::{Checkpoints, Format, OnError, Restart, Retention, SinkConnector, SourceConnector, StateBackend, TableRows, Ttl};

/// A spec that says everything that can be said.
const FULL: &str = r#"
name: stock-out
parallelism: 2
max_parallelism: 256
state: { backend: memory }
checkpoints: { interval: 5s, timeout: 1m, min_pause: 100ms, tolerable_failures: 2, retain: 3, on_cancel: delete, on_finish: keep }
restart: { strategy: fixed-delay, delay: 2s, attempts: 4 }
data_dir: state
sources:
  - uid: baskets
    file: { path: "data/pos-*.jsonl", format: json, follow: true, max_record_bytes: 1MiB, on_replaced: begin_again, on_gone: skip }
    max_rate: 5000
    timestamp: event_ts
    watermark: { bounded_out_of_orderness: 5m, idle_timeout: 1m }
operators:
  - uid: stock-out
    input: [baskets]
    key_by: [store_id, sku]
    component: stock_out.wasm
    parameters: { confirm: 30m, date: 2026-08-15, level: 1.5, on: yes, off: false, big: 18446744073709551615 }
    tables:
      opening_stock: { path: data/opening_stock.csv, key: [store_id, sku] }
      prices: { rows: [{ sku: a, price: 1 }], key: sku }
    states: { pending: { ttl: 3d, ttl_update: on_read_and_write } }
    on_error: dead-letter
    end_of_input: { timers: none }
    limits: { memory: 64MiB, deadline: 2s, output: 1024 }
sinks:
  - { uid: alerts, input: stock-out, file: { path: out/alerts, format: csv } }
  - { uid: late, input: [stock-out.late, stock-out.dead-letter], file: { path: /var/late, format: json } }
"#;

#[test]
fn reads_everything() {
    let spec = read(FULL, &[]).unwrap();
    assert_eq!((&*spec.name, spec.parallelism, spec.max_parallelism()), ("stock-out", 2, 256));
    let checkpoints = Checkpoints {
        interval: Duration::from_secs(5),
        timeout: Duration::from_secs(60),
        min_pause: Duration::from_millis(100),
        tolerable_failures: 2,
        retain: 3,
        on_cancel: Retention::Delete,
        on_finish: Retention::Keep,
    };
    assert_eq!(spec.checkpoints, checkpoints);
    assert_eq!(spec.restart, Restart::FixedDelay { delay: Duration::from_secs(2), attempts: Some(4) });
    assert_eq!(spec.data_dir.as_deref(), Some(Path::new("/jobs/state")));

    let source = &spec.sources[0];
    let SourceConnector::File(file) = &source.connector;
    assert_eq!(
        (&*file.pattern.value, file.format, file.follow, file.max_record_bytes),
        ("/jobs/data/pos-*.jsonl", Format::Json, true, 1 << 20)
    );
    assert_eq!((file.on_replaced, file.on_gone), (OnReplaced::BeginAgain, OnGone::Skip));
    assert_eq!((source.max_rate, source.timestamp.as_ref().map(|field| &*field.value)), (Some(5000), Some("event_ts")));
    assert_eq!((source.watermark.bounded_out_of_orderness, source.watermark.idle_timeout), (300_000, Some(60_000)));

    let SinkConnector::File(late) = &spec.sinks[1].connector;
    assert_eq!(late.dir.value, Path::new("/var/late"));
    let lanes: Vec<_> = spec.sinks[1].inputs.iter().map(|stream| (&*stream.uid, &*stream.lane)).collect();
    assert_eq!(lanes, [("stock-out", "late"), ("stock-out", "dead-letter")]);
}

#[test]
fn reads_an_operator() {
    let spec = read(FULL, &[]).unwrap();
    let operator = &spec.operators[0];
    let key: Vec<&str> = operator.key_by.iter().flat_map(|key| &key.value).map(|field| &*field.value).collect();
    assert_eq!(key, ["store_id", "sku"]);
    assert_eq!(operator.component.value, Path::new("/jobs/stock_out.wasm"));
    let parameters =
        serde_json::json!({ "confirm": "30m", "date": "2026-08-15", "level": 1.5, "on": "yes", "off": false, "big": u64::MAX });
    assert_eq!(operator.parameters.value, parameters);
    assert!(matches!(&operator.tables[0].rows, TableRows::File(path) if path.value == Path::new("/jobs/data/opening_stock.csv")));
    assert!(matches!(&operator.tables[1].rows, TableRows::Inline(rows) if rows[0].value == serde_json::json!({ "sku": "a", "price": 1 })));
    assert_eq!(operator.tables[1].key.value, ["sku"]);
    assert_eq!((operator.states[0].ttl, operator.states[0].ttl_update), (Some(Ttl::After(259_200_000)), Some(TtlUpdate::OnReadAndWrite)));
    assert_eq!((operator.on_error, operator.fire_at_end), (OnError::DeadLetter, false));
    assert_eq!((operator.limits.memory, operator.limits.deadline, operator.limits.output), (64 << 20, Duration::from_secs(2), 1024));
}

#[test]
fn fills_in_defaults() {
    let spec = read(JOB, &[]).unwrap();
    assert_eq!((spec.parallelism, spec.max_parallelism, spec.max_parallelism()), (1, None, 128));
    assert_eq!((spec.state, &spec.data_dir), (StateBackend::Memory, &None));
    assert_eq!(spec.checkpoints, Checkpoints::default());
    assert_eq!(spec.checkpoints.interval, Duration::from_secs(10));
    let restart = Restart::ExponentialDelay {
        initial: Duration::from_secs(1),
        max: Duration::from_secs(60),
        multiplier: 1.5,
        jitter: 0.1,
        attempts: None,
    };
    assert_eq!(spec.restart, restart);
    assert_eq!((spec.operators[0].on_error, &spec.operators[0].key_by), (OnError::Fail, &None));
    assert!(spec.operators[0].fire_at_end);
    assert_eq!(spec.operators[0].parameters.value, serde_json::json!({}));
    assert_eq!((spec.operators[0].limits.memory, spec.operators[0].limits.deadline), (256 << 20, Duration::from_secs(10)));
    assert_eq!(read(&JOB.replace("sources:", "checkpoints:\nsources:"), &[]).unwrap().checkpoints, Checkpoints::default());
}

#[test]
fn names_unknown_fields() {
    check_added("parralelism: 2", "job.yaml:2:1: unknown field `parralelism`, did you mean `parallelism`?");
    check_added("checkpoints: { intervall: 5s }", "job.yaml:2:16: unknown field `intervall`, did you mean `interval`?");
    check(
        "timestamp:",
        "kafka:",
        "job.yaml:5:5: unknown field `kafka`; known: uid, file, max_rate, timestamp, watermark, on_invalid, max_invalid",
    );
    check(
        "format: json }\n    t",
        "formt: json }\n    t",
        "job.yaml:4:11: missing field `format`: how records are written: json or csv\njob.yaml:4:35: unknown field `formt`, did you mean `format`?",
    );
    check(
        "component: b",
        "window: x\n    component: b",
        "job.yaml:9:5: unknown field `window`; known: uid, input, broadcast, key_by, component, parameters, tables, states, on_error, end_of_input, limits",
    );
    check(
        "component: basket_lines.wasm",
        "component: a.wasm\n    limits: { memroy: 1MiB }",
        "job.yaml:10:15: unknown field `memroy`, did you mean `memory`?",
    );
}

#[test]
fn reports_all_problems_at_once() {
    let text = JOB.replace("name:", "parallelism: 0\nnam:").replace("format: json", "format: jsn");
    let expected = "\
job.yaml:1:1: missing field `name`: the job's name, of which its folder takes its name
job.yaml:1:14: `parallelism`: must be a whole number of at least 1, not 0
job.yaml:2:1: unknown field `nam`, did you mean `name`?
job.yaml:5:43: `format`: unknown value `jsn`, did you mean `json`?; known: json, csv
job.yaml:12:64: `format`: unknown value `jsn`, did you mean `json`?; known: json, csv";
    assert_eq!(messages(&text), expected);
}

#[test]
fn refuses_wrong_values() {
    for (line, expected) in [
        ("parallelism: two", "2:14: `parallelism`: must be a whole number of at least 1, not `two`"),
        ("parallelism: 1.5", "2:14: `parallelism`: must be a whole number of at least 1, not 1.5"),
        ("parallelism: 200\nmax_parallelism: 128", "2:14: `parallelism`: 200 is more than max_parallelism, which is 128"),
        ("parallelism: 513", "2:14: `parallelism`: must be at most 512, not 513: each worker is a thread of this machine"),
        ("max_parallelism: 32769", "2:18: `max_parallelism`: must be at most 32768, not 32769"),
        #[cfg(not(feature = "rocksdb"))]
        (
            "state: { backend: rocksdb }",
            "2:19: `backend`: the state backend rocksdb is not in this build; use memory, or build tidemill with `--features rocksdb`",
        ),
        #[cfg(feature = "rocksdb")]
        ("state: { backend: rocksdb, memory: 1MiB }", "2:36: `memory`: must be at least 8MiB, not `1MiB`"),
        ("state: { backend: memory, memory: 1GiB }", "2:35: `memory` does nothing with the state backend memory; remove it"),
        ("state: memory", "2:8: `state` must be a mapping of fields, not a string"),
        ("checkpoints: { interval: 10 }", "2:26: `interval`: 10 has no unit: write 10s or 10ms"),
        ("checkpoints: { interval: 0s }", "2:26: `interval`: must be at least 1ms, not `0s`"),
        ("checkpoints: { retain: 0 }", "2:24: `retain`: must be a whole number of at least 1, not 0"),
        ("checkpoints: { timeout: [1s] }", "2:25: `timeout`: must be a duration such as 30m, not a list"),
        ("checkpoints: { on_finish: remove }", "2:27: `on_finish`: unknown value `remove`; known: keep, delete"),
        ("restart: { jitter: 2 }", "2:20: `jitter`: must be a number from 0 to 1, not 2"),
        ("restart: { multiplier: 0.5 }", "2:24: `multiplier`: must be a number of at least 1, not 0.5"),
        ("restart: { initial: 5s, max: 1s }", "2:30: `max`: must not be shorter than `initial`"),
        ("restart: { strategy: none, attempts: 3 }", "2:38: `attempts` does nothing with the restart strategy none; remove it"),
        ("data_dir: 7", "2:11: `data_dir`: must be a string, not a number: write it in quotes"),
    ] {
        check_added(line, &format!("job.yaml:{expected}"));
    }
}

#[test]
fn refuses_wrong_values_in_the_graph() {
    check("uid: baskets", "uid: bas.kets", "job.yaml:3:10: `uid`: `bas.kets` may hold only letters, digits, `_` and `-`");
    check("name: stock-out", "name: ../x", "job.yaml:1:7: `name`: `../x` may hold only letters, digits, `_` and `-`");
    check("timestamp: event_ts", "max_rate: 0", "job.yaml:5:15: `max_rate`: must be a whole number of at least 1, not 0");
    check(
        "timestamp: event_ts",
        "watermark: { bounded_out_of_orderness: 5m }",
        "job.yaml:5:16: `watermark` does nothing without `timestamp`, the field that holds the event time",
    );
    for (fields, expected) in [
        (
            "{ align_with: all }",
            "6:16: missing field `max_drift`: how far the source may be ahead of the slowest one of its group, such as 1m",
        ),
        (
            "{ max_drift: 1m }",
            "6:29: `max_drift` does nothing without `align_with`, the name of a group of sources that wait for each other",
        ),
        ("{ align_with: \"a b\", max_drift: 1m }", "6:30: `align_with`: `a b` may hold only letters, digits, `_` and `-`"),
        ("{ align_with: all, max_drift: 5 }", "6:46: `max_drift`: 5 has no unit: write 5s or 5ms"),
        ("{ algn_with: all, max_drift: 5s }", "6:18: unknown field `algn_with`, did you mean `align_with`?"),
    ] {
        let said = messages(&JOB.replacen("event_ts", &format!("event_ts\n    watermark: {fields}"), 1));
        assert!(said.contains(&format!("job.yaml:{expected}")), "{said}");
    }
    check("timestamp: event_ts", "watermark: { idle_timeout: 5m }", "nothing is wrong");
    check("format: json }\n    t", "format: json, follow: yes }\n    t", "job.yaml:4:57: `follow`: must be true or false");
    check(
        "data/*.jsonl",
        "data/***.jsonl",
        "job.yaml:4:19: `path`: `data/***.jsonl` is not a file pattern: wildcards are either regular `*` or recursive `**`",
    );
    for (line, expected) in [
        ("limits: { deadline: 500ms }", "10:25: `deadline`: must be at least 1s, not `500ms`"),
        ("limits: { memory: 64KiB }", "10:23: `memory`: must be at least 1MiB, not `64KiB`"),
        (
            "limits: { memory: 256MB }",
            "10:23: `memory`: `256MB` is not a size: write a number of bytes, or a whole number and one of KiB, MiB, GiB",
        ),
        ("on_error: ignore", "10:15: `on_error`: unknown value `ignore`; known: fail, dead-letter"),
        ("end_of_input: { timers: later }", "10:29: `timers`: unknown value `later`; known: fire, none"),
        ("end_of_input: {}", "10:19: missing field `timers`: whether the event-time timers that are left fire: fire or none"),
        ("key_by: []", "10:13: `key_by`: the list is empty; name the fields that make the key"),
        ("key_by: [a, a]", "10:17: `key_by`: the field `a` is named twice"),
        ("parameters: 5", "10:17: `parameters` must be a mapping of fields, not a number"),
        ("tables: { t: { key: a } }", "10:18: the table `t` needs `path`, a CSV or JSON lines file, or `rows`"),
        ("tables: { t: { key: a, path: p, rows: [] } }", "10:43: the table `t` has both `path` and `rows`; keep one"),
        ("tables: { t: { key: a, rows: [{ b: 1 }] } }", "10:35: the row has no field `a`, which is part of the table's key"),
        (
            "states: { s: { ttl: never } }",
            "10:25: `ttl`: `never` is not a duration: write one integer and a unit (ms, s, m, h, d), for example 30m; or `none`, for ever",
        ),
        ("states: { s: { ttl: 3 } }", "10:25: `ttl`: 3 has no unit: write 3s or 3ms; or `none`, for ever"),
    ] {
        check("component: basket_lines.wasm", &format!("component: a.wasm\n    {line}"), &format!("job.yaml:{expected}"));
    }
}

#[test]
fn refuses_fields_that_are_given_twice() {
    check_added("name: b", "job.yaml:2:1: the field `name` is given twice, first at job.yaml:1:1");
    check("event_ts", "event_ts\n    uid: b", "job.yaml:6:5: the field `uid` is given twice, first at job.yaml:3:5");
}

#[test]
fn refuses_what_is_not_yaml() {
    assert_eq!(messages(""), "job.yaml: the job spec is empty");
    assert_eq!(messages("- a\n- b\n"), "job.yaml:1:1: a job spec must be a mapping of fields, not a list");
    assert_eq!(messages("name: [a\n"), "job.yaml:1:7: not valid YAML: unclosed bracket '['");
    assert_eq!(messages("name: a\n\tx: b\n"), "job.yaml:1:7: not valid YAML: while scanning a plain scalar, found a tab");
    let hinted = messages("name: a\nsources: [{ file: ${DATA}/x }]\n");
    assert!(hinted.starts_with("job.yaml:2:"), "{hinted}");
    assert!(hinted.ends_with("inside { } or [ ], write \"${NAME}\" in quotes"), "{hinted}");
}
