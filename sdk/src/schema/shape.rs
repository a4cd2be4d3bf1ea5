//! What `#[derive(Schema)]` expands to: constants that name the parts of a type, and functions that make a shape of them. So a type costs a
//! component some data and hardly any code.

use serde::Serialize;
use tidemill_wit::schema::{Content, Field, Shape, TableBuilder, Type, Variant};

/// [`Schema::schema`](super::Schema::schema) of a type.
pub type Describe = fn(&mut TableBuilder) -> Type;

/// A field.
#[derive(Clone, Copy)]
pub struct FieldOf<'a> {
    /// Its serialized name.
    pub name: &'a str,
    /// Other names for it.
    pub aliases: &'a [&'a str],
    /// Its type.
    pub ty: Describe,
    /// What makes the bytes that stand in if it is missing.
    pub default: Option<fn() -> Option<Vec<u8>>>,
}

/// A variant.
#[derive(Clone, Copy)]
pub struct VariantOf<'a> {
    /// Its serialized name.
    pub name: &'a str,
    /// Other names for it.
    pub aliases: &'a [&'a str],
    /// What it holds.
    pub content: ContentOf<'a>,
}

/// What a variant holds.
#[derive(Clone, Copy)]
pub enum ContentOf<'a> {
    /// Nothing.
    Unit,
    /// One value.
    Newtype(Describe),
    /// Several values.
    Tuple(&'a [Describe]),
    /// Named fields.
    Struct(&'a [FieldOf<'a>]),
}

/// What a named type consists of.
#[derive(Clone, Copy)]
pub enum ShapeOf<'a> {
    /// A struct with named fields.
    Struct(&'a [FieldOf<'a>]),
    /// A struct that is serialized as what it holds.
    Newtype(Describe),
    /// A struct with unnamed fields.
    Tuple(&'a [Describe]),
    /// An enum.
    Enum(&'a [VariantOf<'a>]),
}

/// A named type. `identity` tells it from all others.
#[inline(never)]
pub fn named_type(builder: &mut TableBuilder, identity: &'static str, name: &str, shape: ShapeOf<'_>) -> Type {
    builder.named(identity, name, |builder| match shape {
        ShapeOf::Struct(fields) => Shape::Struct(fields_of(builder, fields)),
        ShapeOf::Newtype(inner) => Shape::Newtype(inner(builder)),
        ShapeOf::Tuple(items) => Shape::Newtype(Type::Tuple(types_of(builder, items))),
        ShapeOf::Enum(variants) => Shape::Enum(variants.iter().map(|variant| variant_of(builder, variant)).collect()),
    })
}

/// The bytes that stand in for a missing value.
pub fn default_bytes<T: Serialize>(value: &T) -> Option<Vec<u8>> {
    postcard::to_allocvec(value).ok()
}

fn variant_of(builder: &mut TableBuilder, variant: &VariantOf<'_>) -> Variant {
    let content = match variant.content {
        ContentOf::Unit => Content::Unit,
        ContentOf::Newtype(inner) => Content::Newtype(inner(builder)),
        ContentOf::Tuple(items) => Content::Tuple(types_of(builder, items)),
        ContentOf::Struct(fields) => Content::Struct(fields_of(builder, fields)),
    };
    Variant { name: variant.name.to_owned(), aliases: owned(variant.aliases), content }
}

#[inline(never)]
fn fields_of(builder: &mut TableBuilder, fields: &[FieldOf<'_>]) -> Vec<Field> {
    let field = |field: &FieldOf<'_>| Field {
        name: field.name.to_owned(),
        aliases: owned(field.aliases),
        ty: (field.ty)(builder),
        default: field.default.and_then(|bytes| bytes()),
    };
    fields.iter().map(field).collect()
}

#[inline(never)]
fn types_of(builder: &mut TableBuilder, items: &[Describe]) -> Vec<Type> {
    items.iter().map(|item| item(builder)).collect()
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
