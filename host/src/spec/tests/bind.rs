use std::collections::HashMap;

use tidemill_wit::descriptor::{Descriptor, LaneDescriptor, StateDescriptor, StateKind, TableDescriptor, TtlUpdate};
use tidemill_wit::schema::{Field, Shape, TableBuilder, Type, TypeTable};

use super::read;
use crate::spec::plan::{Output, Plan, bind};

/// An operator that uses all that its component has.
const JOB: &str = "\
name: a
sources:
  - { uid: s, timestamp: event_ts, file: { path: s, format: json } }
operators:
  - uid: o
    input: s
    component: o.wasm
    key_by: [store_id, sku]
    parameters: { confirm: 30m }
    tables: { stock: { path: x.csv, key: [store_id, sku] } }
    states: { level: { ttl: 1d } }
sinks:
  - { uid: x, input: o, file: { path: x, format: json } }
  - { uid: y, input: o.late, file: { path: y, format: json } }
  - { uid: z, input: [s.invalid], file: { path: z, format: json } }
  - { uid: d, input: o.dead-letter, file: { path: d, format: json } }
";

fn structure(fields: &[(&str, Type)]) -> TypeTable {
    let field = |(name, ty): &(&str, Type)| Field { name: (*name).to_owned(), aliases: Vec::new(), ty: ty.clone(), default: None };
    let mut builder = TableBuilder::default();
    let root = builder.named("t", "T", |_| Shape::Struct(fields.iter().map(field).collect()));
    builder.finish(root)
}

fn descriptor() -> Descriptor {
    let key = || TypeTable::of(Type::Tuple(vec![Type::I64, Type::String]));
    let lane = |name: &str| LaneDescriptor { name: name.to_owned(), schema: TypeTable::of(Type::I64) };
    Descriptor {
        name: "stock_out".to_owned(),
        input: structure(&[("store_id", Type::I64), ("sku", Type::String), ("event_ts", Type::I64)]),
        key: Some(key()),
        parameters: structure(&[("confirm", Type::Duration), ("limit", Type::Option(Box::new(Type::I64)))]),
        states: vec![StateDescriptor {
            name: "level".to_owned(),
            kind: StateKind::Value,
            value: TypeTable::of(Type::I64),
            entry_key: None,
            ttl: None,
            ttl_update: TtlUpdate::OnCreateAndWrite,
        }],
        lanes: vec![lane("main"), lane("late")],
        tables: vec![TableDescriptor { name: "stock".to_owned(), row: TypeTable::of(Type::I64), key: key(), optional: false }],
        ..Descriptor::default()
    }
}

fn bound(text: &str) -> Result<Vec<Output>, String> {
    bound_to(descriptor(), text)
}

fn bound_to(descriptor: Descriptor, text: &str) -> Result<Vec<Output>, String> {
    let spec = read(text, &[]).map_err(|error| error.to_string())?;
    let plan = Plan::of(&spec).map_err(|error| error.to_string())?;
    bind(&spec, &plan, &HashMap::from([("o".to_owned(), descriptor)])).map_err(|error| error.to_string())
}

fn check(from: &str, to: &str, expected: &str) {
    assert!(JOB.contains(from), "{from}");
    assert_eq!(bound(&JOB.replacen(from, to, 1)).unwrap_err(), expected, "{to}");
}

#[test]
fn edges_learn_what_they_carry() {
    let expected = vec![Output::Lane(0), Output::Lane(0), Output::Lane(1), Output::Invalid, Output::DeadLetter];
    assert_eq!(bound(JOB), Ok(expected));
}

#[test]
fn lanes_must_be_declared() {
    check("o.late", "o.lat", "job.yaml:14:22: the operator `o` has no lane `lat`, did you mean `late`?");
    check("o.late", "o.x", "job.yaml:14:22: the operator `o` has no lane `x`; known: main, late, dead-letter");
}

