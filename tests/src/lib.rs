//! What whole-system tests share.

pub mod bench;
pub mod cli;
pub mod native;
pub mod sim;
pub mod sim_disk;
