//! The name that was probably meant.

/// A name is looked for among so many known ones, and so many are listed. A spec may name more, and each of them may be wrong.
const MOST_NAMES: usize = 100;
/// A longer name was not misspelt.
const LONGEST_NAME: usize = 100;

/// The known name that is nearest to `wanted`, if one is near enough to be what was meant.
#[must_use]
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = wanted.chars().count();
    if length > LONGEST_NAME {
        return None;
    }
    let folded = fold(wanted);
    let limit = (length / 3).max(1);
    known
        .into_iter()
        .take(MOST_NAMES)
        .filter(|name| name.len() <= LONGEST_NAME)
        .map(|name| (strsim::osa_distance(&folded, &fold(name)), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// What follows an unknown name in a message: the nearest known name, or else all of them.
#[must_use]
pub fn hint<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().take(MOST_NAMES + 1).collect();
    let more = if known.len() > MOST_NAMES { ", .." } else { "" };
    known.truncate(MOST_NAMES);
    match nearest(wanted, known.iter().copied()) {
        Some(name) => format!(", did you mean `{name}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; known: {}{more}", known.join(", ")),
    }
}

fn fold(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::{hint, nearest};

    #[test]
    fn finds_what_was_meant() {
        let known = ["parallelism", "max_parallelism", "name"];
        assert_eq!(nearest("parralelism", known), Some("parallelism"));
        assert_eq!(nearest("max-parallelism", known), Some("max_parallelism"));
        assert_eq!(nearest("Name", known), Some("name"));
        assert_eq!(nearest("kafka", known), None);
        assert_eq!(hint("x", []), "");
        assert_eq!(hint("kafka", ["a", "b"]), "; known: a, b");
    }
}
