//! One process per job folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use tidemill_core::{Error, Kind, Result};

/// Holds a job's folder while it lives. The lock is the operating system's (flock), so it dies with the process.
#[derive(Debug)]
pub struct JobLock {
    _file: File,
}

impl JobLock {
    /// Takes the folder, which is made if it does not exist.
    ///
    /// # Errors
    /// Another process has it: then the error names that process. Or the folder cannot be written.
    pub fn acquire(dir: &Path) -> Result<Self> {
        let failed = |what: &str, error| Error::config(format!("{what} the job folder {}", dir.display())).caused_by(error);
        std::fs::create_dir_all(dir).map_err(|error| failed("creating", error))?;
        let path = dir.join("lock");
        let mut file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(|error| failed("opening", error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the message: an empty or unreadable file says nothing.
                _ = file.read_to_string(&mut holder);
                let holder = holder.trim();
                let who = if holder.is_empty() { "another process".to_owned() } else { format!("process {holder}") };
                let message = format!("the job folder {} is in use by {who}: a job runs once at a time", dir.display());
                return Err(Error::new(Kind::Busy, message));
            }
            Err(TryLockError::Error(error)) => return Err(failed("locking", error)),
        }
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write(&mut file).map_err(|error| failed("writing to", error))?;
        Ok(Self { _file: file })
    }
}
