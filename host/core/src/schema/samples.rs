//! Example types and random values of any type, for tests of whatever reads values.

use tidemill_wit::schema::{Content, Field, NamedType, Shape, Type, TypeTable, Variant};

use super::scalar::{Int, put_blob, put_varint};
use super::walk::shape;

/// A basket of the README's example: `{basket_id: string, .., lines: [{sku: string, qty: i64}]}`.
#[must_use]
pub fn basket() -> TypeTable {
    let line = structure("Line", vec![field("sku", Type::String), field("qty", Type::I64)]);
    let basket = structure(
        "Basket",
        vec![
            field("basket_id", Type::String),
            field("store_id", Type::I64),
            field("till_id", Type::I64),
            field("business_date", Type::String),
            field("event_ts", Type::I64),
            field("uploaded_at", Type::I64),
            field("lines", list(Type::Named(1))),
        ],
    );
    TypeTable { types: vec![basket, line], root: Type::Named(0) }
}

/// A recursive type: `{name: string, children: [Tree], next?: Tree}`.
#[must_use]
pub fn tree() -> TypeTable {
    let fields = vec![field("name", Type::String), field("children", list(Type::Named(0))), field("next", optional(Type::Named(0)))];
    TypeTable { types: vec![structure("Tree", fields)], root: Type::Named(0) }
}

/// A struct with every kind of type, an alias and a default.
#[must_use]
pub fn everything() -> TypeTable {
    let variants = vec![
        Variant { name: "plain".to_owned(), aliases: Vec::new(), content: Content::Unit },
        Variant { name: "One".to_owned(), aliases: vec!["uno".to_owned()], content: Content::Newtype(Type::U32) },
        Variant { name: "Two".to_owned(), aliases: Vec::new(), content: Content::Tuple(vec![Type::I8, Type::String]) },
        Variant {
            name: "full".to_owned(),
            aliases: Vec::new(),
            content: Content::Struct(vec![field("x", Type::F64), field("y", optional(Type::Bool))]),
        },
    ];
    let mut fields = vec![
        field("unit", Type::Unit),
        field("flag", Type::Bool),
        field("small", Type::I8),
        field("tiny", Type::U8),
        field("i16", Type::I16),
        field("i32", Type::I32),
        field("i64", Type::I64),
        field("u16", Type::U16),
        field("u32", Type::U32),
        field("u64", Type::U64),
        field("f32", Type::F32),
        field("f64", Type::F64),
        field("text", Type::String),
        field("bytes", Type::Bytes),
        field("wait", Type::Duration),
        field("maybe", optional(Type::I64)),
        field("kind", Type::Named(1)),
        field("id", Type::Named(2)),
        field("by_name", Type::Map(Box::new(Type::String), Box::new(Type::I64))),
        field("by_number", Type::Map(Box::new(Type::U16), Box::new(Type::String))),
        field("by_pair", Type::Map(Box::new(Type::Tuple(vec![Type::Bool, Type::I32])), Box::new(Type::Unit))),
        field("kinds", list(Type::Named(1))),
    ];
    if let Some(tiny) = fields.get_mut(3) {
        tiny.aliases.push("little".to_owned());
        tiny.default = Some(vec![7]);
    }
    let kind = NamedType { name: "Kind".to_owned(), shape: Shape::Enum(variants) };
    let id = NamedType { name: "Id".to_owned(), shape: Shape::Newtype(Type::String) };
    TypeTable { types: vec![structure("Everything", fields), kind, id], root: Type::Named(0) }
}

/// A struct.
#[must_use]
pub fn structure(name: &str, fields: Vec<Field>) -> NamedType {
    NamedType { name: name.to_owned(), shape: Shape::Struct(fields) }
}

/// A table whose root is a struct with these fields and which has no other named types.
#[must_use]
pub fn record(fields: &[(&str, Type)]) -> TypeTable {
    let fields = fields.iter().map(|(name, ty)| field(name, ty.clone())).collect();
    TypeTable { types: vec![structure("Record", fields)], root: Type::Named(0) }
}

/// A field without aliases and default.
#[must_use]
pub fn field(name: &str, ty: Type) -> Field {
    Field { name: name.to_owned(), aliases: Vec::new(), ty, default: None }
}

/// A list of `item`.
#[must_use]
pub fn list(item: Type) -> Type {
    Type::List(Box::new(item))
}

/// An option of `item`.
#[must_use]
pub fn optional(item: Type) -> Type {
    Type::Option(Box::new(item))
}

