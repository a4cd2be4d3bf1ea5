//! Writes the bytes of one key group.

use xxhash_rust::xxh3::xxh3_64;

use super::{CONTENT, END_OF_STATES, Form, STAMPED, TOMBSTONE, VERSION};
use crate::key_group::KeyGroup;

/// Writes the bytes of one key group after the other, reusing its buffer. The caller calls in the order of the layout.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    keys: u32,
}

impl Writer {
    /// Begins a key group.
    pub fn begin(&mut self, group: KeyGroup) {
        self.keys = 0;
        self.bytes.clear();
        self.bytes.push(VERSION);
        self.bytes.extend_from_slice(&group.0.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
    }

    /// Begins a key; its states and then its [`timers`](Self::timers) follow.
    pub fn key(&mut self, key: &[u8]) {
        self.keys += 1;
        self.bytes.push(CONTENT);
        self.blob(key);
    }

    /// Begins the content of a key that stands for itself; its states and then its [`timers`](Self::timers) follow.
    pub(in crate::state) fn begin_key(&mut self) {
        self.bytes.clear();
    }

    /// What was written since [`begin_key`](Self::begin_key).
    pub(in crate::state) fn content(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes a key with its content as it was written before.
    pub(in crate::state) fn key_with(&mut self, key: &[u8], content: &[u8]) {
        self.key(key);
        self.bytes.extend_from_slice(content);
    }

    /// Writes that a key is gone.
    pub fn tombstone(&mut self, key: &[u8]) {
        self.keys += 1;
        self.bytes.push(TOMBSTONE);
        self.blob(key);
    }

    /// Writes a value.
    pub fn value(&mut self, state: u8, stamp: Option<i64>, value: &[u8]) {
        self.tag(state, Form::Value, stamp.is_some());
        self.element(stamp, value);
    }

    /// Begins a list or map; `count` times [`element`](Self::element) or [`entry`](Self::entry) follow.
    pub fn entries(&mut self, state: u8, form: Form, stamped: bool, count: usize) {
        self.tag(state, form, stamped);
        self.varint(count);
    }

    /// Writes a list element.
    pub fn element(&mut self, stamp: Option<i64>, value: &[u8]) {
        if let Some(stamp) = stamp {
            self.bytes.extend_from_slice(&stamp.to_le_bytes());
        }
        self.blob(value);
    }

    /// Writes a map entry.
    pub fn entry(&mut self, stamp: Option<i64>, key: &[u8], value: &[u8]) {
        if let Some(stamp) = stamp {
            self.bytes.extend_from_slice(&stamp.to_le_bytes());
        }
        self.blob(key);
        self.blob(value);
    }

    /// Ends a key with its timers, each list ascending.
    pub fn timers(&mut self, event: &[i64], processing: &[i64]) {
        self.timers_from(event.iter().copied(), processing.iter().copied());
    }

    /// The same with times that do not lie side by side.
    pub(in crate::state) fn timers_from(
        &mut self,
        event: impl ExactSizeIterator<Item = i64>,
        processing: impl ExactSizeIterator<Item = i64>,
    ) {
        self.bytes.push(END_OF_STATES);
        self.times(event);
        self.times(processing);
    }

    fn times(&mut self, times: impl ExactSizeIterator<Item = i64>) {
        self.varint(times.len());
        times.for_each(|time| self.bytes.extend_from_slice(&time.to_le_bytes()));
    }

    /// Ends the key group and returns its bytes.
    pub fn finish(&mut self) -> &[u8] {
        if let Some(keys) = self.bytes.get_mut(3..7) {
            keys.copy_from_slice(&self.keys.to_le_bytes());
        }
        let checksum = xxh3_64(&self.bytes);
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
        &self.bytes
    }

    fn tag(&mut self, state: u8, form: Form, stamped: bool) {
        self.bytes.extend_from_slice(&[form as u8 | if stamped { STAMPED } else { 0 }, state]);
    }

    fn blob(&mut self, bytes: &[u8]) {
        self.varint(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    #[expect(clippy::cast_possible_truncation, reason = "cut to seven bits first")]
    fn varint(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}
