//! What can be asked of a running job.

pub mod request;

pub use request::{Outcome, Request};
