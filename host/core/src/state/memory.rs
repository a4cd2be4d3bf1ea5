//! State in memory, laid out by key: a batch finds each of its keys once, and all states of a key lie together.
//!
//! Small content lies in the key's [`block`], large content ([`large`]) in places of its own. Cache misses cost more than everything else
//! here, so a batch first finds the places of all its keys, then loads them, and only then looks at one after the other.

mod bits;
mod block;
mod cell;
mod changes;
mod expire;
mod keys;
mod large;
mod order;
mod own_timers;
mod places;
mod read;
mod row;
mod shape;
mod slab;
mod snapshot;
mod timers;

use tidemill_wit::descriptor::{StateDescriptor, timer_op, write_op};

use self::block::LARGE;
use self::cell::CellMut;
use self::changes::FEW;
use self::expire::Sweep;
pub(super) use self::keys::Key;
use self::keys::{Keys, NONE};
use self::large::Large;
use self::places::Places;
use self::read::CellRef;
use self::shape::Shape;
use self::slab::Slab;
use self::timers::Timers;
use super::journal::Journal;
use super::layout::{Form, Writer};
use super::{DueTimers, Frozen, KeyedState, Scan, StateBackend};
use crate::Result;
use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::effects::{TimerOps, Writes};
use crate::key_group::KeyGroup;
use crate::time::{Domain, Timestamp};

/// Keeps state in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryBackend;

/// The state and timers of one subtask in memory.
pub struct MemoryState {
    shapes: Vec<Shape>,
    keys: Keys,
    larges: Slab<Large>,
    /// By [`Domain`].
    timers: [Timers; 2],
    places: Places,
    /// Keys that may have nothing left.
    emptied: Vec<u32>,
    sweep: Sweep,
    /// Whether content was restored that is subject to a TTL from when it is first seen.
    unseen: bool,
    /// Where changes are recorded, unless the keys are fewer than `few`.
    journal: Option<Box<dyn Journal>>,
    few: usize,
    writer: Writer,
}

impl StateBackend for MemoryBackend {
    fn open(&self, _operator: &str, _subtask: u32, states: &[StateDescriptor]) -> Result<Box<dyn KeyedState>> {
        Ok(Box::new(MemoryState::new(states)))
    }
}

impl KeyedState for MemoryState {
    fn prefetch(&mut self, slots: &SlotKeys, now: Timestamp, into: &mut Prefetched) -> Result<()> {
        self.first_seen(now);
        self.places.find(slots, &self.keys);
        self.copy_found(slots, now, into);
        Ok(())
    }

    fn get_entry(&self, key: KeyRef<'_>, state: u8, entry: &[u8], now: Timestamp, into: &mut Vec<u8>) -> Result<bool> {
        let found = self.cell(key, state).filter(|cell| cell.shape.form != Form::Value).and_then(|cell| cell.get(entry, now));
        into.extend_from_slice(found.unwrap_or(&[]));
        Ok(found.is_some())
    }

