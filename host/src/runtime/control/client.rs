//! Asks a job that runs in another process, through its control socket.

use std::io::ErrorKind;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use tidemill_core::job::{Outcome, Request};
use tidemill_core::{Error, Kind};
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::api::{KEY, Problem};
use super::socket::connect;
use super::submit::checked;
use crate::store::lock::no_answer;

/// How often a job that has too many clients is asked again, and after which time.
const TRIES: usize = 30;
const BETWEEN_TRIES: Duration = Duration::from_millis(500);

/// How often the user is told what the job waits for.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// The path of the process's jobs.
const JOBS: &str = "/api/v1/jobs";
/// An answer is shorter.
const MOST_BYTES: usize = 1024 * 1024;

/// A request was not performed, as far as the client knows.
#[derive(Debug)]
pub struct Refusal {
    /// What is wrong.
    pub error: Error,
    /// Whether the job itself said so. If not, the job may have performed the request and ended before it could say so.
    pub answered: bool,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        refusal.error
    }
}

/// The jobs of a process.
#[derive(Deserialize)]
struct Jobs {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    name: String,
    #[serde(default)]
    waits_for: Option<String>,
}

/// Asks the job that runs in a folder, and waits for the outcome. After a stop it also waits until the job has released its folder, so that
/// another start is not refused. The log says now and then what the job waits for, if that takes long.
///
/// # Errors
/// No job runs there, it has too many clients, or the request failed.
pub fn ask(dir: &Path, request: &Request, key: &str) -> Result<Outcome, Refusal> {
    let key = checked(Some(key)).map_err(unanswered)?;
    let key = HeaderValue::from_str(&key).map_err(|error| unanswered(Error::config("the trigger id cannot be sent").caused_by(error)))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| unanswered(Error::new(Kind::Machine, "making a client of a control socket").caused_by(error)))?;
    runtime.block_on(async {
        let mut asking = pin!(ask_often(dir, request, &key));
        let mut waited = Duration::ZERO;
        loop {
            match timeout(SAY_EVERY, &mut asking).await {
                Ok(outcome) => return outcome,
                Err(_) => waited += SAY_EVERY,
            }
            let waits_for = timeout(SAY_EVERY, waits_for(dir)).await.ok().flatten();
            let why = waits_for.map_or_else(|| "its log says what it does".to_owned(), |what| format!("it says: {what}"));
            warn!("the job has not answered for {} s; {why}", waited.as_secs());
        }
    })
}

async fn ask_often(dir: &Path, request: &Request, key: &HeaderValue) -> Result<Outcome, Refusal> {
    for _ in 1..TRIES {
        match ask_once(dir, request, key).await {
            Err(refusal) if refusal.error.kind() == Kind::Busy => sleep(BETWEEN_TRIES).await,
            result => return result,
        }
    }
    ask_once(dir, request, key).await
}

/// Asks on a connection of its own what the job waits for.
async fn waits_for(dir: &Path) -> Option<String> {
    let (mut sender, connection) = handshake(TokioIo::new(connect(dir).ok()?)).await.ok()?;
    tokio::spawn(connection);
    let key = HeaderValue::from_static("");
    let (_, body) = Client { sender: &mut sender }.call(Method::GET, Uri::from_static(JOBS), &key, String::new()).await.ok()?;
    let jobs: Jobs = serde_json::from_slice(&body).ok()?;
    jobs.jobs.into_iter().next()?.waits_for
}

async fn ask_once(dir: &Path, request: &Request, key: &HeaderValue) -> Result<Outcome, Refusal> {
    let shown = dir.display();
    let stream = connect(dir).map_err(|error| {
        unanswered(match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => no_answer(dir),
            _ => Error::config(format!("asking the job that runs in {shown}")).caused_by(error),
        })
    })?;
    let lost = |error: hyper::Error| {
        unanswered(match error.is_incomplete_message() || error.is_canceled() {
            true => Error::storage(format!("the job in {shown} ended without an answer: its log says what became of it")),
            false => Error::storage(format!("asking the job that runs in {shown}")).caused_by(error),
        })
    };
    let strange = || unanswered(Error::storage(format!("the process in {shown} gave an answer that is not known: is it of this version?")));
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(lost)?;
    let connection = tokio::spawn(connection);
    let mut client = Client { sender: &mut sender };
    let (status, body) = client.call(Method::GET, Uri::from_static(JOBS), key, String::new()).await.map_err(lost)?;
    let jobs: Jobs = success(status, &body, strange)?;
    let name = &jobs.jobs.first().ok_or_else(strange)?.name;
    let (call, fields) = body_of(request).ok_or_else(strange)?;
    let path: Uri = format!("{JOBS}/{name}/{call}").parse().map_err(|_| strange())?;
    let (status, body) = client.call(Method::POST, path, key, fields).await.map_err(lost)?;
    let outcome = success(status, &body, strange)?;
    if matches!(outcome, Outcome::Stopped { .. } | Outcome::Finished { .. }) {
        // The job closes the connection when it has released its folder.
        _ = connection.await;
    }
    Ok(outcome)
}

struct Client<'a> {
    sender: &'a mut SendRequest<Full<Bytes>>,
}

impl Client<'_> {
    async fn call(&mut self, method: Method, path: Uri, key: &HeaderValue, body: String) -> hyper::Result<(StatusCode, Vec<u8>)> {
        let mut request = hyper::Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = path;
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(KEY, key.clone());
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let (status, mut body, mut bytes) = (response.status(), response.into_body(), Vec::new());
        // An answer is short: a longer one is cut, and then not understood.
        while bytes.len() < MOST_BYTES
            && let Some(frame) = body.frame().await
        {
            bytes.extend_from_slice(frame?.data_ref().map_or(&[], |data| data));
        }
        Ok((status, bytes))
    }
}

/// Returns the last part of a request's path, and its body.
fn body_of(request: &Request) -> Option<(&'static str, String)> {
    let call = match request {
        Request::Savepoint { .. } => "savepoints",
        Request::Stop { .. } => "stop",
        Request::Rescale { .. } => "rescale",
    };
    let Ok(Value::Object(mut fields)) = serde_json::to_value(request) else { return None };
    fields.remove("request");
    Some((call, Value::Object(fields).to_string()))
}

fn success<T: for<'a> Deserialize<'a>>(status: StatusCode, body: &[u8], strange: impl Fn() -> Refusal) -> Result<T, Refusal> {
    if status.is_success() {
        return serde_json::from_slice(body).map_err(|_| strange());
    }
    let problem: Problem = serde_json::from_slice(body).map_err(|_| strange())?;
    Err(Refusal { error: problem.into_error(), answered: true })
}

fn unanswered(error: Error) -> Refusal {
    Refusal { error, answered: false }
}
