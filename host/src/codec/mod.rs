//! Formats: JSON and CSV into a component's types and back, for sources, sinks, parameters and reference tables.

pub mod csv;
pub mod duration;
pub mod json;
pub mod table;

pub use self::csv::{CsvDecoder, CsvEncoder};
pub use duration::parse_duration;
pub use json::{JsonDecoder, JsonEncoder, from_value, to_value};
pub use table::{TableError, load_table};
