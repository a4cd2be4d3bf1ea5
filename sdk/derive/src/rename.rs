//! Serde's `rename_all` rules.

use syn::LitStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Lower,
    Upper,
    Pascal,
    Camel,
    Snake,
    ScreamingSnake,
    Kebab,
    ScreamingKebab,
}

const RULES: [(&str, Rule); 8] = [
    ("lowercase", Rule::Lower),
    ("UPPERCASE", Rule::Upper),
    ("PascalCase", Rule::Pascal),
    ("camelCase", Rule::Camel),
    ("snake_case", Rule::Snake),
    ("SCREAMING_SNAKE_CASE", Rule::ScreamingSnake),
    ("kebab-case", Rule::Kebab),
    ("SCREAMING-KEBAB-CASE", Rule::ScreamingKebab),
];

impl Rule {
    pub(crate) fn parse(text: &LitStr) -> syn::Result<Self> {
        let value = text.value();
        RULES.iter().find(|(name, _)| *name == value).map(|(_, rule)| *rule).ok_or_else(|| {
            let names: Vec<_> = RULES.iter().map(|(name, _)| *name).collect();
            syn::Error::new(text.span(), format!("unknown rename rule `{value}`: use one of {}", names.join(", ")))
        })
    }

    /// Renames a variant, which is written in `PascalCase`.
    pub(crate) fn variant(self, name: &str) -> String {
        match self {
            Self::Lower => name.to_ascii_lowercase(),
            Self::Upper => name.to_ascii_uppercase(),
            Self::Pascal => name.to_owned(),
            Self::Camel => lower_first(name),
            Self::Snake => snake(name),
            Self::ScreamingSnake => snake(name).to_ascii_uppercase(),
            Self::Kebab => snake(name).replace('_', "-"),
            Self::ScreamingKebab => snake(name).to_ascii_uppercase().replace('_', "-"),
        }
    }

    /// Renames a field, which is written in `snake_case`.
    pub(crate) fn field(self, name: &str) -> String {
        match self {
            Self::Lower | Self::Snake => name.to_owned(),
            Self::Upper | Self::ScreamingSnake => name.to_ascii_uppercase(),
            Self::Pascal => pascal(name),
            Self::Camel => lower_first(&pascal(name)),
            Self::Kebab => name.replace('_', "-"),
            Self::ScreamingKebab => name.to_ascii_uppercase().replace('_', "-"),
        }
    }
}

fn snake(pascal: &str) -> String {
    let mut out = String::new();
    for (at, letter) in pascal.char_indices() {
        if at > 0 && letter.is_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

fn pascal(snake: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    snake.split('_').map(capital).collect()
}

fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_lowercase().to_string() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::{RULES, Rule};

    #[test]
    fn names_are_renamed_as_serde_does() {
        let variants: Vec<_> = RULES.iter().map(|(_, rule)| rule.variant("StockOut")).collect();
        assert_eq!(variants, ["stockout", "STOCKOUT", "StockOut", "stockOut", "stock_out", "STOCK_OUT", "stock-out", "STOCK-OUT"]);
        let fields: Vec<_> = RULES.iter().map(|(_, rule)| rule.field("event_ts")).collect();
        assert_eq!(fields, ["event_ts", "EVENT_TS", "EventTs", "eventTs", "event_ts", "EVENT_TS", "event-ts", "EVENT-TS"]);
    }

    #[test]
    fn unknown_rules_are_refused() {
        let error = Rule::parse(&syn::LitStr::new("Title Case", proc_macro2::Span::call_site())).unwrap_err().to_string();
        assert!(error.starts_with("unknown rename rule `Title Case`: use one of lowercase, "), "{error}");
    }
}
