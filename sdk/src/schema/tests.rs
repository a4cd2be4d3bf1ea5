use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use tidemill_wit::schema::{Content, Field, NamedType, Shape, Type, TypeTable, Variant};

use super::table_of;
use crate::{Duration, Schema};

fn field(name: &str, ty: Type) -> Field {
    Field { name: name.to_owned(), aliases: Vec::new(), ty, default: None }
}

fn variant(name: &str, content: Content) -> Variant {
    Variant { name: name.to_owned(), aliases: Vec::new(), content }
}

/// The table has one named type with this shape.
#[track_caller]
fn check<T: Schema>(name: &str, shape: Shape) {
    let named = NamedType { name: name.to_owned(), shape };
    let table = table_of::<T>();
    assert_eq!(table, TypeTable { types: vec![named], root: Type::Named(0) });
    assert_eq!(TypeTable::from_bytes(&table.to_bytes()), Ok(table));
}

#[test]
fn types_without_a_name() {
    let list = |item| Type::List(Box::new(item));
    let map = |key, value| Type::Map(Box::new(key), Box::new(value));
    for (table, root) in [
        (table_of::<()>(), Type::Unit),
        (table_of::<&str>(), Type::String),
        (table_of::<Cow<'_, str>>(), Type::String),
        (table_of::<Duration>(), Type::Duration),
        (table_of::<Box<i8>>(), Type::I8),
        (table_of::<Vec<Option<f32>>>(), list(Type::Option(Box::new(Type::F32)))),
        (table_of::<BTreeMap<String, u64>>(), map(Type::String, Type::U64)),
        (table_of::<HashMap<i16, bool>>(), map(Type::I16, Type::Bool)),
        (table_of::<(i64,)>(), Type::Tuple(vec![Type::I64])),
        (table_of::<(u8, String, f64)>(), Type::Tuple(vec![Type::U8, Type::String, Type::F64])),
    ] {
        assert_eq!(table, TypeTable::of(root));
    }
}

#[derive(Serialize, Deserialize, Schema)]
struct Borrowing<'a, 'b> {
    name: &'a str,
    #[serde(borrow)]
    rest: Vec<(Cow<'b, str>, i64)>,
}

#[derive(Serialize, Deserialize, Schema)]
struct Newtype(u32);

#[derive(Serialize, Deserialize, Schema)]
struct Pair(u32, String);

#[derive(Serialize, Deserialize, Schema)]
struct Unit;

#[derive(Serialize, Deserialize, Schema)]
#[serde(transparent)]
struct Transparent {
    inner: i64,
}

#[test]
fn structs() {
    let rest = Type::List(Box::new(Type::Tuple(vec![Type::String, Type::I64])));
    check::<Borrowing<'_, '_>>("Borrowing", Shape::Struct(vec![field("name", Type::String), field("rest", rest)]));
    check::<Newtype>("Newtype", Shape::Newtype(Type::U32));
    check::<Pair>("Pair", Shape::Newtype(Type::Tuple(vec![Type::U32, Type::String])));
    check::<Unit>("Unit", Shape::Newtype(Type::Unit));
    check::<Transparent>("Transparent", Shape::Newtype(Type::I64));
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
enum Event {
    StockOut,
    #[serde(rename = "books", alias = "book-error")]
    BookError(i64),
    Both(i64, bool),
    Fields {
        store_id: i64,
        r#type: u8,
    },
}

#[test]
fn enums() {
    let mut renamed = variant("books", Content::Newtype(Type::I64));
    renamed.aliases.push("book-error".to_owned());
    let variants = vec![
        variant("STOCK_OUT", Content::Unit),
        renamed,
        variant("BOTH", Content::Tuple(vec![Type::I64, Type::Bool])),
        variant("FIELDS", Content::Struct(vec![field("storeId", Type::I64), field("type", Type::U8)])),
    ];
    check::<Event>("Event", Shape::Enum(variants));
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(rename_all = "kebab-case", rename = "Shown")]
struct Attributed {
    #[serde(default)]
    first_field: i64,
    #[serde(default = "seven", alias = "b", alias = "c")]
    second_field: i64,
    #[serde(rename = "third")]
    third_field: Option<String>,
    #[serde(skip)]
    fourth_field: u8,
}

fn seven() -> i64 {
    7
}

#[test]
fn attributes_are_honoured() {
    let fields = vec![
        Field { default: Some(vec![0]), ..field("first-field", Type::I64) },
        Field { default: Some(vec![14]), aliases: vec!["b".to_owned(), "c".to_owned()], ..field("second-field", Type::I64) },
        field("third", Type::Option(Box::new(Type::String))),
    ];
    check::<Attributed>("Shown", Shape::Struct(fields));
    let value = Attributed { first_field: 1, second_field: 2, third_field: None, fourth_field: 3 };
    let bytes = postcard::to_allocvec(&value).unwrap();
    assert_eq!((bytes.as_slice(), value.fourth_field), (&[2, 4, 0][..], 3), "the schema names what is serialized");
}

#[derive(Serialize, Deserialize, Schema)]
#[serde(default)]
struct Defaults {
    wait: Duration,
    label: String,
    #[serde(default)]
    own: u8,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { wait: Duration::from_mins(1), label: "x".to_owned(), own: 9 }
    }
}

#[test]
fn defaults_of_the_whole_struct() {
    let fields = vec![
        Field { default: postcard::to_allocvec(&60_000i64).ok(), ..field("wait", Type::Duration) },
        Field { default: Some(vec![1, b'x']), ..field("label", Type::String) },
        Field { default: Some(vec![0]), ..field("own", Type::U8) },
    ];
    check::<Defaults>("Defaults", Shape::Struct(fields));
}

#[derive(Serialize, Deserialize, Schema)]
struct Tree {
    children: Vec<Tree>,
    next: Option<Box<Tree>>,
}

#[test]
fn recursive_types_refer_to_themselves() {
    let (children, next) = (Type::List(Box::new(Type::Named(0))), Type::Option(Box::new(Type::Named(0))));
    check::<Tree>("Tree", Shape::Struct(vec![field("children", children), field("next", next)]));
}

#[derive(Serialize, Deserialize, Schema)]
struct Tagged<T> {
    tag: u8,
    item: T,
}

#[test]
fn generic_types_are_told_apart_and_shared_types_are_listed_once() {
    let table = table_of::<(Tagged<i64>, Tagged<String>, Tagged<i64>)>();
    assert_eq!(table.root, Type::Tuple(vec![Type::Named(0), Type::Named(1), Type::Named(0)]));
    let items: Vec<_> = table.types.iter().map(|named| named.shape.clone()).collect();
    let shape = |item| Shape::Struct(vec![field("tag", Type::U8), field("item", item)]);
    assert_eq!(items, [shape(Type::I64), shape(Type::String)]);
}
