//! Answers of detectors with one thing changed: the engine accepts or refuses them, and stays whole either way.
//!
//! Real calls are [recorded](record()), each with the state before it. A [trial](Trial) repeats such a call with a
//! [changed](change::change) answer and looks at what the operator makes of it.

pub mod change;
mod record;
mod replay;
mod trial;

pub use record::{Input, Recorded, record};
pub use trial::{Trial, Verdict};
