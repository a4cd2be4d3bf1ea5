//! One process a job.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process;

use tidemill_core::{Error, Result};

const LOCK: &str = "LOCK";

/// Holds a job's folder until it is dropped or the process dies, in whatever way.
#[derive(Debug)]
pub struct JobLock {
    _file: File,
}

impl JobLock {
    /// Takes the lock on a folder, which is made if it does not exist.
    ///
    /// # Errors
    /// Another process holds it, or the folder cannot be written.
    pub fn acquire(dir: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| Error::config(format!("cannot lock the job folder `{}`", dir.display())).caused_by(error);
        fs::create_dir_all(dir).map_err(failed)?;
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(dir.join(LOCK)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(dir, &mut file)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", process::id()));
        written.map_err(failed)?;
        Ok(Self { _file: file })
    }
}

fn in_use(dir: &Path, file: &mut File) -> Error {
    let mut holder = String::new();
    // The holder may be just about to write its number.
    let known = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
    let pid = if known { format!(" (pid {})", holder.trim()) } else { String::new() };
    Error::config(format!("the job folder `{}` is in use by another process{pid}: stop it first, or use another --data-dir", dir.display()))
}

#[cfg(test)]
mod tests {
    use tidemill_core::Kind;

    use super::JobLock;

    #[test]
    fn a_folder_has_one_holder_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("job");
        let lock = JobLock::acquire(&dir).unwrap();
        let error = JobLock::acquire(&dir).unwrap_err();
        let text = format!("the job folder `{}` is in use by another process (pid {})", dir.display(), std::process::id());
        assert!(error.kind() == Kind::Config && error.chain().starts_with(&text), "{error}");
        drop(lock);
        JobLock::acquire(&dir).unwrap();
        std::fs::write(root.path().join("file"), "").unwrap();
        assert!(JobLock::acquire(&root.path().join("file")).unwrap_err().chain().starts_with("cannot lock the job folder"));
    }
}
