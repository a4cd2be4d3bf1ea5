//! Encoding.

use serde::{Serialize, ser};
use tidemill_wit::key::{ordered_f32, ordered_f64, put_bytes};

use super::Error;

pub(super) struct Serializer<'a> {
    pub(super) out: &'a mut Vec<u8>,
}

/// Lists and maps: each item after a 1, the end a 0.
pub(super) struct Sequence<'s, 'a>(&'s mut Serializer<'a>);

macro_rules! integers {
    ($($method:ident $ty:ty, $flip:expr;)*) => { $(
        fn $method(self, value: $ty) -> Result<(), Error> {
            self.out.extend_from_slice(&(value ^ $flip).to_be_bytes());
            Ok(())
        }
    )* };
}

impl<'s, 'a> ser::Serializer for &'s mut Serializer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Sequence<'s, 'a>;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Sequence<'s, 'a>;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    integers! {
        serialize_i8 i8, i8::MIN; serialize_i16 i16, i16::MIN; serialize_i32 i32, i32::MIN; serialize_i64 i64, i64::MIN;
        serialize_u8 u8, 0; serialize_u16 u16, 0; serialize_u32 u32, 0; serialize_u64 u64, 0;
    }

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.out.push(u8::from(value));
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.serialize_u32(ordered_f32(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.serialize_u64(ordered_f64(value))
    }

    fn serialize_char(self, _: char) -> Result<(), Error> {
        Err(Error("a key may not hold a char: use a String".to_owned()))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.serialize_bytes(value.as_bytes())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        put_bytes(self.out, value);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_u8(0)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.out.push(1);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, index: u32, _: &'static str) -> Result<(), Error> {
        self.serialize_u32(index)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T>(self, _: &'static str, index: u32, _: &'static str, value: &T) -> Result<(), Error>
    where
        T: Serialize + ?Sized,
    {
        self.serialize_u32(index)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Sequence<'s, 'a>, Error> {
        Ok(Sequence(self))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_variant(self, _: &'static str, index: u32, _: &'static str, _: usize) -> Result<Self, Error> {
        self.serialize_u32(index)?;
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Sequence<'s, 'a>, Error> {
        Ok(Sequence(self))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_struct_variant(self, _: &'static str, index: u32, _: &'static str, _: usize) -> Result<Self, Error> {
        self.serialize_u32(index)?;
        Ok(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! in_order {
    ($($part:ident $method:ident;)*) => { $(
        impl ser::$part for &mut Serializer<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
                item.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        }
    )* };
}

in_order! {
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

macro_rules! named {
    ($($part:ident;)*) => { $(
        impl ser::$part for &mut Serializer<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), Error> {
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        }
    )* };
}

named! {
    SerializeStruct;
    SerializeStructVariant;
}

impl ser::SerializeSeq for Sequence<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        self.0.out.push(1);
        item.serialize(&mut *self.0)
    }

    fn end(self) -> Result<(), Error> {
        self.0.out.push(0);
        Ok(())
    }
}

impl ser::SerializeMap for Sequence<'_, '_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.0.out.push(1);
        key.serialize(&mut *self.0)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.0)
    }

    fn end(self) -> Result<(), Error> {
        self.0.out.push(0);
        Ok(())
    }
}
