use tidemill_wit::schema::{NamedType, Shape, Type, TypeTable};

use super::FieldPath;
use crate::schema::samples::{basket, everything, field, list, optional, record, structure};
use crate::schema::scalar::{put_blob, put_signed_varint, put_varint};

/// `{id: string, flags: [bool], at: {note?: string, time: Newtype(i64)}, seen?: u64}`
fn nested() -> TypeTable {
    let root = structure(
        "Root",
        vec![field("id", Type::String), field("flags", list(Type::Bool)), field("at", Type::Named(1)), field("seen", optional(Type::U64))],
    );
    let at = structure("At", vec![field("note", optional(Type::String)), field("time", Type::Named(2))]);
    TypeTable { types: vec![root, at, NamedType { name: "Millis".to_owned(), shape: Shape::Newtype(Type::I64) }], root: Type::Named(0) }
}

fn nested_value(time: i64, seen: Option<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    put_blob(&mut out, b"x");
    out.extend_from_slice(&[2, 0, 1]);
    out.push(1);
    put_blob(&mut out, b"note");
    put_signed_varint(&mut out, time);
    out.push(u8::from(seen.is_some()));
    if let Some(seen) = seen {
        put_varint(&mut out, seen);
    }
    out
}

#[test]
fn timestamps_are_found_through_nested_types() {
    let path = |name| FieldPath::resolve(&nested(), name).unwrap().as_timestamp().unwrap();
    for time in [0, -1, i64::MIN, i64::MAX, 1_786_752_000_000] {
        assert_eq!(path("at.time").timestamp(&nested_value(time, None)), Ok(Some(time)));
        assert_eq!(path("seen").timestamp(&nested_value(time, None)), Ok(None));
        assert_eq!(path("seen").timestamp(&nested_value(time, Some(9))), Ok(Some(9)));
    }
    let beyond = path("seen").timestamp(&nested_value(0, Some(u64::MAX))).unwrap_err();
    assert_eq!(beyond, "field `seen`: 18446744073709551615 is beyond the range of a timestamp");
    let whole = nested_value(1, Some(9));
    for end in 0..whole.len() {
        assert!(path("seen").timestamp(&whole[..end]).is_err());
    }
}

#[test]
fn wrong_paths_are_explained() {
    for (path, expected) in [
        ("event", "there is no field `event`; the fields are basket_id, store_id, till_id, business_date, event_ts, uploaded_at, lines"),
        ("store_id.x", "`store_id` is i64, which has no fields"),
        ("lines.sku", "`lines` is [{sku: string, qty: i64}], which has no fields"),
        ("", "there is no field ``; the fields are basket_id, store_id, till_id, business_date, event_ts, uploaded_at, lines"),
    ] {
        assert_eq!(FieldPath::resolve(&basket(), path).unwrap_err(), expected);
    }
    assert_eq!(FieldPath::resolve(&nested(), "at.tim").unwrap_err(), "there is no field `tim` in `at`; the fields are note, time");
    assert_eq!(FieldPath::resolve(&TypeTable::of(Type::I64), "a").unwrap_err(), "a value of type i64 has no fields");
    let text = FieldPath::resolve(&basket(), "basket_id").unwrap().as_timestamp().unwrap_err();
    assert_eq!(text, "field `basket_id` is string; a timestamp must be an integer, in milliseconds");
}

#[test]
fn random_bytes_never_panic() {
    let mut random = fastrand::Rng::with_seed(7);
    let fields = [("bytes", Type::Bytes), ("tree", list(list(Type::U16))), ("ts", Type::I32)];
    for (table, name) in [(record(&fields), "ts"), (everything(), "maybe"), (nested(), "at.time")] {
        let path = FieldPath::resolve(&table, name).unwrap();
        for _ in 0..5_000 {
            let bytes: Vec<u8> = (0..random.usize(..40)).map(|_| if random.bool() { random.u8(..4) } else { random.u8(..) }).collect();
            let _ = path.timestamp(&bytes);
        }
    }
}
