//! Numbers, sizes and times as people read them.

use std::time::Duration;

const DAY_MILLIS: i64 = 86_400_000;
/// The times that are shown as dates: the begin of the year 1 and the end of the year 9999.
const FIRST_DATE_MILLIS: i64 = -62_135_596_800_000;
const LAST_DATE_MILLIS: i64 = 253_402_300_799_999;

/// A count with separators: `56,429`.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How many per second that makes, rounded; 0 if no time has passed.
pub(super) fn rate(count: u64, elapsed: Duration) -> u64 {
    let millis = elapsed.as_millis();
    if millis == 0 {
        return 0;
    }
    u64::try_from((u128::from(count) * 1_000 + millis / 2) / millis).unwrap_or(u64::MAX)
}

/// A size: `3.0 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => {
            let tenths = u128::from(bytes) * 10 / u128::from(unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

/// A length of time: `45 ms`, `4.2 s`, `2 m 5 s`, `3 h 20 m`.
pub(crate) fn length(length: Duration) -> String {
    let millis = length.as_millis();
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{} m {} s", millis / 60_000, millis % 60_000 / 1_000),
        _ => format!("{} h {} m", millis / 3_600_000, millis % 3_600_000 / 60_000),
    }
}

/// A short length of time in microseconds: `0.4 ms`, `45.0 ms`, from a second on as [`length`] has it.
pub(crate) fn fine(micros: u64) -> String {
    match micros {
        0..1_000_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        _ => length(Duration::from_micros(micros)),
    }
}

/// A length of time in milliseconds as a job spec has it: `30m`.
pub(super) fn spec_length(millis: i64) -> String {
    let units = [("d", DAY_MILLIS), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    match units.into_iter().find(|(_, unit)| millis != 0 && millis % unit == 0) {
        Some((name, unit)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}

/// A point in time, milliseconds since the epoch, in UTC, as RFC 3339 has it: `2026-08-15T10:00:00.123Z`.
pub(crate) fn time(millis: i64) -> String {
    match millis {
        i64::MIN => "none yet".to_owned(),
        i64::MAX => "end of input".to_owned(),
        FIRST_DATE_MILLIS..=LAST_DATE_MILLIS => {
            let (days, rest) = (millis.div_euclid(DAY_MILLIS), millis.rem_euclid(DAY_MILLIS));
            let (year, month, day) = date(days);
            let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60);
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", rest % 1_000)
        }
        _ => millis.to_string(),
    }
}

/// The year, month and day that is so many days after 1970-01-01 (Howard Hinnant's `civil_from_days`).
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{bytes, count, fine, length, rate, spec_length, time};

    #[test]
    fn counts_have_separators() {
        assert_eq!([0, 999, 1_000, 56_429, 1_234_567].map(count), ["0", "999", "1,000", "56,429", "1,234,567"]);
        assert_eq!((rate(10, Duration::ZERO), rate(50_000, Duration::from_millis(4_200))), (0, 11_905));
    }

    #[test]
    fn sizes_and_lengths_are_short() {
        assert_eq!([1_023, 1_024, 3_200_000, 5 << 30].map(bytes), ["1023 B", "1.0 KiB", "3.0 MiB", "5.0 GiB"]);
        let lengths = [45, 4_250, 125_000, 12_000_000].map(|millis| length(Duration::from_millis(millis)));
        assert_eq!(lengths, ["45 ms", "4.2 s", "2 m 5 s", "3 h 20 m"]);
        assert_eq!([0, 45_678, 999_999, 4_250_000].map(fine), ["0.0 ms", "45.6 ms", "999.9 ms", "4.2 s"]);
        assert_eq!([0, 1_500, 90_000, 259_200_000].map(spec_length), ["0ms", "1500ms", "90s", "3d"]);
    }

    #[test]
    fn times_are_utc() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_786_788_000_123, "2026-08-15T10:00:00.123Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (i64::MAX, "end of input"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
            (-62_135_596_800_001, "-62135596800001"),
        ] {
            assert_eq!(time(millis), expected);
        }
    }
}
