//! Whether a source could read what is written to a folder.

use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use glob::Pattern;

use super::discover::has_hidden_names;
use super::walk::{self, OPTIONS, Part};

/// A kind of names: the pieces of which each is made.
pub type Name = Vec<Piece>;

/// A piece of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// This character.
    Char(char),
    /// One or more decimal digits.
    Digits,
    /// One or more hexadecimal digits.
    Hexadecimal,
}

impl Piece {
    fn chars(self) -> impl Iterator<Item = char> {
        let (one, many) = match self {
            Self::Char(only) => (Some(only), ""),
            Self::Digits => (None, "0123456789"),
            Self::Hexadecimal => (None, "0123456789abcdef"),
        };
        one.into_iter().chain(many.chars())
    }
}

/// Whether a pattern could match files of these names in a folder, which need not exist yet; hidden names begin with a dot. Links are
/// followed as they are now.
#[must_use]
pub fn could_read(pattern: &str, folder: &Path, names: &[Name]) -> bool {
    let Ok(parts) = walk::parts(pattern) else { return false };
    let hidden = has_hidden_names(pattern);
    let Some((last, dirs)) = parts.split_last() else { return false };
    let is_seen = |name: &&Name| hidden || !matches!(last, Part::Names(_)) || name.first() != Some(&Piece::Char('.'));
    let folder = resolve(folder);
    let matches_name = match last {
        Part::Literal(only) => names.iter().any(|name| could_match(&Pattern::escape(only), name)),
        Part::Names(pattern) => names.iter().filter(is_seen).any(|name| could_match(pattern.as_str(), name)),
        Part::Folders => false,
    };
    (matches_name && (leads_to(dirs, &folder, hidden) || leads_there_now(pattern, &folder, hidden)))
        || walk::find(pattern, hidden).is_ok_and(|found| found.paths.iter().any(|path| is_link_into(path, &folder, names)))
}

/// Whether a pattern looks for files in a folder.
pub(super) fn looks_into(pattern: &str, folder: &Path) -> bool {
    let hidden = has_hidden_names(pattern);
    walk::parts(pattern).is_ok_and(|parts| parts.split_last().is_some_and(|(_, dirs)| leads_to(dirs, &resolve(folder), hidden)))
}

/// Whether a pattern matches a path.
pub(super) fn matches(pattern: &str, path: &Path) -> bool {
    path == Path::new(pattern) || Pattern::new(pattern).is_ok_and(|pattern| pattern.matches_path_with(path, OPTIONS))
}

/// The path with links followed as far as it exists, and without `.` and `..`.
fn resolve(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|part| Some((part, fs::canonicalize(part).ok()?)));
    let real = existing.and_then(|(part, real)| Some(real.join(path.strip_prefix(part).ok()?)));
    let mut normal = PathBuf::new();
    for component in real.as_deref().unwrap_or(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = normal.pop(),
            other => normal.push(other),
        }
    }
    normal
}

/// Whether the folders of a pattern lead to this one, which may not exist yet.
fn leads_to(dirs: &[Part], folder: &Path, hidden: bool) -> bool {
    let literal = |part: &Part| if let Part::Literal(name) = part { Some(name.clone()) } else { None };
    let base: PathBuf = Path::new("/").join(dirs.iter().map_while(literal).collect::<PathBuf>());
    let rest = dirs.iter().skip_while(|part| literal(part).is_some()).collect::<Vec<_>>();
    let Ok(below) = folder.strip_prefix(resolve(&base)) else { return false };
    let names: Option<Vec<&str>> = below.iter().map(|name| name.to_str()).collect();
    names.is_some_and(|names| dirs_match(&rest, &names, hidden))
}

fn dirs_match(parts: &[&Part], names: &[&str], hidden: bool) -> bool {
    let is_seen = |name: &str| hidden || !name.starts_with('.');
    match (parts, names) {
        ([], names) => names.is_empty(),
        ([Part::Folders, rest @ ..], names) => {
            dirs_match(rest, names, hidden) || matches!(names, [first, below @ ..] if is_seen(first) && dirs_match(parts, below, hidden))
        }
        ([Part::Literal(wanted), rest @ ..], [name, below @ ..]) => wanted == name && dirs_match(rest, below, hidden),
        ([Part::Names(pattern), rest @ ..], [name, below @ ..]) => {
            is_seen(name) && pattern.matches_with(name, OPTIONS) && dirs_match(rest, below, hidden)
        }
        (_, []) => false,
    }
}

/// Whether the folders that match now lead to this one, perhaps through links.
fn leads_there_now(pattern: &str, folder: &Path, hidden: bool) -> bool {
    let Some((dirs, _)) = pattern.trim_end_matches('/').rsplit_once('/') else { return false };
    walk::find(dirs, hidden).is_ok_and(|found| found.paths.iter().any(|path| fs::canonicalize(path).is_ok_and(|real| real == folder)))
}

/// Whether a path is a link to a file of the folder.
fn is_link_into(path: &Path, folder: &Path, names: &[Name]) -> bool {
    if !path.is_symlink() {
        return false;
    }
    let Ok(real) = fs::canonicalize(path) else { return false };
    let name = real.file_name().and_then(|name| name.to_str()).map(Pattern::escape);
    real.parent() == Some(folder) && name.is_some_and(|only| names.iter().any(|name| could_match(&only, name)))
}

/// What a pattern for names takes at a place.
enum Token {
    Many,
    One(Option<Pattern>),
    Char(char),
}

impl Token {
    fn takes(&self, next: char) -> bool {
        match self {
            Self::Many | Self::One(None) => true,
            Self::One(Some(class)) => class.matches(next.encode_utf8(&mut [0; 4])),
            Self::Char(only) => *only == next,
        }
    }
}