/// Appends a random value of a type; `random` gives random numbers. NaN is the canonical one. Values of recursive types stay small.
pub fn random_value(table: &TypeTable, ty: &Type, random: &mut dyn FnMut() -> u64, out: &mut Vec<u8>) {
    Random { table, random }.value(ty, out, 0);
}

struct Random<'a> {
    table: &'a TypeTable,
    random: &'a mut dyn FnMut() -> u64,
}

impl Random<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        (self.random)() % bound.max(1)
    }

    #[expect(clippy::cast_possible_truncation, reason = "random bits may be cut")]
    fn value(&mut self, ty: &Type, out: &mut Vec<u8>, depth: u64) {
        match ty {
            Type::Unit => {}
            Type::Bool => out.push(self.below(2) as u8),
            Type::F32 => {
                let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0];
                let float = f32::from_bits((self.random)() as u32);
                let other = special.get(self.below(32) as usize).copied().unwrap_or(1.5);
                out.extend_from_slice(&(if float.is_finite() && other == 1.5 { float } else { other }).to_le_bytes());
            }
            Type::F64 => {
                let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
                let float = f64::from_bits((self.random)());
                let other = special.get(self.below(32) as usize).copied().unwrap_or(1.5);
                out.extend_from_slice(&(if float.is_finite() && other == 1.5 { float } else { other }).to_le_bytes());
            }
            Type::String => {
                let text: String = (0..self.below(6)).map(|_| self.character()).collect();
                put_blob(out, text.as_bytes());
            }
            Type::Bytes => {
                let bytes: Vec<u8> = (0..self.below(6)).map(|_| self.below(256) as u8).collect();
                put_blob(out, &bytes);
            }
            Type::Option(item) => match self.few(2, depth) {
                0 => out.push(0),
                _ => {
                    out.push(1);
                    self.value(item, out, depth + 1);
                }
            },
            Type::List(item) => {
                let count = self.few(4, depth);
                put_varint(out, count);
                (0..count).for_each(|_| self.value(item, out, depth + 1));
            }
            Type::Map(key, value) => {
                let count = self.few(3, depth);
                put_varint(out, count);
                for _ in 0..count {
                    self.value(key, out, depth + 1);
                    self.value(value, out, depth + 1);
                }
            }
            Type::Tuple(items) => items.iter().for_each(|item| self.value(item, out, depth + 1)),
            Type::Named(index) => self.named(*index, out, depth + 1),
            integer => self.integer(integer, out),
        }
    }

    fn named(&mut self, index: u32, out: &mut Vec<u8>, depth: u64) {
        match shape(self.table, index) {
            Ok(Shape::Struct(fields)) => fields.iter().for_each(|field| self.value(&field.ty, out, depth)),
            Ok(Shape::Newtype(ty)) => self.value(ty, out, depth),
            Ok(Shape::Enum(variants)) => {
                let index = self.below(variants.len() as u64);
                put_varint(out, index);
                match usize::try_from(index).ok().and_then(|index| variants.get(index)).map(|variant| &variant.content) {
                    None | Some(Content::Unit) => {}
                    Some(Content::Newtype(ty)) => self.value(ty, out, depth),
                    Some(Content::Tuple(items)) => items.iter().for_each(|item| self.value(item, out, depth)),
                    Some(Content::Struct(fields)) => fields.iter().for_each(|field| self.value(&field.ty, out, depth)),
                }
            }
            Err(_) => {}
        }
    }

    /// Half of the integers are small, and the ends of the range are among the others.
    fn integer(&mut self, ty: &Type, out: &mut Vec<u8>) {
        let Some(int) = Int::of(ty) else { return };
        let wide = i128::from((self.random)());
        let value = match self.below(8) {
            0 if int.signed => -(1 << (int.bits - 1)),
            1 => (1_i128 << (int.bits - u32::from(int.signed))) - 1,
            2 | 3 => wide % (1 << (int.bits - 1)),
            4 if int.signed => -(wide % (1 << (int.bits - 1))),
            _ => wide % 100,
        };
        int.put(out, value);
    }

    fn few(&mut self, bound: u64, depth: u64) -> u64 {
        if depth > 6 { 0 } else { self.below(bound) }
    }

    fn character(&mut self) -> char {
        let characters = ['a', 'Z', '0', ' ', '"', '\\', '\n', '\r', ',', '\0', '\u{7f}', 'é', '漢', '😀', '/'];
        let index = self.below(characters.len() as u64);
        usize::try_from(index).ok().and_then(|index| characters.get(index)).copied().unwrap_or('x')
    }
}
