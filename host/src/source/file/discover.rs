//! Which files match a pattern now.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use glob::MatchOptions;
use tidemill_core::{Error, Kind, Result};

use crate::disk::kind_of;

/// A file that matches.
pub(super) struct Listed {
    pub(super) path: String,
    pub(super) metadata: Metadata,
}

/// The files that match, by path. A file with several names, through links, counts once, under the first. To match nothing is fine only if
/// files may still come (`follow`).
pub(super) fn files(pattern: &str, follow: bool) -> Result<Vec<Listed>> {
    let found = if Path::new(pattern).exists() { vec![PathBuf::from(pattern)] } else { matching(pattern)? };
    let exact = found.len() == 1 && found.first().is_some_and(|path| path == Path::new(pattern));
    let mut files = Vec::with_capacity(found.len());
    for path in found {
        let metadata = match fs::metadata(&path) {
            // It was listed a moment ago; where files come and go, some go.
            Err(error) if follow && error.kind() == ErrorKind::NotFound => continue,
            result => result.map_err(|error| unreadable(&path, &error))?,
        };
        if metadata.is_dir() && !exact {
            continue;
        }
        files.push(Listed { path: readable(&path, &metadata)?, metadata });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut seen = HashSet::with_capacity(files.len());
    files.retain(|file| seen.insert((file.metadata.dev(), file.metadata.ino())));
    if files.is_empty() && !follow {
        return Err(nothing(pattern));
    }
    Ok(files)
}

fn matching(pattern: &str) -> Result<Vec<PathBuf>> {
    // The option for leading dots makes the library panic at names that are not UTF-8, so hidden names are left out here instead.
    let options = MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };
    let base = literal_base(pattern);
    let hidden_wanted = Path::new(pattern).strip_prefix(&base).is_ok_and(has_hidden);
    // A folder without permission looks to the library like one that does not exist.
    if let Err(error) = fs::metadata(&base)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(unreadable(&base, &error));
    }
    let paths = glob::glob_with(pattern, options)
        .map_err(|error| Error::config(format!("`{pattern}` is not a valid pattern for files: {error}")))?;
    let mut found = Vec::new();
    for path in paths {
        let path = path.map_err(|error| unreadable(error.path(), error.error()))?;
        if hidden_wanted || !path.strip_prefix(&base).is_ok_and(has_hidden) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The path as text, if the file can be read.
fn readable(path: &Path, metadata: &Metadata) -> Result<String> {
    if metadata.is_dir() {
        let text = format!("`{0}` is a folder: name its files, such as `{0}/*.jsonl`", path.display());
        return Err(Error::config(text));
    }
    if !metadata.is_file() {
        // Opening a pipe would wait for its writer, and a pipe has no positions to go back to.
        return Err(Error::config(format!("`{}` is not a regular file: only regular files can be read", path.display())));
    }
    let text = path.to_str().ok_or_else(|| Error::config(format!("the name of the file `{}` is not UTF-8: rename it", path.display())))?;
    Ok(text.to_owned())
}

/// Opens a file to look at it. What cannot be opened is for the user to mend, unless it is the process that is short of something.
pub(super) fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| unreadable(path, &error))
}

pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let advice = match error.kind() {
        ErrorKind::PermissionDenied => ": give the user that runs the job the permission to read it",
        ErrorKind::NotFound => ": it is gone, or a link to nothing",
        _ => "",
    };
    Error::new(kind_of(error, Kind::Connector), format!("cannot read `{}`: {error}{advice}", path.display()))
}

fn nothing(pattern: &str) -> Error {
    let base = literal_base(pattern);
    let folder = if base == Path::new(pattern) { base.parent().map(Path::to_owned).unwrap_or_default() } else { base };
    let hint = if folder.is_dir() { String::new() } else { format!(": the folder `{}` does not exist", folder.display()) };
    Error::config(format!("no file matches `{pattern}`{hint}"))
}

/// The part of a pattern before its first component with a special character.
fn literal_base(pattern: &str) -> PathBuf {
    let literal = |component: &Component<'_>| !component.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    Path::new(pattern).components().take_while(literal).collect()
}

fn has_hidden(path: &Path) -> bool {
    path.components().any(|component| matches!(component, Component::Normal(name) if name.to_string_lossy().starts_with('.')))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tidemill_core::Kind;

    use super::files;

    fn error(pattern: &str) -> String {
        let error = files(pattern, false).err().unwrap();
        assert_eq!(error.kind(), Kind::Config);
        error.chain()
    }

    #[test]
    fn matches_are_sorted_regular_visible_files() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().to_str().unwrap();
        for name in ["b.jsonl", "a.jsonl", ".hidden.jsonl", "c.csv", "x[1].jsonl"] {
            fs::write(root.path().join(name), "").unwrap();
        }
        fs::create_dir(root.path().join("folder.jsonl")).unwrap();
        fs::create_dir(root.path().join(".git")).unwrap();
        fs::write(root.path().join(".git/d.jsonl"), "").unwrap();
        fs::write(root.path().join("folder.jsonl/e.jsonl"), "").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            fs::write(root.path().join(std::ffi::OsStr::from_bytes(b"\xff.jsonl")), "").unwrap();
        }
        let names = |pattern: &str| {
            let found = files(&format!("{base}/{pattern}"), false).unwrap();
            found.iter().map(|file| file.path.strip_prefix(base).unwrap()[1..].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("*.jsonl"), ["a.jsonl", "b.jsonl", "x[1].jsonl"]);
        assert_eq!(names("[ab].jsonl"), ["a.jsonl", "b.jsonl"]);
        assert_eq!(names("x[1].jsonl"), ["x[1].jsonl"], "a file of exactly this name comes first");
        assert_eq!(names("*/*.jsonl"), ["folder.jsonl/e.jsonl"]);
        assert_eq!(names(".*.jsonl"), [".hidden.jsonl"]);
        assert_eq!(names("b.jsonl"), ["b.jsonl"]);
        std::os::unix::fs::symlink("b.jsonl", root.path().join("link.jsonl")).unwrap();
        fs::hard_link(root.path().join("b.jsonl"), root.path().join("hard.jsonl")).unwrap();
        assert_eq!(names("*.jsonl"), ["a.jsonl", "b.jsonl", "x[1].jsonl"], "a file is read once");
        assert_eq!(names("l*.jsonl"), ["link.jsonl"]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().to_str().unwrap();
        assert_eq!(error(&format!("{base}/*.jsonl")), format!("no file matches `{base}/*.jsonl`"));
        assert_eq!(
            error(&format!("{base}/data/*.jsonl")),
            format!("no file matches `{base}/data/*.jsonl`: the folder `{base}/data` does not exist")
        );
        assert_eq!(error(&format!("{base}/absent.jsonl")), format!("no file matches `{base}/absent.jsonl`"));
        assert!(files(&format!("{base}/*.jsonl"), true).unwrap().is_empty());
        assert!(error(base).contains("is a folder: name its files"), "{}", error(base));
        let wrong = format!("{base}/***.jsonl");
        assert!(error(&wrong).contains("is not a valid pattern"), "{}", error(&wrong));
        fs::write(root.path().join("file"), "").unwrap();
        let below_a_file = format!("{base}/file/x/*.jsonl");
        assert!(error(&below_a_file).contains(&format!("cannot read `{base}/file/x`")), "{}", error(&below_a_file));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("nowhere", root.path().join("link.jsonl")).unwrap();
            assert!(error(&format!("{base}/*.jsonl")).contains("link.jsonl`"));
        }
    }
}
