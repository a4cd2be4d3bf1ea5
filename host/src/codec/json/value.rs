//! Encoded values as `serde_json::Value`, for what is small: parameters, inline rows, test files.

use serde_json::Value;
use tidemill_core::schema::JsonEncoder;
use tidemill_wit::schema::TypeTable;

use super::decode::{Scratch, Written, decode_value};

/// The value that encoded bytes stand for.
///
/// # Errors
/// The bytes are not a value of the type.
pub fn to_value(table: &TypeTable, payload: &[u8]) -> Result<Value, String> {
    let mut text = Vec::new();
    JsonEncoder::new(table.clone()).encode(payload, &mut text)?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

/// The encoding of a record, by the rules of [`JsonDecoder`](super::JsonDecoder).
///
/// # Errors
/// The value does not fit the type; the message names the field.
pub fn from_value(table: &TypeTable, value: &Value) -> Result<Vec<u8>, String> {
    encode(table, value, Written::ByMachine)
}

/// The encoding of configuration: as [`from_value`], but a duration needs its unit.
///
/// # Errors
/// The value does not fit the type; the message names the field.
pub fn from_configuration(table: &TypeTable, value: &Value) -> Result<Vec<u8>, String> {
    encode(table, value, Written::ByHand)
}

fn encode(table: &TypeTable, value: &Value, written: Written) -> Result<Vec<u8>, String> {
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    decode_value((table, &table.root), value, written, &mut scratch, &mut out).map_err(|error| scratch.explain(&error))?;
    Ok(out)
}
