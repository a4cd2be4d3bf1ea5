//! What a new version of a type changes, in words, for people who decide about an upgrade.

use tidemill_wit::schema::{Content, Field, Shape, Type, TypeTable, Variant};

use super::describe::describe_type;
use super::walk::{shape, through_newtypes};

/// How many changes are listed.
const MOST: usize = 100;
/// How many pairs of named types are compared. Tables come from guests, so the work must have an end.
const MAX_PAIRS: usize = 1_024;

/// The changes by the paths of the fields, such as "`low_since` added"; none if the types are equivalent.
#[must_use]
pub fn changes(then: &TypeTable, now: &TypeTable) -> Vec<String> {
    let mut list = List { then, now, path: Vec::new(), pairs: Vec::new(), found: Vec::new() };
    list.types(&then.root, &now.root);
    list.found
}

/// The old field that a new one may be under another name: the only one of its type that is gone.
pub(super) fn renamed_from<'a>(
    (from, then): (&TypeTable, &'a [Field]),
    (to, now): (&TypeTable, &[Field]),
    field: &Field,
) -> Option<&'a str> {
    let ty = describe_type(to, &field.ty);
    let is_taken = |old: &Field| now.iter().any(|other| other.name == old.name || other.aliases.contains(&old.name));
    let mut gone = then.iter().filter(|old| !is_taken(old) && describe_type(from, &old.ty) == ty);
    gone.next().filter(|_| gone.next().is_none()).map(|old| old.name.as_str())
}

/// What to do if something has another name now.
pub(super) fn alias_hint(old: &str, new: &str) -> String {
    format!(": if {new} is `{old}` under another name, write #[serde(alias = \"{old}\")] on it, which keeps the values")
}

struct List<'a> {
    then: &'a TypeTable,
    now: &'a TypeTable,
    path: Vec<String>,
    pairs: Vec<(u32, u32)>,
    found: Vec<String>,
}

impl<'a> List<'a> {
    fn types(&mut self, then: &'a Type, now: &'a Type) {
        match (through_newtypes(self.then, then), through_newtypes(self.now, now)) {
            (Type::Option(then), Type::Option(now)) => self.types(then, now),
            (Type::List(then), Type::List(now)) => self.inside("[]", |list| list.types(then, now)),
            (Type::Map(old_key, then), Type::Map(new_key, now)) => {
                self.inside("{key}", |list| list.types(old_key, new_key));
                self.inside("{}", |list| list.types(then, now));
            }
            (Type::Tuple(then), Type::Tuple(now)) if then.len() == now.len() => self.items(then, now),
            (Type::Named(then), Type::Named(now)) => self.named(*then, *now),
            (then, now) if then == now => {}
            (then, now) => {
                let (old, new) = (describe_type(self.then, then), describe_type(self.now, now));
                self.say("", &format!("changed from {old} to {new}"));
            }
        }
    }

    fn named(&mut self, then: u32, now: u32) {
        if self.pairs.contains(&(then, now)) || self.pairs.len() >= MAX_PAIRS {
            return;
        }
        self.pairs.push((then, now));
        match (shape(self.then, then), shape(self.now, now)) {
            (Ok(Shape::Struct(then)), Ok(Shape::Struct(now))) => self.fields(then, now),
            (Ok(Shape::Enum(then)), Ok(Shape::Enum(now))) => self.variants(then, now),
            _ => self.say("", "changed its kind"),
        }
    }

    fn fields(&mut self, then: &'a [Field], now: &'a [Field]) {
        let mut taken = Vec::new();
        for field in now {
            let renamed =
                || then.iter().position(|old| field.aliases.contains(&old.name) && !now.iter().any(|other| other.name == old.name));
            let old = then.iter().position(|old| old.name == field.name).or_else(renamed);
            let Some((index, old)) = old.and_then(|index| then.get(index).map(|old| (index, old))) else {
                let hint = renamed_from((self.then, then), (self.now, now), field).map_or_else(String::new, |old| alias_hint(old, "it"));
                self.say(&field.name, &format!("added{hint}"));
                continue;
            };
            taken.push(index);
            if old.name != field.name {
                self.say(&field.name, &format!("renamed from `{}`", old.name));
            }
            self.inside(&field.name, |list| list.types(&old.ty, &field.ty));
        }
        for (index, old) in then.iter().enumerate() {
            if !taken.contains(&index) {
                self.say(&old.name, "removed");
            }
        }
        if !taken.is_sorted() {
            self.say("", "has its fields in another order");
        }
    }

