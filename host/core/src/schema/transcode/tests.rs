use tidemill_wit::schema::{Content, NamedType, Shape, Type, TypeTable, Variant};

use super::{Mismatch, Transcoder};
use crate::schema::equivalent;
use crate::schema::samples::{basket, everything, field, list, optional, random_value, record, structure, tree};
use crate::schema::walk;

fn transcode(from: &TypeTable, to: &TypeTable, value: &[u8]) -> Vec<u8> {
    let mut out = vec![99];
    Transcoder::new(from, to).unwrap().transcode(value, &mut out).unwrap();
    walk::check(to, &out[1..]).unwrap();
    out.split_off(1)
}

fn bytes<T: serde::Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).unwrap()
}

fn mismatch(from: &TypeTable, to: &TypeTable) -> Mismatch {
    Transcoder::new(from, to).unwrap_err()
}

fn variant(name: &str, content: Content) -> Variant {
    Variant { name: name.to_owned(), aliases: Vec::new(), content }
}

fn choice(variants: Vec<Variant>) -> TypeTable {
    TypeTable { types: vec![NamedType { name: "Choice".to_owned(), shape: Shape::Enum(variants) }], root: Type::Named(0) }
}

#[test]
fn the_same_type_is_copied() {
    let mut random = fastrand::Rng::with_seed(4);
    for table in [basket(), tree(), everything()] {
        let transcoder = Transcoder::new(&table, &table).unwrap();
        assert!(transcoder.is_identity() && equivalent(&table, &table));
        for _ in 0..300 {
            let (mut value, mut out) = (Vec::new(), Vec::new());
            random_value(&table, &table.root, &mut || random.u64(..), &mut value);
            transcoder.transcode(&value, &mut out).unwrap();
            assert_eq!(out, value);
            let at = random.usize(..value.len());
            value[at] = random.u8(..);
            assert_eq!(transcoder.transcode(&value, &mut Vec::new()).is_ok(), walk::check(&table, &value).is_ok());
        }
    }
}

#[test]
fn fields_are_matched_by_name_and_alias() {
    let from = record(&[("a", Type::I64), ("gone", Type::Named(1)), ("b", Type::String), ("old", Type::Bool)]);
    let from = TypeTable { types: [from.types, vec![structure("Gone", vec![field("x", list(Type::U16))])]].concat(), root: from.root };
    let mut added = field("added", Type::U16);
    added.default = Some(vec![0xAC, 2]);
    let mut renamed = field("new", Type::Bool);
    renamed.aliases.push("old".to_owned());
    let fields = vec![field("b", Type::String), added, field("note", optional(Type::String)), renamed, field("a", optional(Type::I64))];
    let to = TypeTable { types: vec![structure("To", fields)], root: Type::Named(0) };
    let value = bytes(&(-5_i64, vec![1_u16, 2], "text", true));
    assert_eq!(transcode(&from, &to, &value), bytes(&("text", 300_u16, None::<String>, true, Some(-5_i64))));
    assert!(!Transcoder::new(&from, &to).unwrap().is_identity() && !equivalent(&from, &to));
}

#[test]
fn integers_are_widened() {
    let of = |ty: &Type| record(&[("n", ty.clone())]);
    let widened = |from: Type, to: Type, value: &[u8]| transcode(&of(&from), &of(&to), value);
    assert_eq!(widened(Type::U8, Type::U32, &[200]), bytes(&200_u32));
    assert_eq!(widened(Type::I8, Type::I64, &bytes(&-3_i8)), bytes(&-3_i64));
    assert_eq!(widened(Type::U32, Type::I64, &bytes(&u32::MAX)), bytes(&i64::from(u32::MAX)));
    assert_eq!(widened(Type::I16, Type::I32, &bytes(&i16::MIN)), bytes(&i32::from(i16::MIN)));
    assert!(Transcoder::new(&of(&Type::I32), &of(&Type::I64)).unwrap().is_identity());
    assert!(!equivalent(&of(&Type::I32), &of(&Type::I64)));
    for (from, to) in [(Type::I64, Type::I32), (Type::I8, Type::U64), (Type::U64, Type::I64), (Type::U8, Type::I8)] {
        assert_eq!(mismatch(&of(&from), &of(&to)).reason, "the new type does not hold every integer of the old one");
    }
}

