//! Deserializing by a type that is known only from a table.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tidemill_core::schema::describe::describe_type;
use tidemill_core::schema::json::{ObjectKey, object_key};
use tidemill_core::schema::scalar::{Int, put_blob, put_count_at, put_signed_varint, put_varint};
use tidemill_core::schema::walk::{deeper, shape, through_newtypes};
use tidemill_wit::schema::{Content, Shape, Type, TypeTable, Variant};

use super::decode::{Scratch, Written};
use super::fields::Fields;
use crate::codec::{parse_signed_duration, without_unit};

/// Where a value is written to.
pub(super) struct Cursor<'a> {
    pub(super) table: &'a TypeTable,
    pub(super) out: &'a mut Vec<u8>,
    pub(super) scratch: &'a mut Scratch,
    pub(super) written: Written,
}

/// Appends one value of type `ty`.
pub(super) struct Seed<'s, 'a> {
    pub(super) at: &'s mut Cursor<'a>,
    pub(super) ty: &'a Type,
    pub(super) depth: u32,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        match self.ty {
            Type::String => value.deserialize_str(self),
            Type::I64 | Type::I8 | Type::I16 | Type::I32 => value.deserialize_i64(self),
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => value.deserialize_u64(self),
            Type::Unit => value.deserialize_unit(self),
            Type::Bool => value.deserialize_bool(self),
            // Not a number only: some floats are strings.
            Type::F32 | Type::F64 => value.deserialize_any(self),
            Type::Bytes => value.deserialize_str(self),
            Type::Duration => value.deserialize_any(self),
            Type::Option(_) | Type::List(_) | Type::Map(..) | Type::Tuple(_) | Type::Named(_) => self.compound(value),
        }
    }
}

