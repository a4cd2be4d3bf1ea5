//! State larger than memory: keys in use are held as [`MemoryState`] holds them, all others are rows of an ordered store.
//!
//! A key goes as a whole. It is *in use* from when a batch names it until the memory is needed for others; then it is *put away*: only its
//! row remains, and a row for each of its timers. So a key in use costs what it costs in memory, and every rule about content, TTL and
//! order is that of one implementation. Keys that were changed are written to the store after the next barrier, as they were at it, while
//! records flow. Rows of keys in use may be out of date: whoever reads rows asks first whether the key is in use.

mod away;
mod barrier;
mod bring;
mod bulk;
mod note;
mod pool;
mod rows;
mod staged;
mod summary;
mod sweep;
mod timers;
mod write;

use tidemill_wit::descriptor::{StateDescriptor, timer_op};

use self::barrier::Held;
use self::bring::Missing;
use self::note::{MOST_USES, Note};
use self::pool::Share;
use self::staged::Staged;
use self::timers::Away;
use super::journal::Piece;
use super::layout::{Item, Reader, Writer};
use super::memory::MemoryState;
use super::{DueTimers, Frozen, GroupSource, KeyedState, Scan};
use crate::Result;
use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::effects::{TimerOps, Writes};
use crate::key_group::{KeyGroup, hash_key};
use crate::time::{Domain, Timestamp};

pub use self::pool::Pool;
pub use self::rows::{Layer, Rows, Space};
pub use self::summary::can_go_on;
pub use self::write::pass_groups;

/// The state and timers of one subtask, of which those in use are in memory.
pub struct CachedState<R> {
    states: Vec<StateDescriptor>,
    /// The keys in use.
    memory: MemoryState,
    /// About the keys in use, by their places in memory.
    notes: Vec<Note>,
    rows: R,
    /// What is to be written to the rows.
    staged: Staged,
    share: Share,
    /// The barrier that keys are still being written for.
    held: Option<Held>,
    /// Those that have been recorded for it and are to be written.
    recorded: Piece,
    now: Timestamp,
    /// How many keys are put away.
    away: u64,
    /// By [`Domain`]: the timers of keys that are put away.
    timers: [Away; 2],
    /// The place that the clock hand points to.
    hand: u32,
    sweep: sweep::Cursor,
    /// Whether content was restored that is subject to a TTL from when it is first seen.
    unseen: bool,
    /// Whether the keys of the last batch that were not in use have been looked for.
    looked: bool,
    missing: Missing,
    row_key: Vec<u8>,
    row: Vec<u8>,
    writer: Writer,
}

impl<R: Rows> CachedState<R> {
    /// Empty state over an empty store.
    #[must_use]
    pub fn new(states: &[StateDescriptor], rows: R, pool: &Pool) -> Self {
        let mut memory = MemoryState::new(states);
        memory.note_removed();
        memory.track_changes();
        Self {
            states: states.to_vec(),
            memory,
            notes: Vec::new(),
            rows,
            staged: Staged::default(),
            share: pool.join(),
            held: None,
            recorded: Piece::default(),
            now: Timestamp::MIN,
            away: 0,
            timers: Domain::ALL.map(Away::new),
            hand: 0,
            sweep: sweep::Cursor::default(),
            unseen: false,
            looked: false,
            missing: Missing::default(),
            row_key: Vec::new(),
            row: Vec::new(),
            writer: Writer::default(),
        }
    }

    /// Notes which keys of a batch are used again.
    fn note_uses(&mut self, slots: &SlotKeys) {
        self.memory.find_slots(slots);
        for slot in (0..).take(slots.len()) {
            if let Some(note) = self.memory.place(slot).and_then(|id| self.notes.get_mut(id as usize)) {
                note.uses = (note.uses + 1).min(MOST_USES);
            }
        }
    }

    /// What must follow every change: rows of keys that have vanished go, some keys are put away.
    fn after_change(&mut self) -> Result<()> {
        self.forget_removed()?;
        self.put_away()?;
        self.commit()?;
        if self.held.is_some() && self.rows.is_full() {
            self.write_held()?;
        }
        self.find_heads()
    }

    fn note_writes(&mut self, writes: &Writes, timers: &TimerOps) {
        for &slot in writes.slot.iter().chain(&timers.slot) {
            if let Some(id) = self.memory.place(slot) {
                self.resize(id);
            }
        }
        let rows = timers.op.iter().zip(&timers.domain).zip(&timers.slot).zip(&timers.timestamp);
        for (((&op, &domain), &slot), &time) in rows {
            let Some((domain, id)) = Domain::from_code(domain).zip(self.memory.place(slot)) else { continue };
            let Some(note) = self.notes.get_mut(id as usize) else { continue };
            if op == timer_op::REGISTER { note.timers.register(domain, time) } else { note.timers.delete(domain, time) }
        }
    }

    /// The same as a state that holds only one key, for reads of keys that no batch has named.
    fn alone(&self, key: KeyRef<'_>) -> Result<Option<MemoryState>> {
        let (mut row_key, mut row) = (Vec::new(), Vec::new());
        rows::key_row(key.group, key.bytes, &mut row_key);
        if self.away == 0 || !self.rows.get(Space::Keys, &row_key, &mut row)? {
            return Ok(None);
        }
        let mut alone = MemoryState::new(&self.states);
        alone.load(key, away::content(&row)?.1, None, &mut |_, _| {})?;
        Ok(Some(alone))
    }

