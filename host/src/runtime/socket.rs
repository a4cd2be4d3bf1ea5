//! The control socket of a running job: `control.sock` in its folder. A request is one line of JSON, and so is its answer:
//!
//! `{"ask":"savepoint","path":"/p"}` or `{"ask":"stop","savepoint":"/p","drain":false}`, then `{"savepoint":7}`, `{"stopped":7}`,
//! `{"finished":7}` or `{"error":"..","kind":"config"}`. The connection of a stop stays open until the process has ended.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use serde::{Deserialize, Serialize};
use tidemill_core::disk::Disk;
use tidemill_core::{Error, Kind, Result};
use tracing::debug;

use super::control::{Control, Granted, Wish};
use crate::store::savepoint::SavepointFolder;

/// The name of the socket in the job's folder.
const NAME: &str = "control.sock";
/// A longer request is none.
const MOST_BYTES: u64 = 64 * 1024;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase", deny_unknown_fields)]
pub enum Ask {
    /// A savepoint; the job goes on.
    Savepoint {
        /// Its folder, from the root.
        path: PathBuf,
    },
    /// A stop at a checkpoint.
    Stop {
        /// The folder of a savepoint of it, from the root.
        savepoint: Option<PathBuf>,
        /// Whether all event time ends first.
        drain: bool,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", untagged)]
enum Answer {
    Savepoint { savepoint: u64 },
    Stopped { stopped: u64 },
    Finished { finished: u64 },
    Failed { error: String, kind: String },
}

/// The socket of this process's job; it is removed with this.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
}

impl Socket {
    /// Opens the socket of a job, whose folder this process holds, and answers on it from a thread.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(dir: &Path, control: &Control, disk: &Arc<dyn Disk>) -> Result<Self> {
        let path = dir.join(NAME);
        let failed = |error: std::io::Error| Error::config(format!("opening the control socket {}", path.display())).caused_by(error);
        // What a process that was killed left: the lock says that it is gone.
        disk.remove(&path).map_err(failed)?;
        let listener = at(dir, |path| UnixListener::bind(path)).map_err(failed)?;
        let (control, disk) = (control.clone(), Arc::clone(disk));
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let (control, disk) = (control.clone(), Arc::clone(&disk));
                let spawned = thread::Builder::new().name("control".to_owned()).spawn(move || serve(&stream, &control, &disk));
                if let Err(error) = spawned {
                    debug!("cannot answer on the control socket: {error}");
                }
            }
        };
        thread::Builder::new().name("control".to_owned()).spawn(serve).map_err(failed)?;
        Ok(Self { path })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Whatever is left of it is removed by the next process.
        _ = std::fs::remove_file(&self.path);
    }
}

/// Asks the job that runs in a folder, and waits for what comes of it; for a stop also until its process has ended.
///
/// # Errors
/// No job runs there, or what was asked failed.
pub fn ask(dir: &Path, ask: &Ask) -> Result<Granted> {
    let shown = dir.display();
    let stream = at(dir, |path| UnixStream::connect(path)).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            Error::config(format!("no job runs in the folder {shown}: name the job spec, or the job's folder with --data-dir"))
        }
        _ => Error::config(format!("asking the job that runs in {shown}")).caused_by(error),
    })?;
    let lost = |error: std::io::Error| Error::storage(format!("asking the job that runs in {shown}")).caused_by(error);
    let mut request = serde_json::to_vec(ask).map_err(|error| lost(error.into()))?;
    request.push(b'\n');
    (&stream).write_all(&request).map_err(lost)?;
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    reader.read_line(&mut line).map_err(lost)?;
    let answer = serde_json::from_str(&line)
        .map_err(|_| Error::storage(format!("the job in {shown} ended without an answer: its log says what became of it")))?;
    if matches!(ask, Ask::Stop { .. }) {
        _ = reader.read_line(&mut line);
    }
    match answer {
        Answer::Savepoint { savepoint } => Ok(Granted::Saved(savepoint)),
        Answer::Stopped { stopped } => Ok(Granted::Stopped(stopped)),
        Answer::Finished { finished } => Ok(Granted::Finished(finished)),
        Answer::Failed { error, kind } => Err(Error::new(if kind == "config" { Kind::Config } else { Kind::Storage }, error)),
    }
}

