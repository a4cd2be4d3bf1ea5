//! Everything in the layout of checkpoints, and back.

use std::collections::BTreeSet;

use super::super::layout::{Entry, FRESH, Form, Item, Reader, Writer};
use super::keys::NONE;
use super::order::{Ranked, common_bytes, sort};
use super::read::CellRef;
use super::{Key, MemoryState};
use crate::detector::KeyRef;
use crate::key_group::{KeyGroup, hash_key};
use crate::time::{Domain, Timestamp};
use crate::{Error, Result};

/// How many keys are loaded into the cache before they are written.
const WARM: usize = 64;

impl MemoryState {
    pub(super) fn write_snapshot(&self, into: &mut dyn FnMut(KeyGroup, &[u8])) {
        let skip = common_bytes(self.keys.in_use().map(|(_, key)| key.block.key()));
        let mut by_group = self.by_group(skip);
        let mut writer = Writer::default();
        for of_group in by_group.chunk_by_mut(|a, b| a.group() == b.group()) {
            let Some(group) = of_group.first().map(Ranked::group) else { continue };
            sort(skip, &self.keys, of_group);
            writer.begin(group);
            for some in of_group.chunks(WARM) {
                self.keys.warm(some.iter().map(|ranked| ranked.id));
                some.iter().for_each(|ranked| self.write_key(ranked.id, &mut writer));
            }
            into(group, writer.finish());
        }
    }

    /// All keys, by key group. They are looked at in the order of their places, which is the fastest.
    #[expect(clippy::indexing_slicing, reason = "there is a start for each key group, and a place for each key")]
    fn by_group(&self, skip: usize) -> Vec<Ranked> {
        let mut starts = Vec::new();
        for (_, key) in self.keys.in_use() {
            let next = usize::from(key.group.0) + 1;
            if next >= starts.len() {
                starts.resize(next + 1, 0usize);
            }
            starts[next] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut ranked = vec![Ranked::default(); sum];
        for (id, key) in self.keys.in_use() {
            let next = &mut starts[usize::from(key.group.0)];
            ranked[*next] = Ranked::new(&self.keys, skip, key.group, id);
            *next += 1;
        }
        ranked
    }

    fn write_key(&self, id: u32, writer: &mut Writer) {
        writer.key(self.keys.key(id));
        self.write_content(id, writer);
    }

    /// Writes the states of a key and its timers.
    pub(super) fn write_content(&self, id: u32, writer: &mut Writer) {
        let Some(key) = self.keys.slab.get(id) else { return };
        self.write_states(key, writer);
        writer.timers_from(key.timers.of(Domain::Event), key.timers.of(Domain::Processing));
    }

    fn write_states(&self, key: &Key, writer: &mut Writer) {
        let mut cell = key.block.first_cell();
        for (state, &shape) in (0..).zip(&self.shapes) {
            let read = CellRef { block: &key.block, larges: &self.larges, cell, shape };
            let stamp = |stamp| shape.stamped().then_some(stamp);
            if shape.form == Form::Value {
                if let Some((at, value)) = read.value() {
                    writer.value(state, stamp(at), value);
                }
            } else if cell.count > 0 {
                writer.entries(state, shape.form, shape.stamped(), read.len());
                read.each(|entry| match shape.form {
                    Form::Map => writer.entry(stamp(entry.stamp), entry.key, entry.value),
                    Form::Value | Form::List => writer.element(stamp(entry.stamp), entry.value),
                });
            }
            cell = key.block.cell_after(cell);
        }
    }

    pub(super) fn read_snapshot(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        self.places.forget();
        self.replace_keys(group, bytes, states)?;
        let mut reader = Reader::new(group, bytes)?;
        let mut id = NONE;
        while let Some(item) = reader.next()? {
            match item {
                Item::Key(bytes) => {
                    self.keys.remove_if_empty(id);
                    id = self.keys.find_or_insert(KeyRef { bytes, hash: hash_key(bytes), group });
                }
                Item::Tombstone(_) => {}
                Item::Entry(entry) => {
                    if let Some(state) = today(&entry, states) {
                        self.restore_entry(id, state, &entry);
                    }
                }
                Item::Timer(domain, time) => self.register(domain, time, id),
            }
        }
        self.keys.remove_if_empty(id);
        Ok(())
    }

    /// Checks the bytes to their end, so that nothing is changed by bad ones, then removes the keys that they are about.
    fn replace_keys(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        let mut reader = Reader::new(group, bytes)?;
        let mut replaced = BTreeSet::new();
        while let Some(item) = reader.next()? {
            match item {
                Item::Key(bytes) | Item::Tombstone(bytes) => {
                    if self.keys.slab.len() > 0 {
                        replaced.extend(self.keys.find(KeyRef { bytes, hash: hash_key(bytes), group }, NONE));
                    }
                }
                Item::Entry(entry) => self.check(group, &entry, states)?,
                Item::Timer(..) => {}
            }
        }
        for id in replaced {
            self.empty(id);
            self.keys.remove_if_empty(id);
        }
        Ok(())
    }

    /// Removes all content and all timers of a key.
    pub(super) fn empty(&mut self, id: u32) {
        for state in 0..self.shapes.len() {
            if let Some(mut cell) = self.cell_mut(id, state, Timestamp::MIN) {
                cell.clear();
            }
        }
        for domain in Domain::ALL {
            let times = self.keys.slab.get(id).map(|key| key.timers.of(domain).collect::<Vec<_>>());
            times.into_iter().flatten().for_each(|time| self.delete(domain, time, id));
        }
    }

    fn check(&self, group: KeyGroup, entry: &Entry<'_>, states: &[Option<u8>]) -> Result<()> {
        let Some(state) = states.get(usize::from(entry.state)) else {
            let count = states.len();
            return Err(Error::corrupt(format!("key group {} holds state {} of {count} states", group.0, entry.state)));
        };
        let Some(state) = state else { return Ok(()) };
        match self.shapes.get(usize::from(*state)) {
            Some(shape) if shape.form == entry.form => Ok(()),
            Some(shape) => {
                let (stored, declared) = (entry.form, shape.form);
                Err(Error::corrupt(format!("key group {} holds state {state} as {stored:?}, but it is declared as {declared:?}", group.0)))
            }
            None => Err(Error::corrupt(format!("key group {} is restored into state {state}, which is not declared", group.0))),
        }
    }

    pub(super) fn restore_entry(&mut self, id: u32, state: usize, entry: &Entry<'_>) {
        let Some(mut cell) = self.cell_mut(id, state, Timestamp::MIN) else { return };
        cell.stamp = entry.stamp.unwrap_or(FRESH);
        match entry.form {
            Form::Value => cell.put(entry.value),
            Form::List => cell.append(entry.value),
            Form::Map => cell.put_entry(entry.key, entry.value),
        }
        self.unseen |= cell.shape.stamped() && cell.stamp == FRESH;
        self.keys.shorten(id, i64::MIN);
    }
}

/// The id that a stored state has today.
fn today(entry: &Entry<'_>, states: &[Option<u8>]) -> Option<usize> {
    states.get(usize::from(entry.state)).copied().flatten().map(usize::from)
}
