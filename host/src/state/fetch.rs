//! Brings the files of stored state to this machine.

use std::collections::BTreeMap;
use std::path::Path;

use tidemill_core::checkpoint::manifest::{StoredDatabase, StoredFile};
use tidemill_core::{Error, Result};

use crate::side_by_side::side_by_side;
use crate::store::CheckpointStore;

/// Brings the files to a folder, some at a time. Those of which `may_link` says so may be links to the checkpoint's own files: nobody may
/// open them for writing.
///
/// # Errors
/// A file is missing or not what was written, or cannot be copied.
pub(super) fn fetch(
    store: &CheckpointStore,
    stored: &StoredDatabase,
    folder: &Path,
    may_link: impl Fn(&StoredFile) -> bool + Sync,
) -> Result<()> {
    let files = each_once(&stored.files)?;
    let count = u32::try_from(files.len()).unwrap_or(u32::MAX);
    let fetched = side_by_side(count, |number| match files.get(number as usize) {
        Some(file) => store.fetch(file, &folder.join(&file.name), may_link(file)),
        None => Ok(()),
    });
    fetched.map(drop)
}

/// The files by their names. Files of the same content have one name, and a list of changes may name it several times: what changed may have
/// been nothing, or the same, in several checkpoints.
///
/// # Errors
/// A name stands for two contents, or is not one that state has.
fn each_once(files: &[StoredFile]) -> Result<Vec<&StoredFile>> {
    let mut by_name: BTreeMap<&str, &StoredFile> = BTreeMap::new();
    for file in files {
        // No backend names a file with a folder.
        if file.name.is_empty() || file.name.contains(['/', '\\', '\0']) || [".", ".."].contains(&&*file.name) {
            return Err(Error::corrupt(format!("a checkpoint names the file {:?}, which no state has", file.name)));
        }
        if by_name.insert(&file.name, file).is_some_and(|other| other != file) {
            return Err(Error::corrupt(format!("a checkpoint names two different files {} of one state", file.name)));
        }
    }
    Ok(by_name.into_values().collect())
}

/// What was being done when an error came up.
pub(super) fn restoring(stored: &StoredDatabase, error: Error) -> Error {
    let StoredDatabase { operator, worker, .. } = stored;
    error.while_doing(format!("restoring the state of operator {operator} that worker {worker} has stored"))
}

#[cfg(test)]
mod tests {
    use tidemill_core::checkpoint::manifest::StoredFile;

    use super::each_once;

    fn file(name: &str, path: &str) -> StoredFile {
        StoredFile { name: name.to_owned(), path: path.to_owned(), bytes: 1, checksum: "c".to_owned() }
    }

    #[test]
    fn a_file_that_is_named_several_times_is_one_file() {
        let files = [file("b", "shared/b"), file("a", "shared/a"), file("a", "shared/a"), file("b", "shared/b")];
        assert_eq!(each_once(&files).unwrap(), [&file("a", "shared/a"), &file("b", "shared/b")]);
        let error = each_once(&[file("a", "shared/a"), file("a", "shared/b")]).unwrap_err();
        assert!(error.chain().contains("two different files a"), "{}", error.chain());
        for name in ["", ".", "..", "../x", "x/y", "x\\y", "x\0"] {
            assert!(each_once(&[file(name, "shared/a")]).unwrap_err().chain().contains("which no state has"), "{name:?}");
        }
    }
}
