//! Records of cases, held against a component's types.

use serde_json::Value as Json;
use tidemill_core::schema::json::object_key;
use tidemill_core::schema::walk::{MAX_DEPTH, deeper, through_newtypes};
use tidemill_wit::schema::{Content, Field, Shape, Type, TypeTable, Variant};

use crate::spec::error::Problem;
use crate::spec::nearest::hint;
use crate::spec::tree::{Entry, Node, Value};

/// A record, as a case has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The record as JSON.
    pub json: Json,
    written: Node,
}

impl Record {
    pub(super) fn of(node: &Node) -> Self {
        Self { json: node.to_json(), written: node.clone() }
    }

    /// The first field of an object, in the record or within it, that its type does not have. A job passes over such fields, since other
    /// programs may need them; in a case one is a slip.
    #[must_use]
    pub fn unknown_field(&self, table: &TypeTable) -> Option<Problem> {
        Search { table }.value(&self.written, &table.root, MAX_DEPTH)
    }
}

#[cfg(test)]
impl From<Json> for Record {
    fn from(json: Json) -> Self {
        // JSON is YAML.
        Self::of(&crate::spec::tree::parse(&json.to_string(), "").unwrap())
    }
}

/// A search for what is unknown. What does not fit its type otherwise is passed over: that is told by whatever needs it to fit.
struct Search<'a> {
    table: &'a TypeTable,
}

impl Search<'_> {
    fn value(&self, node: &Node, ty: &Type, depth: u32) -> Option<Problem> {
        let depth = deeper(depth).ok()?;
        match (through_newtypes(self.table, ty), &node.value) {
            (Type::Option(inner), _) => self.value(node, inner, depth),
            (Type::List(item), Value::List(items)) => items.iter().find_map(|node| self.value(node, item, depth)),
            (Type::Tuple(types), Value::List(items)) => self.items(items, types, depth),
            (Type::Map(key, value), Value::Map(entries)) if object_key(self.table, key).is_some() => {
                entries.iter().find_map(|entry| self.value(&entry.node, value, depth))
            }
            (Type::Map(key, value), Value::List(pairs)) => pairs.iter().find_map(|pair| match &pair.value {
                Value::List(pair) => self.items(pair, [&**key, &**value], depth),
                _ => None,
            }),
            (Type::Named(index), Value::Map(entries)) => {
                let named = self.table.named(*index)?;
                match &named.shape {
                    Shape::Struct(fields) => self.object(entries, fields, &named.name, depth),
                    Shape::Enum(variants) => self.variant(entries, variants, &named.name, depth),
                    Shape::Newtype(_) => None,
                }
            }
            _ => None,
        }
    }

    fn items<'t>(&self, nodes: &[Node], types: impl IntoIterator<Item = &'t Type>, depth: u32) -> Option<Problem> {
        nodes.iter().zip(types).find_map(|(node, ty)| self.value(node, ty, depth))
    }

    fn object(&self, entries: &[Entry], fields: &[Field], name: &str, depth: u32) -> Option<Problem> {
        entries.iter().find_map(|Entry { key, key_at, node }| {
            match fields.iter().find(|field| field.name == *key || field.aliases.contains(key)) {
                Some(field) => self.value(node, &field.ty, depth),
                None => {
                    let hint = hint(key, fields.iter().map(|field| &*field.name));
                    Some(Problem { at: key_at.clone(), message: format!("`{name}` has no field `{key}`{hint}") })
                }
            }
        })
    }

    fn variant(&self, entries: &[Entry], variants: &[Variant], name: &str, depth: u32) -> Option<Problem> {
        let [Entry { key, node, .. }] = entries else { return None };
        let variant = variants.iter().find(|variant| variant.name == *key || variant.aliases.contains(key))?;
        match (&variant.content, &node.value) {
            (Content::Newtype(ty), _) => self.value(node, ty, depth),
            (Content::Tuple(types), Value::List(items)) => self.items(items, types, depth),
            (Content::Struct(fields), Value::Map(entries)) => self.object(entries, fields, &format!("{name}.{key}"), depth),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidemill_wit::schema::{Content, Field, NamedType, Shape, Type, TypeTable, Variant};

    use super::Record;

    fn field(name: &str, ty: Type) -> Field {
        Field { name: name.to_owned(), aliases: vec![format!("old_{name}")], ty, default: None }
    }

    fn named(name: &str, shape: Shape) -> NamedType {
        NamedType { name: name.to_owned(), shape }
    }

    #[test]
    fn a_field_that_its_type_does_not_have_is_found_wherever_it_is() {
        let leaf = || Box::new(Type::Named(1));
        let variant = |name: &str, content| Variant { name: name.to_owned(), aliases: Vec::new(), content };
        let variants = vec![
            variant("one", Content::Newtype(Type::Named(1))),
            variant("two", Content::Tuple(vec![Type::I64, Type::Named(1)])),
            variant("named", Content::Struct(vec![field("leaf", Type::Named(1))])),
        ];
        let fields = vec![
            field("option", Type::Option(leaf())),
            field("list", Type::List(leaf())),
            field("by_name", Type::Map(Box::new(Type::String), leaf())),
            field("by_flag", Type::Map(Box::new(Type::Bool), leaf())),
            field("choice", Type::Named(2)),
            field("wrapped", Type::Named(3)),
        ];
        let types = vec![
            named("Root", Shape::Struct(fields)),
            named("Leaf", Shape::Struct(vec![field("size", Type::I64)])),
            named("Choice", Shape::Enum(variants)),
            named("Wrapped", Shape::Newtype(Type::Named(1))),
        ];
        let table = TypeTable { types, root: Type::Named(0) };
        let found = |json: serde_json::Value| Record::from(json).unknown_field(&table).map(|problem| problem.message);
        for leaf in [json!({"size": 1}), json!({"old_size": 1}), json!({"siez": 1})] {
            let within = [
                json!({"option": leaf}),
                json!({"list": [{"size": 1}, leaf]}),
                json!({"by_name": {"any": leaf}}),
                json!({"by_flag": [[true, leaf]]}),
                json!({"choice": {"one": leaf}}),
                json!({"choice": {"two": [1, leaf]}}),
                json!({"choice": {"named": {"leaf": leaf}}}),
                json!({"wrapped": leaf}),
            ];
            let expected = leaf.get("siez").map(|_| "`Leaf` has no field `siez`, did you mean `size`?".to_owned());
            for record in within {
                assert_eq!(found(record.clone()), expected, "{record}");
            }
        }
        let of_variant = found(json!({"choice": {"named": {"leef": 1}}}));
        assert_eq!(of_variant.as_deref(), Some("`Choice.named` has no field `leef`, did you mean `leaf`?"));
        // What does not fit otherwise is not the search's to tell.
        for record in [json!(null), json!({"option": null, "list": {}, "choice": "one"}), json!({"choice": {"three": 1}})] {
            assert_eq!(found(record), None);
        }
    }
}
