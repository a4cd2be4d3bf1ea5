//! Which files match a pattern now.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use tidemill_core::{Error, Kind, Result};

use super::handles;
use super::notices::shown;
use super::walk;
use crate::disk::kind_of;

/// A file that matches.
pub(super) struct Listed {
    pub(super) path: String,
    pub(super) metadata: Metadata,
}

/// What matches a pattern.
#[derive(Default)]
pub(super) struct Files {
    /// By path. A file with several names, through links, counts once, under the first.
    pub(super) files: Vec<Listed>,
    /// Why other things that match are not read, for people.
    pub(super) left_out: Vec<String>,
}

/// The files that match. What cannot be read is an error, unless files may come and go (`follow`): then it is left out, and may be read later.
///
/// # Errors
/// The pattern is not valid or names a folder, or something that matches cannot be read.
pub(super) fn files(pattern: &str, follow: bool) -> Result<Files> {
    let exact = Path::new(pattern).exists();
    let found = if exact { walk::Found { paths: vec![PathBuf::from(pattern)], ..walk::Found::default() } } else { matching(pattern)? };
    let mut files = Files::default();
    for (path, error) in found.failed {
        files.leave_out(unreadable(&path, &error), follow)?;
    }
    let rename = |path: PathBuf| format!("the name `{}` is not UTF-8, so what has it is not read: rename it", shown(path));
    files.left_out.extend(found.not_utf8.into_iter().map(rename));
    for path in found.paths {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() && !exact => {}
            Ok(metadata) => match readable(&path, &metadata) {
                Ok(path) => files.files.push(Listed { path, metadata }),
                Err(error) => files.leave_out(error, follow)?,
            },
            // It was listed a moment ago; where files come and go, some go.
            Err(error) if follow && is_absent(&error) && fs::symlink_metadata(&path).is_err() => {}
            Err(error) => files.leave_out(unreadable(&path, &error), follow)?,
        }
    }
    files.files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut seen = HashSet::with_capacity(files.files.len());
    files.files.retain(|file| seen.insert((file.metadata.dev(), file.metadata.ino())));
    Ok(files)
}

impl Files {
    fn leave_out(&mut self, error: Error, follow: bool) -> Result<()> {
        if !follow {
            return Err(error);
        }
        self.left_out.push(error.chain());
        Ok(())
    }
}

fn matching(pattern: &str) -> Result<walk::Found> {
    let (base, hidden) = (literal_base(pattern), has_hidden_names(pattern));
    if let Err(error) = fs::metadata(&base)
        && error.kind() != ErrorKind::NotFound
    {
        return Ok(walk::Found { failed: vec![(base, error)], ..walk::Found::default() });
    }
    walk::find(pattern, hidden).map_err(|error| Error::config(format!("`{pattern}` is not a valid pattern for files: {error}")))
}

/// The path as text, if it leads to a file that can be read.
fn readable(path: &Path, metadata: &Metadata) -> Result<String> {
    if metadata.is_dir() {
        return Err(Error::config(format!("`{0}` is a folder: name its files, such as `{0}/*.jsonl`", shown(path))));
    }
    if !metadata.is_file() {
        // Opening a pipe would wait for its writer, and a pipe has no positions to go back to.
        return Err(Error::config(format!("`{}` is not a regular file: only regular files can be read", shown(path))));
    }
    let text = path.to_str().ok_or_else(|| Error::config(format!("the name of the file `{}` is not UTF-8: rename it", shown(path))))?;
    Ok(text.to_owned())
}

/// Opens a file to look at it. What cannot be opened is for the user to mend, unless it is the process that is short of something.
pub(super) fn open(path: &Path) -> Result<File> {
    handles::open(path).map_err(|error| unreadable(path, &error))
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Error {
    let advice = match error.kind() {
        ErrorKind::PermissionDenied => ": give the user that runs the job the permission to read it",
        ErrorKind::NotFound => ": it is gone, or a link to nothing",
        _ => "",
    };
    Error::new(kind_of(error, Kind::Connector), format!("cannot read `{}`: {error}{advice}", shown(path)))
}

/// An error that no file matches.
pub(super) fn nothing(pattern: &str) -> Error {
    let folder = folder(pattern);
    let hint = if folder.is_dir() { String::new() } else { format!(": the folder `{}` does not exist", shown(folder)) };
    Error::config(format!("no file matches `{pattern}`{hint}"))
}

/// Whether an error says that nothing is there.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Whether the folder is there in which files are looked for.
pub(super) fn has_base(pattern: &str) -> bool {
    folder(pattern).is_dir()
}

/// The folder below which a pattern looks for files.
pub(super) fn folder(pattern: &str) -> PathBuf {
    let base = literal_base(pattern);
    if base == Path::new(pattern) { base.parent().map(Path::to_owned).unwrap_or_default() } else { base }
}

/// The part of a pattern before its first component with a special character.
pub(super) fn literal_base(pattern: &str) -> PathBuf {
    let mut base = PathBuf::new();
    for component in Path::new(pattern).components() {
        match component.as_os_str().to_str().and_then(walk::literal) {
            Some(literal) => base.push(literal),
            None => break,
        }
    }
    base
}

/// Whether a pattern spells the dot of hidden names behind its literal beginning: then it matches such names.
pub(super) fn has_hidden_names(pattern: &str) -> bool {
    let is_hidden = |component: Component<'_>| matches!(component, Component::Normal(name) if name.to_string_lossy().starts_with('.'));
    Path::new(pattern).components().skip(literal_base(pattern).components().count()).any(is_hidden)
}

/// What a pattern matches now, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// How many files are read.
    pub files: usize,
    /// Why other things that match are not read.
    pub left_out: Vec<String>,
    /// What is wrong if there is no file.
    pub nothing: Option<String>,
}

/// Looks for the files of a source without reading them.
///
/// # Errors
/// The pattern is not valid, or its folder cannot be read.
pub fn survey(pattern: &str) -> Result<Survey> {
    let Files { files, left_out } = files(pattern, true)?;
    let nothing = files.is_empty().then(|| nothing(pattern).chain());
    Ok(Survey { files: files.len(), left_out, nothing })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tidemill_core::Kind;

    use super::{files, nothing};

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
            let left_out = files(&format!("{base}/*.jsonl"), false).unwrap().left_out;
            assert_eq!(left_out, [format!("the name `{base}/\\xFF.jsonl` is not UTF-8, so what has it is not read: rename it")]);
        }
        let names = |pattern: &str| {
            let found = files(&format!("{base}/{pattern}"), false).unwrap().files;
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
        let none = |pattern: &str| {
            assert!(files(pattern, false).unwrap().files.is_empty());
            nothing(pattern).chain()
        };
        assert_eq!(none(&format!("{base}/*.jsonl")), format!("no file matches `{base}/*.jsonl`"));
        assert_eq!(
            none(&format!("{base}/data/*.jsonl")),
            format!("no file matches `{base}/data/*.jsonl`: the folder `{base}/data` does not exist")
        );
        assert_eq!(none(&format!("{base}/absent.jsonl")), format!("no file matches `{base}/absent.jsonl`"));
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
            let found = files(&format!("{base}/*.jsonl"), true).unwrap();
            assert!(found.files.is_empty() && found.left_out[0].contains("link.jsonl`"), "{:?}", found.left_out);
        }
    }
}