    fn scan_entries(&self, scan: &Scan<'_>, now: Timestamp, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        if let Some(cell) = self.cell(scan.key, scan.state) {
            cell.scan(scan, now, found);
        }
        Ok(())
    }

    fn apply(&mut self, slots: &SlotKeys, writes: &Writes, timers: &TimerOps, now: Timestamp) -> Result<()> {
        self.first_seen(now);
        self.places.ensure(slots, &self.keys);
        self.apply_writes(slots, writes, now);
        self.apply_timers(slots, timers);
        self.remove_emptied();
        Ok(())
    }

    fn due_timers(&mut self, domain: Domain, horizon: Timestamp, limit: usize, into: &mut DueTimers) -> Result<()> {
        let [event, processing] = &mut self.timers;
        let timers = if domain == Domain::Event { event } else { processing };
        timers.due(horizon, limit, &self.keys, into);
        Ok(())
    }

    fn remove_timers(&mut self, domain: Domain, due: &DueTimers, count: usize) -> Result<()> {
        self.places.ensure(&due.slots, &self.keys);
        for (&slot, &time) in due.slot.iter().zip(&due.timestamp).take(count) {
            let id = self.places.get(slot);
            self.delete(domain, time, id);
            if self.keys.remove_if_empty(id) {
                self.places.set(slot, NONE);
            }
        }
        Ok(())
    }

    fn next_timer(&self, domain: Domain) -> Option<Timestamp> {
        self.timers_of(domain).next()
    }

    fn timer_count(&self, domain: Domain) -> u64 {
        self.timers_of(domain).len() as u64
    }

    fn key_count(&self) -> u64 {
        self.keys.slab.len() as u64
    }

    fn expire(&mut self, now: Timestamp) -> Result<()> {
        self.first_seen(now);
        self.sweep(now);
        Ok(())
    }

    fn snapshot(&mut self, into: &mut dyn FnMut(KeyGroup, &[u8])) -> Result<()> {
        self.write_snapshot(into);
        Ok(())
    }

    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>> {
        self.begin_record()
    }

    fn go_on_freezing(&mut self) -> bool {
        self.record_some()
    }

    fn restore(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        self.read_snapshot(group, bytes, states)
    }
}

impl MemoryState {
    /// Empty state for these descriptors.
    #[must_use]
    pub fn new(states: &[StateDescriptor]) -> Self {
        Self {
            shapes: Shape::all(states),
            keys: Keys::new(states.len()),
            larges: Slab::default(),
            timers: Default::default(),
            places: Places::default(),
            emptied: Vec::new(),
            sweep: Sweep::default(),
            unseen: false,
            journal: None,
            few: FEW,
            writer: Writer::default(),
        }
    }

    /// Fills the columns, once the places of the keys are found.
    pub(super) fn copy_found(&mut self, slots: &SlotKeys, now: Timestamp, into: &mut Prefetched) {
        into.clear();
        let entries = self.shapes.iter().filter(|shape| shape.form != Form::Value).count();
        into.entries.resize_with(entries, Default::default);
        into.values.resize_with(self.shapes.len() - entries, Default::default);
        for slot in (0..).take(slots.len()) {
            self.copy_key(self.places.get(slot), now, into);
        }
        self.remove_emptied();
    }

    /// Adds the cells of the key at a place to the columns.
    fn copy_key(&mut self, id: u32, now: Timestamp, into: &mut Prefetched) {
        if self.keys.changes.is_some() && self.may_trim(id) {
            self.changing(id);
        }
        let Self { shapes, keys, larges, emptied, .. } = self;
        let Some(block) = keys.slab.get_mut(id).map(|key| &mut key.block) else { return copy_nothing(into) };
        let mut cell = block.first_cell();
        for (state, &shape) in shapes.iter().enumerate() {
            if cell.count == LARGE && shape.stamped() {
                CellMut { block, larges, state, shape, stamp: now.0, life: shape.life(now) }.trim();
                emptied.push(id);
                cell = block.cell(state);
            }
            let read = CellRef { block, larges, cell, shape };
            if shape.form == Form::Value {
                if let Some(column) = into.values.get_mut(shape.column) {
                    read.copy_value(now, column);
                }
            } else if let Some(column) = into.entries.get_mut(shape.column) {
                read.copy_entries(now, column);
            }
            cell = block.cell_after(cell);
        }
    }

    /// Whether a look at the key may remove what has expired.
    fn may_trim(&self, id: u32) -> bool {
        let Some(block) = self.keys.slab.get(id).map(|key| &key.block).filter(|block| !block.is_free()) else { return false };
        self.shapes.iter().enumerate().any(|(state, shape)| shape.stamped() && block.cell(state).count == LARGE)
    }

