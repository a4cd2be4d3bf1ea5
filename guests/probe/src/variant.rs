//! What differs between the variants of the probe.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidemill_sdk::Schema;

/// The key of the operator.
#[cfg(not(feature = "rekeyed"))]
pub type Key = String;
/// The key of the operator.
#[cfg(feature = "rekeyed")]
pub type Key = i64;

/// What the state `value` holds.
#[cfg(not(feature = "retyped"))]
pub type Value = i64;
/// What the state `value` holds.
#[cfg(feature = "retyped")]
pub type Value = String;

/// What the state `note` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Note {
    /// A text.
    pub text: String,
    /// A number.
    #[cfg(not(feature = "narrow"))]
    pub count: u32,
    /// Another text.
    #[cfg(feature = "v2")]
    #[serde(default = "no_tag")]
    pub tag: String,
}

/// The tag of a note that was given none.
pub(crate) fn no_tag() -> String {
    "-".to_owned()
}

impl Note {
    #[cfg_attr(any(not(feature = "v2"), feature = "narrow"), expect(unused_variables, reason = "other variants have these fields"))]
    pub(crate) fn new(text: String, count: u32, tag: String) -> Self {
        Self {
            text,
            #[cfg(not(feature = "narrow"))]
            count,
            #[cfg(feature = "v2")]
            tag,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        #[cfg(not(feature = "narrow"))]
        write!(f, " {}", self.count)?;
        #[cfg(feature = "v2")]
        write!(f, " {}", self.tag)?;
        Ok(())
    }
}

/// A number as the state `value` holds it.
pub(crate) fn value_of(number: i64) -> Value {
    #[cfg(not(feature = "retyped"))]
    return number;
    #[cfg(feature = "retyped")]
    return number.to_string();
}

/// The number that the state `value` holds.
pub(crate) fn number_of(value: &Value) -> i64 {
    #[cfg(not(feature = "retyped"))]
    return *value;
    #[cfg(feature = "retyped")]
    return value.parse().unwrap_or(0);
}
