//! The folders in which rotated files are looked for, each listed once: many files may be gone at a start.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use super::feeds::looks_into;
use super::identity::{Key, key};

/// The files of the folders that were asked for so far.
#[derive(Default)]
pub(super) struct Folders {
    listed: HashMap<PathBuf, HashMap<u64, Vec<PathBuf>>>,
}

impl Folders {
    /// Where a file is now that had this path, if it was renamed within its folder to a name that the pattern does not match: rotated files are
    /// often found there. Only in a folder that the pattern looks into.
    pub(super) fn renamed(&mut self, pattern: &str, path: &Path, wanted: Key) -> Option<PathBuf> {
        let folder = path.parent()?;
        if !self.listed.contains_key(folder) {
            self.listed.insert(folder.to_owned(), list(pattern, folder));
        }
        let paths = self.listed.get(folder)?.get(&wanted.0)?;
        let is_wanted = |path: &&PathBuf| fs::symlink_metadata(path).is_ok_and(|now| now.is_file() && key(&now) == wanted);
        paths.iter().find(is_wanted).filter(|path| path.to_str().is_some()).cloned()
    }
}

/// The paths of a folder by inode; none of a folder that the pattern does not look into.
fn list(pattern: &str, folder: &Path) -> HashMap<u64, Vec<PathBuf>> {
    let mut listed: HashMap<u64, Vec<PathBuf>> = HashMap::new();
    if looks_into(pattern, folder) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            listed.entry(entry.ino()).or_default().push(entry.path());
        }
    }
    listed
}
