//! Encoded values as JSON text.

mod scalar;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidemill_wit::schema::{Content, Field, Shape, Type, TypeTable, Variant};

use self::scalar::Scalar;
use super::scalar::{Int, blob, count, flag, float32, float64, signed_varint, string, varint};
use super::walk::{MAX_DEPTH, deeper, finished, no_variant, shape, through_newtypes};

/// Writes encoded values as JSON: structs as objects with their fields in order, enums externally tagged, durations as milliseconds, bytes
/// as base64, maps as objects where keys are strings or integers and else as lists of pairs. Floats that JSON does not have are the strings
/// `NaN`, `Infinity` and `-Infinity`, as in Flink's JSON format.
#[derive(Clone, Debug)]
pub struct JsonEncoder {
    table: TypeTable,
}

impl JsonEncoder {
    /// An encoder for values of this type.
    #[must_use]
    pub fn new(table: TypeTable) -> Self {
        Self { table }
    }

    /// Appends a value as one line of JSON, without the line's end.
    ///
    /// # Errors
    /// The bytes are not a value of the type; `out` is as before.
    pub fn encode(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let (start, mut input) = (out.len(), payload);
        let result = encode_json(&self.table, &self.table.root, &mut input, out).and_then(|()| finished(input));
        if result.is_err() {
            out.truncate(start);
        }
        result
    }
}

/// Takes one value of type `ty` off the front of `input` and appends it as JSON.
///
/// # Errors
/// The bytes are not a value of the type.
pub fn encode_json(table: &TypeTable, ty: &Type, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    Writer { table }.value(ty, input, out, MAX_DEPTH)
}

/// Appends a JSON string.
///
/// # Errors
/// None in practice: writing to memory does not fail.
pub fn put_json_string(out: &mut Vec<u8>, text: &str) -> Result<(), String> {
    put(out, text)
}

/// What stands in JSON for a float that is not finite.
#[must_use]
pub fn special_float(value: f64) -> &'static str {
    match value {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

/// What the keys of a JSON object stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKey {
    /// Strings.
    String,
    /// Integers, written as strings.
    Int(Int),
}

/// How the keys of a map are written in a JSON object; `None` if the map must be a list of pairs.
#[must_use]
pub fn object_key(table: &TypeTable, key: &Type) -> Option<ObjectKey> {
    match through_newtypes(table, key) {
        Type::String => Some(ObjectKey::String),
        ty => Int::of(ty).map(ObjectKey::Int),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "so that a value is written where it has been read")]
fn put<T: Scalar + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), String> {
    value.write(out);
    Ok(())
}

struct Writer<'a> {
    table: &'a TypeTable,
}

impl Writer<'_> {
    fn value(&self, ty: &Type, input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        match ty {
            Type::Unit => put(out, &()),
            Type::Bool => put(out, &flag(input)?),
            Type::I64 | Type::Duration => put(out, &signed_varint(input, 64)?),
            Type::U64 => put(out, &varint(input, 64)?),
            Type::I8 | Type::I16 | Type::I32 | Type::U8 | Type::U16 | Type::U32 => {
                let value = Int::of(ty).unwrap_or(Int { signed: true, bits: 64 }).take(input)?;
                put(out, &i64::try_from(value).map_err(|error| error.to_string())?)
            }
            Type::F32 => {
                let value = float32(input)?;
                if value.is_finite() { put(out, &value) } else { put(out, special_float(value.into())) }
            }
            Type::F64 => {
                let value = float64(input)?;
                if value.is_finite() { put(out, &value) } else { put(out, special_float(value)) }
            }
            Type::String => put(out, string(input)?),
            Type::Bytes => put(out, &STANDARD.encode(blob(input)?)),
            Type::Option(_) | Type::List(_) | Type::Map(..) | Type::Tuple(_) | Type::Named(_) => {
                self.compound(ty, input, out, deeper(depth)?)
            }
        }
    }

    fn compound(&self, ty: &Type, input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        match ty {
            Type::Option(item) => {
                if flag(input)? {
                    self.value(item, input, out, depth)
                } else {
                    put(out, &())
                }
            }
            Type::List(item) => {
                let items = count(input)?;
                self.list(std::iter::repeat_n(&**item, items), input, out, depth)
            }
            Type::Tuple(items) => self.list(items.iter(), input, out, depth),
            Type::Map(key, value) => self.map((key, value), input, out, depth),
            Type::Named(index) => match shape(self.table, *index)? {
                Shape::Struct(fields) => self.fields(fields, input, out, depth),
                Shape::Newtype(ty) => self.value(ty, input, out, depth),
                Shape::Enum(variants) => self.variant(variants, input, out, depth),
            },
            other => self.value(other, input, out, depth),
        }
    }

    fn list<'t>(&self, items: impl Iterator<Item = &'t Type>, input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        out.push(b'[');
        for (index, item) in items.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            self.value(item, input, out, depth)?;
        }
        out.push(b']');
        Ok(())
    }

    fn map(&self, (key, value): (&Type, &Type), input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        let kind = object_key(self.table, key);
        out.push(if kind.is_some() { b'{' } else { b'[' });
        for index in 0..count(input)? {
            if index > 0 {
                out.push(b',');
            }
            match kind {
                Some(ObjectKey::String) => put(out, string(input)?)?,
                Some(ObjectKey::Int(int)) => put(out, &int.take(input)?.to_string())?,
                None => {
                    out.push(b'[');
                    self.value(key, input, out, depth)?;
                }
            }
            out.push(if kind.is_some() { b':' } else { b',' });
            self.value(value, input, out, depth)?;
            if kind.is_none() {
                out.push(b']');
            }
        }
        out.push(if kind.is_some() { b'}' } else { b']' });
        Ok(())
    }

    fn fields(&self, fields: &[Field], input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        out.push(b'{');
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            put(out, &field.name)?;
            out.push(b':');
            self.value(&field.ty, input, out, depth)?;
        }
        out.push(b'}');
        Ok(())
    }

    fn variant(&self, variants: &[Variant], input: &mut &[u8], out: &mut Vec<u8>, depth: u32) -> Result<(), String> {
        let index = varint(input, 32)?;
        let variant = usize::try_from(index).ok().and_then(|index| variants.get(index));
        let variant = variant.ok_or_else(|| no_variant(index, variants.len()))?;
        if matches!(variant.content, Content::Unit) {
            return put(out, &variant.name);
        }
        out.push(b'{');
        put(out, &variant.name)?;
        out.push(b':');
        match &variant.content {
            Content::Unit => {}
            Content::Newtype(ty) => self.value(ty, input, out, depth)?,
            Content::Tuple(items) => self.list(items.iter(), input, out, depth)?,
            Content::Struct(fields) => self.fields(fields, input, out, depth)?,
        }
        out.push(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests;
