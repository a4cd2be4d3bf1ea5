//! Encoded keys as people know them: JSON text, for messages and dead letters.

use tidemill_wit::key::{f32_from_ordered, f64_from_ordered, take_bytes};
use tidemill_wit::schema::{Content, Field, Shape, Type, TypeTable};

use super::json::{put_json_string, special_float};
use super::walk::MAX_DEPTH;

/// An encoded key as JSON text: a list for a tuple, a value for a single field. Bytes that are no such key are shown in hexadecimal.
#[must_use]
pub fn key_text(table: &TypeTable, key: &[u8]) -> String {
    let (mut rest, mut out) = (key, Vec::new());
    match put(table, &table.root, &mut rest, &mut out, MAX_DEPTH) {
        Ok(()) if rest.is_empty() => String::from_utf8_lossy(&out).into_owned(),
        _ => format!("\"0x{}\"", super::hex(key)),
    }
}

fn put(table: &TypeTable, ty: &Type, rest: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
    let depth = depth.checked_sub(1).ok_or("the key is nested too deeply")?;
    match ty {
        Type::Unit => out.extend_from_slice(b"null"),
        Type::Bool => out.extend_from_slice(if take::<1>(rest)? == [0] { b"false" } else { b"true" }),
        Type::U8 => number(u8::from_be_bytes(take(rest)?), out),
        Type::U16 => number(u16::from_be_bytes(take(rest)?), out),
        Type::U32 => number(u32::from_be_bytes(take(rest)?), out),
        Type::U64 => number(u64::from_be_bytes(take(rest)?), out),
        Type::I8 => number(i8::from_be_bytes(take(rest)?) ^ i8::MIN, out),
        Type::I16 => number(i16::from_be_bytes(take(rest)?) ^ i16::MIN, out),
        Type::I32 => number(i32::from_be_bytes(take(rest)?) ^ i32::MIN, out),
        Type::I64 | Type::Duration => number(i64::from_be_bytes(take(rest)?) ^ i64::MIN, out),
        Type::F32 => float(f32_from_ordered(u32::from_be_bytes(take(rest)?)), out)?,
        Type::F64 => float(f64_from_ordered(u64::from_be_bytes(take(rest)?)), out)?,
        Type::String => {
            let mut text = Vec::new();
            take_bytes(rest, &mut text)?;
            put_json_string(out, &String::from_utf8_lossy(&text))?;
        }
        Type::Bytes => {
            let mut bytes = Vec::new();
            take_bytes(rest, &mut bytes)?;
            put_json_string(out, &super::hex(&bytes))?;
        }
        Type::Option(_) if take::<1>(rest)? == [0] => out.extend_from_slice(b"null"),
        Type::Option(inner) => put(table, inner, rest, out, depth)?,
        Type::List(item) => {
            out.push(b'[');
            let mut first = true;
            while take::<1>(rest)? == [1] {
                separate(&mut first, out);
                put(table, item, rest, out, depth)?;
            }
            out.push(b']');
        }
        Type::Tuple(items) => list(table, items, rest, out, depth)?,
        Type::Map(..) => return Err("a map cannot be part of a key".to_owned()),
        Type::Named(index) => put_named(table, *index, rest, out, depth)?,
    }
    Ok(())
}

fn put_named(table: &TypeTable, index: u32, rest: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
    match &table.named(index).ok_or("the key has an unknown type")?.shape {
        Shape::Newtype(inner) => put(table, inner, rest, out, depth),
        Shape::Struct(fields) => object(table, fields, rest, out, depth),
        Shape::Enum(variants) => {
            let variant = variants.get(u32::from_be_bytes(take(rest)?) as usize).ok_or("the key has an unknown variant")?;
            if variant.content == Content::Unit {
                return put_json_string(out, &variant.name);
            }
            out.push(b'{');
            put_json_string(out, &variant.name)?;
            out.push(b':');
            match &variant.content {
                Content::Unit => {}
                Content::Newtype(inner) => put(table, inner, rest, out, depth)?,
                Content::Tuple(items) => list(table, items, rest, out, depth)?,
                Content::Struct(fields) => object(table, fields, rest, out, depth)?,
            }
            out.push(b'}');
            Ok(())
        }
    }
}

fn list(table: &TypeTable, items: &[Type], rest: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
    out.push(b'[');
    let mut first = true;
    for item in items {
        separate(&mut first, out);
        put(table, item, rest, out, depth)?;
    }
    out.push(b']');
    Ok(())
}

fn object(table: &TypeTable, fields: &[Field], rest: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
    out.push(b'{');
    let mut first = true;
    for field in fields {
        separate(&mut first, out);
        put_json_string(out, &field.name)?;
        out.push(b':');
        put(table, &field.ty, rest, out, depth)?;
    }
    out.push(b'}');
    Ok(())
}

fn separate(first: &mut bool, out: &mut Vec<u8>) {
    if !std::mem::take(first) {
        out.push(b',');
    }
}

fn number(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    out.extend_from_slice(value.to_string().as_bytes());
}

fn float(value: impl Into<f64> + Copy + std::fmt::Display, out: &mut Vec<u8>) -> Result<(), String> {
    if value.into().is_finite() {
        number(value, out);
        return Ok(());
    }
    put_json_string(out, special_float(value.into()))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], String> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or("the key is cut off")?;
    *rest = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use tidemill_wit::schema::{Type, TypeTable};

    use super::key_text;

    #[test]
    fn keys_are_shown_as_json() {
        let table = TypeTable::of(Type::Tuple(vec![Type::I64, Type::String, Type::Option(Box::new(Type::U8))]));
        let mut key = (-7i64 ^ i64::MIN).to_be_bytes().to_vec();
        tidemill_wit::key::put_bytes(&mut key, b"a\"b");
        key.extend_from_slice(&[1, 9]);
        assert_eq!(key_text(&table, &key), r#"[-7,"a\"b",9]"#);
        assert_eq!(key_text(&table, &key[..9]), "\"0x7ffffffffffffff961\"");
    }

    #[test]
    fn floats_that_json_does_not_have_are_strings() {
        let table = TypeTable::of(Type::List(Box::new(Type::F64)));
        let mut key = Vec::new();
        for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5] {
            key.push(1);
            key.extend_from_slice(&tidemill_wit::key::ordered_f64(float).to_be_bytes());
        }
        key.push(0);
        assert_eq!(key_text(&table, &key), r#"["NaN","Infinity","-Infinity",-0.5]"#);
    }
}
