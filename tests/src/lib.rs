//! What whole-system tests share.

pub mod cli;
pub mod sim_disk;