    fn apply_writes(&mut self, slots: &SlotKeys, writes: &Writes, now: Timestamp) {
        let (entries, values) = (writes.entry.view(), writes.value.view());
        let rows = writes.op.iter().zip(&writes.state).zip(&writes.slot).zip(entries.iter()).zip(values.iter());
        for ((((&op, &state), &slot), entry), value) in rows {
            let adds = matches!(op, write_op::PUT | write_op::PUT_ENTRY | write_op::APPEND);
            let id = if adds { self.place_or_insert(slots, slot) } else { self.places.get(slot) };
            let Some(mut cell) = self.cell_mut(id, usize::from(state), now) else { continue };
            let lives_until = cell.life.end_of(now.0);
            match op {
                write_op::PUT => cell.put(value),
                write_op::PUT_ENTRY => cell.put_entry(entry, value),
                write_op::APPEND => cell.append(value),
                write_op::TOUCH => cell.touch(entry),
                write_op::CLEAR => cell.clear(),
                write_op::REMOVE_ENTRY => cell.remove_entry(entry),
                _ => {}
            }
            if matches!(op, write_op::CLEAR | write_op::REMOVE_ENTRY) {
                self.emptied.push(id);
            } else if lives_until < i64::MAX {
                self.keys.shorten(id, lives_until);
            }
        }
    }

    fn apply_timers(&mut self, slots: &SlotKeys, timers: &TimerOps) {
        let rows = timers.op.iter().zip(&timers.domain).zip(&timers.slot).zip(&timers.timestamp);
        for (((&op, &domain), &slot), &time) in rows {
            let Some(domain) = Domain::from_code(domain) else { continue };
            if op == timer_op::REGISTER {
                let id = self.place_or_insert(slots, slot);
                self.register(domain, time, id);
            } else {
                let id = self.places.get(slot);
                self.delete(domain, time, id);
                self.emptied.push(id);
            }
        }
    }

    fn remove_emptied(&mut self) {
        let Self { keys, emptied, places, .. } = self;
        for id in emptied.drain(..) {
            if keys.remove_if_empty(id) {
                places.forget();
            }
        }
    }

    fn register(&mut self, domain: Domain, time: i64, id: u32) {
        self.changing(id);
        let Some(key) = self.keys.slab.get_mut(id) else { return };
        let [event, processing] = &mut self.timers;
        let timers = if domain == Domain::Event { event } else { processing };
        if timers.register((time, key.group, id)) {
            key.timers.add(domain, time);
        }
    }

    fn delete(&mut self, domain: Domain, time: i64, id: u32) {
        self.changing(id);
        let Some(key) = self.keys.slab.get_mut(id) else { return };
        let [event, processing] = &mut self.timers;
        let timers = if domain == Domain::Event { event } else { processing };
        if timers.delete((time, key.group, id)) {
            key.timers.remove(domain, time);
        }
    }

    #[inline]
    fn place_or_insert(&mut self, slots: &SlotKeys, slot: u32) -> u32 {
        let known = self.places.get(slot);
        if known != NONE {
            return known;
        }
        let id = self.keys.find_or_insert(slots.get(slot as usize));
        self.places.set(slot, id);
        id
    }

    #[inline]
    fn cell(&self, key: KeyRef<'_>, state: u8) -> Option<CellRef<'_>> {
        let state = usize::from(state);
        let shape = *self.shapes.get(state)?;
        let block = &self.keys.slab.get(self.keys.find(key, NONE)?)?.block;
        Some(CellRef { block, larges: &self.larges, cell: block.cell(state), shape })
    }

    #[inline]
    fn cell_mut(&mut self, id: u32, state: usize, now: Timestamp) -> Option<CellMut<'_>> {
        let shape = *self.shapes.get(state)?;
        self.changing(id);
        let block = &mut self.keys.slab.get_mut(id)?.block;
        Some(CellMut { block, larges: &mut self.larges, state, shape, stamp: now.0, life: shape.life(now) })
    }

    fn timers_of(&self, domain: Domain) -> &Timers {
        let [event, processing] = &self.timers;
        if domain == Domain::Event { event } else { processing }
    }
}

/// Adds the cells of a key without state to the columns.
fn copy_nothing(into: &mut Prefetched) {
    for column in &mut into.values {
        column.present.push(0);
        column.items.finish();
    }
    for column in &mut into.entries {
        column.whole.push(1);
        column.ends.push(column.ends.last().copied().unwrap_or(0));
    }
}

#[cfg(test)]
mod tests;
