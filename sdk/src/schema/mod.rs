//! How a Rust type describes itself to the host.

#[doc(hidden)]
pub mod shape;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Serialize;
use tidemill_wit::schema::{TableBuilder, Type, TypeTable};

use crate::Duration;

/// A type that can cross the boundary or be stored: it says what serde would serialize. Derive it together with `Serialize` and
/// `Deserialize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no schema, so it cannot cross the boundary or be stored",
    label = "needs a schema",
    note = "a type of your own: add #[derive(Serialize, Deserialize, Schema)] to it",
    note = "numbers: use i8 to i64, u8 to u64, f32 or f64 (not usize, isize, i128 or u128); text: String or &str (not char); times: i64 \
            milliseconds; lengths of time: tidemill_sdk::Duration"
)]
pub trait Schema: Serialize {
    /// The same type with all its lifetimes replaced by `'a`: what may be emitted where `Self` is declared.
    type At<'a>: Serialize;

    /// Describes the type, adding the named types in it to `builder`.
    fn schema(builder: &mut TableBuilder) -> Type;
}

/// The type table of a type.
#[must_use]
pub fn table_of<T: Schema>() -> TypeTable {
    let mut builder = TableBuilder::default();
    let root = T::schema(&mut builder);
    builder.finish(root)
}

macro_rules! plain {
    ($($rust:ty => $ty:expr),* $(,)?) => { $(
        impl Schema for $rust {
            type At<'a> = $rust;

            fn schema(_: &mut TableBuilder) -> Type {
                $ty
            }
        }
    )* };
}

plain! {
    () => Type::Unit, bool => Type::Bool, i8 => Type::I8, i16 => Type::I16, i32 => Type::I32, i64 => Type::I64, u8 => Type::U8,
    u16 => Type::U16, u32 => Type::U32, u64 => Type::U64, f32 => Type::F32, f64 => Type::F64, String => Type::String,
    Duration => Type::Duration,
}

impl Schema for &str {
    type At<'a> = &'a str;

    fn schema(_: &mut TableBuilder) -> Type {
        Type::String
    }
}

impl Schema for Cow<'_, str> {
    type At<'a> = Cow<'a, str>;

    fn schema(_: &mut TableBuilder) -> Type {
        Type::String
    }
}

impl<T: Schema> Schema for Box<T> {
    type At<'a> = Box<T::At<'a>>;

    fn schema(builder: &mut TableBuilder) -> Type {
        T::schema(builder)
    }
}

impl<T: Schema> Schema for Option<T> {
    type At<'a> = Option<T::At<'a>>;

    fn schema(builder: &mut TableBuilder) -> Type {
        Type::Option(Box::new(T::schema(builder)))
    }
}

macro_rules! list {
    ($($rust:ident),*) => { $(
        impl<T: Schema> Schema for $rust<T> {
            type At<'a> = $rust<T::At<'a>>;

            fn schema(builder: &mut TableBuilder) -> Type {
                Type::List(Box::new(T::schema(builder)))
            }
        }
    )* };
}

list!(Vec, BTreeSet, HashSet);

macro_rules! map {
    ($($rust:ident),*) => { $(
        impl<K: Schema, V: Schema> Schema for $rust<K, V> {
            type At<'a> = $rust<K::At<'a>, V::At<'a>>;

            fn schema(builder: &mut TableBuilder) -> Type {
                let key = K::schema(builder);
                Type::Map(Box::new(key), Box::new(V::schema(builder)))
            }
        }
    )* };
}

map!(BTreeMap, HashMap);

macro_rules! tuple {
    ($($item:ident)+) => {
        impl<$($item: Schema),+> Schema for ($($item,)+) {
            type At<'a> = ($($item::At<'a>,)+);

            fn schema(builder: &mut TableBuilder) -> Type {
                Type::Tuple(vec![$($item::schema(builder)),+])
            }
        }
    };
}

tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);
tuple!(A B C D E F G);
tuple!(A B C D E F G H);

#[cfg(test)]
mod tests;
