//! Keys in the order-preserving, prefix-free encoding of [`tidemill_wit::key`], through serde. A tuple is its items one after the other, so
//! a single key field encodes the same bare and as a tuple of one.

mod de;
mod ser;

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a key does not encode or decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

/// Appends the encoded key.
///
/// # Errors
/// The type is not one that keys may have, such as `char` or `i128`.
pub fn append<T: Serialize + ?Sized>(key: &T, out: &mut Vec<u8>) -> Result<(), Error> {
    key.serialize(&mut ser::Serializer { out })
}

/// Decodes a whole key.
///
/// # Errors
/// The bytes are not a `T`, or there are more of them.
pub fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let mut deserializer = de::Deserializer { input: bytes };
    let key = T::deserialize(&mut deserializer)?;
    match deserializer.input {
        [] => Ok(key),
        rest => Err(Error(format!("{} bytes follow the key", rest.len()))),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl serde::ser::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

#[cfg(test)]
mod tests;
