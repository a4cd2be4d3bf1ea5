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
    /// Those that have changed since the last record began, or since they were written otherwise.
    changed: Bits,
    /// Those of which there is a record. Only kept if somebody takes them in, since only then the others are not in the record.
    recorded: Bits,
    /// Recorded ones that have gone since the last record began.
    gone: Piece,
    recording: Option<Pending>,
    /// What has been recorded and not been taken.
    piece: Piece,
}

/// A record under way.
struct Pending {
    /// The keys that are still to be recorded.
    keys: Bits,
    /// Those before this place have been.
    next: u32,
    /// Who takes pieces in; nobody: they are asked for.
    take: Option<Box<dyn FnMut(Piece) + Send>>,
}

impl Changes {
    /// A key is about to change; returns whether it must be recorded before.
    #[inline]
    fn change(&mut self, id: u32) -> bool {
        self.changed.insert(id);
        self.keep(id)
    }

    /// A key is about to be no longer what it was; returns whether it must be recorded before.
    #[inline]
    fn keep(&mut self, id: u32) -> bool {
        self.recording.as_mut().is_some_and(|recording| recording.keys.remove(id))
    }

    /// A key has come to a place.
    #[inline]
    pub(super) fn came(&mut self, id: u32) {
        // It may be among those to be recorded if all places are.
        self.keep(id);
    }

    /// A key has gone.
    pub(super) fn went(&mut self, id: u32, group: KeyGroup, key: &[u8]) {
        self.changed.remove(id);
        if self.recorded.remove(id) {
            self.gone.push_gone(group, key);
        }
    }

    /// Begins to record what has changed, or, to be taken in, all places.
    fn begin(&mut self, whole: Option<usize>, mut take: Option<Box<dyn FnMut(Piece) + Send>>) {
        let (changed, gone) = (std::mem::take(&mut self.changed), std::mem::take(&mut self.gone));
        let keys = if let Some(places) = whole {
            self.recorded = Bits::default();
            Bits::below(places)
        } else {
            take.iter_mut().zip(Some(gone)).for_each(|(take, gone)| take(gone));
            changed
        };
        self.recording = Some(Pending { keys, next: 0, take });
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

    fn record(&mut self, id: u32, group: KeyGroup, key: &[u8], content: &[u8]) {
        self.piece.push(id, group, key, content);
        if let Some(take) = self.recording.as_mut().and_then(|recording| recording.take.as_mut()) {
            self.recorded.insert(id);
            if self.piece.bytes() >= PIECE {
                take(std::mem::take(&mut self.piece));
            }
        }
    }

    fn end(&mut self) {
        if let Some(take) = self.recording.take().and_then(|recording| recording.take) {
            end_with(std::mem::take(&mut self.piece), take);
        }
    }
}

fn end_with(mut piece: Piece, mut take: Box<dyn FnMut(Piece) + Send>) {
    piece.last = true;
    take(piece);
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

    /// Notes from now on which keys change, for [`hold`](Self::hold).
    pub(in crate::state) fn track_changes(&mut self) {
        self.keys.changes = Some(Box::default());
    }

    /// Whether a key has changed since it was settled, or since the last record began.
    pub(in crate::state) fn is_changed(&self, id: u32) -> bool {
        self.keys.changes.as_ref().is_some_and(|changes| changes.changed.contains(id))
    }

    /// A key has been written as it is.
    pub(in crate::state) fn settle(&mut self, id: u32) {
        if let Some(changes) = &mut self.keys.changes {
            changes.changed.remove(id);
        }
    }

    /// The first key at or after a place that has changed; it counts as written from now on.
    pub(in crate::state) fn settle_next(&mut self, from: u32) -> Option<u32> {
        self.keys.changes.as_mut()?.changed.take_from(from)
    }

    /// Begins to record the keys that have changed, as they are now. What has been recorded is to be asked for.
    pub(in crate::state) fn hold(&mut self) {
        if let Some(changes) = &mut self.keys.changes {
            changes.begin(None, None);
        }
    }

    /// Records a key now if it is still to be recorded.
    pub(in crate::state) fn keep(&mut self, id: u32) {
        if self.keys.changes.as_mut().is_some_and(|changes| changes.keep(id)) {
            self.record(id);
        }
    }

    /// Exchanges an empty piece for what has been recorded; returns whether that is anything.
    pub(in crate::state) fn take_recorded(&mut self, into: &mut Piece) -> bool {
        match &mut self.keys.changes {
            Some(changes) if !changes.piece.is_empty() => {
                std::mem::swap(&mut changes.piece, into);
                true
            }
            _ => false,
        }
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
        changes.begin(whole.then_some(places), Some(take));
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
    pub(in crate::state) fn record_up_to(&mut self, mut left: usize) -> bool {
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
    pub(in crate::state) fn changing(&mut self, id: u32) {
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
        if let Some((key, changes)) = slab.get(id).zip(changes.as_mut()) {
            changes.record(id, key.group, key.bytes(), writer.content());
        }
        self.writer = writer;
    }
}
