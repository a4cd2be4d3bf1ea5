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

/// The name of a type without its path and arguments, for messages.
pub(crate) fn type_name<T: ?Sized>() -> &'static str {
    let full = std::any::type_name::<T>();
    // By bytes: searching in strings would be the larger half of a small component.
    let end = full.bytes().position(|byte| byte == b'<').unwrap_or(full.len());
    let start = full.bytes().take(end).rposition(|byte| byte == b':').map_or(0, |colon| colon + 1);
    full.get(start..end).filter(|_| !full.starts_with('(')).unwrap_or(full)
}

#[cfg(test)]
mod tests {
    use super::type_name;

    #[test]
    fn type_names_are_short() {
        assert_eq!((type_name::<String>(), type_name::<Vec<String>>(), type_name::<i64>()), ("String", "Vec", "i64"));
        assert_eq!((type_name::<(i64, String)>(), type_name::<&str>()), ("(i64, alloc::string::String)", "&str"));
    }
}
