//! The control socket of a running job: `control.sock` in its folder, which speaks HTTP (see `api.rs`). `curl --unix-socket` works on it.
//!
//! A bounded number of clients is served at a time, none of which holds up the others or the job.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tidemill_core::disk::Disk;
use tidemill_core::{Error, Result};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::api::{Served, TO_ASK, routes};
use super::submit::Place;
use super::{Control, lost};
use crate::machine;

/// The name of the socket in the job's folder.
const NAME: &str = "control.sock";
/// The most clients that are served at a time. Each takes one of the files that the process may have open.
const MOST_CLIENTS: u64 = 32;
/// The wait after a connection could not be accepted, at first and at most. Without it the loop would spin.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];
/// At the end of the job, clients have this long to take their answers.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The socket of a job.
pub struct Socket {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    control: Control,
    /// Dropping it ends the thread.
    open: Option<oneshot::Sender<()>>,
    /// Closes when the thread has ended.
    ended: Receiver<()>,
}

impl Socket {
    /// Opens the socket of a job, whose folder this process has locked, and answers on it from a thread.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(dir: &Path, name: &str, control: &Control, disk: &Arc<dyn Disk>) -> Result<Self> {
        let path = dir.join(NAME);
        let failed = |error: std::io::Error| Error::config(format!("opening the control socket {}", path.display())).caused_by(error);
        // A process that was killed left it: the lock says that the process is gone.
        disk.remove(&path).map_err(failed)?;
        let listener = at(dir, |path| UnixListener::bind(path)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let place = Place { disk: Arc::clone(disk), checkpoints: dir.join("checkpoints") };
        let served = Served { name: name.into(), control: control.clone(), place };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (open, closed) = oneshot::channel();
        let (sender, ended) = channel();
        machine::spawn("control", move || {
            let _ended = sender;
            if let Err(error) = runtime.block_on(serve(listener, served, closed)) {
                warn!("no client can reach the control socket of the job: {error}");
            }
        })?;
        Ok(Self { path, disk: Arc::clone(disk), control: control.clone(), open: Some(open), ended })
    }

    /// Removes the socket's name, so that no client comes any more, and answers those that the job has not answered. From then on another
    /// process may take the job's folder.
    pub fn close(&mut self) {
        if self.open.take().is_some() {
            self.control.answer_all(|_| Err(lost()));
            // If it cannot be removed, the next process removes it.
            _ = self.disk.remove(&self.path);
        }
    }
}

impl Drop for Socket {
    /// Waits until the clients have their answers, but not long: the thread may wait for a disk that does not answer.
    fn drop(&mut self) {
        self.close();
        _ = self.ended.recv_timeout(LAST_WORDS * 2);
    }
}

/// Accepts connections and serves each in a task of its own, until the job ends.
async fn serve(listener: UnixListener, served: Served, mut closed: oneshot::Receiver<()>) -> std::io::Result<()> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let most = most_clients();
    // Twice as many may be connected: those for whom there is no place are told so.
    let (connected, places) = (Arc::new(Semaphore::new(most * 2)), Arc::new(Semaphore::new(most)));
    let busy = format!("{most} clients talk to the job already: try again when one has gone");
    let connections = GracefulShutdown::new();
    let [shortest, longest] = PAUSES;
    let mut pause = shortest;
    loop {
        let accepted = async {
            let connection = Arc::clone(&connected).acquire_owned().await.ok();
            listener.accept().await.map(|(stream, _)| (stream, connection))
        };
        let (stream, connection) = tokio::select! {
            _ = &mut closed => break,
            accepted = accepted => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if pause == shortest {
                        warn!("no client can reach the control socket of the job for now: {error}");
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(longest);
                    continue;
                }
            },
        };
        pause = shortest;
        let place = Arc::clone(&places).try_acquire_owned().ok();
        let routes = routes(served.clone(), place.is_none().then_some(&busy));
        let serving = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(TO_ASK)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
        let serving = connections.watch(serving);
        tokio::spawn(async move {
            // A client that has gone away hears nothing.
            _ = serving.await;
            drop((place, connection));
        });
    }
    drop(listener);
    _ = timeout(LAST_WORDS, connections.shutdown()).await;
    Ok(())
}

/// Returns [`MOST_CLIENTS`], or fewer if the job would lack files otherwise.
fn most_clients() -> usize {
    let files = rlimit::getrlimit(rlimit::Resource::NOFILE).map_or(MOST_CLIENTS * 8, |(soft, _)| soft);
    usize::try_from((files / 8).clamp(1, MOST_CLIENTS)).unwrap_or(1)
}

/// Connects to the socket of the job that runs in a folder.
pub(super) fn connect(dir: &Path) -> std::io::Result<UnixStream> {
    let stream = at(dir, |path| std::os::unix::net::UnixStream::connect(path))?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Uses the socket's path. A path may be longer than an address can hold, so the folder is reached through its handle.
fn at<T>(dir: &Path, work: impl FnOnce(&Path) -> std::io::Result<T>) -> std::io::Result<T> {
    let folder = File::open(dir)?;
    let by_handle = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    let base = if by_handle.exists() { by_handle.as_path() } else { dir };
    work(&base.join(NAME))
}

#[cfg(test)]
mod tests;
