use tidemill_wit::schema::{NamedType, Shape, Type, TypeTable};

use super::{KeyEncoder, encode_key, same_key};
use crate::schema::samples::{basket, everything, field, list, optional, random_value, record, structure};

fn names(fields: &[&str]) -> Vec<String> {
    fields.iter().map(|&name| name.to_owned()).collect()
}

fn key_of<T: serde::Serialize>(ty: &Type, value: &T) -> Vec<u8> {
    let (bytes, mut out) = (postcard::to_allocvec(value).unwrap(), Vec::new());
    let mut input = bytes.as_slice();
    encode_key(&TypeTable::of(ty.clone()), ty, &mut input, &mut out).unwrap();
    assert!(input.is_empty());
    out
}

fn ascending<T: serde::Serialize + std::fmt::Debug>(ty: &Type, values: &[T]) {
    for pair in values.windows(2) {
        assert!(key_of(ty, &pair[0]) < key_of(ty, &pair[1]), "{pair:?}");
    }
}

#[test]
fn keys_are_ordered_as_their_values() {
    ascending(&Type::I64, &[i64::MIN, -1, 0, 1, i64::MAX]);
    ascending(&Type::I8, &[i8::MIN, -1, 0, 1, i8::MAX]);
    ascending(&Type::I16, &[i16::MIN, -200, -1, 0, 1, 300, i16::MAX]);
    ascending(&Type::U32, &[0, 1, 300, u32::MAX]);
    ascending(&Type::F32, &[f32::NEG_INFINITY, -1.0, 0.0, 2.5]);
    ascending(&Type::Bool, &[false, true]);
    ascending(&optional(Type::String), &[None, Some(""), Some("a"), Some("a\0"), Some("b")]);
    ascending(&list(Type::U8), &[vec![], vec![1_u8], vec![1, 2], vec![2]]);
    ascending(&Type::Tuple(vec![Type::String, Type::I32]), &[("a", 9), ("a", 10), ("aa", 1), ("b", -1)]);
    assert_eq!(key_of(&Type::I64, &3_i64), [0x80, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(key_of(&Type::U16, &258_u16), [1, 2]);
    assert_eq!(key_of(&Type::I16, &-2_i16), [0x7F, 0xFE]);
    assert_eq!(key_of(&Type::Tuple(vec![Type::String, Type::Unit]), &("x\0", ())), [b'x', 0, 0xFF, 0, 1]);
}

#[test]
fn there_is_one_nan_and_two_zeros_as_for_keys_of_doubles_in_flink() {
    let nans = [f64::NAN, -f64::NAN, f64::from_bits(0x7FF0_0000_0000_0001), f64::from_bits(u64::MAX)];
    assert!(nans.iter().all(|nan| key_of(&Type::F64, nan) == key_of(&Type::F64, &f64::NAN)));
    assert_eq!(key_of(&Type::F32, &-f32::NAN), key_of(&Type::F32, &f32::NAN));
    ascending(&Type::F64, &[f64::NEG_INFINITY, -0.0, 0.0, f64::INFINITY, f64::NAN]);
    ascending(&Type::F32, &[-0.0, 0.0, f32::INFINITY, f32::NAN]);
}

#[test]
fn fields_are_picked_in_the_order_of_the_key() {
    let inner = structure("Sku", vec![field("code", Type::String), field("size", Type::U8), field("rest", list(Type::Bool))]);
    let root = structure(
        "Root",
        vec![field("store", Type::I64), field("sku", Type::Named(1)), field("f", Type::F64), field("day", Type::Named(2))],
    );
    let day = NamedType { name: "Day".to_owned(), shape: Shape::Newtype(Type::U16) };
    let table = TypeTable { types: vec![root, inner, day], root: Type::Named(0) };
    let value = postcard::to_allocvec(&(5_i64, ("A1", 7_u8, vec![true]), 0.5_f64, 300_u16)).unwrap();
    let (store, code, size, day) = (&[0x80_u8, 0, 0, 0, 0, 0, 0, 5][..], &b"A1\0\x01"[..], &[7_u8][..], &[1_u8, 44][..]);
    for (key_by, expected) in [
        (&["store"][..], store.to_vec()),
        (&["store", "sku.code"], [store, code].concat()),
        (&["sku.size", "store"], [size, store].concat()),
        (&["sku.code", "day"], [code, day].concat()),
        (&["day", "sku.code", "sku.size"], [day, code, size].concat()),
    ] {
        let encoder = KeyEncoder::new(&table, &names(key_by)).unwrap();
        let mut out = vec![9];
        encoder.encode(&value, &mut out).unwrap();
        assert_eq!(out[1..], expected, "{key_by:?}");
        for end in 0..value.len() {
            let mut out = vec![9];
            if encoder.encode(&value[..end], &mut out).is_err() {
                assert_eq!(out, [9]);
            }
        }
    }
    let whole = KeyEncoder::new(&table, &names(&["sku"])).unwrap();
    let mut out = Vec::new();
    whole.encode(&value, &mut out).unwrap();
    assert_eq!(out, [code, size, &[1, 1, 0]].concat());
}

#[test]
fn wrong_keys_are_explained() {
    for (key_by, expected) in [
        (&["stor"][..], "there is no field `stor`; the fields are unit, flag"),
        (&["i64", "i64"], "the key fields `i64` and `i64` are the same or overlap"),
        (&["by_name"], "field `by_name` cannot be part of a key: maps have no order that could be kept"),
        (&[], "a key has from 1 to 16 fields, not 0"),
    ] {
        let error = KeyEncoder::new(&everything(), &names(key_by)).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn key_types_are_compared_by_their_parts() {
    let key = |fields: &[&str]| KeyEncoder::new(&basket(), &names(fields)).unwrap().key_type();
    let tuple = |items: &[Type]| TypeTable::of(Type::Tuple(items.to_vec()));
    assert!(same_key(&key(&["basket_id"]), &TypeTable::of(Type::String)));
    assert!(same_key(&key(&["basket_id"]), &tuple(&[Type::String])));
    assert!(same_key(&key(&["store_id", "basket_id"]), &tuple(&[Type::I64, Type::String])));
    assert!(same_key(&key(&["store_id", "basket_id"]), &record(&[("a", Type::I64), ("b", Type::String)])));
    assert!(!same_key(&key(&["store_id", "basket_id"]), &tuple(&[Type::String, Type::I64])));
    assert!(!same_key(&key(&["store_id"]), &TypeTable::of(Type::U64)));
    assert!(!same_key(&key(&["store_id"]), &tuple(&[Type::I64, Type::I64])));
}

#[test]
fn random_values_have_keys_and_mutations_never_panic() {
    let mut random = fastrand::Rng::with_seed(11);
    let table = everything();
    let encoder = KeyEncoder::new(&table, &names(&["kinds", "id", "f32", "u64", "kind", "maybe", "tiny"])).unwrap();
    let mut out = Vec::new();
    for _ in 0..3_000 {
        let mut payload = Vec::new();
        random_value(&table, &table.root, &mut || random.u64(..), &mut payload);
        encoder.encode(&payload, &mut out).unwrap();
        for _ in 0..3 {
            let at = random.usize(..payload.len());
            payload[at] = random.u8(..);
        }
        let before = out.len();
        if encoder.encode(&payload, &mut out).is_err() {
            assert_eq!(out.len(), before);
        }
        out.clear();
    }
}
