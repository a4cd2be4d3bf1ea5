//! The ordered store below the cache, and the keys of its rows.
//!
//! ```text
//! keys    group:u16, key                                lives_until:i64, content     content as in `state/layout.rs`
//! timers  domain:u8, time:i64, group:u16, key           nothing
//! ```
//! Numbers are big-endian, that of a time with its sign flipped, so that rows are in the order of what they stand for.

use tidemill_wit::columns::BlobsBuf;

use crate::Result;
use crate::detector::{Cells, KeyRef};
use crate::key_group::{KeyGroup, hash_key};
use crate::state::Frozen;
use crate::time::Domain;

/// The rows of one operator's subtask, in two spaces, in the order of their keys. What is put and deleted can be read once it is committed,
/// and may be before.
pub trait Rows: Send {
    /// Replaces `into` by the value of a row; returns whether there is one.
    ///
    /// # Errors
    /// The store cannot be read.
    fn get(&self, space: Space, key: &[u8], into: &mut Vec<u8>) -> Result<bool>;

    /// Replaces `into` by the values of some rows, whose keys ascend.
    ///
    /// # Errors
    /// The store cannot be read.
    fn get_many(&self, space: Space, keys: &BlobsBuf, into: &mut Cells) -> Result<()> {
        let mut row = Vec::new();
        into.clear();
        for key in keys.view().iter() {
            into.present.push(u8::from(self.get(space, key, &mut row)?));
            into.items.push(&row);
        }
        Ok(())
    }

    /// Puts a row.
    fn put(&mut self, layer: Layer, space: Space, key: &[u8], value: &[u8]);

    /// Removes a row.
    fn delete(&mut self, layer: Layer, space: Space, key: &[u8]);

    /// Makes what was put and deleted since the last call visible, as one unit.
    ///
    /// # Errors
    /// The store cannot be written.
    fn commit(&mut self) -> Result<()>;

    /// Takes in a row that was neither put nor loaded before, one of very many. It can be read after [`loaded`](Self::loaded).
    ///
    /// # Errors
    /// The store cannot be written.
    fn load(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(Layer::Live, space, key, value);
        Ok(())
    }

    /// Makes the loaded rows visible.
    ///
    /// # Errors
    /// The store cannot be written.
    fn loaded(&mut self) -> Result<()> {
        self.commit()
    }

    /// From now on until [`freeze`](Self::freeze), what is put and deleted in [`Layer::Live`] is not in what is frozen, and what is put and
    /// deleted in [`Layer::Held`] is hidden by it. Returns whether the store can be frozen: nothing is held otherwise.
    ///
    /// # Errors
    /// The store cannot be written.
    fn hold(&mut self) -> Result<bool>;

    /// Whether it is better not to put more for now: what was put is still being written to disk, and takes memory meanwhile.
    fn is_behind(&self) -> bool;

    /// Whether the store is to be frozen before more is put: there is no more room.
    fn is_full(&self) -> bool;

    /// The rows of a store that is held, as files. They may be made while more is put, which is not in them. `None` if it is not held.
    ///
    /// # Errors
    /// The store cannot be written.
    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>>;

    /// Passes the rows from `from` (inclusive) on, until `each` returns false.
    ///
    /// # Errors
    /// The store cannot be read.
    fn scan(&self, space: Space, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()>;
}

/// To what a change of a row belongs while a store is held; otherwise both are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// To what is to be frozen.
    Held,
    /// To what has come since.
    Live,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// A key with all its content.
    Keys,
    /// A timer, so that they can be found by time.
    Timers,
}

/// Makes the row key of a key.
pub(super) fn key_row(group: KeyGroup, key: &[u8], into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(&group.0.to_be_bytes());
    into.extend_from_slice(key);
}

/// Takes the row key of a key apart.
pub(super) fn key_of(row: &[u8]) -> Option<KeyRef<'_>> {
    let (group, bytes) = row.split_first_chunk()?;
    Some(KeyRef { bytes, hash: hash_key(bytes), group: KeyGroup(u16::from_be_bytes(*group)) })
}

/// Makes the row key of a timer.
pub(super) fn timer_row(domain: Domain, time: i64, group: KeyGroup, key: &[u8], into: &mut Vec<u8>) {
    into.clear();
    into.push(domain as u8);
    into.extend_from_slice(&(time ^ i64::MIN).to_be_bytes());
    into.extend_from_slice(&group.0.to_be_bytes());
    into.extend_from_slice(key);
}

/// Takes the row key of a timer of this domain apart.
pub(super) fn timer_of(domain: Domain, row: &[u8]) -> Option<(i64, KeyRef<'_>)> {
    let (_, rest) = row.split_first().filter(|(first, _)| **first == domain as u8)?;
    let (time, key) = rest.split_first_chunk()?;
    Some((i64::from_be_bytes(*time) ^ i64::MIN, key_of(key)?))
}
