//! Finds the paths that match a pattern, names that are not UTF-8 included, which the crate `glob` passes over in silence.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern, PatternError};

use super::discover::is_absent;

/// Names are compared component by component.
pub(super) const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The paths that match, whatever they lead to.
    pub(super) paths: Vec<PathBuf>,
    /// What would match, but for a name that is not UTF-8.
    pub(super) not_utf8: Vec<PathBuf>,
    /// The folders that could not be searched, and why.
    pub(super) failed: Vec<(PathBuf, io::Error)>,
}

/// A component of a pattern.
pub(super) enum Part {
    /// A name.
    Literal(String),
    /// Any name that this matches.
    Names(Pattern),
    /// `**`: any number of folders.
    Folders,
}

/// The components of a pattern.
///
/// # Errors
/// The pattern is not valid.
pub(super) fn parts(pattern: &str) -> Result<Vec<Part>, PatternError> {
    // A `**` that is only a part of a component shows in the whole pattern.
    Pattern::new(pattern)?;
    let mut parts = Vec::new();
    for component in pattern.split('/').filter(|component| !component.is_empty()) {
        match literal(component) {
            Some(name) => parts.push(Part::Literal(name)),
            None if component == "**" && matches!(parts.last(), Some(Part::Folders)) => {}
            None if component == "**" => parts.push(Part::Folders),
            None => parts.push(Part::Names(Pattern::new(component)?)),
        }
    }
    Ok(parts)
}

/// The paths that match. `hidden`: names that begin with a dot count as well.
///
/// # Errors
/// The pattern is not valid.
pub(super) fn find(pattern: &str, hidden: bool) -> Result<Found, PatternError> {
    let parts = parts(pattern)?;
    let mut walk = Walk { hidden, found: Found::default(), above: HashSet::new() };
    walk.below(Path::new(if pattern.starts_with('/') { "/" } else { "." }), &parts);
    Ok(walk.found)
}

/// The only name that a component matches, if there is only one.
pub(super) fn literal(component: &str) -> Option<String> {
    let (mut name, mut rest) = (String::new(), component.chars());
    while let Some(next) = rest.next() {
        match next {
            '*' | '?' => return None,
            // As `Pattern::escape` writes a special character.
            '[' => match (rest.next(), rest.next()) {
                (Some(only), Some(']')) if only != '!' => name.push(only),
                _ => return None,
            },
            other => name.push(other),
        }
    }
    Some(name)
}

struct Walk {
    hidden: bool,
    found: Found,
    /// The folders above the one that is searched, so that a link to one of them does not lead in a circle.
    above: HashSet<(u64, u64)>,
}

impl Walk {
    fn below(&mut self, dir: &Path, parts: &[Part]) {
        match parts {
            // The pattern ends with `**`, which matches folders.
            [] => self.found.paths.push(dir.to_owned()),
            [Part::Literal(name)] => {
                let path = dir.join(name);
                match fs::symlink_metadata(&path) {
                    Ok(_) => self.found.paths.push(path),
                    Err(error) if is_absent(&error) => {}
                    Err(error) => self.found.failed.push((path, error)),
                }
            }
            [Part::Literal(name), rest @ ..] => self.below(&dir.join(name), rest),
            [Part::Names(pattern), rest @ ..] => self.names(dir, pattern, rest),
            [Part::Folders, rest @ ..] => self.folders(dir, rest),
        }
    }

    fn names(&mut self, dir: &Path, pattern: &Pattern, rest: &[Part]) {
        for path in self.entries(dir) {
            let name = path.file_name().unwrap_or_default();
            if !pattern.matches_with(&name.to_string_lossy(), OPTIONS) || (!rest.is_empty() && !path.is_dir()) {
                continue;
            }
            match name.to_str() {
                None => self.found.not_utf8.push(path),
                Some(_) if rest.is_empty() => self.found.paths.push(path),
                Some(_) => self.below(&path, rest),
            }
        }
    }

    fn folders(&mut self, dir: &Path, rest: &[Part]) {
        let Ok(id) = fs::metadata(dir).map(|metadata| (metadata.dev(), metadata.ino())) else { return };
        if !self.above.insert(id) {
            return;
        }
        self.below(dir, rest);
        for path in self.entries(dir).into_iter().filter(|path| path.is_dir()) {
            match path.file_name().and_then(|name| name.to_str()) {
                None => self.found.not_utf8.push(path),
                Some(_) => self.folders(&path, rest),
            }
        }
        self.above.remove(&id);
    }

    /// What is in a folder, by name.
    fn entries(&mut self, dir: &Path) -> Vec<PathBuf> {
        let listed = fs::read_dir(dir).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>());
        let mut paths = match listed {
            Ok(paths) => paths,
            Err(error) if is_absent(&error) => return Vec::new(),
            Err(error) => {
                self.found.failed.push((dir.to_owned(), error));
                return Vec::new();
            }
        };
        let is_hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        paths.retain(|path| self.hidden || !is_hidden(path));
        paths.sort();
        paths
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    use super::{find, literal};

    #[test]
    fn an_escaped_name_is_literal() {
        assert_eq!(literal("a[*]b[[]c[]]"), Some("a*b[c]".to_owned()));
        for pattern in ["a*", "a?", "[ab]", "[!a]", "**"] {
            assert_eq!(literal(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn the_same_paths_are_found_as_by_the_library() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().to_str().unwrap();
        for name in ["a.log", "b.log", "x/a.log", "x/y/a.log", "x/y/z/b.txt", "[q]/a.log", "x y/ä.log"] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let patterns = [
            "*.log",
            "*",
            "**/*.log",
            "x/**/*",
            "**/y/*",
            "?/a.log",
            "[[]q]/*.log",
            "x/../*.log",
            "**/**/a.log",
            "./a.log",
            "x*/[!b].log",
            "absent/*",
        ];
        for pattern in patterns {
            let pattern = format!("{base}/{pattern}");
            let mut expected: Vec<PathBuf> = glob::glob(&pattern).unwrap().map(Result::unwrap).collect();
            let mut found = find(&pattern, false).unwrap().paths;
            expected.sort();
            found.sort();
            let texts = |paths: Vec<PathBuf>| paths.into_iter().map(|path| fs::canonicalize(path).unwrap()).collect::<Vec<_>>();
            assert_eq!(texts(found), texts(expected), "{pattern}");
        }
    }

    #[test]
    fn names_that_are_not_utf8_are_told_and_circles_end() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().to_str().unwrap();
        let odd = |name: &[u8]| root.path().join(OsStr::from_bytes(name));
        fs::write(odd(b"\xff.log"), "").unwrap();
        fs::write(odd(b"\xff.txt"), "").unwrap();
        fs::create_dir(odd(b"dir\xfe")).unwrap();
        fs::write(odd(b"dir\xfe/a.log"), "").unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("circle")).unwrap();
        let not_utf8 = |pattern: &str| find(&format!("{base}/{pattern}"), false).unwrap().not_utf8;
        assert_eq!(not_utf8("*.log"), [odd(b"\xff.log")]);
        assert_eq!(not_utf8("dir*/*.log"), [odd(b"dir\xfe")]);
        assert_eq!(not_utf8("d*"), [odd(b"dir\xfe")]);
        assert_eq!(not_utf8("**/*.log"), [odd(b"\xff.log"), odd(b"dir\xfe")]);
        assert!(not_utf8("c*.log").is_empty());
    }
}
