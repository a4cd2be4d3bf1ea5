//! One process per job folder, and one running job per folder that a sink writes to.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tidemill_core::disk::Disk;
use tidemill_core::{Error, Kind, Result};

use crate::disk::{RealDisk, kind_of};
use crate::guarded;

/// The lock file in a job's folder.
const JOB_LOCK: &str = "lock";
/// How often a lock file that vanishes while it is being taken is looked for again.
const TRIES: usize = 100;
/// A lock file says one of these first: nothing else of its name is taken for one.
const HOLDERS: [&str; 2] = ["job ", "process "];
/// What a lock file says is shorter.
const LONGEST: u64 = 4096;

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
        let folder = Folder { dir, file: JOB_LOCK, what: "the job folder", rule: "a job runs once at a time" };
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

/// Who holds a job's folder, such as `process 17`, if a process of this machine does. The lock is not taken: a job that starts just then would
/// be refused.
#[must_use]
pub fn holder(dir: &Path) -> Option<String> {
    let said = said(&mut guarded::read(&dir.join(JOB_LOCK)).ok()?).ok()?;
    let id: u32 = said.strip_prefix("process ")?.parse().ok()?;
    let opened = std::fs::read_dir(format!("/proc/{id}/fd")).ok()?;
    // Another process may have the number by now.
    let lock = std::fs::canonicalize(dir.join(JOB_LOCK)).ok()?;
    opened.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|path| path == lock)).then_some(said)
}

/// What to say to one who asks the job of a folder, where no control socket answers.
#[must_use]
pub fn no_answer(dir: &Path) -> Error {
    let shown = dir.display();
    Error::config(match holder(dir) {
        Some(holder) => format!(
            "{holder} holds the folder {shown}, but answers on no control socket there: it is starting or ending, and then ask again, or its \
             control.sock was removed, and then SIGTERM stops its job at a checkpoint"
        ),
        None => format!("no job runs in the folder {shown}: name the job spec, or the job's folder with --data-dir"),
    })
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
            if let Some(lock) = self.try_lock(holder)? {
                return Ok(lock);
            }
        }
        Err(self.in_use("processes that come and go"))
    }

    /// `None` if another process took or removed the lock file meanwhile.
    ///
    /// Nothing is ever written to a file that was there: others may have planted a link to a file of ours. A file that a killed process left
    /// is replaced while it is locked, so that whoever waits for it finds that it has lost its name.
    fn try_lock(&self, holder: &str) -> Result<Option<Lock>> {
        let path = self.dir.join(self.file);
        let Some(left) = self.left(&path)? else { return self.create(&path, holder) };
        if !self.is_locked(&path, &left)? {
            return Ok(None);
        }
        std::fs::remove_file(&path).map_err(|error| self.failed("replace the lock that a killed process left in", &error))?;
        self.create(&path, holder)
    }

    /// The lock file of another process, which may have been killed.
    fn left(&self, path: &Path) -> Result<Option<File>> {
        let file = match guarded::write(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            // A process of another user has it, or had it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => guarded::read(path).map_err(|_| error),
            result => result,
        };
        let mut file = file.map_err(|error| self.failed(&format!("take the lock `{}` of", path.display()), &error))?;
        match said(&mut file) {
            Ok(text) if HOLDERS.iter().any(|holder| text.starts_with(holder) || holder.starts_with(&text)) => Ok(Some(file)),
            Ok(_) => Err(Error::config(format!(
                "cannot take the lock of {} `{}`: `{}` is a file of somebody else, with other content: see whose it is and remove it",
                self.what,
                self.dir.display(),
                path.display()
            ))),
            Err(error) => Err(self.failed("read the lock of", &error)),
        }
    }

    /// Creates the lock file and takes it. It says who holds it from the moment that it has its name.
    fn create(&self, path: &Path, holder: &str) -> Result<Option<Lock>> {
        let mut file = match guarded::create_new(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            result => result.map_err(|error| self.failed("write to", &error))?,
        };
        if !self.is_locked(path, &file)? {
            return Ok(None);
        }
        writeln!(file, "{holder}").map_err(|error| self.failed("write to", &error))?;
        Ok(Some(Lock { _file: file }))
    }

    /// Locks the file; `false` if it has lost its name since it was opened: then it locks nobody out.
    fn is_locked(&self, path: &Path, mut file: &File) -> Result<bool> {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // Only for the message: an empty or unreadable file says nothing.
                let holder = said(&mut file).unwrap_or_default();
                return Err(self.in_use(if holder.is_empty() { "another process" } else { &holder }));
            }
            Err(TryLockError::Error(error)) => return Err(self.failed("lock", &error)),
        }
        let locked = file.metadata().map_err(|error| self.failed("lock", &error))?;
        Ok(std::fs::symlink_metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())))
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

