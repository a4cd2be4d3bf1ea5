//! Expected and actual records, side by side.

use serde_json::{Number, Value};

use crate::spec::case::Expected;
use crate::spec::plan::MAIN;

/// A record that came out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Actual {
    /// The name of its lane.
    pub(super) lane: String,
    /// The record.
    pub(super) value: Value,
    /// Its event time.
    pub(super) time: Option<i64>,
}

/// A line of a comparison: what should have come and what came, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What should have come; `None`: nothing.
    pub expected: Option<String>,
    /// What came; `None`: nothing.
    pub actual: Option<String>,
    /// Whether the two fit.
    pub same: bool,
}

/// Compares all records; `None` if they are as expected.
pub(super) fn compare(expected: &[Expected], actual: &[Actual], ordered: bool) -> Option<Vec<Row>> {
    let rows = if ordered { in_order(expected, actual) } else { in_any_order(expected, actual) };
    rows.iter().any(|row| !row.same).then_some(rows)
}

fn in_order(expected: &[Expected], actual: &[Actual]) -> Vec<Row> {
    (0..expected.len().max(actual.len())).map(|index| row(expected.get(index), actual.get(index))).collect()
}

/// Records with a time are paired first: those without fit more.
fn in_any_order(expected: &[Expected], actual: &[Actual]) -> Vec<Row> {
    let mut left: Vec<&Actual> = actual.iter().collect();
    let mut by_time: Vec<&Expected> = expected.iter().collect();
    by_time.sort_by_key(|expected| expected.time.is_none());
    let mut rows = Vec::new();
    for expected in by_time {
        let found = left.iter().position(|actual| fits(expected, actual)).map(|index| left.remove(index));
        rows.push(row(Some(expected), found));
    }
    rows.extend(left.into_iter().map(|actual| row(None, Some(actual))));
    rows
}

fn row(expected: Option<&Expected>, actual: Option<&Actual>) -> Row {
    let with_time = |expected: &Expected| text(&expected.lane, &expected.value.json, expected.time);
    let same = matches!((expected, actual), (Some(expected), Some(actual)) if fits(expected, actual));
    Row {
        expected: expected.map(with_time),
        // A time that is not asked for would only distract where there are other differences.
        actual: actual.map(|actual| {
            let time = expected.is_none_or(|expected| expected.time.is_some()).then_some(actual.time);
            text(&actual.lane, &actual.value, time)
        }),
        same,
    }
}

fn fits(expected: &Expected, actual: &Actual) -> bool {
    expected.lane == actual.lane && expected.time.is_none_or(|time| time == actual.time) && same(&expected.value.json, &actual.value)
}

/// Whether two values are equal; 4 and 4.0 are.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b))),
        _ => a == b,
    }
}

fn same_number(a: &Number, b: &Number) -> bool {
    if a.is_f64() == b.is_f64() { a == b } else { exact(a).is_some_and(|a| Some(a) == exact(b)) }
}

/// The number as an integer, if it is one.
#[expect(clippy::cast_possible_truncation, reason = "a float without fraction below 2^120 is an i128")]
fn exact(number: &Number) -> Option<i128> {
    let whole = || number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e36).map(|float| float as i128);
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)).or_else(whole)
}

fn text(lane: &str, value: &Value, time: Option<Option<i64>>) -> String {
    let lane = if lane == MAIN { String::new() } else { format!("{lane}: ") };
    let time = match time {
        Some(Some(time)) => format!(" at {time}"),
        Some(None) => " without time".to_owned(),
        None => String::new(),
    };
    format!("{lane}{value}{time}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Actual, compare};
    use crate::spec::case::Expected;

    fn expected(value: Value, time: Option<Option<i64>>) -> Expected {
        Expected { lane: "main".to_owned(), value: value.into(), time }
    }

    fn actual(value: Value, time: Option<i64>) -> Actual {
        Actual { lane: "main".to_owned(), value, time }
    }

    #[test]
    fn order_matters_only_where_it_should() {
        let (one, two) = (json!({"a": 1}), json!({"a": 2}));
        let came = [actual(one.clone(), Some(5)), actual(two.clone(), None)];
        assert_eq!(compare(&[expected(one.clone(), None), expected(two.clone(), None)], &came, true), None);
        let swapped = [expected(two, None), expected(one, None)];
        assert!(compare(&swapped, &came, true).is_some());
        assert_eq!(compare(&swapped, &came, false), None);
        assert!(compare(&swapped[..1], &came, false).is_some());
    }

    #[test]
    fn times_are_compared_where_they_are_given() {
        let value = json!("x");
        for (time, fits) in [(None, true), (Some(Some(5)), true), (Some(Some(6)), false), (Some(None), false)] {
            assert_eq!(compare(&[expected(value.clone(), time)], &[actual(value.clone(), Some(5))], true).is_none(), fits, "{time:?}");
        }
        // The record that may have any time is not paired with the one that the other needs.
        let came = [actual(value.clone(), Some(5)), actual(value.clone(), None)];
        assert_eq!(compare(&[expected(value.clone(), None), expected(value, Some(Some(5)))], &came, false), None);
    }

    #[test]
    fn numbers_are_equal_by_value_and_values_whole() {
        assert_eq!(compare(&[expected(json!({"n": 4}), None)], &[actual(json!({"n": 4.0}), None)], true), None);
        assert!(compare(&[expected(json!({}), None)], &[actual(json!({"n": 4}), None)], true).is_some());
        assert!(compare(&[expected(json!(i64::MAX), None)], &[actual(json!(i64::MAX - 1), None)], true).is_some());
    }
}
