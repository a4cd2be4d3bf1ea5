//! Folders of this machine for state in use. What is in them is never needed after a crash: state comes from checkpoints.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::disk::Disk;
use tidemill_core::{Error, Result};

/// A folder that is removed when it is no longer needed.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Where it is, if it is removed with this.
    disk: Option<Arc<dyn Disk>>,
}

impl Folder {
    /// A folder that is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn create(disk: Arc<dyn Disk>, path: PathBuf) -> Result<Self> {
        disk.create_local_dir(&path).map_err(|error| Error::storage(format!("creating {}", path.display())).caused_by(error))?;
        Ok(Self::on(disk, path))
    }

    /// A folder that is there, or that somebody else makes.
    pub(super) fn on(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        Self { path, disk: Some(disk) }
    }

    /// A folder that somebody else removes, or that is in the memory of a library.
    #[cfg(feature = "rocksdb")]
    pub(super) fn lent(path: PathBuf) -> Self {
        Self { path, disk: None }
    }

    /// The disk that it is on, if it is removed with this.
    #[cfg(feature = "rocksdb")]
    pub(super) fn disk(&self) -> Option<&Arc<dyn Disk>> {
        self.disk.as_ref()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed when the job starts again.
        if let Some(disk) = &self.disk {
            _ = disk.remove_dir(&self.path);
        }
    }
}

/// What a file system puts at its root, which may be the folder for live state: a link or a mount of a disk of its own.
const LEFT_ALONE: &str = "lost+found";

/// Makes a folder for state in use, or removes what a job has left in it. The folder may be a link, or a disk of its own.
///
/// INVARIANT: only what has the names that the backends give is removed, and nothing at all if there is anything else: the folder may be
/// somebody else's, linked here by mistake.
///
/// # Errors
/// It cannot be made or emptied, or holds something that no job has left there.
pub(super) fn empty(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let doing = |what: &str, error| Error::config(format!("{what} the folder for live state {}", dir.display())).caused_by(error);
    disk.create_local_dir(dir).map_err(|error| doing("creating", error))?;
    let mut entries = disk.list(dir).map_err(|error| doing("emptying", error))?;
    entries.retain(|entry| name_of(entry) != LEFT_ALONE);
    for entry in &entries {
        if let Some(foreign) = foreign_in(disk, entry).map_err(|error| doing("looking into", error))? {
            return Err(Error::config(format!(
                "the folder for live state {} holds {}, which no job has left there, and a job removes what it finds in this folder: move \
                 it elsewhere, or replace the folder by an empty one, or by a link to an empty one",
                dir.display(),
                foreign.display()
            )));
        }
    }
    entries.iter().try_for_each(|entry| disk.remove_dir(entry)).map_err(|error| doing("emptying", error))
}

/// The first path in an entry of the folder that no backend makes.
fn foreign_in(disk: &dyn Disk, entry: &Path) -> std::io::Result<Option<PathBuf>> {
    if !is_subtask(name_of(entry)) {
        return Ok(Some(entry.to_owned()));
    }
    let files = match disk.list(entry) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(Some(entry.to_owned())),
        files => files?,
    };
    // A length is what only a regular file has.
    Ok(files.into_iter().find(|file| !is_of_memory(name_of(file)) && !is_of_rocksdb(name_of(file)) || disk.length(file).is_err()))
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Whether a folder has the name of a subtask's state, `MADE-SUBTASK`, or of what `RocksDB` freezes of it or loads into it.
fn is_subtask(name: &str) -> bool {
    let (subtask, rest) = name.split_once('.').unwrap_or((name, ""));
    let frozen = rest.strip_prefix("frozen-").map(|rest| rest.strip_suffix(".tmp").unwrap_or(rest));
    let known = rest.is_empty() && !name.ends_with('.') || rest == "loading" || frozen.is_some_and(is_number);
    known && subtask.split_once('-').is_some_and(|(made, subtask)| is_number(made) && is_number(subtask))
}

