//! The control socket of a running job: `control.sock` in its folder. A request is one line of JSON, and so is its answer:
//!
//! `{"ask":"savepoint","path":"/p"}`, `{"ask":"stop","savepoint":"/p","drain":false}` or `{"ask":"rescale","parallelism":5}`, each with a
//! `"trigger":"ID"` if it may be asked again, a savepoint also with `"wait_committed":true`, then `{"savepoint":7,"path":"/p"}` (with
//! `"committed":8` if that was waited for), `{"stopped":7}`, `{"finished":7}`,
//! `{"rescaled":7,"from":2,"to":5,"pause_ms":40,"asked":2}` or `{"error":"..","kind":"config"}`. The connection of a stop stays open until the
//! process has ended.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill_core::disk::Disk;
use tidemill_core::{Error, Kind, Result};

use super::Outcome;
use super::clients;
use super::control::{Control, Granted, Reply, Rescaled, Wish};
use super::grant::{Place, grant};
use super::waiting::ended_first;
use crate::machine;

/// The name of the socket in the job's folder.
const NAME: &str = "control.sock";

/// What is asked. `trigger` is the client's name for it, under which it can be asked again; without one it is asked only once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase", deny_unknown_fields)]
pub enum Ask {
    /// A savepoint; the job goes on.
    Savepoint {
        /// Its folder, from the root.
        path: PathBuf,
        /// See above.
        trigger: Option<String>,
        /// Whether to wait until a checkpoint commits the output that it covers.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        wait_committed: bool,
    },
    /// A stop at a checkpoint.
    Stop {
        /// The folder of a savepoint of it, from the root.
        savepoint: Option<PathBuf>,
        /// Whether all event time ends first.
        drain: bool,
        /// See above.
        trigger: Option<String>,
    },
    /// A stop at a checkpoint, from which the job goes on at once with another number of workers.
    Rescale {
        /// How many.
        parallelism: u32,
        /// The folder of a savepoint of the checkpoint, from the root.
        savepoint: Option<PathBuf>,
        /// See above.
        trigger: Option<String>,
    },
}

impl Ask {
    /// The client's name for the request.
    pub(super) fn trigger(&self) -> Option<&String> {
        match self {
            Self::Savepoint { trigger, .. } | Self::Stop { trigger, .. } | Self::Rescale { trigger, .. } => trigger.as_ref(),
        }
    }

    /// Where a savepoint is to be, if one is wanted.
    pub(super) fn savepoint(&self) -> Option<&Path> {
        match self {
            Self::Savepoint { path, .. } => Some(path),
            Self::Stop { savepoint, .. } | Self::Rescale { savepoint, .. } => savepoint.as_deref(),
        }
    }
}

/// What came of it. `path` is where the savepoint is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Answer {
    Savepoint {
        savepoint: u64,
        /// The checkpoint that committed its output, if that was waited for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        committed: Option<u64>,
        path: Option<PathBuf>,
    },
    Stopped {
        stopped: u64,
        path: Option<PathBuf>,
    },
    Finished {
        finished: u64,
        path: Option<PathBuf>,
    },
    Rescaled {
        rescaled: u64,
        from: u32,
        to: u32,
        pause_ms: Option<u64>,
        asked: u32,
        path: Option<PathBuf>,
    },
    Failed {
        error: String,
        kind: String,
    },
}

/// How often a job that has too many clients is asked again, and after which time.
const TRIES: usize = 30;
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// The process does not wait longer at its end for clients to take their answers.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The socket of this process's job; it is removed with this, when those who asked have their answers.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    control: Control,
    answering: Arc<Answering>,
}

/// How many clients have asked and were not answered yet.
#[derive(Debug, Default)]
struct Answering {
    clients: Mutex<usize>,
    fewer: Condvar,
}

