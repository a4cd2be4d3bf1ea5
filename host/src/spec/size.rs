//! Sizes as people write them: `256MiB`.

/// The units and their size in bytes.
const UNITS: [(&str, u64); 4] = [("", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Reads a size: one whole number, in bytes or with one of the units KiB, MiB, GiB. The result is in bytes.
///
/// # Errors
/// The text is not such a size, or it is beyond what a `u64` can hold.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let Some((_, size)) = UNITS.into_iter().find(|(name, _)| *name == unit).filter(|_| !number.is_empty()) else {
        return Err(format!("`{text}` is not a size: write a number of bytes, or a whole number and one of KiB, MiB, GiB"));
    };
    let count: Option<u64> = number.parse().ok();
    count.and_then(|count| count.checked_mul(size)).ok_or_else(|| format!("the size `{text}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn reads_bytes_and_units() {
        for (text, expected) in [("0", 0), ("1024", 1024), ("64KiB", 65_536), ("256MiB", 268_435_456), ("2GiB", 2_147_483_648)] {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in ["", "MiB", "1.5MiB", "256MB", "256 MiB", "-1"] {
            let message = parse_size(text).unwrap_err();
            assert!(message.starts_with(&format!("`{text}` is not a size")), "{message}");
        }
        assert_eq!(parse_size("99999999999GiB").unwrap_err(), "the size `99999999999GiB` is too large");
    }
}
