//! The engine of Tidemill, pure: no files, no threads, no network, no WebAssembly and no clock of its own, so that whole jobs can be
//! simulated. In reading order, modules follow a record from its source to a sink.

pub mod error;
pub mod time;

pub mod batch;
pub mod key_group;
pub mod rate;
pub mod sample;
pub mod schema;

pub mod align;
pub mod detector;
pub mod drift;
pub mod effects;
pub mod exchange;
pub mod operator;
pub mod sink;
pub mod source;
pub mod state;
pub mod table;
pub mod watermark;

pub mod worker;

pub mod checkpoint;
pub mod disk;
pub mod job;

pub use error::{Error, Kind, Result};
pub use time::Timestamp;
