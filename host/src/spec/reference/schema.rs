//! A JSON Schema (2020-12), by which editors complete and check.

use serde_json::{Map, Value, json};

use super::{Default, Document, Field, Kind, Object};

/// What a variable of the environment looks like, which stands for a value of any type.
pub(super) const VARIABLE: &str = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}";
pub(super) const NAME: &str = "^[A-Za-z0-9_-]{1,100}$";
pub(super) const DURATION: &str = "^[0-9]+(ms|s|m|h|d)$";
pub(super) const SIZE: &str = "^[0-9]+(KiB|MiB|GiB)?$";

/// The JSON Schema of a document.
#[must_use]
pub fn schema(document: &Document) -> Value {
    let objects = document.objects();
    let inner = objects.iter().filter(|object| !std::ptr::eq(**object, document.root));
    let mut schema = object(document.root);
    if let Value::Object(fields) = &mut schema {
        fields.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
        fields.insert("title".to_owned(), document.title.into());
        fields.insert("$defs".to_owned(), inner.map(|inner| (key(inner), object(inner))).collect::<Map<_, _>>().into());
    }
    schema
}

fn key(object: &Object) -> String {
    object.name.replace(' ', "-")
}

fn object(object: &Object) -> Value {
    let properties: Map<String, Value> = object.fields.iter().map(|field| (field.name.to_owned(), property(object, field))).collect();
    let required: Vec<&str> =
        object.fields.iter().filter(|field| matches!(field.default, Default::Required)).map(|field| field.name).collect();
    let mut schema = json!({ "type": "object", "description": object.about, "properties": properties, "additionalProperties": false });
    if let Value::Object(fields) = &mut schema {
        if !required.is_empty() {
            fields.insert("required".to_owned(), required.into());
        }
        if object.one_of {
            fields.insert("minProperties".to_owned(), 1.into());
            fields.insert("maxProperties".to_owned(), 1.into());
        }
    }
    schema
}

fn property(object: &Object, field: &Field) -> Value {
    let mut schemas = alternatives(field.kind);
    // A field without a value is the same as none.
    if !matches!(field.default, Default::Required) && !object.one_of {
        schemas.push(json!({ "type": "null" }));
    }
    let default = match field.default {
        Default::Required => String::new(),
        Default::Value(value) => format!(" Default: {value}."),
        Default::Words(words) => format!(" Default: {words}."),
    };
    let mut schema = either(schemas);
    if let Value::Object(fields) = &mut schema {
        fields.insert("description".to_owned(), format!("{}{}", field.about, if object.one_of { "" } else { &default }).into());
    }
    schema
}

fn either(mut schemas: Vec<Value>) -> Value {
    match schemas.pop() {
        Some(only) if schemas.is_empty() => only,
        last => {
            schemas.extend(last);
            json!({ "anyOf": schemas })
        }
    }
}

/// The schemas of a kind, one of which a value must have.
fn alternatives(kind: Kind) -> Vec<Value> {
    let pattern = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    let mut schemas = match kind {
        Kind::Object(object) => return vec![json!({ "$ref": format!("#/$defs/{}", key(object)) })],
        Kind::List(item) => return vec![json!({ "type": "array", "items": either(alternatives(*item)) })],
        Kind::Named(item) => return vec![json!({ "type": "object", "additionalProperties": either(alternatives(*item)) })],
        Kind::Record => return vec![json!({ "type": "object" })],
        Kind::Value => return vec![json!({})],
        Kind::Nothing => return vec![json!({ "type": ["object", "null"], "maxProperties": 0 })],
        Kind::Text | Kind::Stream => return vec![json!({ "type": "string", "minLength": 1 })],
        Kind::Some(item) => {
            let mut schemas = alternatives(*item);
            schemas.push(json!({ "type": "array", "minItems": 1, "items": either(alternatives(*item)) }));
            return schemas;
        }
        Kind::Name => vec![pattern(NAME)],
        Kind::Bool => vec![json!({ "type": "boolean" })],
        Kind::Whole(least) => vec![json!({ "type": "integer", "minimum": least })],
        Kind::Time => vec![json!({ "type": "integer" })],
        Kind::TimeOrNull => vec![json!({ "type": "integer" }), json!({ "type": "null" })],
        Kind::Number(least, None) => vec![json!({ "type": "number", "minimum": least })],
        Kind::Number(least, Some(most)) => vec![json!({ "type": "number", "minimum": least, "maximum": most })],
        Kind::Duration(_) => vec![pattern(DURATION)],
        Kind::Ttl => vec![pattern(DURATION), json!({ "enum": ["none"] })],
        Kind::Size(least) => vec![json!({ "type": "integer", "minimum": least }), pattern(SIZE)],
        Kind::Choice(words) => vec![json!({ "enum": words })],
    };
    schemas.push(pattern(VARIABLE));
    schemas
}
