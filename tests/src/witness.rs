//! What no start of a job may change: the files of checkpoints and savepoints that are complete.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

const MANIFEST: &str = "manifest.json";

/// The files of all complete checkpoints and savepoints below a folder, as they were.
#[derive(Debug, Default)]
pub struct Witness {
    /// By manifest: a hash of it, and the files beside it.
    complete: BTreeMap<PathBuf, (u64, Hashes)>,
    /// Files of several checkpoints: their names stand for their contents.
    shared: Hashes,
}

/// Hashes of files, by path.
type Hashes = BTreeMap<PathBuf, u64>;

impl Witness {
    /// What is there now.
    #[must_use]
    pub fn of(dir: &Path) -> Self {
        let mut witness = Self::default();
        witness.add(dir);
        witness
    }

    fn add(&mut self, dir: &Path) {
        let manifest = dir.join(MANIFEST);
        if let Some(hash) = hash(&manifest) {
            self.complete.insert(manifest, (hash, hashes(dir)));
        }
        let folders = entries(dir).into_iter().filter(|path| path.is_dir());
        for folder in folders {
            if folder.ends_with("checkpoints/shared") {
                self.shared.extend(hashes(&folder));
            } else {
                self.add(&folder);
            }
        }
    }

    /// How many files it has seen.
    #[must_use]
    pub fn files(&self) -> usize {
        self.shared.len() + self.complete.values().map(|(_, files)| files.len()).sum::<usize>()
    }

    /// Compares what is there now. Files may be gone, and a checkpoint may have given way to another of its id.
    ///
    /// # Errors
    /// A file holds something else.
    pub fn check(&self) -> Result<(), String> {
        let unchanged = self.complete.iter().filter(|(manifest, (before, _))| hash(manifest) == Some(*before));
        let files = unchanged.flat_map(|(_, (_, files))| files).chain(&self.shared);
        let changed = files.into_iter().find(|(path, before)| hash(path).is_some_and(|now| now != **before));
        changed.map_or(Ok(()), |(path, _)| Err(format!("{} of a complete checkpoint or savepoint has changed", path.display())))
    }
}

/// The files in a folder and those in it, but for manifests.
fn hashes(dir: &Path) -> Hashes {
    let mut found = Hashes::new();
    for path in entries(dir) {
        if path.is_dir() {
            found.extend(hashes(&path));
        } else if !path.ends_with(MANIFEST) {
            found.extend(hash(&path).map(|hash| (path, hash)));
        }
    }
    found
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// `None`: there is no such file, or it is none that can be read whole.
fn hash(path: &Path) -> Option<u64> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    is_file.then(|| fs::read(path).ok()).flatten().map(|bytes| xxh3_64(&bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Witness;

    #[test]
    fn only_what_a_complete_checkpoint_has_must_stay() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("data/j/checkpoints/chk-1/manifest.json", "{}");
        write("data/j/checkpoints/chk-1/state-0/CURRENT", "1");
        write("data/j/checkpoints/chk-2/worker-0.state", "1");
        write("data/j/checkpoints/shared/x", "1");
        write("sp/manifest.json", "{}");
        write("sp/worker-0.state", "1");
        let witness = Witness::of(root.path());
        assert_eq!(witness.files(), 3);
        write("data/j/checkpoints/chk-2/worker-0.state", "2");
        write("data/j/checkpoints/chk-1/COMMITTED", "");
        witness.check().unwrap();
        for path in ["data/j/checkpoints/shared/x", "sp/worker-0.state", "data/j/checkpoints/chk-1/state-0/CURRENT"] {
            write(path, "2");
            assert!(witness.check().unwrap_err().contains(path));
            write(path, "1");
        }
        write("sp/worker-0.state", "2");
        write("sp/manifest.json", "{ }");
        fs::remove_file(root.path().join("data/j/checkpoints/shared/x")).unwrap();
        witness.check().unwrap();
    }
}
