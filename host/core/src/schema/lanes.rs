//! The lanes that the host makes itself: `SOURCE.invalid` and `UID.dead-letter`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidemill_wit::schema::{Field, NamedType, Shape, Type, TypeTable};

use super::scalar::{put_blob, put_signed_varint};

/// The type of a source's `invalid` lane: `{reason, position, raw}`. `position` reads like `data/pos-0.jsonl line 12`; `raw` is what was
/// read, in base64 where it is not UTF-8.
#[must_use]
pub fn invalid_type() -> TypeTable {
    record("Invalid", &[("reason", Type::String), ("position", Type::String), ("raw", Type::String)])
}

/// Appends a record of [`invalid_type`].
pub fn encode_invalid(reason: &str, position: &str, raw: &[u8], out: &mut Vec<u8>) {
    put_blob(out, reason.as_bytes());
    put_blob(out, position.as_bytes());
    match std::str::from_utf8(raw) {
        Ok(text) => put_blob(out, text.as_bytes()),
        Err(_) => put_blob(out, STANDARD.encode(raw).as_bytes()),
    }
}

/// The type of an operator's `dead-letter` lane: `{operator, reason, source?, position?, timestamp?, value}`. `value` is the record as JSON
/// text, since the lane has the same type whatever the operator reads.
#[must_use]
pub fn dead_letter_type() -> TypeTable {
    let optional = |ty| Type::Option(Box::new(ty));
    record(
        "DeadLetter",
        &[
            ("operator", Type::String),
            ("reason", Type::String),
            ("source", optional(Type::String)),
            ("position", optional(Type::String)),
            ("timestamp", optional(Type::I64)),
            ("value", Type::String),
        ],
    )
}

/// A record or timer that an operator could not process.
#[derive(Clone, Copy, Debug)]
pub struct DeadLetter<'a> {
    /// The operator's uid.
    pub operator: &'a str,
    /// What is wrong.
    pub reason: &'a str,
    /// The uid of the source whose record was the cause.
    pub source: Option<&'a str>,
    /// Split and position of that record.
    pub position: Option<&'a str>,
    /// The event time.
    pub timestamp: Option<i64>,
    /// The record as JSON text.
    pub value: &'a str,
}

/// Appends a record of [`dead_letter_type`].
pub fn encode_dead_letter(letter: &DeadLetter<'_>, out: &mut Vec<u8>) {
    put_blob(out, letter.operator.as_bytes());
    put_blob(out, letter.reason.as_bytes());
    for text in [letter.source, letter.position] {
        out.push(u8::from(text.is_some()));
        if let Some(text) = text {
            put_blob(out, text.as_bytes());
        }
    }
    out.push(u8::from(letter.timestamp.is_some()));
    if let Some(timestamp) = letter.timestamp {
        put_signed_varint(out, timestamp);
    }
    put_blob(out, letter.value.as_bytes());
}

fn record(name: &str, fields: &[(&str, Type)]) -> TypeTable {
    let fields = fields.iter().map(|(name, ty)| Field { name: (*name).to_owned(), aliases: Vec::new(), ty: ty.clone(), default: None });
    let named = NamedType { name: name.to_owned(), shape: Shape::Struct(fields.collect()) };
    TypeTable { types: vec![named], root: Type::Named(0) }
}

#[cfg(test)]
mod tests {
    use super::{DeadLetter, dead_letter_type, encode_dead_letter, encode_invalid, invalid_type};
    use crate::schema::JsonEncoder;

    #[test]
    fn invalid_records_keep_what_was_read() {
        for (raw, expected) in [
            (&b"{\"a\":"[..], r#"{"reason":"cut","position":"pos-0.jsonl line 12","raw":"{\"a\":"}"#),
            (b"\xFF\x00", r#"{"reason":"cut","position":"pos-0.jsonl line 12","raw":"/wA="}"#),
            (b"a\0b", r#"{"reason":"cut","position":"pos-0.jsonl line 12","raw":"a\u0000b"}"#),
        ] {
            let (mut row, mut json) = (Vec::new(), Vec::new());
            encode_invalid("cut", "pos-0.jsonl line 12", raw, &mut row);
            JsonEncoder::new(invalid_type()).encode(&row, &mut json).unwrap();
            assert_eq!(String::from_utf8(json).unwrap(), expected);
        }
    }

    #[test]
    fn dead_letters_name_their_origin_where_there_is_one() {
        let full = DeadLetter {
            operator: "stock-out",
            reason: "trap",
            source: Some("pos"),
            position: Some("f:7"),
            timestamp: Some(-5),
            value: "{\"a\":1}",
        };
        let bare = DeadLetter { source: None, position: None, timestamp: None, ..full };
        for (letter, expected) in [
            (full, r#"{"operator":"stock-out","reason":"trap","source":"pos","position":"f:7","timestamp":-5,"value":"{\"a\":1}"}"#),
            (bare, r#"{"operator":"stock-out","reason":"trap","source":null,"position":null,"timestamp":null,"value":"{\"a\":1}"}"#),
        ] {
            let (mut row, mut json) = (Vec::new(), Vec::new());
            encode_dead_letter(&letter, &mut row);
            JsonEncoder::new(dead_letter_type()).encode(&row, &mut json).unwrap();
            assert_eq!(String::from_utf8(json).unwrap(), expected);
        }
    }
}
