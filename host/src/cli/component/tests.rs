use tidemill_wit::descriptor::{Descriptor, LaneDescriptor, StateDescriptor, StateKind, TableDescriptor, TtlUpdate};
use tidemill_wit::schema::{Field, Shape, TableBuilder, Type, TypeTable};

use super::{Upload, as_json, text};

const FILE: Upload<'_> = Upload { path: "stock_out.wasm", digest: "abc", size: 48_128 };

fn descriptor() -> Descriptor {
    let field = |name: &str, ty, default| Field { name: name.to_owned(), aliases: Vec::new(), ty, default };
    let mut builder = TableBuilder::default();
    let root = builder.named("p", "Parameters", |_| {
        let confirm = field("confirm", Type::Duration, postcard::to_allocvec(&1_800_000i64).ok());
        Shape::Struct(vec![confirm, field("limit", Type::I64, None), field("name", Type::String, Some(vec![1, b'x']))])
    });
    let key = || TypeTable::of(Type::Tuple(vec![Type::I64, Type::String]));
    let state = |name: &str, kind, entry_key, ttl| StateDescriptor {
        name: name.to_owned(),
        kind,
        value: TypeTable::of(Type::I64),
        entry_key,
        ttl,
        ttl_update: TtlUpdate::OnCreateAndWrite,
    };
    Descriptor {
        name: "stock_out".to_owned(),
        version: "1.0.0".to_owned(),
        input: TypeTable::of(Type::String),
        key: Some(key()),
        parameters: builder.finish(root),
        states: vec![
            state("level", StateKind::Value, None, None),
            state("pending", StateKind::Map, Some(TypeTable::of(Type::I64)), Some(259_200_000)),
        ],
        lanes: vec![LaneDescriptor { name: "main".to_owned(), schema: TypeTable::of(Type::Bool) }],
        tables: vec![TableDescriptor { name: "opening".to_owned(), row: TypeTable::of(Type::I64), key: key(), optional: true }],
        broadcast: Some(TypeTable::of(Type::U8)),
        broadcast_states: vec![state("rules", StateKind::Map, Some(TypeTable::of(Type::String)), None)],
    }
}

#[test]
fn people_see_everything_that_is_declared() {
    let expected = "\
component   stock_out 1.0.0
file        stock_out.wasm, 47.0 KiB
digest      sha256:abc
key         (i64, string)
input       string
lanes       main: bool
broadcast   u8
states      level: value i64
            pending: map i64 -> i64, ttl 3d on_create_and_write
            rules: broadcast map string -> i64
tables      opening: (i64, string) -> i64, optional
parameters  confirm: duration = 30m
            limit: i64
            name: string = \"x\"
";
    assert_eq!(text(&FILE, &descriptor()), expected);
    let bare = text(&FILE, &Descriptor { parameters: TypeTable::default(), ..Descriptor::default() });
    assert!(
        bare.contains("\nkey         none\n") && bare.contains("\nstates      none\n") && bare.ends_with("\nparameters  none\n"),
        "{bare}"
    );
}

#[test]
fn programs_see_the_same() {
    let shown = as_json(&FILE, &descriptor());
    assert_eq!(shown["digest"], "abc");
    assert_eq!(shown["size"], 48_128);
    assert_eq!(shown["states"][1]["ttl_ms"], 259_200_000);
    assert_eq!(shown["states"][1]["kind"], "map");
    assert_eq!(shown["parameters"][0]["default"], 1_800_000);
    assert_eq!(shown["parameters"][1]["default"], serde_json::Value::Null);
    assert_eq!(shown["lanes"][0]["name"], "main");
    assert_eq!((&shown["broadcast"], &shown["broadcast_states"][0]["key"]), (&"u8".into(), &"string".into()));
}
