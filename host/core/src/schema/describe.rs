//! Types in words, for people: `{basket_id: string, lines: [{sku: string, qty: i64}], note?: string}`.

use std::fmt::Write as _;

use tidemill_wit::schema::{Content, Field, Shape, Type, TypeTable, Variant};

use super::walk::through_newtypes;

/// How deep structs are written out.
const MAX_SHOWN_DEPTH: usize = 8;
/// From what length on the rest is left out.
const MAX_SHOWN: usize = 4_000;

/// From here on structs are no longer written out: a small table can describe very much.
const MAX_SHOWN_BYTES: usize = 4096;

/// The table's type. Structs are written out, except inside themselves, where their name stands for them.
#[must_use]
pub fn describe(table: &TypeTable) -> String {
    describe_type(table, &table.root)
}

/// A type of a table.
#[must_use]
pub fn describe_type(table: &TypeTable, ty: &Type) -> String {
    let mut text = Text { table, open: Vec::new(), out: String::new() };
    text.ty(ty);
    text.out
}

struct Text<'a> {
    table: &'a TypeTable,
    open: Vec<u32>,
    out: String,
}

impl Text<'_> {
    fn ty(&mut self, ty: &Type) {
        match ty {
            _ if self.full() => {}
            Type::Option(item) => {
                self.grouped(item);
                self.out.push('?');
            }
            Type::List(item) => {
                self.out.push('[');
                self.ty(item);
                self.out.push(']');
            }
            Type::Map(key, value) => {
                self.out.push_str("map<");
                self.ty(key);
                self.out.push_str(", ");
                self.ty(value);
                self.out.push('>');
            }
            Type::Tuple(items) => self.items(items),
            Type::Named(index) => self.named(*index),
            primitive => self.out.push_str(name_of(primitive)),
        }
    }

    fn named(&mut self, index: u32) {
        let Some(named) = self.table.named(index) else {
            self.out.push_str("unknown");
            return;
        };
        if self.open.contains(&index) || self.open.len() >= MAX_SHOWN_DEPTH || self.out.len() >= MAX_SHOWN_BYTES {
            self.out.push_str(&named.name);
            return;
        }
        self.open.push(index);
        match &named.shape {
            Shape::Struct(fields) => self.fields(fields),
            Shape::Newtype(ty) => self.ty(ty),
            Shape::Enum(variants) => {
                for (index, variant) in variants.iter().enumerate() {
                    if self.full() {
                        break;
                    }
                    self.out.push_str(if index == 0 { "" } else { " | " });
                    self.variant(variant);
                }
            }
        }
        self.open.pop();
    }

    /// Whether enough has been written. Ends the text where it is so.
    fn full(&mut self) -> bool {
        if self.out.len() > MAX_SHOWN && !self.out.ends_with("..") {
            self.out.push_str("..");
        }
        self.out.len() > MAX_SHOWN
    }

    fn variant(&mut self, variant: &Variant) {
        self.out.push_str(&variant.name);
        match &variant.content {
            Content::Unit => {}
            Content::Newtype(ty) => self.items(std::slice::from_ref(ty)),
            Content::Tuple(items) => self.items(items),
            Content::Struct(fields) => {
                self.out.push(' ');
                self.fields(fields);
            }
        }
    }

    fn fields(&mut self, fields: &[Field]) {
        self.out.push('{');
        for (index, field) in fields.iter().enumerate() {
            if self.full() {
                break;
            }
            let comma = if index == 0 { "" } else { ", " };
            let ty = match &field.ty {
                Type::Option(item) => item,
                ty => ty,
            };
            let optional = if matches!(field.ty, Type::Option(_)) || field.default.is_some() { "?" } else { "" };
            let _ = write!(self.out, "{comma}{}{optional}: ", field.name);
            self.ty(ty);
        }
        self.out.push('}');
    }

    fn items(&mut self, items: &[Type]) {
        self.out.push('(');
        for (index, item) in items.iter().enumerate() {
            if self.full() {
                break;
            }
            self.out.push_str(if index == 0 { "" } else { ", " });
            self.ty(item);
        }
        self.out.push_str(if items.len() == 1 { ",)" } else { ")" });
    }

    /// A type before a `?`, which must not seem to belong to the last variant only.
    fn grouped(&mut self, ty: &Type) {
        let is_enum = match through_newtypes(self.table, ty) {
            Type::Named(index) => {
                matches!(self.table.named(*index).map(|named| &named.shape), Some(Shape::Enum(variants)) if variants.len() > 1)
            }
            _ => false,
        };
        self.out.push_str(if is_enum { "(" } else { "" });
        self.ty(ty);
        self.out.push_str(if is_enum { ")" } else { "" });
    }
}

fn name_of(primitive: &Type) -> &'static str {
    match primitive {
        Type::Unit => "nothing",
        Type::Bool => "bool",
        Type::I8 => "i8",
        Type::I16 => "i16",
        Type::I32 => "i32",
        Type::I64 => "i64",
        Type::U8 => "u8",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::U64 => "u64",
        Type::F32 => "f32",
        Type::F64 => "f64",
        Type::String => "string",
        Type::Bytes => "bytes",
        Type::Duration => "duration",
        Type::Option(_) => "option",
        Type::List(_) => "list",
        Type::Map(..) => "map",
        Type::Tuple(_) => "tuple",
        Type::Named(_) => "named",
    }
}

#[cfg(test)]
mod tests {
    use tidemill_wit::schema::{Type, TypeTable};

    use super::describe;
    use crate::schema::samples::{basket, everything, field, structure, tree};

    #[test]
    fn endless_texts_are_cut() {
        let wide = (1..9).map(|next| structure("W", (0..50).map(|n| field(&format!("f{n}"), Type::Named(next))).collect()));
        let types = wide.chain([structure("End", Vec::new())]).collect();
        let text = describe(&TypeTable { types, root: Type::Named(0) });
        assert!(text.len() < 5_000 && text.contains(".."), "{}", text.len());
    }

    #[test]
    fn types_read_like_json() {
        let pairs =
            TypeTable::of(Type::Map(Box::new(Type::Tuple(vec![Type::I64, Type::String])), Box::new(Type::Option(Box::new(Type::F64)))));
        for (table, expected) in [
            (
                basket(),
                "{basket_id: string, store_id: i64, till_id: i64, business_date: string, event_ts: i64, uploaded_at: i64, \
                 lines: [{sku: string, qty: i64}]}",
            ),
            (tree(), "{name: string, children: [Tree], next?: Tree}"),
            (pairs, "map<(i64, string), f64?>"),
            (TypeTable::of(Type::Named(7)), "unknown"),
        ] {
            assert_eq!(describe(&table), expected);
        }
        assert!(
            describe(&everything()).contains("kind: plain | One(u32,) | Two(i8, string) | full {x: f64, y?: bool}"),
            "{}",
            describe(&everything())
        );
    }
}
