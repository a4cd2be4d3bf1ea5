//! What repeats when a failure repeats: the place in the component, not the record that happened to reach it.

use std::collections::BTreeSet;

/// What stands for a failure of an operator, from its reason: the place of a panic, else the reason without what it says of the record, whose
/// content is given as text.
pub(super) fn site(uid: &str, reason: &str, record: &str) -> String {
    panic_site(uid, reason).unwrap_or_else(|| format!("operator {uid}: {}", without(reason, record)))
}

/// What stands for a failure of an operator, if its reason is a panic: the place of that.
pub(super) fn panic_site(uid: &str, reason: &str) -> Option<String> {
    place_of_panic(reason).map(|place| format!("operator {uid}: a panic at {place}"))
}

/// File and line of what Rust says of a panic: `panicked at src/lib.rs:7:5: ..`.
fn place_of_panic(reason: &str) -> Option<String> {
    let (_, rest) = reason.split_once("panicked at ")?;
    let place = rest.split_whitespace().next()?.trim_end_matches(':');
    let mut parts = place.splitn(3, ':');
    let (file, line) = (parts.next()?, parts.next()?);
    line.parse::<u32>().ok().map(|line| format!("{file}:{line}"))
}

/// A text without numbers and without the words of the record.
fn without(reason: &str, record: &str) -> String {
    let words: BTreeSet<&str> = record.split(is_between).filter(|word| !word.is_empty()).collect();
    let mut text = String::with_capacity(reason.len());
    for piece in reason.split_inclusive(is_between) {
        let word = piece.trim_end_matches(is_between);
        let own = words.contains(word) || word.chars().all(|c| c.is_ascii_digit()) && !word.is_empty();
        text.push_str(if own { "_" } else { word });
        text.push_str(piece.get(word.len()..).unwrap_or_default());
    }
    text
}

fn is_between(c: char) -> bool {
    !c.is_alphanumeric() && c != '_'
}

#[cfg(test)]
mod tests {
    use super::site;

    #[test]
    fn a_panic_is_known_by_its_place_and_other_failures_by_what_they_say_without_the_record() {
        let same = |a: (&str, &str), b: (&str, &str)| site("o", a.0, a.1) == site("o", b.0, b.1);
        let panic = |line: u32, what: &str| format!("the guest stopped itself: panicked at src/lib.rs:{line}:9: no account {what} (in f)");
        assert_eq!(site("fraud", &panic(30, "ada"), "{}"), "operator fraud: a panic at src/lib.rs:30");
        assert!(same((&panic(30, "ada"), "{}"), (&panic(30, "bob"), "{}")));
        assert!(!same((&panic(30, "ada"), "{}"), (&panic(31, "ada"), "{}")));
        let records = (r#"{"account":"ada","amount":-5}"#, r#"{"account":"bob","amount":-70}"#);
        assert!(same(("`ada` has spent -5 too much", records.0), ("`bob` has spent -70 too much", records.1)));
        assert!(!same(("`ada` is unknown", records.0), ("`ada` is barred", records.0)));
        assert_ne!(site("o", "x", ""), site("p", "x", ""));
    }
}
