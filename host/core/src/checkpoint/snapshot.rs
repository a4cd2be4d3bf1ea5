//! stub
#![allow(missing_docs)]
use crate::Timestamp;
use crate::key_group::KeyGroup;
#[derive(Default)]
pub struct SnapshotWriter;
impl SnapshotWriter {
    pub fn new(_: u64, _: u32) -> Self {
        Self
    }
    pub fn operator(&mut self, _: &str, _: Option<Timestamp>) {}
    pub fn group(&mut self, _: KeyGroup, _: &[u8]) {}
    pub fn finish(self) -> Vec<u8> {
        vec![]
    }
}
