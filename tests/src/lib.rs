//! What whole-system tests share.

pub mod sim_disk;
