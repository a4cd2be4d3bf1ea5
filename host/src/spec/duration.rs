//! Lengths of time as people write them: `30m`.

/// The units and their length in milliseconds.
const UNITS: [(&str, i64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a length of time: one whole number and one of the units ms, s, m, h, d (24 hours). The result is in milliseconds.
///
/// # Errors
/// The text is not such a length, or it is beyond what an `i64` of milliseconds can hold.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let Some((_, length)) = UNITS.into_iter().find(|(name, _)| *name == unit).filter(|_| !number.is_empty()) else {
        return Err(format!("`{text}` is not a duration: write a whole number and one of ms, s, m, h, d, such as 30m"));
    };
    let count: Option<i64> = number.parse().ok();
    count.and_then(|count| count.checked_mul(length)).ok_or_else(|| format!("the duration `{text}` is too long"))
}

#[cfg(test)]
mod tests {
    use super::parse_duration;

    #[test]
    fn reads_one_number_and_unit() {
        for (text, expected) in [("100ms", 100), ("5s", 5_000), ("30m", 1_800_000), ("2h", 7_200_000), ("3d", 259_200_000), ("0s", 0)] {
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refuses_everything_else() {
        for text in ["", "5", "s", "5 s", "-5s", "1.5h", "1h30m", "5S", "5sec", "1w", "é"] {
            let message = parse_duration(text).unwrap_err();
            assert!(message.starts_with(&format!("`{text}` is not a duration")), "{message}");
        }
        assert_eq!(parse_duration("999999999999999999d").unwrap_err(), "the duration `999999999999999999d` is too long");
        assert_eq!(parse_duration("99999999999999999999s").unwrap_err(), "the duration `99999999999999999999s` is too long");
    }
}