impl Answering {
    fn begin(&self) {
        *self.clients.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn end(&self) {
        *self.clients.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.fewer.notify_all();
    }

    fn wait(&self, at_most: Duration) {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        _ = self.fewer.wait_timeout_while(clients, at_most, |clients| *clients > 0);
    }
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
        let socket = Self { path, control: control.clone(), answering: Arc::default() };
        let place = Place { disk: Arc::clone(disk), checkpoints: dir.join("checkpoints") };
        let (control, answering) = (control.clone(), Arc::clone(&socket.answering));
        let serve = move |stream: &UnixStream| serve(stream, &control, &place, &answering);
        machine::spawn("control", move || clients::receive(&listener, |stream, error| _ = say(stream, &failed_with(&error)), serve))?;
        Ok(socket)
    }
}

impl Socket {
    /// Answers those who have asked since the job came to its end.
    pub(super) fn end(&self, outcome: &Result<Outcome>) {
        self.control.answer_all(|wish| match (outcome, wish) {
            (Ok(Outcome::Stopped { checkpoint, .. }), Wish::Stop { savepoint: None, .. }) => Ok(Granted::Stopped(*checkpoint)),
            (Ok(Outcome::Finished { checkpoint, .. }), Wish::Stop { savepoint: None, .. }) => Ok(Granted::Finished(*checkpoint)),
            (Ok(Outcome::Stopped { checkpoint, .. } | Outcome::Finished { checkpoint, .. }), _) => Err(ended_first(*checkpoint)),
            (Err(error), _) => Err(Error::new(error.kind(), format!("the job has failed: {}", error.chain()))),
            (Ok(Outcome::AlreadyFinished { checkpoint, .. }), _) => Err(ended_first(*checkpoint)),
        });
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.control.answer_all(|_| Err(Error::storage("the job has ended without doing it: its log says what became of it")));
        self.answering.wait(LAST_WORDS);
        // Whatever is left of it is removed by the next process.
        _ = std::fs::remove_file(&self.path);
    }
}

/// Asks the job that runs in a folder, and waits for what comes of it; for a stop also until its process has ended.
///
/// # Errors
/// No job runs there, it has too many clients, or what was asked failed.
pub fn ask(dir: &Path, ask: &Ask) -> Result<Reply> {
    for _ in 1..TRIES {
        match ask_once(dir, ask) {
            Err(error) if error.kind() == Kind::Busy => thread::sleep(BETWEEN_TRIES),
            result => return result,
        }
    }
    ask_once(dir, ask)
}

fn ask_once(dir: &Path, ask: &Ask) -> Result<Reply> {
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
    // A job that refuses the client may have said so before it took anything: the answer counts.
    let sent = (&stream).write_all(&request);
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    reader.read_line(&mut line).map_err(lost)?;
    if line.is_empty() {
        sent.map_err(lost)?;
    }
    let answer = serde_json::from_str(&line)
        .map_err(|_| Error::storage(format!("the job in {shown} ended without an answer: its log says what became of it")))?;
    if matches!(answer, Answer::Stopped { .. } | Answer::Finished { .. }) {
        _ = reader.read_line(&mut line);
    }
    match answer {
        Answer::Savepoint { savepoint, committed: None, path } => Ok(Reply { granted: Granted::Saved(savepoint), savepoint: path }),
        Answer::Savepoint { savepoint, committed: Some(checkpoint), path } => {
            Ok(Reply { granted: Granted::SavedAndCommitted { savepoint, checkpoint }, savepoint: path })
        }
        Answer::Stopped { stopped, path } => Ok(Reply { granted: Granted::Stopped(stopped), savepoint: path }),
        Answer::Finished { finished, path } => Ok(Reply { granted: Granted::Finished(finished), savepoint: path }),
        Answer::Rescaled { rescaled, from, to, pause_ms, asked, path } => {
            let rescaled = Rescaled { checkpoint: rescaled, from, to, pause: pause_ms, asked };
            Ok(Reply { granted: Granted::Rescaled(rescaled), savepoint: path })
        }
        Answer::Failed { error, kind } => Err(Error::new(
            match &*kind {
                "config" => Kind::Config,
                "busy" => Kind::Busy,
                _ => Kind::Storage,
            },
            error,
        )),
    }
}

