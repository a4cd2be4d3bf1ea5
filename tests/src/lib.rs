//! What whole-system tests share.

pub mod answers;
pub mod bench;
pub mod cli;
pub mod model;
pub use tidemill_sdk::testing::native;
pub mod program;
pub mod sim;
pub mod sim_disk;
pub mod small_disk;
pub mod stored;
pub mod witness;