impl<'a> Seed<'_, 'a> {
    fn compound<'de, D: Deserializer<'de>>(mut self, value: D) -> Result<(), D::Error> {
        self.depth = deeper(self.depth).map_err(Error::custom)?;
        match self.ty {
            Type::Option(_) => value.deserialize_option(self),
            Type::Map(key, _) if object_key(self.at.table, key).is_some() => value.deserialize_map(self),
            Type::Named(index) => match shape(self.at.table, *index).map_err(Error::custom)? {
                Shape::Struct(fields) => value.deserialize_map(Fields { at: self.at, fields, depth: self.depth }),
                Shape::Newtype(ty) => Seed { at: self.at, ty, depth: self.depth }.deserialize(value),
                Shape::Enum(variants) => value.deserialize_any(EnumVisitor { seed: self, variants }),
            },
            _ => value.deserialize_seq(self),
        }
    }

    /// The same place for a value inside this one.
    fn inner(&mut self, ty: &'a Type) -> Seed<'_, 'a> {
        Seed { at: self.at, ty, depth: self.depth }
    }

    #[cold]
    fn at_index<E>(&mut self, index: usize, error: E) -> E {
        self.at.scratch.trail.push(format!("[{index}]"));
        error
    }

    fn integer<E: Error>(self, value: i128) -> Result<(), E> {
        match Int::of(self.ty) {
            Some(_) if *self.ty == Type::Duration && self.at.written == Written::ByHand => Err(E::custom(without_unit(value))),
            Some(int) if int.holds(value) => {
                int.put(self.at.out, value);
                Ok(())
            }
            Some(_) => Err(E::custom(format_args!("{value} does not fit {}", describe_type(self.at.table, self.ty)))),
            None => Err(E::invalid_type(serde::de::Unexpected::Other("integer"), &self)),
        }
    }

    fn pair<'de, A: SeqAccess<'de>>(mut self, mut items: A, types: &[&'a Type]) -> Result<(), A::Error> {
        for (index, ty) in types.iter().enumerate() {
            match items.next_element_seed(self.inner(ty)) {
                Ok(Some(())) => {}
                Ok(None) => return Err(A::Error::custom(format_args!("a list of {index} values, expected {}", types.len()))),
                Err(error) => return Err(self.at_index(index, error)),
            }
        }
        match items.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom(format_args!("a list of more values than {}", types.len()))),
            None => Ok(()),
        }
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ty {
            Type::Bytes => f.write_str("bytes as a base64 string"),
            Type::Duration if self.at.written == Written::ByHand => f.write_str("a duration such as 30m"),
            Type::Duration => f.write_str("a duration, milliseconds or text like \"30m\""),
            Type::Unit => f.write_str("null"),
            ty => f.write_str(&describe_type(self.at.table, ty)),
        }
    }

    #[inline]
    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.ty {
            Type::String => put_blob(self.at.out, text.as_bytes()),
            Type::Bytes => {
                let bytes = &mut self.at.scratch.bytes;
                bytes.clear();
                STANDARD.decode_vec(text, bytes).map_err(|error| E::custom(format_args!("the text is not base64 ({error})")))?;
                put_blob(self.at.out, bytes);
            }
            Type::Duration => put_signed_varint(self.at.out, parse_signed_duration(text).map_err(E::custom)?),
            Type::F64 | Type::F32 => {
                let value = special(text).ok_or_else(|| E::invalid_type(serde::de::Unexpected::Str(text), &self))?;
                put_float(self.at.out, self.ty, value);
            }
            _ => return Err(E::invalid_type(serde::de::Unexpected::Str(text), &self)),
        }
        Ok(())
    }

    #[inline]
    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match (self.ty, i64::try_from(value)) {
            (Type::I64, Ok(value)) => put_signed_varint(self.at.out, value),
            (Type::U64, _) => put_varint(self.at.out, value),
            #[expect(clippy::cast_precision_loss, reason = "a float field takes the nearest float")]
            (Type::F32 | Type::F64, _) => return self.visit_f64(value as f64),
            _ => return self.integer(i128::from(value)),
        }
        Ok(())
    }

    #[inline]
    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match self.ty {
            Type::I64 => put_signed_varint(self.at.out, value),
            #[expect(clippy::cast_precision_loss, reason = "a float field takes the nearest float")]
            Type::F32 | Type::F64 => return self.visit_f64(value as f64),
            _ => return self.integer(i128::from(value)),
        }
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.ty {
            Type::F64 => put_float(self.at.out, self.ty, value),
            #[expect(clippy::cast_possible_truncation, reason = "infinity is refused")]
            Type::F32 if (value as f32).is_finite() => put_float(self.at.out, self.ty, value),
            Type::F32 => return Err(E::custom(format_args!("{value:?} does not fit f32"))),
            Type::Duration if self.at.written == Written::ByHand => {
                return Err(E::custom(parse_signed_duration(&value.to_string()).err().unwrap_or_default()));
            }
            // serde_json gives `-0` as a float, since no integer has that sign.
            ty if value == 0.0 && value.is_sign_negative() && Int::of(ty).is_some() => return self.integer(0),
            // Beyond u64, serde_json gives integers as floats.
            ty if value.abs() >= 9.2e18 => {
                return Err(E::custom(format_args!("{value:?} does not fit {}", describe_type(self.at.table, ty))));
            }
            ty if Int::of(ty).is_some() => return Err(E::custom(format_args!("{value:?} is not an integer"))),
            _ => return Err(E::invalid_type(serde::de::Unexpected::Float(value), &self)),
        }
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.ty {
            Type::Bool => {
                self.at.out.push(u8::from(value));
                Ok(())
            }
            _ => Err(E::invalid_type(serde::de::Unexpected::Bool(value), &self)),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        match self.ty {
            Type::Unit => Ok(()),
            Type::Option(_) => self.visit_none(),
            _ => Err(E::invalid_type(serde::de::Unexpected::Unit, &self)),
        }
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.at.out.push(0);
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(mut self, value: D) -> Result<(), D::Error> {
        match self.ty {
            Type::Option(item) => {
                self.at.out.push(1);
                self.inner(item).deserialize(value)
            }
            _ => Err(D::Error::invalid_type(serde::de::Unexpected::Option, &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        if let Type::Tuple(types) = self.ty {
            let types: Vec<&Type> = types.iter().collect();
            return self.pair(items, &types);
        }
        if !matches!(self.ty, Type::List(_) | Type::Map(..)) {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self));
        }
        let (start, mut count) = (self.at.out.len(), 0);
        self.at.out.push(0);
        loop {
            let item = match self.ty {
                Type::Map(key, value) => items.next_element_seed(Pair { seed: self.inner(key), value }),
                Type::List(ty) => items.next_element_seed(self.inner(ty)),
                _ => Ok(None),
            };
            match item {
                Ok(Some(())) => count += 1,
                Ok(None) => break,
                Err(error) => return Err(self.at_index(count, error)),
            }
        }
        put_count_at(self.at.out, start, count);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let Type::Map(key, value) = self.ty else {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self));
        };
        let (start, mut count) = (self.at.out.len(), 0);
        self.at.out.push(0);
        let kind = object_key(self.at.table, key).unwrap_or(ObjectKey::String);
        let key = through_newtypes(self.at.table, key);
        while let Some(()) = entries.next_key_seed(Key { out: self.at.out, kind, ty: key, written: self.at.written })? {
            if let Err(error) = entries.next_value_seed(self.inner(value)) {
                return Err(self.at_index(count, error));
            }
            count += 1;
        }
        put_count_at(self.at.out, start, count);
        Ok(())
    }
}

/// The float that a string stands for, as Flink's JSON format writes those that JSON has no numbers for.
fn special(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "+Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a narrow field takes the nearest float")]
fn put_float(out: &mut Vec<u8>, ty: &Type, value: f64) {
    match ty {
        // One NaN, whatever a conversion would make of it.
        Type::F32 => out.extend_from_slice(&(if value.is_nan() { f32::NAN } else { value as f32 }).to_le_bytes()),
        _ => out.extend_from_slice(&value.to_le_bytes()),
    }
}