fn serve(mut stream: &UnixStream, control: &Control, disk: &Arc<dyn Disk>) {
    let mut line = String::new();
    let read = BufReader::new(stream.take(MOST_BYTES)).read_line(&mut line);
    let request = read.map_err(|error| Error::config(error.to_string())).and_then(|_| {
        serde_json::from_str::<Ask>(&line).map_err(|error| Error::config("this is no request that the job knows").caused_by(error))
    });
    let stops = matches!(request, Ok(Ask::Stop { .. }));
    let answer = match request.and_then(|request| grant(request, control, disk)) {
        Ok(Granted::Saved(savepoint)) => Answer::Savepoint { savepoint },
        Ok(Granted::Stopped(stopped)) => Answer::Stopped { stopped },
        Ok(Granted::Finished(finished)) => Answer::Finished { finished },
        Err(error) => {
            let kind = if error.kind() == Kind::Config { "config" } else { "other" };
            Answer::Failed { error: error.chain(), kind: kind.to_owned() }
        }
    };
    let mut text = serde_json::to_vec(&answer).unwrap_or_default();
    text.push(b'\n');
    // One who has gone away hears nothing.
    if stream.write_all(&text).is_ok() && stops && !matches!(answer, Answer::Failed { .. }) {
        _ = stream.read(&mut [0]);
    }
}

fn grant(ask: Ask, control: &Control, disk: &Arc<dyn Disk>) -> Result<Granted> {
    // The folder is made first, so that one that cannot be written to stops nothing.
    let folder = |path: PathBuf| SavepointFolder::create(Arc::clone(disk), path);
    let wish = match ask {
        Ask::Savepoint { path } => Wish::Savepoint(folder(path)?),
        Ask::Stop { savepoint, drain } => Wish::Stop { savepoint: savepoint.map(folder).transpose()?, drain },
    };
    let ended = |_| Err(Error::storage("the job has ended without doing it: its log says what became of it"));
    control.ask(wish).recv().unwrap_or_else(ended)
}

/// Does something with the socket's path. A path may be longer than an address can hold, so the folder is reached through its handle.
fn at<T>(dir: &Path, work: impl FnOnce(&Path) -> std::io::Result<T>) -> std::io::Result<T> {
    let folder = File::open(dir)?;
    let by_handle = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    let base = if by_handle.exists() { by_handle.as_path() } else { dir };
    work(&base.join(NAME))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::thread;

    use tidemill_core::disk::Disk;

    use super::{Ask, Granted, Socket, ask, at};
    use crate::disk::RealDisk;
    use crate::runtime::control::{Control, Wish};

    #[test]
    fn requests_are_answered_even_in_a_folder_with_a_long_path() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("long".repeat(50));
        std::fs::create_dir(&dir).unwrap();
        let (control, disk): (_, Arc<dyn Disk>) = (Control::default(), Arc::new(RealDisk));
        let socket = Socket::open(&dir, &control, &disk).unwrap();
        let job = {
            let control = control.clone();
            thread::spawn(move || {
                loop {
                    if let Some(request) = control.next() {
                        let saves = matches!(&request.wish, Wish::Savepoint(folder) if folder.dir().ends_with("s"));
                        assert!(saves);
                        return request.answer(Ok(Granted::Saved(7)));
                    }
                    thread::yield_now();
                }
            })
        };
        let path = root.path().join("s");
        assert_eq!(ask(&dir, &Ask::Savepoint { path: path.clone() }).unwrap(), Granted::Saved(7));
        job.join().unwrap();
        std::fs::write(path.join("notes"), b"x").unwrap();
        let refused = ask(&dir, &Ask::Savepoint { path }).unwrap_err().chain();
        assert!(refused.contains("needs a folder of its own"), "{refused}");

        let mut stream = at(&dir, |path| UnixStream::connect(path)).unwrap();
        stream.write_all(b"{\"ask\":\"dance\"}\n").unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert!(line.contains("no request that the job knows"), "{line}");
        drop(socket);
        let absent = ask(&dir, &Ask::Stop { savepoint: None, drain: false }).unwrap_err().chain();
        assert!(absent.contains("no job runs in the folder"), "{absent}");
    }
}
