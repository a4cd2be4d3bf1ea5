//! Working with encoded values by their type tables: checking them, picking fields, encoding keys, transcoding, writing them as JSON.
//!
//! A value is postcard bytes (`tidemill_wit::schema`). Guests are hostile: whatever is here never panics on bytes or on a table, and costs
//! time in proportion to the bytes that it reads, if the table has passed [`validate`].

pub mod samples;
pub mod scalar;

pub mod checker;
pub mod validate;
pub mod walk;

pub mod field;
pub mod key;

pub mod changes;
pub mod describe;
pub mod key_check;
pub mod key_text;
pub mod same;
pub mod transcode;

pub mod json;
pub mod lanes;

pub use changes::changes;
pub use checker::Checker;
pub use describe::describe;
pub use field::FieldPath;
pub use json::JsonEncoder;
pub use key::{KeyEncoder, same_key};
pub use key_check::{KeyChecker, OneForm};
pub use key_text::key_text;
pub use same::equivalent;
pub use transcode::{Mismatch, Transcoder};
pub use validate::validate;
pub use walk::check;

use tidemill_wit::schema::TypeTable;

/// An encoded value as JSON text, for messages: bytes that do not fit the type are shown in hex.
#[must_use]
pub fn json_text(table: &TypeTable, payload: &[u8]) -> String {
    let mut text = Vec::new();
    match JsonEncoder::new(table.clone()).encode(payload, &mut text) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => format!("\"{}\"", hex(payload)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
