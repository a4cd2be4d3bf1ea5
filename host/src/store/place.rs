//! Where a savepoint may be: it is the user's, so not where a job removes what it does not know.

use std::path::{Path, PathBuf};

use tidemill_core::disk::Disk;
use tidemill_core::{Error, Result};

/// The folders in a job's folder from which it removes what is no longer needed.
const JOBS_OWN: [&str; 2] = ["checkpoints", "state"];
/// What tells a job's folder from others: the record of whose checkpoints these are.
const RECORD: &str = "checkpoints/OWNER";

/// Checks that a savepoint's folder is in none of the folders that a job keeps for itself, whatever links lead there. `checkpoints` is the
/// folder of the checkpoints of the job that takes the savepoint.
///
/// # Errors
/// It is in such a folder, of this job or of another. The error says where it may be.
pub(crate) fn check(disk: &dyn Disk, savepoint: &Path, checkpoints: &Path) -> Result<()> {
    let path = resolved(disk, savepoint);
    if path.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(Error::config(format!(
            "the path {} of a savepoint leads through a folder that does not exist and back: write it without `..`",
            savepoint.display()
        )));
    }
    let own = checkpoints.parent().unwrap_or(checkpoints);
    let others = path.ancestors().filter(|dir| disk.length(&dir.join(RECORD)).is_ok());
    for (job, kept) in [own].into_iter().chain(others).flat_map(|job| JOBS_OWN.map(|name| (job, job.join(name)))) {
        if path.starts_with(resolved(disk, &kept)) {
            return Err(Error::config(format!(
                "a savepoint cannot be in {}, which a job keeps for itself and cleans when it starts: name a folder elsewhere, such as {}",
                kept.display(),
                job.join("savepoints/NAME").display()
            )));
        }
    }
    Ok(())
}

/// Returns a path with all links in it resolved, so that two names of one place are seen to be equal. The path need not exist yet.
pub(crate) fn resolved(disk: &dyn Disk, path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|dir| Some((dir, disk.canonical(dir).ok()?)));
    match there.and_then(|(dir, real)| Some(real.join(path.strip_prefix(dir).ok()?))) {
        // An empty rest would end the path with a slash.
        Some(real) => real.components().collect(),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::check;
    use crate::disk::RealDisk;

    #[test]
    fn a_savepoint_is_in_no_folder_that_a_job_cleans() {
        let root = tempfile::tempdir().unwrap();
        let (job, other) = (root.path().join("data/j"), root.path().join("data/k"));
        for dir in [&job, &other] {
            fs::create_dir_all(dir.join("checkpoints")).unwrap();
            fs::write(dir.join("checkpoints/OWNER"), "").unwrap();
        }
        // State on a disk of its own, and another way to the checkpoints.
        fs::create_dir(root.path().join("disk")).unwrap();
        symlink(root.path().join("disk"), job.join("state")).unwrap();
        symlink(job.join("checkpoints"), root.path().join("way")).unwrap();
        let checked = |path: &str| check(&RealDisk, &root.path().join(path), &job.join("checkpoints"));
        let refused = [
            "data/j/state/sp",
            "data/j/checkpoints",
            "data/j/checkpoints/chk-5000",
            "disk/a/b",
            "way/sp",
            "data/k/state/sp",
            "data/k/checkpoints/sp",
            "data/j/../j/state",
        ];
        for path in refused {
            let error = checked(path).unwrap_err().chain();
            assert!(error.contains("a savepoint cannot be in") && error.contains("/savepoints/NAME"), "{path}: {error}");
        }
        assert!(checked("absent/../data/j/state/sp").unwrap_err().chain().contains("write it without `..`"));
        for path in ["sp", "data/sp", "data/j/sp", "data/j/savepoints/1", "data/j/state-1/sp", "data/j/../sp", "state/sp", "checkpoints"] {
            checked(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }
}
