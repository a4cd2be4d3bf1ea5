//! The name that was probably meant.

/// The known name that is nearest to `wanted`, if one is near enough to be what was meant.
#[must_use]
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(wanted);
    let limit = (wanted.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (strsim::osa_distance(&folded, &fold(name)), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// What follows an unknown name in a message: the nearest known name, or else all of them.
#[must_use]
pub fn hint<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(wanted, known.iter().copied()) {
        Some(name) => format!(", did you mean `{name}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; known: {}", known.join(", ")),
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
