//! Who talks to the control socket: not more than a bounded number of clients at a time, of which none holds up the others or the job.

use std::io::{ErrorKind, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tidemill_core::{Error, Kind, Result};
use tracing::warn;

use crate::clock::{Clock, SystemClock};

/// Longer requests are refused.
const MOST_BYTES: usize = 64 * 1024;
/// Within this time a client must have sent its request.
const TO_ASK: Duration = Duration::from_secs(10);
/// Within this time a client must take some of its answer.
const TO_LISTEN: Duration = Duration::from_secs(2);
/// More clients at a time are refused. Each takes a thread and one of the files that the process may have open.
const MOST_CLIENTS: u64 = 32;
/// The wait after a connection could not be accepted, at first and at most. Without it the loop would spin.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Accepts connections for as long as the process lives, and serves each on a thread of its own. `refuse` tells a client why it is not served.
pub(super) fn receive(listener: &UnixListener, refuse: impl Fn(&UnixStream, Error), serve: impl Fn(&UnixStream) + Clone + Send + 'static) {
    let (clients, most) = (Arc::new(AtomicUsize::new(0)), most_clients());
    let [shortest, longest] = PAUSES;
    let mut pause = shortest;
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
            Err(error) => {
                if pause == shortest {
                    warn!("no client can reach the control socket of the job for now: {error}");
                }
                thread::sleep(pause);
                pause = (pause * 2).min(longest);
                continue;
            }
        };
        pause = shortest;
        // A client that takes nothing of what it is told must not hold a thread.
        if stream.set_write_timeout(Some(TO_LISTEN)).is_err() {
            continue;
        }
        let Some(place) = Place::take(&clients, most) else {
            refuse(&stream, Error::new(Kind::Busy, format!("{most} clients talk to the job already: try again when one has gone")));
            continue;
        };
        let stream = Arc::new(stream);
        let (served, serve) = (Arc::clone(&stream), serve.clone());
        let spawned = thread::Builder::new().name("control".to_owned()).spawn(move || {
            let _place = place;
            serve(&served);
        });
        if let Err(error) = spawned {
            refuse(&stream, Error::storage("the job cannot make a thread for the request").caused_by(error));
        }
    }
}

/// As many as [`MOST_CLIENTS`], but not so many that the job lacks files.
fn most_clients() -> usize {
    let files = rlimit::getrlimit(rlimit::Resource::NOFILE).map_or(MOST_CLIENTS * 4, |(soft, _)| soft);
    usize::try_from((files / 4).clamp(1, MOST_CLIENTS)).unwrap_or(1)
}

/// The place of a client, which is free again when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(clients: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let taken = clients.fetch_add(1, Ordering::SeqCst);
        let place = Self(Arc::clone(clients));
        (taken < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Reads a request, which is one line. `None` if the client has gone without a word.
///
/// # Errors
/// It did not come in time, is too long, or is no text.
pub(super) fn request(stream: &UnixStream) -> Result<Option<String>> {
    request_within(stream, TO_ASK)
}

fn request_within(mut stream: &UnixStream, time: Duration) -> Result<Option<String>> {
    let failed = |error: std::io::Error| Error::config("reading a request").caused_by(error);
    let clock = SystemClock::default();
    let end = clock.steady().plus(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let (mut line, mut part) = (Vec::new(), [0; 4096]);
    loop {
        // Of the whole request: a client that sends a byte now and then gets no more time.
        let left = end.0.saturating_sub(clock.steady().0).max(0).unsigned_abs();
        let late = || Error::config(format!("no request came within {} s", time.as_secs_f64()));
        if left == 0 {
            return Err(late());
        }
        stream.set_read_timeout(Some(Duration::from_millis(left))).map_err(failed)?;
        let read = match stream.read(&mut part) {
            Ok(read) => part.get(..read).unwrap_or_default(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Err(late()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        line.extend_from_slice(read);
        let end = line.iter().position(|byte| *byte == b'\n');
        if end.unwrap_or(line.len()) > MOST_BYTES {
            return Err(Error::config(format!("a request has at most {} KiB", MOST_BYTES >> 10)));
        }
        if end.is_some() || read.is_empty() {
            line.truncate(end.unwrap_or(line.len()));
            stream.set_read_timeout(None).map_err(failed)?;
            let text = String::from_utf8(line).map_err(|error| Error::config("a request is one line of JSON").caused_by(error))?;
            return Ok((!text.trim().is_empty()).then_some(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use std::time::Duration;

    use super::{MOST_BYTES, Place, most_clients, receive, request, request_within};

    #[test]
    fn a_request_is_one_line_of_bounded_length() {
        let heard = |sent: &[u8]| {
            let (mut client, job) = UnixStream::pair().unwrap();
            let sent = sent.to_vec();
            let sender = thread::spawn(move || _ = client.write_all(&sent));
            let heard = request(&job).map_err(|error| error.chain());
            drop(job);
            sender.join().unwrap();
            heard
        };
        assert_eq!(heard(b"{\"a\":1}\nmore"), Ok(Some("{\"a\":1}".to_owned())));
        assert_eq!(heard(b"{\"a\":1}"), Ok(Some("{\"a\":1}".to_owned())));
        assert_eq!((heard(b""), heard(b"\n")), (Ok(None), Ok(None)));
        assert_eq!(heard(&[&b"x".repeat(MOST_BYTES)[..], b"\n"].concat()).unwrap().unwrap().len(), MOST_BYTES);
        assert!(heard(&b"x".repeat(MOST_BYTES + 1)).unwrap_err().contains("at most 64 KiB"));
        assert!(heard(b"\xff\n").is_err());
    }

    #[test]
    fn a_client_that_says_nothing_is_not_waited_for() {
        let (mut client, job) = UnixStream::pair().unwrap();
        client.write_all(b"{\"ask\":").unwrap();
        assert!(request_within(&job, Duration::from_millis(20)).unwrap_err().chain().contains("no request came within 0.02 s"));
    }

    #[test]
    fn places_are_bounded_and_free_again() {
        let clients = Arc::new(AtomicUsize::new(0));
        let (first, second) = (Place::take(&clients, 2), Place::take(&clients, 2));
        assert!(first.is_some() && second.is_some() && Place::take(&clients, 2).is_none() && Place::take(&clients, 2).is_none());
        drop(first);
        assert!(Place::take(&clients, 2).is_some());
    }

    #[test]
    fn one_too_many_is_told_so_and_served_when_another_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let serve = |mut stream: &UnixStream| {
            // Until the client has gone.
            _ = stream.write_all(b"served").and_then(|()| stream.read(&mut [0]));
        };
        thread::spawn(move || receive(&listener, |mut stream, error| _ = stream.write_all(error.chain().as_bytes()), serve));
        let answer = || {
            let mut client = UnixStream::connect(&path).unwrap();
            let mut first = [0; 6];
            client.read_exact(&mut first).unwrap();
            (client, first == *b"served")
        };
        let mut held: Vec<_> = (0..most_clients()).map(|_| answer()).collect();
        assert!(held.iter().all(|(_, served)| *served));
        assert!(!answer().1);
        held.pop();
        while !answer().1 {
            thread::yield_now();
        }
    }
}
