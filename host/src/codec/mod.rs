//! Formats: JSON and CSV into a component's types and back, for sources, sinks, parameters and reference tables.

pub mod csv;
pub mod duration;
pub mod json;
pub mod table;

pub use self::csv::{CsvDecoder, CsvEncoder, Row};
pub use duration::{parse_duration, parse_signed_duration, without_unit};
pub use json::{JsonDecoder, JsonEncoder, Written, from_configuration, from_value, to_value};
pub use table::{TableError, load_table};
