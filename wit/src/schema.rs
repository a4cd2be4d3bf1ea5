//! Type tables: the schema of everything that crosses the boundary or is stored.
//!
//! Values are postcard bytes, so a type table says exactly what serde would have serialized: structs as their fields in order, enums
//! externally tagged with the variant's index.

mod nesting;

use serde::{Deserialize, Serialize};

pub use nesting::MAX_NESTING;

/// How many bytes an encoded type table may have: it becomes some dozen times as large when it is read.
pub const MAX_BYTES: usize = 1 << 20;

/// A type and the named types that it refers to. Named types may be recursive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TypeTable {
    /// The structs and enums, referred to by index.
    pub types: Vec<NamedType>,
    /// The type that the table describes.
    pub root: Type,
}

/// A type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of the primitive types say it all")]
pub enum Type {
    #[default]
    Unit,
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    String,
    Bytes,
    /// A length of time: milliseconds as an i64, written `30m` in a spec.
    Duration,
    Option(#[serde(deserialize_with = "nesting::inner")] Box<Type>),
    List(#[serde(deserialize_with = "nesting::inner")] Box<Type>),
    /// A map, serialized as a list of pairs.
    Map(#[serde(deserialize_with = "nesting::inner")] Box<Type>, #[serde(deserialize_with = "nesting::inner")] Box<Type>),
    Tuple(#[serde(deserialize_with = "nesting::inner")] Vec<Type>),
    /// A type of the table, by index.
    Named(u32),
}

/// A struct or enum.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NamedType {
    /// The name of the Rust type, for messages only: types are matched by structure.
    pub name: String,
    /// What it consists of.
    pub shape: Shape,
}

/// What a named type consists of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Shape {
    /// A struct with named fields, in the order in which they are serialized.
    Struct(Vec<Field>),
    /// A newtype struct, serialized as what it holds.
    Newtype(Type),
    /// An enum; a variant's index is its code.
    Enum(Vec<Variant>),
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// The name in serialized form (serde's `rename` honoured).
    pub name: String,
    /// Other names that it may be found under (serde's `alias`).
    pub aliases: Vec<String>,
    /// Its type.
    pub ty: Type,
    /// The encoded value that stands in for a missing field (serde's `default`).
    pub default: Option<Vec<u8>>,
}

/// A variant of an enum.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Variant {
    /// The name in serialized form (serde's `rename` and `rename_all` honoured).
    pub name: String,
    /// Other names that it may be found under (serde's `alias`).
    pub aliases: Vec<String>,
    /// What it holds.
    pub content: Content,
}

/// What a variant holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Content {
    /// Nothing.
    Unit,
    /// One value.
    Newtype(Type),
    /// Several values.
    Tuple(Vec<Type>),
    /// Named fields.
    Struct(Vec<Field>),
}

impl TypeTable {
    /// A table for a type that refers to no named types.
    #[must_use]
    pub fn of(root: Type) -> Self {
        Self { types: Vec::new(), root }
    }

    /// The named type with this index; `None` if the table does not have it.
    #[must_use]
    pub fn named(&self, index: u32) -> Option<&NamedType> {
        self.types.get(index as usize)
    }

    /// The fields, if the root is a struct.
    #[must_use]
    pub fn fields(&self) -> Option<&[Field]> {
        match &self.root {
            Type::Named(index) => match &self.named(*index)?.shape {
                Shape::Struct(fields) => Some(fields),
                Shape::Newtype(_) | Shape::Enum(_) => None,
            },
            _ => None,
        }
    }

    /// The table's bytes, as a descriptor carries them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Reads a table from a descriptor.
    ///
    /// # Errors
    /// The bytes are not a type table, are more than [`MAX_BYTES`], nest types deeper than [`MAX_NESTING`], or the table refers to a type
    /// that it does not have.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_BYTES {
            return Err(format!("the type table has {} bytes, more than {MAX_BYTES}", bytes.len()));
        }
        let table: Self = postcard::from_bytes(bytes)
            .map_err(|error| format!("the bytes are not a type table, or nest types more than {MAX_NESTING} deep: {error}"))?;
        table.check()?;
        Ok(table)
    }

    fn check(&self) -> Result<(), String> {
        let mut found = Vec::new();
        self.root.references(&mut found);
        for named in &self.types {
            named.shape.references(&mut found);
        }
        match found.into_iter().find(|&index| self.named(index).is_none()) {
            Some(index) => Err(format!("the type table refers to type {index}, but has only {}", self.types.len())),
            None => Ok(()),
        }
    }
}

impl Type {
    fn references(&self, found: &mut Vec<u32>) {
        match self {
            Self::Option(item) | Self::List(item) => item.references(found),
            Self::Map(key, value) => {
                key.references(found);
                value.references(found);
            }
            Self::Tuple(items) => items.iter().for_each(|item| item.references(found)),
            Self::Named(index) => found.push(*index),
            _ => {}
        }
    }
}

impl Shape {
    fn references(&self, found: &mut Vec<u32>) {
        match self {
            Self::Struct(fields) => fields.iter().for_each(|field| field.ty.references(found)),
            Self::Newtype(ty) => ty.references(found),
            Self::Enum(variants) => {
                for variant in variants {
                    match &variant.content {
                        Content::Unit => {}
                        Content::Newtype(ty) => ty.references(found),
                        Content::Tuple(items) => items.iter().for_each(|item| item.references(found)),
                        Content::Struct(fields) => fields.iter().for_each(|field| field.ty.references(found)),
                    }
                }
            }
        }
    }
}

/// Collects the named types of a table while Rust types describe themselves.
#[derive(Debug, Default)]
pub struct TableBuilder {
    types: Vec<Option<NamedType>>,
    known: Vec<(&'static str, u32)>,
}

impl TableBuilder {
    /// Adds the named type with this unique identity (its full Rust path) once; `shape` is asked for only the first time, after the index
    /// is known, so that types may be recursive.
    pub fn named(&mut self, identity: &'static str, name: &str, shape: impl FnOnce(&mut Self) -> Shape) -> Type {
        if let Some((_, index)) = self.known.iter().find(|(known, _)| *known == identity) {
            return Type::Named(*index);
        }
        let index = self.types.len();
        let id = u32::try_from(index).unwrap_or(u32::MAX);
        self.types.push(None);
        self.known.push((identity, id));
        let shape = shape(self);
        if let Some(place) = self.types.get_mut(index) {
            *place = Some(NamedType { name: name.to_owned(), shape });
        }
        Type::Named(id)
    }

    /// The finished table.
    #[must_use]
    pub fn finish(self, root: Type) -> TypeTable {
        TypeTable { types: self.types.into_iter().flatten().collect(), root }
    }
}
