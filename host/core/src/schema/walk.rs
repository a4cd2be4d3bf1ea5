//! Walking over encoded values whose types are known only from a table.

use tidemill_wit::schema::{Content, Field, Shape, Type, TypeTable};

use super::scalar::{blob, byte, bytes, count, flag, string, varint};

/// How deep types may be nested in a value: every option, list, map, tuple and named type counts.
pub const MAX_DEPTH: u32 = 64;

/// Checks that `bytes` are exactly one value of the table's type.
///
/// # Errors
/// What is wrong with the bytes.
pub fn check(table: &TypeTable, bytes: &[u8]) -> Result<(), String> {
    let mut input = bytes;
    skip(table, &table.root, &mut input)?;
    finished(input)
}

/// Takes one value of type `ty` off the front of `input`, checking everything in it.
///
/// # Errors
/// What is wrong with the bytes.
#[inline]
pub fn skip(table: &TypeTable, ty: &Type, input: &mut &[u8]) -> Result<(), String> {
    skip_at(table, ty, input, MAX_DEPTH)
}

/// As [`skip`], of a value that may be nested so deep.
#[inline]
pub(super) fn skip_at(table: &TypeTable, ty: &Type, input: &mut &[u8], depth: u32) -> Result<(), String> {
    Walk { table }.value(ty, input, depth)
}

/// Checks that nothing is left of the input.
///
/// # Errors
/// Something is.
pub fn finished(rest: &[u8]) -> Result<(), String> {
    if rest.is_empty() { Ok(()) } else { Err(format!("{} bytes are left over after the value", rest.len())) }
}

/// The depth that is left inside a nested value.
///
/// # Errors
/// There is none left.
#[inline]
pub fn deeper(depth: u32) -> Result<u32, String> {
    depth.checked_sub(1).ok_or_else(|| format!("the value is nested deeper than {MAX_DEPTH} levels"))
}

/// The shape of a named type.
///
/// # Errors
/// The table does not have it.
#[inline]
pub fn shape(table: &TypeTable, index: u32) -> Result<&Shape, String> {
    match table.named(index) {
        Some(named) => Ok(&named.shape),
        None => Err(format!("the type table has no type {index}")),
    }
}

/// The type itself, or what it holds if it is a newtype, which is encoded the same.
#[must_use]
pub fn through_newtypes<'a>(table: &'a TypeTable, ty: &'a Type) -> &'a Type {
    let mut inner = ty;
    for _ in 0..MAX_DEPTH {
        match inner {
            Type::Named(index) => match table.named(*index).map(|named| &named.shape) {
                Some(Shape::Newtype(next)) => inner = next,
                _ => return inner,
            },
            _ => return inner,
        }
    }
    inner
}

struct Walk<'a> {
    table: &'a TypeTable,
}

impl Walk<'_> {
    fn value(&self, ty: &Type, input: &mut &[u8], depth: u32) -> Result<(), String> {
        match ty {
            Type::Unit => Ok(()),
            Type::Bool => flag(input).map(drop),
            Type::I8 | Type::U8 => byte(input).map(drop),
            Type::I16 | Type::U16 => varint(input, 16).map(drop),
            Type::I32 | Type::U32 => varint(input, 32).map(drop),
            Type::I64 | Type::U64 | Type::Duration => varint(input, 64).map(drop),
            Type::F32 => bytes(input, 4).map(drop),
            Type::F64 => bytes(input, 8).map(drop),
            Type::String => string(input).map(drop),
            Type::Bytes => blob(input).map(drop),
            Type::Option(_) | Type::List(_) | Type::Map(..) | Type::Tuple(_) | Type::Named(_) => self.compound(ty, input, deeper(depth)?),
        }
    }

    fn compound(&self, ty: &Type, input: &mut &[u8], depth: u32) -> Result<(), String> {
        match ty {
            Type::Option(item) => match flag(input)? {
                true => self.value(item, input, depth),
                false => Ok(()),
            },
            Type::List(item) => (0..count(input)?).try_for_each(|_| self.value(item, input, depth)),
            Type::Map(key, value) => (0..count(input)?).try_for_each(|_| {
                self.value(key, input, depth)?;
                self.value(value, input, depth)
            }),
            Type::Tuple(items) => items.iter().try_for_each(|item| self.value(item, input, depth)),
            Type::Named(index) => self.named(shape(self.table, *index)?, input, depth),
            _ => Ok(()),
        }
    }

    fn named(&self, shape: &Shape, input: &mut &[u8], depth: u32) -> Result<(), String> {
        match shape {
            Shape::Struct(fields) => self.fields(fields, input, depth),
            Shape::Newtype(ty) => self.value(ty, input, depth),
            Shape::Enum(variants) => {
                let index = varint(input, 32)?;
                let variant = usize::try_from(index).ok().and_then(|index| variants.get(index));
                match &variant.ok_or_else(|| no_variant(index, variants.len()))?.content {
                    Content::Unit => Ok(()),
                    Content::Newtype(ty) => self.value(ty, input, depth),
                    Content::Tuple(items) => items.iter().try_for_each(|item| self.value(item, input, depth)),
                    Content::Struct(fields) => self.fields(fields, input, depth),
                }
            }
        }
    }

    fn fields(&self, fields: &[Field], input: &mut &[u8], depth: u32) -> Result<(), String> {
        fields.iter().try_for_each(|field| self.value(&field.ty, input, depth))
    }
}

/// The message for an index that no variant has.
#[cold]
pub(crate) fn no_variant(index: u64, variants: usize) -> String {
    format!("an enum has variant {index}, but its type has only {variants}")
}