/// Whether a pattern could match a name of this kind.
fn could_match(pattern: &str, name: &[Piece]) -> bool {
    Meet { tokens: tokens(pattern), name, seen: HashSet::new() }.ends(0, 0, false)
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        let mut length = next.len_utf8();
        tokens.push(match next {
            '*' => Token::Many,
            '?' => Token::One(None),
            '[' => {
                // A bracket that comes first stands for itself.
                let begin = if rest.starts_with("[!") { 2 } else { 1 };
                let first = rest.get(begin..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
                let end = rest.get(begin + first..).and_then(|rest| rest.find(']')).map_or(rest.len(), |end| begin + first + end + 1);
                length = end;
                Token::One(rest.get(..end).and_then(|class| Pattern::new(class).ok()))
            }
            other => Token::Char(other),
        });
        rest = rest.get(length..).unwrap_or_default();
    }
    tokens
}

/// Looks for a text that a pattern matches and that is a name.
struct Meet<'a> {
    tokens: Vec<Token>,
    name: &'a [Piece],
    seen: HashSet<(usize, usize, bool)>,
}

impl Meet<'_> {
    /// Whether both can end, from a token and a piece on, of which something was taken already (`begun`).
    fn ends(&mut self, token: usize, piece: usize, begun: bool) -> bool {
        if !self.seen.insert((token, piece, begun)) {
            return false;
        }
        let is_many = matches!(self.tokens.get(token), Some(Token::Many));
        if (is_many && self.ends(token + 1, piece, begun)) || (begun && self.ends(token, piece + 1, false)) {
            return true;
        }
        let Some(next) = self.name.get(piece).copied() else { return token == self.tokens.len() };
        for char in next.chars() {
            if !self.tokens.get(token).is_some_and(|token| token.takes(char)) {
                continue;
            }
            let after = if is_many { token } else { token + 1 };
            let ends = if matches!(next, Piece::Char(_)) { self.ends(after, piece + 1, false) } else { self.ends(after, piece, true) };
            if ends {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::{Name, Piece, could_match, could_read};

    fn names() -> Vec<Name> {
        crate::sink::file::part_names("jsonl")
    }

    #[test]
    fn a_pattern_meets_the_names_that_it_could_match() {
        let meets = |pattern: &str| names().iter().any(|name| could_match(pattern, name));
        for pattern in [
            "*",
            "*.jsonl",
            "part-*",
            "part-?-0.jsonl",
            "part-[3-5]*",
            "*7.jsonl",
            "p*-12-34.jsonl",
            "part-1-2-3.jsonl",
            "part[-]1-[!0].jsonl",
            ".part*",
            "?tidemill-lock",
        ] {
            assert!(meets(pattern), "{pattern}");
        }
        for pattern in [
            "*.csv",
            "in-*.jsonl",
            "part-a*",
            "part-1.jsonl",
            "part-1-2-3-4.jsonl",
            "part-*-[a-z].jsonl",
            "Part-*",
            "part-1-2.jsonl.gz",
            "",
            "x",
        ] {
            assert!(!meets(pattern), "{pattern}");
        }
        let numbered = [Piece::Char('a'), Piece::Digits];
        assert!(could_match("a[0-9]", &numbered) && !could_match("a", &numbered));
    }

    #[test]
    fn a_folder_is_read_if_a_pattern_leads_there() {
        let root = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(root.path()).unwrap();
        let path = |name: &str| base.join(name);
        fs::create_dir_all(path("data/sub")).unwrap();
        fs::create_dir_all(path("elsewhere/out")).unwrap();
        symlink(path("elsewhere/out"), path("data/link")).unwrap();
        symlink(path("data"), path("alias")).unwrap();
        fs::write(path("elsewhere/out/part-1-0.jsonl"), "").unwrap();
        fs::create_dir(path("files")).unwrap();
        symlink(path("elsewhere/out/part-1-0.jsonl"), path("files/own.jsonl")).unwrap();
        let reads = |pattern: &str, folder: &str| could_read(&format!("{}/{pattern}", base.display()), &path(folder), &names());
        for (pattern, folder) in [
            ("data/*.jsonl", "data"),
            ("data/*.jsonl", "data/sub/.."),
            ("data/*.jsonl", "alias"),
            ("alias/*.jsonl", "data"),
            ("alias/../data/*.jsonl", "data/new/.."),
            ("data/*/*.jsonl", "data/not-there-yet"),
            ("data/**/*.jsonl", "data"),
            ("data/**/*.jsonl", "data/a/b"),
            ("**/*.jsonl", "data/a"),
            ("data/*/*.jsonl", "elsewhere/out"),
            ("data/link/*", "elsewhere/out"),
            ("files/*.jsonl", "elsewhere/out"),
            ("data/.out/*.jsonl", "data/.out"),
            ("data/.*", "data"),
            ("data/part-1-0.jsonl", "data"),
        ] {
            assert!(reads(pattern, folder), "{pattern} {folder}");
        }
        for (pattern, folder) in [
            ("data/*.jsonl", "data/out"),
            ("data/*.jsonl", "out"),
            ("data/*.jsonl", "data-out"),
            ("data/*/*.jsonl", "data"),
            ("data/in-*.jsonl", "data"),
            ("data/*.csv", "data"),
            ("data/**/*.jsonl", "out/data"),
            ("data/**/*.jsonl", "data/.out"),
            ("data/a.jsonl", "data"),
            ("files/*.jsonl", "elsewhere"),
        ] {
            assert!(!reads(pattern, folder), "{pattern} {folder}");
        }
        assert!(!could_read("[", Path::new("/"), &names()));
    }
}
