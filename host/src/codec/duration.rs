//! Lengths of time as people write them: `30m`.

use std::fmt::Display;

/// Reads a length of time, one integer and a unit (`ms`, `s`, `m`, `h`, or `d` for 24 hours), in milliseconds.
///
/// # Errors
/// The text is something else, or longer than an i64 of milliseconds.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(without_unit(text));
    }
    let wrong = || format!("`{text}` is not a duration: write one integer and a unit (ms, s, m, h, d), for example 30m");
    let length = length(text).ok_or_else(wrong)?;
    length.and_then(|length| i64::try_from(length).ok()).ok_or_else(|| format!("the duration `{text}` is too long"))
}

/// Reads a length of time as [`parse_duration`] does; a minus sign may stand before it.
///
/// # Errors
/// As [`parse_duration`].
pub fn parse_signed_duration(text: &str) -> Result<i64, String> {
    let Some(positive) = text.strip_prefix('-') else { return parse_duration(text) };
    match length(positive) {
        // The shortest duration has no counterpart above zero.
        Some(Some(length)) => i64::try_from(-length).map_err(|_| format!("the duration `{text}` is too long")),
        Some(None) => Err(format!("the duration `{text}` is too long")),
        None if !positive.is_empty() && positive.bytes().all(|byte| byte.is_ascii_digit()) => Err(without_unit(text)),
        None => parse_duration(text),
    }
}

/// What is wrong with a number where a duration belongs, and what to write.
pub fn without_unit(number: impl Display) -> String {
    format!("{number} has no unit: write {number}s or {number}ms")
}

/// The length in milliseconds, without a sign. `None`: the text is not written as one; `Some(None)`: it is beyond all numbers.
fn length(text: &str) -> Option<Option<i128>> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).filter(|(number, _)| !number.is_empty())?;
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(number.parse::<i128>().ok().and_then(|number| number.checked_mul(factor)))
}

#[cfg(test)]
mod tests {
    use super::{parse_duration, parse_signed_duration};

    #[test]
    fn durations_are_one_integer_and_a_unit() {
        for (text, expected) in [("0s", 0), ("250ms", 250), ("30m", 1_800_000), ("24h", 86_400_000), ("3d", 259_200_000), ("05s", 5_000)] {
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
            assert_eq!(parse_signed_duration(text), Ok(expected), "{text}");
            assert_eq!(parse_signed_duration(&format!("-{text}")), Ok(-expected), "{text}");
        }
        for text in ["", "m", "1.5h", "-1s", "1 s", "1h30m", "1S", "½s"] {
            let error = parse_duration(text).unwrap_err();
            assert_eq!(error, format!("`{text}` is not a duration: write one integer and a unit (ms, s, m, h, d), for example 30m"));
        }
        let longest = "99999999999999999999999999999999999999999999d";
        for text in ["99999999999999999999d", "9223372036854775807d", "9223372036854775808ms", longest] {
            assert_eq!(parse_duration(text).unwrap_err(), format!("the duration `{text}` is too long"));
        }
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_what_to_write() {
        assert_eq!(parse_duration("60").unwrap_err(), "60 has no unit: write 60s or 60ms");
        assert_eq!(parse_signed_duration("60").unwrap_err(), "60 has no unit: write 60s or 60ms");
        assert_eq!(parse_signed_duration("-60").unwrap_err(), "-60 has no unit: write -60s or -60ms");
    }

    #[test]
    fn a_sign_is_one_minus() {
        assert_eq!(parse_signed_duration("-9223372036854775808ms"), Ok(i64::MIN));
        assert_eq!(parse_signed_duration("-9223372036854775809ms").unwrap_err(), "the duration `-9223372036854775809ms` is too long");
        for text in ["--1s", "-", "+1s", "-s"] {
            let error = parse_signed_duration(text).unwrap_err();
            assert_eq!(error, format!("`{text}` is not a duration: write one integer and a unit (ms, s, m, h, d), for example 30m"));
        }
    }
}
