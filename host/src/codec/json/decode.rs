//! JSON text into encoded values.

use serde::Deserializer;
use serde::de::DeserializeSeed as _;
use tidemill_core::schema::walk::MAX_DEPTH;
use tidemill_wit::schema::{Type, TypeTable};

use super::seed::{Cursor, Seed};

/// How long a reason may be: it can quote the record.
const MAX_REASON: usize = 300;

/// Reads records of one type. Allocates nothing per record once its buffers have grown.
#[derive(Debug)]
pub struct JsonDecoder {
    table: TypeTable,
    scratch: Scratch,
    written: Written,
}

/// Who has written a value. A machine writes durations as milliseconds; a person who leaves out the unit may have meant seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// A program has: the value is data, in which an integer is a duration of so many milliseconds.
    ByMachine,
    /// A person has: the value is configuration, in which a duration needs its unit.
    ByHand,
}

impl JsonDecoder {
    /// A decoder for records of this type.
    #[must_use]
    pub fn new(table: TypeTable) -> Self {
        Self { table, scratch: Scratch::default(), written: Written::ByMachine }
    }

    /// The same for rows of a job spec or case.
    #[must_use]
    pub fn by_hand(self) -> Self {
        Self { written: Written::ByHand, ..self }
    }

    /// Appends the encoded value of one record. Fields that the type does not have are ignored.
    ///
    /// # Errors
    /// The record is not JSON or does not fit the type; the message names field and column, and `out` is as before.
    pub fn decode(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let Self { table, scratch, written } = self;
        decode_text((table, &table.root), raw, *written, scratch, out)
    }
}

/// Appends the encoded value that a JSON text stands for.
///
/// # Errors
/// As for [`JsonDecoder::decode`].
pub(crate) fn decode_text(
    (table, ty): (&TypeTable, &Type),
    raw: &[u8],
    written: Written,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    // Checked at once, which is faster than string by string, and covers what is ignored.
    let text = std::str::from_utf8(raw).map_err(|error| format!("the record is not UTF-8 (column {})", error.valid_up_to() + 1))?;
    if text.trim_ascii().is_empty() {
        return Err("the record is empty".to_owned());
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let start = out.len();
    decode_value((table, ty), &mut json, written, scratch, out).and_then(|()| json.end()).map_err(|error| {
        out.truncate(start);
        scratch.explain(&error)
    })
}

/// Appends the encoded value that a deserializer gives.
///
/// # Errors
/// The value does not fit the type. The message is without the field's path: see [`Scratch::explain`].
pub(crate) fn decode_value<'de, D: Deserializer<'de>>(
    (table, ty): (&TypeTable, &Type),
    value: D,
    written: Written,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(), D::Error> {
    scratch.spans.clear();
    scratch.trail.clear();
    Seed { at: &mut Cursor { table, out, scratch, written }, ty, depth: MAX_DEPTH }.deserialize(value)
}

/// Buffers that are used again for each record.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The fields of open structs that did not come in order.
    pub(super) spans: Vec<Span>,
    /// Where such fields are put in order.
    pub(super) bytes: Vec<u8>,
    /// The way to what is wrong, innermost first; filled while an error travels outwards.
    pub(super) trail: Vec<String>,
}

/// The place of a field's value in the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) field: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Scratch {
    /// The whole message: `lines[1].qty: 300 does not fit u8 (column 17)`.
    pub(crate) fn explain(&self, error: &serde_json::Error) -> String {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let text = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
        let path: String = self.trail.iter().rev().map(String::as_str).collect();
        let path = path.strip_prefix('.').unwrap_or(&path);
        let colon = if path.is_empty() { "" } else { ": " };
        let seen = column.max(1);
        let place = match line {
            0 => String::new(),
            1 => format!(" (column {seen})"),
            _ => format!(" (line {line}, column {seen})"),
        };
        format!("{path}{colon}{}{place}", shortened(text))
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_REASON) {
        Some((end, _)) => format!("{}..", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
