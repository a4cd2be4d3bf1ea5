use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use tempfile::TempDir;
use tidemill_core::disk::Disk;
use tidemill_core::job::{Outcome, Request};

use super::{Socket, at};
use crate::disk::RealDisk;
use crate::runtime::control::Control;
use crate::runtime::control::client::ask;

struct Job {
    root: TempDir,
    control: Control,
    socket: Socket,
}

fn open(name: &str) -> Job {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join(name)).unwrap();
    let (control, disk): (_, Arc<dyn Disk>) = (Control::default(), Arc::new(RealDisk));
    let socket = Socket::open(&root.path().join(name), "big-orders", &control, &disk).unwrap();
    Job { root, control, socket }
}

/// Sends text as it is, and returns the answer up to the end of the connection, which `text` must ask for.
fn raw(dir: &Path, text: &str) -> String {
    let mut stream = at(dir, |path| UnixStream::connect(path)).unwrap();
    // A request that is too long is refused before it is read to its end.
    _ = stream.write_all(text.as_bytes());
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
}

#[test]
fn requests_are_answered_even_in_a_folder_with_a_long_path() {
    let Job { root, control, socket } = open(&"long".repeat(50));
    let dir = root.path().join("long".repeat(50));
    let path = root.path().join("s");
    let saved = Outcome::Saved { savepoint: 7, path: path.clone(), committed_by: None };
    let job = {
        let (control, saved) = (control.clone(), saved.clone());
        thread::spawn(move || {
            loop {
                if let Some(pending) = control.next() {
                    assert!(pending.folder.as_ref().is_some_and(|folder| folder.dir().ends_with("s")));
                    return pending.answer(Ok(saved));
                }
                thread::yield_now();
            }
        })
    };
    let request = Request::Savepoint { path: path.clone(), wait_committed: false };
    assert_eq!(ask(&dir, &request, "first").unwrap(), saved);
    job.join().unwrap();
    // No job takes requests any more: it is answered from memory.
    assert_eq!(ask(&dir, &request, "first").unwrap(), saved);
    let refused = ask(&dir, &request, "a b").unwrap_err().error.chain();
    assert!(refused.contains("`a b` has not"), "{refused}");
    std::fs::write(path.join("notes"), b"x").unwrap();
    let refused = ask(&dir, &request, "second").unwrap_err();
    assert!(refused.answered && refused.error.chain().contains("needs a folder of its own"), "{refused:?}");
    drop(socket);
    let absent = ask(&dir, &Request::Stop { savepoint: None, drain: false }, "third").unwrap_err();
    assert!(!absent.answered && absent.error.chain().contains("no job runs in the folder"), "{absent:?}");
}

#[test]
fn what_is_no_request_gets_a_problem_document() {
    let job = open("job");
    let dir = job.root.path().join("job");
    for (text, status, said) in [
        (post("/api/v1/jobs/big-orders/dance", ""), 404, "cannot be asked to `dance`"),
        (post("/api/v1/jobs/other/stop", ""), 404, "the job is `big-orders`"),
        (post("/api/v1", ""), 404, "no such path"),
        (post("/api/v1/jobs", ""), 405, "another method"),
        (post("/api/v1/jobs/big-orders/stop", "{\"drain\":\"x\"}"), 400, "no request that the job knows: invalid type"),
        (post("/api/v1/jobs/big-orders/stop", "{\"drian\":true}"), 400, "unknown field `drian`"),
        (post("/api/v1/jobs/big-orders/stop", "{\"request\":\"stop\"}"), 400, "has no field `request`"),
        (post("/api/v1/jobs/big-orders/rescale", "{"), 400, "no request that the job knows: EOF"),
        (post("/api/v1/jobs/big-orders/rescale", &" ".repeat(1 << 20)), 400, "at most 64 KiB"),
        (post("/api/v1/jobs/big-orders/savepoints", "{\"path\":\"sp\"}"), 422, "a path from the root, and `sp` is not"),
        (post("/api/v1/jobs/big-orders/stop", "").replace("Host", "Idempotency-Key: a b\r\nHost"), 422, "`a b` has not"),
    ] {
        let answer = raw(&dir, &text);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(said), "{text}\n{answer}");
        assert!(answer.contains("content-type: application/problem+json"), "{answer}");
    }
    let answer = raw(&dir, "dance\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let answer = raw(&dir, "GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(answer.ends_with("{\"jobs\":[{\"name\":\"big-orders\",\"waits_for\":null}]}"), "{answer}");
}

#[test]
fn a_client_for_whom_there_is_no_place_is_told_so_and_one_that_says_nothing_holds_up_no_other() {
    let job = open("job");
    let dir = job.root.path().join("job");
    let connect = || at(&dir, |path| UnixStream::connect(path)).unwrap();
    let silent: Vec<UnixStream> = (0..super::most_clients()).map(|_| connect()).collect();
    let answer = raw(&dir, "GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("clients talk to the job already"), "{answer}");
    drop(silent);
    let control = job.control.clone();
    let stopping = thread::spawn(move || {
        loop {
            if let Some(pending) = control.next() {
                return pending.answer(Ok(Outcome::Stopped { checkpoint: 3, path: None }));
            }
            thread::yield_now();
        }
    });
    let asking = thread::spawn(move || ask(&dir, &Request::Stop { savepoint: None, drain: false }, "key").map_err(|refusal| refusal.error));
    stopping.join().unwrap();
    // The client of a stop waits until the folder is free.
    drop(job.socket);
    assert_eq!(asking.join().unwrap().unwrap(), Outcome::Stopped { checkpoint: 3, path: None });
}
