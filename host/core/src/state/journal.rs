//! State in memory whose checkpoints cost what has changed: at a barrier it only notes which keys those are, and hands them over piece by
//! piece while records flow. A key that changes again before its turn is handed over first, as it was at the barrier.

use crate::Result;
use crate::key_group::KeyGroup;
use crate::state::Frozen;
use crate::state::layout::Writer;

/// Where the changes of one subtask's state go.
pub trait Journal: Send {
    /// Begins to record the state as it is at a barrier.
    ///
    /// # Errors
    /// Nothing can be recorded.
    fn begin(&mut self) -> Result<Recording>;
}

/// The record of the state at one barrier, in the making.
pub struct Recording {
    /// Whether it must hold all keys, because those recorded before are not to be had any more.
    pub whole: bool,
    /// Takes the pieces. The record is whole after one that is the last.
    pub take: Box<dyn FnMut(Piece) + Send>,
    /// The state at the barrier, once it is recorded.
    pub frozen: Box<dyn Frozen>,
}

/// Some keys as they were at a barrier, in no order.
#[derive(Debug, Default)]
pub struct Piece {
    bytes: Vec<u8>,
    keys: Vec<Recorded>,
    /// Whether no other follows.
    pub last: bool,
}

/// A key with its content, which lies after it; or one that is gone.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    place: u32,
    group: KeyGroup,
    is_there: bool,
    start: usize,
    middle: usize,
    end: usize,
}

impl Piece {
    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.keys.clear();
    }

    /// The keys with the places at which they were, their groups and their contents.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, KeyGroup, &[u8], &[u8])> {
        self.keys.iter().map(|key| (key.place, key.group, self.key(key), self.content(key)))
    }

    /// Adds a key with its content.
    pub(super) fn push(&mut self, place: u32, group: KeyGroup, key: &[u8], content: &[u8]) {
        self.add(place, group, true, key, content);
    }

    /// Adds a key that is gone.
    pub(super) fn push_gone(&mut self, group: KeyGroup, key: &[u8]) {
        self.add(u32::MAX, group, false, key, &[]);
    }

    fn add(&mut self, place: u32, group: KeyGroup, is_there: bool, key: &[u8], content: &[u8]) {
        let start = self.bytes.len();
        let middle = start + key.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(content);
        self.keys.push(Recorded { place, group, is_there, start, middle, end: self.bytes.len() });
    }

    fn content(&self, recorded: &Recorded) -> &[u8] {
        self.bytes.get(recorded.middle..recorded.end).unwrap_or_default()
    }

    fn key(&self, recorded: &Recorded) -> &[u8] {
        self.bytes.get(recorded.start..recorded.middle).unwrap_or_default()
    }
}

/// Passes the keys of all pieces of a record on by key groups in ascending order, in the layout of `state/layout.rs`. What came later
/// counts.
///
/// # Errors
/// Those of `each`.
pub fn pass_pieces(pieces: &[Piece], each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
    let mut all: Vec<(&Piece, &Recorded)> = pieces.iter().flat_map(|piece| piece.keys.iter().map(move |key| (piece, key))).collect();
    // Stable: what came later stays later.
    all.sort_by(|(a_piece, a), (b_piece, b)| (a.group, a_piece.key(a)).cmp(&(b.group, b_piece.key(b))));
    let mut writer = Writer::default();
    for of_group in all.chunk_by(|(_, a), (_, b)| a.group == b.group) {
        let Some(group) = of_group.first().map(|(_, recorded)| recorded.group) else { continue };
        writer.begin(group);
        for of_key in of_group.chunk_by(|(a_piece, a), (b_piece, b)| a_piece.key(a) == b_piece.key(b)) {
            let Some((piece, recorded)) = of_key.last() else { continue };
            if recorded.is_there {
                writer.key_with(piece.key(recorded), piece.content(recorded));
            } else {
                writer.tombstone(piece.key(recorded));
            }
        }
        each(group, writer.finish())?;
    }
    Ok(())
}