#[test]
fn keys_and_times_must_be_fields() {
    check(
        "[store_id, sku]",
        "[store, sku]",
        "job.yaml:8:14: `key_by`: the input of the component `stock_out` has no field `store`; known: store_id, sku, event_ts",
    );
    check("[store_id, sku]", "sku", "job.yaml:8:13: `key_by` names 1 field(s), but the component's key has 2");
    check("    key_by: [store_id, sku]\n", "", "job.yaml:7:16: the component `stock_out` has a key: name its fields under `key_by`");
    check(
        "event_ts",
        "event_t",
        "job.yaml:3:26: `timestamp`: the input of the component `stock_out` has no field `event_t`, did you mean `event_ts`?",
    );
}

#[test]
fn broadcast_records_must_be_taken_and_given() {
    let rules = JOB
        .replace("sources:\n", "sources:\n  - { uid: r, timestamp: since, file: { path: r, format: json } }\n")
        .replace("    input: s\n", "    input: s\n    broadcast: r\n");
    assert_eq!(bound(&rules).unwrap_err(), "job.yaml:8:16: the component `stock_out` takes no broadcast records: remove `broadcast`");
    let state = StateDescriptor { name: "rules".to_owned(), ..descriptor().states.remove(0) };
    let ruled = Descriptor { broadcast: Some(structure(&[("since", Type::I64)])), broadcast_states: vec![state], ..descriptor() };
    assert_eq!(bound_to(ruled.clone(), &rules).map(|outputs| outputs.len()), Ok(6));
    assert_eq!(
        bound_to(ruled.clone(), JOB).unwrap_err(),
        "job.yaml:7:16: the component `stock_out` takes broadcast records: name their streams under `broadcast`"
    );
    assert_eq!(
        bound_to(ruled.clone(), &rules.replace("timestamp: since", "timestamp: sinc")).unwrap_err(),
        "job.yaml:3:26: `timestamp`: the input of the component `stock_out` has no field `sinc`, did you mean `since`?"
    );
    assert_eq!(
        bound_to(ruled, &rules.replace("level:", "rules:")).unwrap_err(),
        "job.yaml:13:15: the state `rules` is a broadcast state, which has no ttl"
    );
}

#[test]
fn parameters_states_and_tables_must_be_declared() {
    check(
        "confirm",
        "confrm",
        "job.yaml:9:17: missing parameter `confirm` of `o`\njob.yaml:9:19: `o` has no parameter `confrm`, did you mean `confirm`?",
    );
    check("level:", "levl:", "job.yaml:11:15: the component `stock_out` has no state `levl`, did you mean `level`?");
    check(
        "{ ttl: 1d }",
        "{ ttl: none, ttl_update: on_read_and_write }",
        "job.yaml:11:15: `ttl_update` does nothing: the state `level` has no ttl",
    );
    check("{ ttl: 1d }", "{ ttl_update: on_read_and_write }", "job.yaml:11:15: `ttl_update` does nothing: the state `level` has no ttl");
    check(
        "stock:",
        "stok:",
        "job.yaml:7:16: the component `stock_out` needs the table `stock`: give it under `tables`\njob.yaml:10:15: the component `stock_out` has no table `stok`, did you mean `stock`?",
    );
    check(
        "key: [store_id, sku]",
        "key: sku",
        "job.yaml:10:42: the key of the table `stock` names 1 field(s), but the component's key has 2",
    );
}

#[test]
fn a_table_that_is_optional_may_be_left_out() {
    let without = JOB.replacen("    tables: { stock: { path: x.csv, key: [store_id, sku] } }\n", "", 1);
    assert_eq!(bound(&without).unwrap_err(), "job.yaml:7:16: the component `stock_out` needs the table `stock`: give it under `tables`");
    let mut optional = descriptor();
    optional.tables[0].optional = true;
    assert_eq!(bound_to(optional, &without), bound(JOB));
}
