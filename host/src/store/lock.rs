//! One process per job folder, and one running job per folder that a sink writes to.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tidemill_core::disk::Disk;
use tidemill_core::{Error, Kind, Result};

use crate::disk::{RealDisk, kind_of};

/// How often a lock file that vanishes while it is being taken is looked for again.
const TRIES: usize = 100;

/// Holds a job's folder while it lives. The lock is the operating system's (flock), so it dies with the process.
#[derive(Debug)]
pub struct JobLock {
    _lock: Lock,
}

impl JobLock {
    /// Takes the folder, which is made if it does not exist.
    ///
    /// # Errors
    /// Another process has it: then the error names that process. Or the folder cannot be written.
    pub fn acquire(dir: &Path) -> Result<Self> {
        let holder = format!("process {}", std::process::id());
        let folder = Folder { dir, file: "lock", what: "the job folder", rule: "a job runs once at a time" };
        Ok(Self { _lock: folder.lock(&holder)? })
    }
}

/// Holds a sink's folder while it lives. Its file is hidden, so that it is no output, and is gone once the folder is free, unless the
/// process was killed.
#[derive(Debug)]
pub struct SinkLock {
    path: PathBuf,
    _lock: Lock,
}

impl SinkLock {
    /// Takes the folder, which is made if it does not exist, for a job.
    ///
    /// # Errors
    /// Another running job has it: then the error names that job. Or the folder cannot be written.
    pub fn acquire(dir: &Path, job: &str) -> Result<Self> {
        let holder = format!("job {job} (process {})", std::process::id());
        let rule = "a folder takes the output of one running job: stop that one, or give the sink another path";
        let folder = Folder { dir, file: ".tidemill-lock", what: "the sink's folder", rule };
        Ok(Self { path: dir.join(folder.file), _lock: folder.lock(&holder)? })
    }
}

impl Drop for SinkLock {
    fn drop(&mut self) {
        // While it is still locked. What cannot be removed is taken over by the next job.
        _ = std::fs::remove_file(&self.path);
    }
}

#[derive(Debug)]
struct Lock {
    _file: File,
}

/// A folder that can be held.
struct Folder<'a> {
    dir: &'a Path,
    file: &'static str,
    /// What it is, for messages.
    what: &'static str,
    /// Why it cannot be shared, for messages.
    rule: &'static str,
}

impl Folder<'_> {
    fn lock(&self, holder: &str) -> Result<Lock> {
        RealDisk.create_dir(self.dir).map_err(|error| self.failed("make", &error))?;
        for _ in 0..TRIES {
            if let Some(mut file) = self.try_lock()? {
                let write = |file: &mut File| {
                    file.set_len(0)?;
                    file.rewind()?;
                    writeln!(file, "{holder}")
                };
                write(&mut file).map_err(|error| self.failed("write to", &error))?;
                return Ok(Lock { _file: file });
            }
        }
        Err(self.in_use("processes that come and go"))
    }

    /// `None` if the lock file was removed by its last holder just now.
    fn try_lock(&self) -> Result<Option<File>> {
        let path = self.dir.join(self.file);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| self.failed("write to", &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the message: an empty or unreadable file says nothing.
                _ = file.read_to_string(&mut holder);
                let holder = holder.trim();
                return Err(self.in_use(if holder.is_empty() { "another process" } else { holder }));
            }
            Err(TryLockError::Error(error)) => return Err(self.failed("lock", &error)),
        }
        let locked = file.metadata().map_err(|error| self.failed("lock", &error))?;
        // A file that lost its name locks nobody out.
        Ok(std::fs::metadata(&path).is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())).then_some(file))
    }

    fn in_use(&self, holder: &str) -> Error {
        Error::new(Kind::Busy, format!("{} `{}` is in use by {holder}: {}", self.what, self.dir.display(), self.rule))
    }

    fn failed(&self, action: &str, error: &std::io::Error) -> Error {
        let advice = match error.kind() {
            ErrorKind::PermissionDenied => ": give the user that runs the job the permission to write there",
            ErrorKind::NotADirectory => ": name a folder in its path",
            _ => "",
        };
        let text = format!("cannot {action} {} `{}`: {error}{advice}", self.what, self.dir.display());
        Error::new(kind_of(error, Kind::Storage), text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tidemill_core::Kind;

    use super::{JobLock, SinkLock};

    #[test]
    fn a_folder_has_one_holder_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("job");
        let held = JobLock::acquire(&dir).unwrap();
        let error = JobLock::acquire(&dir).unwrap_err();
        let expected = format!("the job folder `{}` is in use by process {}: a job runs", dir.display(), std::process::id());
        assert!(error.kind() == Kind::Busy && error.chain().starts_with(&expected), "{error}");
        drop(held);
        JobLock::acquire(&dir).unwrap();
    }

    #[test]
    fn a_sink_folder_names_its_job_and_is_clean_afterwards() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("out/alerts");
        let held = SinkLock::acquire(&dir, "first").unwrap();
        let error = SinkLock::acquire(&dir, "second").unwrap_err();
        let expected = format!("the sink's folder `{}` is in use by job first (process {}): ", dir.display(), std::process::id());
        assert!(error.kind() == Kind::Busy && error.chain().starts_with(&expected), "{error}");
        drop(held);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        // What a killed process leaves is no lock.
        fs::write(dir.join(".tidemill-lock"), "job killed (process 1)\n").unwrap();
        SinkLock::acquire(&dir, "second").unwrap();
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_named() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        fs::write(&path, "").unwrap();
        let error = SinkLock::acquire(&path, "job").unwrap_err();
        assert!(
            error.kind() == Kind::Config && error.chain().contains("/out`") && error.chain().ends_with("name a folder in its path"),
            "{error}"
        );
    }
}
