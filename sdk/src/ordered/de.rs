//! Decoding.

use serde::de::value::U32Deserializer;
use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};
use tidemill_wit::key::{f32_from_ordered, f64_from_ordered, take_bytes};

use super::Error;

pub(super) struct Deserializer<'a> {
    pub(super) input: &'a [u8],
}

impl Deserializer<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, rest) = self.input.split_first_chunk::<N>().ok_or_else(|| Error("the key ends too early".to_owned()))?;
        self.input = rest;
        Ok(*head)
    }

    /// A 0 or a 1: a bool, an option, whether another item follows.
    fn flag(&mut self) -> Result<bool, Error> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Error(format!("{other} is neither 0 nor 1"))),
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        take_bytes(&mut self.input, &mut out).map_err(Error)?;
        Ok(out)
    }
}

macro_rules! integers {
    ($($method:ident $visit:ident $ty:ident, $flip:expr;)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let bytes = self.take()?;
            visitor.$visit($ty::from_be_bytes(bytes) ^ $flip)
        }
    )* };
}

macro_rules! unsupported {
    ($($method:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error("a key does not say what type it has, nor may it hold a char".to_owned()))
        }
    )* };
}

impl<'de> de::Deserializer<'de> for &mut Deserializer<'_> {
    type Error = Error;

    integers! {
        deserialize_i8 visit_i8 i8, i8::MIN; deserialize_i16 visit_i16 i16, i16::MIN; deserialize_i32 visit_i32 i32, i32::MIN;
        deserialize_i64 visit_i64 i64, i64::MIN; deserialize_u8 visit_u8 u8, 0; deserialize_u16 visit_u16 u16, 0;
        deserialize_u32 visit_u32 u32, 0; deserialize_u64 visit_u64 u64, 0;
    }

    unsupported! { deserialize_any deserialize_char deserialize_identifier deserialize_ignored_any }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.flag()?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f32(f32_from_ordered(u32::from_be_bytes(self.take()?)))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(f64_from_ordered(u64::from_be_bytes(self.take()?)))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(String::from_utf8(self.bytes()?).map_err(|error| Error(error.to_string()))?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_byte_buf(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_byte_buf(self.bytes()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.flag()? { visitor.visit_some(self) } else { visitor.visit_none() }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Marked(self))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Marked(self))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(Counted { deserializer: self, left: len })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_struct<V>(self, _: &'static str, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error>
    where
        V: Visitor<'de>,
    {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error>
    where
        V: Visitor<'de>,
    {
        visitor.visit_enum(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// Items each of which follows a 1, until a 0.
struct Marked<'s, 'a>(&'s mut Deserializer<'a>);

impl<'de> de::SeqAccess<'de> for Marked<'_, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if self.0.flag()? { seed.deserialize(&mut *self.0).map(Some) } else { Ok(None) }
    }
}

impl<'de> de::MapAccess<'de> for Marked<'_, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if self.0.flag()? { seed.deserialize(&mut *self.0).map(Some) } else { Ok(None) }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut *self.0)
    }
}

/// The items of a tuple or struct.
struct Counted<'s, 'a> {
    deserializer: &'s mut Deserializer<'a>,
    left: usize,
}

impl<'de> de::SeqAccess<'de> for Counted<'_, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.deserializer).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> de::EnumAccess<'de> for &mut Deserializer<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let index: U32Deserializer<Error> = u32::from_be_bytes(self.take()?).into_deserializer();
        Ok((seed.deserialize(index)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for &mut Deserializer<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_tuple(self, len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_tuple(self, fields.len(), visitor)
    }
}
