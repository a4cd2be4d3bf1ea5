//! JSON: a record is one value, in one line.
//!
//! Structs are objects, enums externally tagged as serde writes them, bytes base64, maps objects where keys are strings or integers and else
//! lists of pairs. Integers are exact over their whole range. Floats that JSON does not have are the strings `NaN`, `Infinity` and
//! `-Infinity`, as in Flink's JSON format. Durations are text like `30m`; in records, which programs write, an integer is milliseconds,
//! and in what people write it is refused ([`Written`]).

mod decode;
mod fields;
mod seed;
mod value;

pub use decode::{JsonDecoder, Written};
pub(super) use decode::{Scratch, decode_text};
pub(super) use fields::missing;
pub use tidemill_core::schema::JsonEncoder;
pub use value::{from_configuration, from_value, to_value};