/// What a lock file says.
fn said(file: &mut (impl Read + Seek)) -> std::io::Result<String> {
    let mut text = Vec::new();
    file.rewind()?;
    file.take(LONGEST).read_to_end(&mut text)?;
    // After a power cut it may be nothing but zeros.
    Ok(String::from_utf8_lossy(&text).replace(char::is_control, " ").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tidemill_core::Kind;

    use super::{JobLock, SinkLock, holder};

    #[test]
    fn a_folder_has_one_holder_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("job");
        let held = JobLock::acquire(&dir).unwrap();
        let error = JobLock::acquire(&dir).unwrap_err();
        let expected = format!("the job folder `{}` is in use by process {}: a job runs", dir.display(), std::process::id());
        assert!(error.kind() == Kind::Busy && error.chain().starts_with(&expected), "{error}");
        assert_eq!(holder(&dir), Some(format!("process {}", std::process::id())));
        drop(held);
        assert_eq!(holder(&dir), None);
        JobLock::acquire(&dir).unwrap();
        // What a killed process left, whose number another has by now.
        fs::write(dir.join("lock"), "process 1\n").unwrap();
        assert_eq!(holder(&dir), None);
        assert_eq!(holder(&root.path().join("absent")), None);
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

    #[test]
    fn what_somebody_else_planted_for_a_lock_is_neither_written_nor_removed() {
        let root = tempfile::tempdir().unwrap();
        let (dir, victim) = (root.path().join("out"), root.path().join("victim"));
        let lock = dir.join(".tidemill-lock");
        fs::create_dir(&dir).unwrap();
        fs::write(&victim, "precious").unwrap();
        let plants: [(&str, &dyn Fn()); 5] = [
            ("link", &|| symlink(&victim, &lock).unwrap()),
            ("link", &|| symlink(root.path().join("absent"), &lock).unwrap()),
            ("hard link", &|| fs::hard_link(&victim, &lock).unwrap()),
            ("FIFO", &|| assert!(std::process::Command::new("mkfifo").arg(&lock).status().unwrap().success())),
            ("other content", &|| fs::write(&lock, "precious").unwrap()),
        ];
        for (what, plant) in plants {
            plant();
            let error = SinkLock::acquire(&dir, "job").unwrap_err();
            assert!(error.kind() == Kind::Config && error.chain().contains("/out/.tidemill-lock`"), "{what}: {error}");
            assert!(fs::symlink_metadata(&lock).is_ok(), "{what}");
            fs::remove_file(&lock).unwrap();
        }
        fs::create_dir(&lock).unwrap();
        assert_eq!(SinkLock::acquire(&dir, "job").unwrap_err().kind(), Kind::Config);
        fs::remove_dir(&lock).unwrap();
        assert!(fs::read(&victim).unwrap() == b"precious" && !root.path().join("absent").exists());
        SinkLock::acquire(&dir, "job").unwrap();
    }

    #[test]
    fn many_that_want_a_folder_whose_holder_was_killed_get_it_one_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("job");
        fs::create_dir(&dir).unwrap();
        let holders = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        // As a killed process leaves it.
                        let Ok(held) = JobLock::acquire(&dir) else { continue };
                        assert_eq!(holders.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        holders.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(held);
                    }
                });
            }
        });
        JobLock::acquire(&dir).unwrap();
    }
}
