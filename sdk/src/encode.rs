//! Postcard into the end of a buffer that is kept (`postcard::to_extend` takes and returns it).

use postcard::ser_flavors::Flavor;
use serde::Serialize;

struct Append<'a>(&'a mut Vec<u8>);

impl Flavor for Append<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Appends the postcard bytes of a value.
#[inline]
pub(crate) fn append<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), String> {
    postcard::serialize_with_flavor(value, Append(out)).map_err(|error| format!("a {} does not encode: {error}", type_name::<T>()))
}

/// The name of a type without its path, for messages.
pub(crate) fn type_name<T: ?Sized>() -> &'static str {
    let full = std::any::type_name::<T>();
    let plain = full.split_once('<').map_or(full, |(head, _)| head);
    plain.rsplit_once("::").map_or(full, |(path, _)| full.get(path.len() + 2..).unwrap_or(full))
}
