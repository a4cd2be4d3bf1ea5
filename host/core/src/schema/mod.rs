//! Working with encoded values by their type tables: checking them, picking fields, encoding keys, transcoding, writing them as JSON.
//!
//! A value is postcard bytes (`tidemill_wit::schema`). Guests are hostile: whatever is here never panics on bytes or on a table, and costs
//! time in proportion to the bytes that it reads, if the table has passed [`validate`].

pub mod samples;
pub mod scalar;

pub mod validate;
pub mod walk;

pub mod field;
pub mod key;

pub mod describe;
pub mod same;

pub mod json;
pub mod lanes;

pub use describe::describe;
pub use field::FieldPath;
pub use json::JsonEncoder;
pub use key::{KeyEncoder, same_key};
pub use same::equivalent;
pub use validate::validate;
