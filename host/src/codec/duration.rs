//! Lengths of time as people write them: `30m`.

/// Reads a length of time, one integer and a unit (`ms`, `s`, `m`, `h`, or `d` for 24 hours), in milliseconds.
///
/// # Errors
/// The text is something else, or longer than an i64 of milliseconds.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let wrong = || format!("`{text}` is not a duration: write one integer and a unit (ms, s, m, h, d), for example 30m");
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    if number.is_empty() {
        return Err(wrong());
    }
    let whole = number.parse::<i64>().ok().and_then(|number| number.checked_mul(factor));
    whole.ok_or_else(|| format!("the duration `{text}` is too long"))
}

#[cfg(test)]
mod tests {
    use super::parse_duration;

    #[test]
    fn durations_are_one_integer_and_a_unit() {
        for (text, expected) in [("0s", 0), ("250ms", 250), ("30m", 1_800_000), ("24h", 86_400_000), ("3d", 259_200_000), ("05s", 5_000)] {
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
        }
        for text in ["", "5", "m", "1.5h", "-1s", "1 s", "1h30m", "1S", "½s"] {
            let error = parse_duration(text).unwrap_err();
            assert_eq!(error, format!("`{text}` is not a duration: write one integer and a unit (ms, s, m, h, d), for example 30m"));
        }
        assert_eq!(parse_duration("99999999999999999999d").unwrap_err(), "the duration `99999999999999999999d` is too long");
        assert_eq!(parse_duration("9223372036854775807d").unwrap_err(), "the duration `9223372036854775807d` is too long");
    }
}
