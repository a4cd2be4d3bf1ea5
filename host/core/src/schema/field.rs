//! Picking one field out of an encoded value.

use tidemill_wit::schema::{Field, Shape, Type, TypeTable};

use super::describe::describe_type;
use super::scalar::{Int, blob, byte, bytes, flag};
use super::walk::{shape, skip, through_newtypes};

/// The way to one field of a struct, through nested structs.
#[derive(Clone, Debug)]
pub struct FieldPath {
    table: TypeTable,
    name: String,
    before: Vec<Skip>,
    ty: Type,
}

impl FieldPath {
    /// The way to a field that is named like `event_ts` or `sku.code`.
    ///
    /// # Errors
    /// There is no such field; the message lists those that there are.
    pub fn resolve(table: &TypeTable, path: &str) -> Result<Self, String> {
        let indexes = locate(table, path)?;
        let (mut before, mut ty) = (Vec::new(), &table.root);
        for index in indexes {
            let fields = fields_of(table, ty).unwrap_or_default();
            before.extend(fields.iter().take(index).filter_map(|field| Skip::of(table, &field.ty)));
            if let Some(field) = fields.get(index) {
                ty = &field.ty;
            }
        }
        Ok(Self { table: table.clone(), name: path.to_owned(), before, ty: ty.clone() })
    }

    /// The same path, if the field can be a timestamp: an integer, or an option of one.
    ///
    /// # Errors
    /// The field has another type.
    pub fn as_timestamp(self) -> Result<Self, String> {
        match integer(&self.table, &self.ty) {
            Some(_) => Ok(self),
            None => Err(format!(
                "field `{}` is {}; a timestamp must be an integer, in milliseconds",
                self.name,
                describe_type(&self.table, &self.ty)
            )),
        }
    }

    /// The field's type.
    #[must_use]
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// The field's integer in an encoded value; `None` for an option without value. Bytes after the field are not looked at.
    ///
    /// # Errors
    /// The field is not an integer ([`as_timestamp`](Self::as_timestamp)), is beyond an i64, or the bytes are not a value of the type.
    pub fn timestamp(&self, payload: &[u8]) -> Result<Option<i64>, String> {
        let mut input = payload;
        for skip in &self.before {
            skip.run(&self.table, &mut input)?;
        }
        let (optional, int) = integer(&self.table, &self.ty).ok_or_else(|| format!("field `{}` is not an integer", self.name))?;
        if optional && !flag(&mut input)? {
            return Ok(None);
        }
        let value = int.take(&mut input)?;
        let small = i64::try_from(value).map_err(|_| format!("field `{}`: {value} is beyond the range of a timestamp", self.name))?;
        Ok(Some(small))
    }
}

/// The indexes of the fields on the way to the field that `path` names.
///
/// # Errors
/// There is no such field.
pub(crate) fn locate(table: &TypeTable, path: &str) -> Result<Vec<usize>, String> {
    let (mut indexes, mut ty, mut done) = (Vec::new(), &table.root, 0);
    for name in path.split('.') {
        let parent = path.get(..done).unwrap_or_default().trim_end_matches('.');
        let fields = fields_of(table, ty).ok_or_else(|| {
            let what = describe_type(table, ty);
            if parent.is_empty() {
                format!("a value of type {what} has no fields")
            } else {
                format!("`{parent}` is {what}, which has no fields")
            }
        })?;
        let index = fields.iter().position(|field| field.name == name).ok_or_else(|| {
            let known: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            let inside = if parent.is_empty() { String::new() } else { format!(" in `{parent}`") };
            format!("there is no field `{name}`{inside}; the fields are {}", known.join(", "))
        })?;
        indexes.push(index);
        if let Some(field) = fields.get(index) {
            ty = &field.ty;
        }
        done += name.len() + 1;
    }
    Ok(indexes)
}

/// The fields of a struct, also inside newtypes.
pub(crate) fn fields_of<'a>(table: &'a TypeTable, ty: &'a Type) -> Option<&'a [Field]> {
    match through_newtypes(table, ty) {
        Type::Named(index) => match shape(table, *index).ok()? {
            Shape::Struct(fields) => Some(fields),
            Shape::Newtype(_) | Shape::Enum(_) => None,
        },
        _ => None,
    }
}

/// How to get over a value that nobody asks for. Checks only what it must: that the value ends.
#[derive(Clone, Debug)]
pub(crate) enum Skip {
    Varint,
    Fixed(usize),
    Blob,
    Value(Type),
}

impl Skip {
    /// `None` if there is nothing to get over.
    pub(crate) fn of(table: &TypeTable, ty: &Type) -> Option<Self> {
        Some(match through_newtypes(table, ty) {
            Type::Unit => return None,
            Type::Bool | Type::I8 | Type::U8 => Self::Fixed(1),
            Type::F32 => Self::Fixed(4),
            Type::F64 => Self::Fixed(8),
            Type::String | Type::Bytes => Self::Blob,
            Type::I16 | Type::I32 | Type::I64 | Type::U16 | Type::U32 | Type::U64 | Type::Duration => Self::Varint,
            other => Self::Value(other.clone()),
        })
    }

    #[inline]
    pub(crate) fn run(&self, table: &TypeTable, input: &mut &[u8]) -> Result<(), String> {
        match self {
            Self::Varint => {
                while byte(input)? >= 0x80 {}
                Ok(())
            }
            Self::Fixed(count) => bytes(input, *count).map(drop),
            Self::Blob => blob(input).map(drop),
            Self::Value(ty) => skip(table, ty, input),
        }
    }
}

fn integer(table: &TypeTable, ty: &Type) -> Option<(bool, Int)> {
    match through_newtypes(table, ty) {
        Type::Duration => None,
        Type::Option(item) => match through_newtypes(table, item) {
            Type::Duration => None,
            item => Some((true, Int::of(item)?)),
        },
        ty => Some((false, Int::of(ty)?)),
    }
}

#[cfg(test)]
mod tests;
