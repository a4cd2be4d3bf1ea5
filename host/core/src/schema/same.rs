//! Whether two tables describe the same type.

use tidemill_wit::schema::{Content, Field, Shape, Type, TypeTable, Variant};

use super::walk::{shape, through_newtypes};

/// Whether two tables describe the same values: the same encoding, the same names of fields and variants. Names of Rust types, aliases and
/// defaults do not matter, nor do newtypes.
#[must_use]
pub fn equivalent(a: &TypeTable, b: &TypeTable) -> bool {
    same_types((a, &[&a.root]), (b, &[&b.root]))
}

/// Whether two lists of types are pairwise the same.
pub(crate) fn same_types(a: (&TypeTable, &[&Type]), b: (&TypeTable, &[&Type])) -> bool {
    let mut compare = Compare { tables: (a.0, b.0), assumed: Vec::new() };
    a.1.len() == b.1.len() && a.1.iter().zip(b.1).all(|(a, b)| compare.types(a, b))
}

/// How many pairs of named types are compared; more are taken to differ. Tables come from guests, so the work must have an end.
const MAX_PAIRS: usize = 1_024;

struct Compare<'a> {
    tables: (&'a TypeTable, &'a TypeTable),
    /// Pairs of named types that are being compared or were found the same: types may be recursive.
    assumed: Vec<(u32, u32)>,
}

impl Compare<'_> {
    fn types(&mut self, a: &Type, b: &Type) -> bool {
        match (through_newtypes(self.tables.0, a), through_newtypes(self.tables.1, b)) {
            (Type::Option(a), Type::Option(b)) | (Type::List(a), Type::List(b)) => self.types(a, b),
            (Type::Map(a, x), Type::Map(b, y)) => self.types(a, b) && self.types(x, y),
            (Type::Tuple(a), Type::Tuple(b)) => self.all(a, b),
            (Type::Named(a), Type::Named(b)) => self.named(*a, *b),
            (Type::Named(_), _) | (_, Type::Named(_)) => false,
            (a, b) => a == b,
        }
    }

    fn named(&mut self, a: u32, b: u32) -> bool {
        if self.assumed.contains(&(a, b)) {
            return true;
        }
        if self.assumed.len() >= MAX_PAIRS {
            return false;
        }
        self.assumed.push((a, b));
        match (shape(self.tables.0, a), shape(self.tables.1, b)) {
            (Ok(Shape::Struct(a)), Ok(Shape::Struct(b))) => self.fields(a, b),
            (Ok(Shape::Enum(a)), Ok(Shape::Enum(b))) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.variants(a, b)),
            _ => false,
        }
    }

    fn variants(&mut self, a: &Variant, b: &Variant) -> bool {
        a.name == b.name
            && match (&a.content, &b.content) {
                (Content::Unit, Content::Unit) => true,
                (Content::Newtype(a), Content::Newtype(b)) => self.types(a, b),
                (Content::Tuple(a), Content::Tuple(b)) => self.all(a, b),
                (Content::Struct(a), Content::Struct(b)) => self.fields(a, b),
                _ => false,
            }
    }

    fn fields(&mut self, a: &[Field], b: &[Field]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.name == b.name && self.types(&a.ty, &b.ty))
    }

    fn all(&mut self, a: &[Type], b: &[Type]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.types(a, b))
    }
}