/// Whether a text is a number as programs write it: people write dates with leading zeros.
fn is_number(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|number| number.to_string() == text)
}

fn has_digits(text: &str, least: usize) -> bool {
    text.len() >= least && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a file has a name that state in memory gives: see `memory/journal.rs`.
fn is_of_memory(name: &str) -> bool {
    has_digits(name.strip_suffix("-all").unwrap_or(name), 8)
}

/// Whether a file has a name that `RocksDB` gives (`ParseFileName` in its sources), or `rocksdb/bulk.rs`. Builds without `RocksDB` know them
/// too: they may follow one that has it.
fn is_of_rocksdb(name: &str) -> bool {
    let name = name.strip_suffix(".trash").unwrap_or(name);
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    match extension {
        "" => {
            let numbered = ["MANIFEST-", "OPTIONS-"].iter().find_map(|prefix| stem.strip_prefix(prefix));
            ["CURRENT", "IDENTITY", "LOCK", "LOG"].contains(&stem) || numbered.is_some_and(|number| has_digits(number, 6))
        }
        "dbtmp" => has_digits(stem.strip_prefix("OPTIONS-").unwrap_or(stem), 6),
        "sst" => {
            let loaded = ["Keys-", "Timers-"].iter().find_map(|prefix| stem.strip_prefix(prefix));
            has_digits(stem, 6) || loaded.is_some_and(is_number)
        }
        "log" | "blob" => has_digits(stem, 6),
        _ => stem == "LOG" && extension.starts_with("old"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{empty, is_subtask};
    use crate::disk::RealDisk;

    #[test]
    fn what_a_job_has_left_is_removed_and_all_else_stays() {
        let root = tempfile::tempdir().unwrap();
        let (dir, disk) = (root.path().join("state"), root.path().join("disk"));
        fs::create_dir_all(disk.join("lost+found")).unwrap();
        symlink(&disk, &dir).unwrap();
        let own = ["0-0/00000001", "0-0/00000017-all", "1-2/CURRENT", "1-2/LOG.old.17", "1-2/MANIFEST-000005", "1-2/1000012.sst"];
        let frozen = ["1-2.frozen-0/OPTIONS-000007", "1-2.frozen-1.tmp/000008.log", "1-2.loading/Timers-3.sst", "1-2/000003.dbtmp"];
        for path in own.iter().chain(&frozen) {
            fs::create_dir_all(disk.join(path).parent().unwrap()).unwrap();
            fs::write(disk.join(path), "state").unwrap();
        }
        let foreign = ["notes.txt", "2024-05/00000001", "0-0/notes.txt", "1-2/00000001/notes.txt", "3-4"];
        for path in foreign {
            let (file, first) = (disk.join(path), path.split_inclusive('/').take(2).collect::<String>());
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "precious").unwrap();
            let error = empty(&RealDisk, &dir).unwrap_err().chain();
            let named = error.contains(&format!("/state/{}, which no job has left there", first.trim_end_matches('/')));
            assert!(named || path == "2024-05/00000001" && error.contains("/state/2024-05,"), "{path}: {error}");
            assert!(own.iter().chain(&frozen).chain([&path]).all(|path| disk.join(path).exists()), "{path}");
            fs::remove_file(&file).unwrap();
            _ = fs::remove_dir(file.parent().unwrap());
        }
        empty(&RealDisk, &dir).unwrap();
        let left: Vec<_> = fs::read_dir(&disk).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["lost+found"]);
    }

    #[test]
    fn names_that_people_give_are_not_those_of_state() {
        assert!(["0-0", "12-3", "0-0.loading", "1-0.frozen-7", "1-0.frozen-7.tmp"].into_iter().all(is_subtask));
        assert!(!["2024-05", "0-0.", "0-0.tmp", "0", "-1", "a-0", "0-0-0", "+1-0", "1-0.frozen-x", ""].into_iter().any(is_subtask));
    }
}
