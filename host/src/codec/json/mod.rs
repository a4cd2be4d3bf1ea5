//! JSON: a record is one value, in one line.
//!
//! Structs are objects, enums externally tagged as serde writes them, durations milliseconds or text like `30m`, bytes base64, maps objects
//! where keys are strings or integers and else lists of pairs. Integers are exact over their whole range.

mod decode;
mod fields;
mod seed;
mod value;

pub use decode::JsonDecoder;
pub(super) use decode::{Scratch, decode_text};
pub(super) use fields::missing;
pub use tidemill_core::schema::JsonEncoder;
pub use value::{from_value, to_value};
