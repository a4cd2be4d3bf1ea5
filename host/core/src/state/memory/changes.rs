//! Which keys have changed since they were recorded last, and the record under way.

use super::MemoryState;
use super::bits::Bits;
use super::keys::{Keys, NONE};
use crate::Result;
use crate::key_group::KeyGroup;
use crate::state::Frozen;
use crate::state::journal::{Journal, Piece, Recording};

/// Up to so many keys are written at the barrier: that takes less time than files of their own.
pub(super) const FEW: usize = 1024;
/// How many keys are recorded in one turn. A turn processes about as many records.
const KEYS_PER_TURN: usize = 2048;
/// How many keys are loaded into the cache before they are recorded.
const WARM: usize = 64;
/// About how many bytes a piece has.
const PIECE: usize = 1 << 18;

/// What is to be recorded of the keys, by their places.
#[derive(Default)]
pub(super) struct Changes {
    /// Those that have changed since the last record began.
    changed: Bits,
    /// Those of which there is a record.
    recorded: Bits,
    /// Recorded ones that have gone since the last record began.
    gone: Piece,
    recording: Option<Pending>,
}

/// A record under way.
struct Pending {
    /// The keys that are still to be recorded.
    keys: Bits,
    /// Those before this place have been.
    next: u32,
    piece: Piece,
    take: Box<dyn FnMut(Piece) + Send>,
}

impl Changes {
    /// A key is about to change; returns whether it must be recorded before.
    #[inline]
    fn change(&mut self, id: u32) -> bool {
        self.changed.insert(id);
        self.recording.as_mut().is_some_and(|recording| recording.keys.remove(id))
    }

    /// A key has come to a place.
    #[inline]
    pub(super) fn came(&mut self, id: u32) {
        // It may be among those to be recorded if all places are.
        if let Some(recording) = &mut self.recording {
            recording.keys.remove(id);
        }
    }

    /// A key has gone.
    pub(super) fn went(&mut self, id: u32, group: KeyGroup, key: &[u8]) {
        self.changed.remove(id);
        if self.recorded.remove(id) {
            self.gone.push_gone(group, key);
        }
    }

    /// Begins to record: all places, or what has changed.
    fn begin(&mut self, whole: bool, places: usize, mut take: Box<dyn FnMut(Piece) + Send>) {
        let (changed, gone) = (std::mem::take(&mut self.changed), std::mem::take(&mut self.gone));
        let keys = if whole {
            self.recorded = Bits::default();
            Bits::below(places)
        } else {
            take(gone);
            changed
        };
        self.recording = Some(Pending { keys, next: 0, piece: Piece::default(), take });
    }

    /// Fills `into` with the next places to be recorded.
    fn next(&mut self, into: &mut [u32]) -> usize {
        let Some(recording) = &mut self.recording else { return 0 };
        let mut count = 0;
        for place in into {
            let Some(id) = recording.keys.take_from(recording.next) else { break };
            recording.next = id;
            *place = id;
            count += 1;
        }
        count
    }

    fn end(&mut self) {
        if let Some(Pending { mut piece, mut take, .. }) = self.recording.take() {
            piece.last = true;
            take(piece);
        }
    }
}

impl MemoryState {
    /// The same state, whose checkpoints go to a journal unless it is small.
    #[must_use]
    pub fn with_journal(mut self, journal: Box<dyn Journal>) -> Self {
        self.journal = Some(journal);
        self.keys.changes = Some(Box::default());
        self
    }

    /// Writes all state into files of its own from now on, however little there is.
    #[must_use]
    pub fn even_if_small(mut self) -> Self {
        self.few = 0;
        self
    }

    /// Begins to record the state as it is now.
    pub(super) fn begin_record(&mut self) -> Result<Option<Box<dyn Frozen>>> {
        if self.keys.slab.len() < self.few {
            return Ok(None);
        }
        self.end_record();
        let places = self.keys.slab.places();
        let Some((journal, changes)) = self.journal.as_mut().zip(self.keys.changes.as_mut()) else { return Ok(None) };
        let Recording { whole, take, frozen } = journal.begin()?;
        changes.begin(whole, places, take);
        Ok(Some(frozen))
    }

    /// Records some keys; returns whether more are to be.
    pub(super) fn record_some(&mut self) -> bool {
        self.record_up_to(KEYS_PER_TURN)
    }

    /// Records all that is to be.
    fn end_record(&mut self) {
        self.record_up_to(usize::MAX);
    }

    /// Records so many keys at most; returns whether more are to be.
    pub(super) fn record_up_to(&mut self, mut left: usize) -> bool {
        let mut ids = [NONE; WARM];
        while let Some(changes) = self.keys.changes.as_mut().filter(|changes| changes.recording.is_some()) {
            let most = left.min(WARM);
            if most == 0 {
                return true;
            }
            let count = changes.next(ids.get_mut(..most).unwrap_or_default());
            let ids = ids.get(..count).unwrap_or_default();
            self.keys.warm(ids.iter().copied());
            ids.iter().for_each(|id| self.record(*id));
            left -= count;
            if count < most
                && let Some(changes) = &mut self.keys.changes
            {
                changes.end();
            }
        }
        false
    }

    /// A key is about to change.
    #[inline]
    pub(super) fn changing(&mut self, id: u32) {
        if let Some(changes) = &mut self.keys.changes
            && id != NONE
            && changes.change(id)
        {
            self.record(id);
        }
    }

    /// All keys are about to change.
    pub(super) fn all_changing(&mut self) {
        if self.keys.changes.is_some() {
            self.end_record();
            let places = self.keys.slab.places();
            if let Some(changes) = &mut self.keys.changes {
                changes.changed = Bits::below(places);
            }
        }
    }

    fn record(&mut self, id: u32) {
        if self.key_at(id).is_none() {
            return;
        }
        let mut writer = std::mem::take(&mut self.writer);
        self.save(id, &mut writer);
        let Keys { slab, changes, .. } = &mut self.keys;
        if let Some((key, changes)) = slab.get(id).zip(changes.as_mut())
            && let Some(recording) = &mut changes.recording
        {
            changes.recorded.insert(id);
            recording.piece.push(key.group, key.bytes(), writer.content());
            if recording.piece.bytes() >= PIECE {
                (recording.take)(std::mem::take(&mut recording.piece));
            }
        }
        self.writer = writer;
    }
}