    fn variants(&mut self, then: &'a [Variant], now: &'a [Variant]) {
        for variant in now {
            let renamed = || then.iter().find(|old| variant.aliases.contains(&old.name) && !now.iter().any(|other| other.name == old.name));
            match then.iter().find(|old| old.name == variant.name).or_else(renamed) {
                None => self.say(&variant.name, "added"),
                Some(old) => {
                    if old.name != variant.name {
                        self.say(&variant.name, &format!("renamed from `{}`", old.name));
                    }
                    self.inside(&variant.name, |list| list.content(&old.content, &variant.content));
                }
            }
        }
        for old in then {
            if !now.iter().any(|variant| variant.name == old.name || variant.aliases.contains(&old.name)) {
                self.say(&old.name, "removed");
            }
        }
    }

    fn content(&mut self, then: &'a Content, now: &'a Content) {
        match (then, now) {
            (Content::Unit, Content::Unit) => {}
            (Content::Newtype(then), Content::Newtype(now)) => self.types(then, now),
            (Content::Tuple(then), Content::Tuple(now)) if then.len() == now.len() => self.items(then, now),
            (Content::Struct(then), Content::Struct(now)) => self.fields(then, now),
            _ => self.say("", "changed what it holds"),
        }
    }

    fn items(&mut self, then: &'a [Type], now: &'a [Type]) {
        for (index, (then, now)) in then.iter().zip(now).enumerate() {
            self.inside(&index.to_string(), |list| list.types(then, now));
        }
    }

    fn inside(&mut self, part: &str, work: impl FnOnce(&mut Self)) {
        self.path.push(part.to_owned());
        work(self);
        self.path.pop();
    }

    fn say(&mut self, part: &str, what: &str) {
        if self.found.len() >= MOST {
            return;
        }
        let parts = self.path.iter().map(String::as_str).chain((!part.is_empty()).then_some(part));
        let path = parts.collect::<Vec<_>>().join(".").replace(".[]", "[]").replace(".{", "{");
        self.found.push(if path.is_empty() { format!("the value {what}") } else { format!("`{path}` {what}") });
    }
}

#[cfg(test)]
mod tests {
    use tidemill_wit::schema::{Shape, Type, TypeTable};

    use super::changes;
    use crate::schema::samples::{basket, everything, field, optional, record, structure, tree};

    #[test]
    fn what_is_the_same_has_no_changes() {
        for table in [basket(), tree(), everything()] {
            assert_eq!(changes(&table, &table), Vec::<String>::new());
        }
    }

    #[test]
    fn fields_are_told_by_their_paths() {
        let mut now = basket();
        if let Shape::Struct(fields) = &mut now.types[1].shape {
            fields[1] = field("quantity", Type::I32);
            fields[1].aliases.push("qty".to_owned());
            fields.push(field("note", optional(Type::String)));
        }
        let expected = ["`lines[].quantity` renamed from `qty`", "`lines[].quantity` changed from i64 to i32", "`lines[].note` added"];
        assert_eq!(changes(&basket(), &now), expected);
        let (one, other) = (record(&[("a", Type::I8), ("b", Type::I8), ("c", Type::I8)]), record(&[("b", Type::I8), ("a", Type::I8)]));
        assert_eq!(changes(&one, &other), ["`c` removed", "the value has its fields in another order"]);
        assert_eq!(changes(&TypeTable::of(Type::I8), &TypeTable::of(Type::I64)), ["the value changed from i8 to i64"]);
        let wrapped = TypeTable { types: vec![structure("Tree", vec![])], root: Type::Named(0) };
        assert_eq!(changes(&tree(), &wrapped), ["`name` removed", "`children` removed", "`next` removed"]);
    }
}
