//! Tidemill binds the engine to the world: job specs, WebAssembly guests, formats, files, checkpoint storage and the life of a job.

pub mod cli;
pub mod clock;
pub mod codec;
pub mod disk;
mod guarded;
pub mod guest;
mod machine;
pub mod runtime;
pub mod savepoint;
pub mod scenario;
pub mod side_by_side;
pub mod sink;
pub mod source;
pub mod spec;
pub mod state;
pub mod store;
