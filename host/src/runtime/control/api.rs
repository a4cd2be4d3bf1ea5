//! The HTTP API of a running job, as its control socket serves it. Mutating calls take an `Idempotency-Key`; errors are problem documents
//! (RFC 9457), with the error's kind as `code`.
//!
//! | call | body | answer |
//! |---|---|---|
//! | `GET /api/v1/jobs` | | `{"jobs": [{"name": "NAME", "waits_for": ".."}]}`: what holds up a checkpoint or a stop, or `null` |
//! | `POST /api/v1/jobs/NAME/savepoints` | the fields of [`Request::Savepoint`] | [`Outcome::Saved`](tidemill_core::job::Outcome) |
//! | `POST /api/v1/jobs/NAME/stop` | the fields of [`Request::Stop`], or nothing | `Stopped` or `Finished` |
//! | `POST /api/v1/jobs/NAME/rescale` | the fields of [`Request::Rescale`] | `Rescaled` |

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidemill_core::job::Request;
use tidemill_core::{Error, Kind, Result};
use tokio::time::timeout;

use super::Control;
use super::submit::{Place, submit};

/// The header with the client's name for a request.
pub(super) const KEY: &str = "idempotency-key";
/// Longer bodies are rejected.
const MOST_BYTES: usize = 64 * 1024;
/// A client must have sent its request within this time.
pub(super) const TO_ASK: Duration = Duration::from_secs(10);

/// The job that is served.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) name: Arc<str>,
    pub(super) control: Control,
    pub(super) place: Place,
}

/// An error as a client gets it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Problem {
    title: String,
    status: u16,
    /// What is wrong and what to do.
    pub(super) detail: String,
    /// The error's kind, for programs.
    code: String,
}

/// The kinds of errors by the code that programs see.
const CODES: [(Kind, &str, StatusCode); 8] = [
    (Kind::Config, "config", StatusCode::UNPROCESSABLE_ENTITY),
    (Kind::Busy, "busy", StatusCode::SERVICE_UNAVAILABLE),
    (Kind::Input, "input", StatusCode::UNPROCESSABLE_ENTITY),
    (Kind::Guest, "guest", StatusCode::INTERNAL_SERVER_ERROR),
    (Kind::Connector, "connector", StatusCode::INTERNAL_SERVER_ERROR),
    (Kind::Storage, "storage", StatusCode::INTERNAL_SERVER_ERROR),
    (Kind::Corrupt, "corrupt", StatusCode::INTERNAL_SERVER_ERROR),
    (Kind::Machine, "machine", StatusCode::INTERNAL_SERVER_ERROR),
];

impl Problem {
    fn new(error: &Error) -> Self {
        let found = CODES.iter().find(|(kind, ..)| *kind == error.kind());
        let (code, status) = found.map_or(("storage", StatusCode::INTERNAL_SERVER_ERROR), |(_, code, status)| (*code, *status));
        Self::with_status(status, code, error.chain())
    }

    fn with_status(status: StatusCode, code: &str, detail: String) -> Self {
        Self { title: status.canonical_reason().unwrap_or_default().to_owned(), status: status.as_u16(), detail, code: code.to_owned() }
    }

    /// Returns the error that the problem was made of.
    pub(super) fn into_error(self) -> Error {
        let kind = CODES.iter().find(|(_, code, _)| *code == self.code).map_or(Kind::Storage, |(kind, ..)| *kind);
        Error::new(kind, self.detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, [(header::CONTENT_TYPE, "application/problem+json")], Json(self)).into_response()
    }
}

/// Returns the routes of a job. With `busy`, every call is answered with that error.
pub(super) fn routes(served: Served, busy: Option<&str>) -> Router {
    if let Some(detail) = busy {
        let detail = detail.to_owned();
        return Router::new().fallback(move || async { Problem::new(&Error::new(Kind::Busy, detail)) });
    }
    Router::new()
        .route("/api/v1/jobs", get(jobs))
        .route("/api/v1/jobs/{job}/{request}", post(perform))
        .fallback(|| async { not_found("there is no such path: see `tidemill --help` for what a job can be asked") })
        .method_not_allowed_fallback(|| async {
            Problem::with_status(StatusCode::METHOD_NOT_ALLOWED, "config", "the path takes another method".to_owned())
        })
        .with_state(served)
}

async fn jobs(State(served): State<Served>) -> Json<Value> {
    Json(json!({ "jobs": [{ "name": &*served.name, "waits_for": served.control.waits_for() }] }))
}

async fn perform(
    State(served): State<Served>,
    Path((job, request)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> std::result::Result<Response, Problem> {
    if job != *served.name {
        return Err(not_found(&format!("there is no job `{job}` here: the job is `{}`", served.name)));
    }
    let kind = match &*request {
        "savepoints" => "savepoint",
        "stop" | "rescale" => &request,
        _ => return Err(not_found(&format!("a job cannot be asked to `{request}`: it takes savepoints, stop and rescale"))),
    };
    let failed = |error: Error| Problem::new(&error);
    let request = parse(kind, body).await.map_err(|error| Problem::with_status(StatusCode::BAD_REQUEST, "config", error.chain()))?;
    let key = headers.get(KEY).map(|key| key.to_str().map_err(|_| Error::config("a trigger id has only ASCII characters")));
    let outcome = submit(request, key.transpose().map_err(failed)?, &served.control, &served.place).await.map_err(failed)?;
    Ok(Json(outcome).into_response())
}

/// Reads the body of a request, whose kind the path says.
async fn parse(kind: &str, body: Body) -> Result<Request> {
    let Ok(read) = timeout(TO_ASK, to_bytes(body, MOST_BYTES)).await else {
        return Err(Error::config(format!("no request came within {} s", TO_ASK.as_secs())));
    };
    let bytes =
        read.map_err(|error| Error::config(format!("reading a request, which has at most {} KiB", MOST_BYTES >> 10)).caused_by(error))?;
    let wrong = |error: serde_json::Error| Error::config("this is no request that the job knows").caused_by(error);
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    let mut fields: serde_json::Map<String, Value> = serde_json::from_slice(text).map_err(wrong)?;
    if fields.insert("request".to_owned(), kind.into()).is_some() {
        return Err(Error::config("the path says what is asked, so the body has no field `request`"));
    }
    serde_json::from_value(Value::Object(fields)).map_err(wrong)
}

fn not_found(detail: &str) -> Problem {
    Problem::with_status(StatusCode::NOT_FOUND, "config", detail.to_owned())
}