    /// Brings the keys into use that bytes to be restored name, so that they can be replaced.
    fn bring_named(&mut self, group: KeyGroup, bytes: &[u8]) -> Result<()> {
        let mut reader = Reader::new(group, bytes)?;
        while let Some(item) = reader.next()? {
            if self.away == 0 {
                continue;
            }
            if let Item::Key(bytes) | Item::Tombstone(bytes) = item {
                let key = KeyRef { bytes, hash: hash_key(bytes), group };
                self.load(key)?;
            }
        }
        Ok(())
    }

    /// Notes what was restored.
    fn note_restored(&mut self, group: KeyGroup, bytes: &[u8]) -> Result<()> {
        let mut reader = Reader::new(group, bytes)?;
        let mut id = None;
        while let Some(item) = reader.next()? {
            match item {
                Item::Key(bytes) => {
                    id = self.memory.find(KeyRef { bytes, hash: hash_key(bytes), group });
                    id.into_iter().for_each(|id| self.resize(id));
                }
                Item::Timer(domain, time) => {
                    if let Some(note) = id.and_then(|id| self.notes.get_mut(id as usize)) {
                        note.timers.register(domain, time);
                    }
                }
                Item::Tombstone(_) | Item::Entry(_) => {}
            }
        }
        Ok(())
    }
}

impl<R: Rows> KeyedState for CachedState<R> {
    fn prefetch(&mut self, slots: &SlotKeys, now: Timestamp, into: &mut Prefetched) -> Result<()> {
        self.see(now)?;
        self.looked = false;
        self.note_uses(slots);
        self.bring(slots)?;
        self.memory.copy(slots, now, into);
        self.forget_removed()?;
        self.commit()?;
        self.find_heads()
    }

    fn get_entry(&self, key: KeyRef<'_>, state: u8, entry: &[u8], now: Timestamp, into: &mut Vec<u8>) -> Result<bool> {
        if self.memory.find(key).is_some() {
            return self.memory.get_entry(key, state, entry, now, into);
        }
        self.alone(key)?.map_or(Ok(false), |alone| alone.get_entry(key, state, entry, now, into))
    }

    fn scan_entries(&self, scan: &Scan<'_>, now: Timestamp, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        if self.memory.find(scan.key).is_some() {
            return self.memory.scan_entries(scan, now, found);
        }
        self.alone(scan.key)?.map_or(Ok(()), |alone| alone.scan_entries(scan, now, found))
    }

    fn apply(&mut self, slots: &SlotKeys, writes: &Writes, timers: &TimerOps, now: Timestamp) -> Result<()> {
        self.now = now;
        self.see(now)?;
        self.bring(slots)?;
        self.memory.apply(slots, writes, timers, now)?;
        self.forget_removed()?;
        self.memory.find_slots(slots);
        self.note_writes(writes, timers);
        self.looked = false;
        self.after_change()
    }

    fn due_timers(&mut self, domain: Domain, horizon: Timestamp, limit: usize, into: &mut DueTimers) -> Result<()> {
        self.bring_due(domain, horizon, limit)?;
        self.memory.due_timers(domain, horizon, limit, into)
    }

    fn remove_timers(&mut self, domain: Domain, due: &DueTimers, count: usize) -> Result<()> {
        self.bring(&due.slots)?;
        self.memory.remove_timers(domain, due, count)?;
        self.forget_removed()?;
        self.memory.find_slots(&due.slots);
        for (&slot, &time) in due.slot.iter().zip(&due.timestamp).take(count) {
            let Some(id) = self.memory.place(slot) else { continue };
            self.resize(id);
            if let Some(note) = self.notes.get_mut(id as usize) {
                note.timers.delete(domain, time);
            }
        }
        // The writes of the call follow, to the same keys.
        self.commit()?;
        self.find_heads()
    }

    fn next_timer(&self, domain: Domain) -> Option<Timestamp> {
        let in_use = self.memory.next_timer(domain);
        let away = self.away_of(domain).next();
        in_use.into_iter().chain(away).min()
    }

    fn timer_count(&self, domain: Domain) -> u64 {
        self.memory.timer_count(domain) + self.away_of(domain).count
    }

    fn key_count(&self) -> u64 {
        self.memory.key_count() + self.away
    }

    fn expire(&mut self, now: Timestamp) -> Result<()> {
        if !self.memory.expires() {
            return Ok(());
        }
        self.see(now)?;
        self.memory.expire(now)?;
        self.forget_removed()?;
        self.sweep_away(now)?;
        self.after_change()
    }

    fn snapshot(&mut self, into: &mut dyn FnMut(KeyGroup, &[u8])) -> Result<()> {
        self.write_held()?;
        self.write_all()?;
        pass_groups(&self.rows, 0..u32::MAX, &mut |group, bytes| {
            into(group, bytes);
            Ok(())
        })
    }

    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>> {
        self.hold()
    }

    fn go_on_freezing(&mut self) -> Result<bool> {
        self.write_some_held()
    }

    fn restore(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        self.looked = false;
        self.write_held()?;
        self.bring_named(group, bytes)?;
        self.memory.restore(group, bytes, states)?;
        self.forget_removed()?;
        self.note_restored(group, bytes)?;
        self.unseen |= self.memory.has_unseen();
        self.after_change()
    }

    fn restore_all(&mut self, source: GroupSource<'_>, states: &[Option<u8>]) -> Result<()> {
        self.write_held()?;
        self.load_all(source, states)
    }
}

#[cfg(test)]
mod tests;
