//! What a type table must satisfy before values are read by it. A table comes from a guest, so it may be made to hurt.

use tidemill_wit::schema::{Content, Field, Shape, Type, TypeTable};

use super::walk::{self, MAX_DEPTH};

/// How many types a value may consist of without an enum, list, map or option in between. Bounds the work per byte.
const MAX_PARTS: usize = 4_096;

/// How many named types a table may have. Bounds the recursion over types.
const MAX_TYPES: usize = 1_024;

/// Checks a table: every type exists and ends, field and variant names are unique, defaults are values of their types, items of lists and
/// maps take up bytes.
///
/// # Errors
/// What is wrong with the table.
pub fn validate(table: &TypeTable) -> Result<(), String> {
    if table.types.len() > MAX_TYPES {
        return Err(format!("the type table has {} types, more than {MAX_TYPES}", table.types.len()));
    }
    let mut check = Check { table, sizes: vec![Found::Unknown; table.types.len()] };
    check.ty(&table.root)?;
    for named in &table.types {
        check.shape(&named.shape).map_err(|reason| format!("type {}: {reason}", named.name))?;
    }
    Ok(())
}

/// The size of what a type always consists of.
#[derive(Clone, Copy)]
struct Size {
    parts: usize,
    bytes: usize,
}

impl Size {
    const ONE: Self = Self { parts: 1, bytes: 1 };
}

#[derive(Clone, Copy)]
enum Found {
    Unknown,
    InProgress,
    Known(Size),
}

struct Check<'a> {
    table: &'a TypeTable,
    sizes: Vec<Found>,
}

impl Check<'_> {
    fn shape(&mut self, shape: &Shape) -> Result<(), String> {
        match shape {
            Shape::Struct(fields) => self.fields(fields),
            Shape::Newtype(ty) => self.ty(ty),
            Shape::Enum(variants) => {
                unique("variant", variants.iter().flat_map(|variant| names(&variant.name, &variant.aliases)))?;
                variants.iter().try_for_each(|variant| match &variant.content {
                    Content::Unit => Ok(()),
                    Content::Newtype(ty) => self.ty(ty),
                    Content::Tuple(items) => items.iter().try_for_each(|item| self.ty(item)),
                    Content::Struct(fields) => self.fields(fields),
                })
            }
        }
    }

    fn fields(&mut self, fields: &[Field]) -> Result<(), String> {
        unique("field", fields.iter().flat_map(|field| names(&field.name, &field.aliases)))?;
        for field in fields {
            self.ty(&field.ty).map_err(|reason| format!("field `{}`: {reason}", field.name))?;
            if let Some(mut default) = field.default.as_deref() {
                walk::skip(self.table, &field.ty, &mut default)
                    .and_then(|()| walk::finished(default))
                    .map_err(|reason| format!("the default of field `{}` is not a value of its type: {reason}", field.name))?;
            }
        }
        Ok(())
    }

    /// Checks a type and what is written inside it.
    fn ty(&mut self, ty: &Type) -> Result<(), String> {
        self.size(ty, MAX_DEPTH)?;
        match ty {
            Type::Option(item) => self.ty(item),
            Type::List(item) => {
                self.ty(item)?;
                self.item(&[item])
            }
            Type::Map(key, value) => {
                self.ty(key)?;
                self.ty(value)?;
                self.item(&[key, value])
            }
            Type::Tuple(items) => items.iter().try_for_each(|item| self.ty(item)),
            _ => Ok(()),
        }
    }

    /// Checks that the items of a list take up bytes, so that their number is bounded by the bytes.
    fn item(&mut self, parts: &[&Type]) -> Result<(), String> {
        let mut bytes = 0;
        for part in parts {
            bytes += self.size(part, MAX_DEPTH)?.bytes;
        }
        if bytes == 0 { Err("the items of a list or map have no content".to_owned()) } else { Ok(()) }
    }

    fn size(&mut self, ty: &Type, depth: u32) -> Result<Size, String> {
        let size = match ty {
            Type::Unit => Size { parts: 1, bytes: 0 },
            Type::Tuple(items) => self.sum(items.iter(), walk::deeper(depth)?)?,
            Type::Named(index) => self.named(*index, walk::deeper(depth)?)?,
            _ => Size::ONE,
        };
        if size.parts > MAX_PARTS { Err(format!("a value would consist of more than {MAX_PARTS} parts")) } else { Ok(size) }
    }

    fn sum<'t>(&mut self, items: impl Iterator<Item = &'t Type>, depth: u32) -> Result<Size, String> {
        let mut sum = Size { parts: 1, bytes: 0 };
        for item in items {
            let size = self.size(item, depth)?;
            sum = Size { parts: sum.parts + size.parts, bytes: sum.bytes + size.bytes };
            if sum.parts > MAX_PARTS {
                break;
            }
        }
        Ok(sum)
    }

    fn named(&mut self, index: u32, depth: u32) -> Result<Size, String> {
        let named = self.table.named(index).ok_or_else(|| format!("the type table has no type {index}"))?;
        match self.sizes.get(index as usize) {
            Some(Found::Known(size)) => return Ok(*size),
            Some(Found::InProgress) => return Err(format!("type {} contains itself without end", named.name)),
            _ => self.note(index, Found::InProgress),
        }
        let size = match &named.shape {
            Shape::Struct(fields) => self.sum(fields.iter().map(|field| &field.ty), depth)?,
            Shape::Newtype(ty) => self.size(ty, depth)?,
            Shape::Enum(_) => Size::ONE,
        };
        self.note(index, Found::Known(size));
        Ok(size)
    }

    fn note(&mut self, index: u32, found: Found) {
        if let Some(place) = self.sizes.get_mut(index as usize) {
            *place = found;
        }
    }
}

fn names<'a>(name: &'a str, aliases: &'a [String]) -> impl Iterator<Item = &'a str> {
    std::iter::once(name).chain(aliases.iter().map(String::as_str))
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut sorted: Vec<&str> = names.collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair.first() == pair.last()).and_then(|pair| pair.first()) {
        Some(name) => Err(format!("{what} `{name}` is there twice")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
