//! In what two types differ, for people.

use tidemill_wit::schema::{Field, Shape, Type, TypeTable};

use super::describe::describe_type;
use super::same::{equivalent, same_types};
use super::walk::{shape, through_newtypes};

/// How deep structs are searched.
const MAX_DEPTH: usize = 16;

/// The first thing in which a type differs from what it was, by the path of the field; `None` if the two are equivalent.
#[must_use]
pub fn difference(then: &TypeTable, now: &TypeTable) -> Option<String> {
    let mut search = Search { then, now, path: Vec::new() };
    (!equivalent(then, now)).then(|| search.types(&then.root, &now.root))
}

struct Search<'a> {
    then: &'a TypeTable,
    now: &'a TypeTable,
    path: Vec<&'a str>,
}

impl<'a> Search<'a> {
    /// For types that are not the same.
    fn types(&mut self, then: &'a Type, now: &'a Type) -> String {
        if let (Some(then), Some(now)) = (fields(self.then, then), fields(self.now, now))
            && self.path.len() < MAX_DEPTH
        {
            return self.fields(then, now);
        }
        let subject = if self.path.is_empty() { "it".to_owned() } else { format!("field `{}`", self.path.join(".")) };
        format!("{subject} was {} and is {}", describe_type(self.then, then), describe_type(self.now, now))
    }

    fn fields(&mut self, then: &'a [Field], now: &'a [Field]) -> String {
        for field in then {
            let Some(other) = now.iter().find(|other| other.name == field.name) else {
                return format!("field `{}` of type {} is gone", self.joined(field), describe_type(self.then, &field.ty));
            };
            if !same_types((self.then, &[&field.ty]), (self.now, &[&other.ty])) {
                self.path.push(&field.name);
                return self.types(&field.ty, &other.ty);
            }
        }
        match now.iter().find(|field| then.iter().all(|other| other.name != field.name)) {
            Some(field) => format!("field `{}` of type {} is new", self.joined(field), describe_type(self.now, &field.ty)),
            None => {
                let names = |fields: &[Field]| fields.iter().map(|field| field.name.clone()).collect::<Vec<_>>().join(", ");
                format!("its fields were in the order {} and are in the order {}", names(then), names(now))
            }
        }
    }

    fn joined(&self, field: &'a Field) -> String {
        self.path.iter().copied().chain([field.name.as_str()]).collect::<Vec<_>>().join(".")
    }
}

fn fields<'a>(table: &'a TypeTable, ty: &'a Type) -> Option<&'a [Field]> {
    match through_newtypes(table, ty) {
        Type::Named(index) => match shape(table, *index) {
            Ok(Shape::Struct(fields)) => Some(fields),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tidemill_wit::schema::{Field, NamedType, Shape, Type, TypeTable};

    use super::difference;

    fn note(fields: &[(&str, Type)]) -> TypeTable {
        let field = |(name, ty): &(&str, Type)| Field { name: (*name).to_owned(), aliases: vec![], ty: ty.clone(), default: None };
        let note = NamedType { name: "Note".to_owned(), shape: Shape::Struct(fields.iter().map(field).collect()) };
        TypeTable { types: vec![note], root: Type::Named(0) }
    }

    #[test]
    fn names_the_field_and_both_types() {
        let then = note(&[("text", Type::String), ("count", Type::U32)]);
        assert_eq!(difference(&then, &then), None);
        let cases = [
            (note(&[("text", Type::String)]), "field `count` of type u32 is gone"),
            (note(&[("text", Type::String), ("count", Type::I64)]), "field `count` was u32 and is i64"),
            (note(&[("text", Type::String), ("count", Type::U32), ("tag", Type::String)]), "field `tag` of type string is new"),
            (
                note(&[("count", Type::U32), ("text", Type::String)]),
                "its fields were in the order text, count and are in the order count, text",
            ),
            (TypeTable::of(Type::I64), "it was {text: string, count: u32} and is i64"),
        ];
        for (now, expected) in cases {
            assert_eq!(difference(&then, &now).as_deref(), Some(expected));
        }
    }
}
