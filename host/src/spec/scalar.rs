//! Which scalars are numbers, by the core schema of YAML 1.2: `017` is seventeen, and `1_000`, `0b11` and `-0x10` are strings.

use serde_json::Number;

/// The number that a scalar without quotes and tag stands for; `None`: it is a string. An integer beyond 64 bits is the nearest float, or a
/// string if it is not written in decimals.
pub(super) fn number(text: &str) -> Option<Number> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            // A sign would pass as part of the number.
            let clean = digits.chars().all(|digit| digit.is_digit(radix));
            return u64::from_str_radix(digits, radix).ok().filter(|_| clean).map(Number::from);
        }
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if is_digits(unsigned) {
        let integer = text.parse().map(i64::into).or_else(|_| text.parse().map(u64::into));
        return integer.ok().or_else(|| float(text));
    }
    if is_float(unsigned) { float(text) } else { None }
}

/// What follows a text in a message that a number was expected, if the text looks like one.
pub(super) fn hint(text: &str) -> String {
    let meant = text.replace('_', "");
    if meant != text && number(&meant).is_some() {
        format!(" (YAML 1.2 takes `{text}` for a string: write {meant})")
    } else {
        String::new()
    }
}

fn float(text: &str) -> Option<Number> {
    text.parse().ok().and_then(Number::from_f64)
}

/// Whether the text without its sign is `12.`, `12.5`, `.5`, or one of these or `12` with an exponent.
fn is_float(unsigned: &str) -> bool {
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(mantissa, exponent)| (mantissa, Some(exponent)));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    is_digits(&digits) && exponent.is_none_or(|exponent| is_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_those_of_the_core_schema() {
        let integers = [("0", 0), ("-0", 0), ("017", 17), ("-017", -17), ("+12", 12), ("08", 8), ("0o17", 15), ("0x1F", 31)];
        for (text, value) in integers {
            assert_eq!(number(text), Some(value.into()), "{text}");
        }
        assert_eq!(number("18446744073709551615"), Some(u64::MAX.into()));
        let floats =
            [("12.", 12.0), (".5", 0.5), ("-1.5e3", -1500.0), ("1e+2", 100.0), ("18446744073709551616", 18_446_744_073_709_551_616.0)];
        for (text, value) in floats {
            assert_eq!(number(text).and_then(|number| number.as_f64()), Some(value), "{text}");
        }
    }

    #[test]
    fn what_other_versions_of_yaml_take_for_numbers_is_text() {
        let texts = [
            "1_000",
            "0b11",
            "-0x10",
            "+0o17",
            "0x",
            "0x+1",
            "0o8",
            "0O17",
            "0xFFFFFFFFFFFFFFFFF",
            "1:30",
            ".",
            "1e",
            "e1",
            "",
            "-",
            "+-1",
        ];
        for text in texts {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
