use serde_json::Value;
use tidemill_wit::schema::{Type, TypeTable};

use super::JsonEncoder;
use crate::schema::samples::{basket, everything, list, optional, random_value, record, tree};
use crate::schema::walk;

fn json(table: &TypeTable, payload: &[u8]) -> Result<String, String> {
    let mut out = b"before ".to_vec();
    let result = JsonEncoder::new(table.clone()).encode(payload, &mut out);
    assert!(out.starts_with(b"before ") && (result.is_ok() || out.len() == 7));
    result.map(|()| String::from_utf8(out[7..].to_vec()).unwrap())
}

#[test]
fn values_look_as_serde_json_writes_them() {
    let map = |key, value| Type::Map(Box::new(key), Box::new(value));
    let fields = [
        ("big", Type::U64),
        ("low", Type::I64),
        ("text", Type::String),
        ("nan", Type::F64),
        ("tenth", Type::F32),
        ("pairs", map(Type::Bool, Type::I8)),
        ("names", map(Type::I32, optional(Type::Unit))),
        ("bytes", Type::Bytes),
        ("pair", Type::Tuple(vec![Type::Bool, list(Type::U8)])),
    ];
    type Row<'a> = (u64, i64, &'a str, f64, f32, Vec<(bool, i8)>, Vec<(i32, Option<()>)>, Vec<u8>, (bool, Vec<u8>));
    let row: Row<'_> =
        (u64::MAX, i64::MIN, "a\"\0\n\u{7f}é", f64::NAN, 0.1, vec![(true, -1)], vec![(-3, None)], vec![255], (false, vec![1, 2]));
    assert_eq!(
        json(&record(&fields), &postcard::to_allocvec(&row).unwrap()).unwrap(),
        "{\"big\":18446744073709551615,\"low\":-9223372036854775808,\"text\":\"a\\\"\\u0000\\n\u{7f}é\",\"nan\":\"NaN\",\"tenth\":0.1,\
         \"pairs\":[[true,-1]],\"names\":{\"-3\":null},\"bytes\":\"/w==\",\"pair\":[false,[1,2]]}"
    );
}

#[test]
fn random_values_are_valid_json_and_mutations_never_panic() {
    let mut random = fastrand::Rng::with_seed(3);
    for table in [basket(), tree(), everything()] {
        for _ in 0..2_000 {
            let mut payload = Vec::new();
            random_value(&table, &table.root, &mut || random.u64(..), &mut payload);
            walk::check(&table, &payload).unwrap();
            assert!(serde_json::from_str::<Value>(&json(&table, &payload).unwrap()).unwrap().is_object());
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..payload.len());
                payload[at] = random.u8(..);
            }
            payload.truncate(random.usize(..payload.len() + 1));
            assert_eq!(walk::check(&table, &payload).is_ok(), json(&table, &payload).is_ok());
        }
    }
}

#[test]
fn hostile_bytes_are_refused_with_a_reason() {
    let table = |ty| TypeTable::of(ty);
    let deep = [vec![0; 1], [1, 0, 1].repeat(40)].concat();
    for (table, bytes, expected) in [
        (table(Type::String), &[2, 0xC3, 0x28][..], "a string is not UTF-8 (invalid utf-8 sequence of 1 bytes from index 0)"),
        (table(list(Type::U8)), &[200, 1, 0], "a length of 200 is beyond the 1 bytes that follow it"),
        (table(Type::U16), &[0xFF, 0xFF, 0x04], "an integer is wider than 16 bits"),
        (table(Type::U64), &[0xFF; 10], "an integer is wider than 64 bits"),
        (table(Type::Bool), &[1, 1], "1 bytes are left over after the value"),
        (table(Type::Option(Box::new(Type::I64))), &[2], "a flag is 2 instead of 0 or 1"),
        (table(Type::F64), &[0; 7], "the value ends early"),
        (tree(), &deep, "the value is nested deeper than 64 levels"),
    ] {
        assert_eq!(json(&table, bytes).unwrap_err(), expected);
    }
    let unknown = [vec![0], vec![7; 20]].concat();
    assert!(json(&everything(), &unknown).is_err());
}