#[test]
fn variants_are_matched_by_name() {
    let from = choice(vec![
        variant("A", Content::Unit),
        variant("B", Content::Newtype(Type::U8)),
        variant("C", Content::Tuple(vec![Type::I8, Type::Bool])),
        variant("D", Content::Struct(vec![field("x", Type::I8), field("y", Type::Bool)])),
    ]);
    let mut to = choice(vec![
        variant("New", Content::Unit),
        variant("D", Content::Struct(vec![field("y", Type::Bool)])),
        variant("C", Content::Tuple(vec![Type::I8, optional(Type::Bool)])),
        variant("Bee", Content::Newtype(Type::U64)),
        variant("A", Content::Unit),
    ]);
    if let Shape::Enum(variants) = &mut to.types[0].shape {
        variants[3].aliases.push("B".to_owned());
    }
    for (value, expected) in [(&[0][..], &[4][..]), (&[1, 200], &[3, 200, 1]), (&[2, 7, 1], &[2, 7, 1, 1]), (&[3, 7, 1], &[1, 1])] {
        assert_eq!(transcode(&from, &to, value), expected);
    }
    assert_eq!(
        mismatch(&from, &choice(vec![variant("A", Content::Unit)])).to_string(),
        "the value: the variant `B` is gone (old type A | B(u8,) | C(i8, bool) | D {x: i8, y: bool}, new type A)"
    );
    let changed = choice(vec![variant("A", Content::Newtype(Type::Bool))]);
    assert_eq!(mismatch(&choice(vec![variant("A", Content::Unit)]), &changed).reason, "the content of the variant has changed");
}

#[test]
fn recursive_types_are_followed() {
    let fields =
        vec![field("next", optional(Type::Named(0))), field("name", optional(Type::String)), field("children", list(Type::Named(0)))];
    let to = TypeTable { types: vec![structure("NewTree", fields)], root: Type::Named(0) };
    // {name: "r", children: [{name: "c", [], none}], next: {name: "n", [], none}}
    let value = [&b"\x01r\x01"[..], b"\x01c\0\0", b"\x01", b"\x01n\0\0"].concat();
    let expected = [&b"\x01"[..], b"\0\x01\x01n\0", b"\x01\x01r", b"\x01", b"\0\x01\x01c\0"].concat();
    assert_eq!(transcode(&tree(), &to, &value), expected);
}

#[test]
fn other_changes_are_refused_with_the_place() {
    let change = |ty: Type| {
        let mut to = basket();
        if let Shape::Struct(fields) = &mut to.types[1].shape {
            fields[1].ty = ty;
        }
        mismatch(&basket(), &to).to_string()
    };
    assert_eq!(change(Type::String), "field `lines[].qty`: the type has changed (old type i64, new type string)");
    assert_eq!(change(Type::Duration), "field `lines[].qty`: the type has changed (old type i64, new type duration)");
    assert_eq!(change(list(Type::I64)), "field `lines[].qty`: the type has changed (old type i64, new type [i64])");
    let map = |key: Type, value: Type| record(&[("m", Type::Map(Box::new(key), Box::new(value)))]);
    for (from, to, expected) in [
        (
            record(&[("a", Type::I8)]),
            record(&[("a", Type::I8), ("b", Type::I8)]),
            "field `b`: the new field has neither a default nor an option's type (old type none, new type i8)",
        ),
        (record(&[("a", optional(Type::I8))]), record(&[("a", Type::I8)]), "field `a`: the type has changed (old type i8?, new type i8)"),
        (map(Type::I8, Type::I8), map(Type::Bool, Type::I8), "field `m{key}`: the type has changed (old type i8, new type bool)"),
        (map(Type::I8, Type::F32), map(Type::I8, Type::F64), "field `m{}`: the type has changed (old type f32, new type f64)"),
        (
            TypeTable::of(Type::Tuple(vec![Type::I8])),
            TypeTable::of(Type::Tuple(vec![])),
            "the value: the type has changed (old type (i8,), new type ())",
        ),
        (record(&[]), TypeTable::of(Type::Unit), "the value: the type has changed (old type {}, new type nothing)"),
    ] {
        assert_eq!(mismatch(&from, &to).to_string(), expected);
    }
}

#[test]
fn comparing_hostile_types_has_an_end() {
    // Two cycles whose lengths have no common factor: the pairs would be their product.
    let cycle = |length: u32| {
        let types = (0..length).map(|n| structure("C", vec![field("next", list(Type::Named((n + 1) % length)))])).collect();
        TypeTable { types, root: Type::Named(0) }
    };
    assert_eq!(mismatch(&cycle(1_023), &cycle(1_024)).reason, "the types are too large to be compared");
    assert!(!equivalent(&cycle(1_023), &cycle(1_024)));
    assert!(equivalent(&cycle(3), &cycle(4)) && Transcoder::new(&cycle(3), &cycle(4)).unwrap().is_identity());
}