fn serve(mut stream: &UnixStream, control: &Control, place: &Place, answering: &Answering) {
    let request = match clients::request(stream) {
        Ok(Some(line)) => {
            serde_json::from_str::<Ask>(&line).map_err(|error| Error::config("this is no request that the job knows").caused_by(error))
        }
        Ok(None) => return,
        Err(error) => Err(error),
    };
    answering.begin();
    let answer = request.and_then(|request| grant(&request, control, place)).map_or_else(|error| failed_with(&error), answer);
    // One who has gone away hears nothing.
    let heard = say(stream, &answer).is_ok();
    answering.end();
    if heard && matches!(answer, Answer::Stopped { .. } | Answer::Finished { .. }) {
        _ = stream.read(&mut [0]);
    }
}

fn say(mut stream: &UnixStream, answer: &Answer) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    stream.write_all(&text)
}

fn failed_with(error: &Error) -> Answer {
    let kind = match error.kind() {
        Kind::Config => "config",
        Kind::Busy => "busy",
        _ => "other",
    };
    Answer::Failed { error: error.chain(), kind: kind.to_owned() }
}

fn answer(reply: Reply) -> Answer {
    let path = reply.savepoint;
    match reply.granted {
        Granted::Saved(savepoint) => Answer::Savepoint { savepoint, committed: None, path },
        Granted::SavedAndCommitted { savepoint, checkpoint } => Answer::Savepoint { savepoint, committed: Some(checkpoint), path },
        Granted::Stopped(stopped) => Answer::Stopped { stopped, path },
        Granted::Finished(finished) => Answer::Finished { finished, path },
        Granted::Rescaled(Rescaled { checkpoint, from, to, pause, asked }) => {
            Answer::Rescaled { rescaled: checkpoint, from, to, pause_ms: pause, asked, path }
        }
    }
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

    use super::{Ask, Granted, Reply, Socket, ask, at};
    use crate::disk::RealDisk;
    use crate::runtime::control::Control;
    use crate::runtime::socket::Wish;

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
                        let saves = matches!(&request.wish, Wish::Savepoint { folder, .. } if folder.dir().ends_with("s"));
                        assert!(saves);
                        return request.answer(Ok(Granted::Saved(7)));
                    }
                    thread::yield_now();
                }
            })
        };
        let path = root.path().join("s");
        let saved = Reply { granted: Granted::Saved(7), savepoint: Some(path.clone()) };
        let wanted = |trigger: &str| Ask::Savepoint { path: path.clone(), trigger: Some(trigger.to_owned()), wait_committed: false };
        assert_eq!(ask(&dir, &wanted("first")).unwrap(), saved);
        job.join().unwrap();
        // Nobody takes requests any more: it is answered from memory.
        assert_eq!(ask(&dir, &wanted("first")).unwrap(), saved);
        let refused = ask(&dir, &wanted("a b")).unwrap_err().chain();
        assert!(refused.contains("`a b` has not"), "{refused}");
        std::fs::write(path.join("notes"), b"x").unwrap();
        let refused = ask(&dir, &wanted("second")).unwrap_err().chain();
        assert!(refused.contains("needs a folder of its own"), "{refused}");

        let mut stream = at(&dir, |path| UnixStream::connect(path)).unwrap();
        stream.write_all(b"{\"ask\":\"dance\"}\n").unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert!(line.contains("no request that the job knows"), "{line}");
        drop(socket);
        let absent = ask(&dir, &Ask::Stop { savepoint: None, drain: false, trigger: None }).unwrap_err().chain();
        assert!(absent.contains("no job runs in the folder"), "{absent}");
    }
}