/// A pair of key and value: an entry of a map that is not an object.
struct Pair<'s, 'a> {
    seed: Seed<'s, 'a>,
    value: &'a Type,
}

impl<'de> DeserializeSeed<'de> for Pair<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Pair<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pair of key and value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        let types = [self.seed.ty, self.value];
        self.seed.pair(items, &types)
    }
}

/// The key of an object that stands for a map.
struct Key<'s> {
    out: &'s mut Vec<u8>,
    kind: ObjectKey,
    ty: &'s Type,
    written: Written,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.kind {
            ObjectKey::String => put_blob(self.out, text.as_bytes()),
            ObjectKey::Int(_) if *self.ty == Type::Duration && (self.written == Written::ByHand || text.parse::<i64>().is_err()) => {
                put_signed_varint(self.out, parse_signed_duration(text).map_err(E::custom)?);
            }
            ObjectKey::Int(int) => match text.parse::<i128>() {
                Ok(value) if int.holds(value) => int.put(self.out, value),
                _ => return Err(E::custom(format_args!("the key {text:?} is not an integer of {} bits", int.bits))),
            },
        }
        Ok(())
    }
}

/// An enum: the variant's name, or an object with it as the only key.
struct EnumVisitor<'s, 'a> {
    seed: Seed<'s, 'a>,
    variants: &'a [Variant],
}

impl<'a> EnumVisitor<'_, 'a> {
    fn begin<E: Error>(&mut self, name: &str) -> Result<&'a Variant, E> {
        let index = self.variants.iter().position(|variant| variant.name == name || variant.aliases.iter().any(|alias| alias == name));
        match index.and_then(|index| self.variants.get(index).map(|variant| (index, variant))) {
            Some((index, variant)) => {
                put_varint(self.seed.at.out, index as u64);
                Ok(variant)
            }
            None => {
                let known: Vec<&str> = self.variants.iter().map(|variant| variant.name.as_str()).collect();
                Err(E::custom(format_args!("unknown variant {name:?}, expected {}", known.join(", "))))
            }
        }
    }
}

impl<'de> Visitor<'de> for EnumVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe_type(self.seed.at.table, self.seed.ty))
    }

    fn visit_str<E: Error>(mut self, name: &str) -> Result<(), E> {
        match self.begin(name)?.content {
            Content::Unit => Ok(()),
            _ => Err(E::custom(format_args!("the variant {name:?} needs content, as in {{{name:?}: ..}}"))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let Some(variant) = entries.next_key_seed(VariantName { visitor: &mut self })? else {
            return Err(A::Error::custom("an empty object, expected the name of a variant and its content"));
        };
        let content = ContentSeed { at: self.seed.at, content: &variant.content, depth: self.seed.depth };
        if let Err(error) = entries.next_value_seed(content) {
            self.seed.at.scratch.trail.push(format!(".{}", variant.name));
            return Err(error);
        }
        match entries.next_key::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom("an enum's object has more than one variant")),
            None => Ok(()),
        }
    }
}

/// The key of an enum's object.
struct VariantName<'v, 's, 'a> {
    visitor: &'v mut EnumVisitor<'s, 'a>,
}

impl<'de, 'a> DeserializeSeed<'de> for VariantName<'_, '_, 'a> {
    type Value = &'a Variant;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<&'a Variant, D::Error> {
        key.deserialize_identifier(self)
    }
}

impl<'a> Visitor<'_> for VariantName<'_, '_, 'a> {
    type Value = &'a Variant;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a variant")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<&'a Variant, E> {
        self.visitor.begin(name)
    }
}

/// What a variant holds.
struct ContentSeed<'s, 'a> {
    at: &'s mut Cursor<'a>,
    content: &'a Content,
    depth: u32,
}

impl<'de> DeserializeSeed<'de> for ContentSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        match self.content {
            Content::Unit => Seed { at: self.at, ty: &Type::Unit, depth: self.depth }.deserialize(value),
            Content::Newtype(ty) => Seed { at: self.at, ty, depth: self.depth }.deserialize(value),
            Content::Tuple(types) => value.deserialize_seq(Items { seed: self, types }),
            Content::Struct(fields) => value.deserialize_map(Fields { at: self.at, fields, depth: self.depth }),
        }
    }
}

/// The values of a tuple variant.
struct Items<'s, 'a> {
    seed: ContentSeed<'s, 'a>,
    types: &'a [Type],
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {} values", self.types.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        let types: Vec<&Type> = self.types.iter().collect();
        Seed { at: self.seed.at, ty: &Type::Unit, depth: self.seed.depth }.pair(items, &types)
    }
}
