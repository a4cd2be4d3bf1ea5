//! A restore of very many keys into an empty store: they become rows without coming into use first.

use std::collections::BTreeSet;

use super::CachedState;
use super::rows::{Rows, Space, key_row, timer_row};
use crate::Result;
use crate::detector::KeyRef;
use crate::key_group::{KeyGroup, hash_key};
use crate::state::layout::{Item, Reader};
use crate::state::memory::MemoryState;
use crate::state::{GroupSource, KeyedState};
use crate::time::Domain;

impl<R: Rows> CachedState<R> {
    pub(super) fn load_all(&mut self, source: GroupSource<'_>, states: &[Option<u8>]) -> Result<()> {
        let (empty, mut known) = (self.key_count() == 0, BTreeSet::new());
        source(&mut |group, bytes| {
            if empty && known.insert(group) {
                return self.load_group(group, bytes, states);
            }
            // Keys that are there already are replaced.
            self.rows.loaded()?;
            self.restore(group, bytes, states)
        })?;
        self.rows.loaded()?;
        self.find_heads()
    }

    /// Takes in a key group of which there is no key.
    fn load_group(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        self.looked = false;
        if !self.is_as_held(group, bytes, states)? {
            return self.load_changed(group, bytes, states);
        }
        let (mut reader, mut timers) = (Reader::new(group, bytes)?, Vec::new());
        while let Some(item) = reader.next()? {
            let Item::Key(key) = item else { continue };
            let (mut lives_until, mut is_empty) = (i64::MAX, true);
            timers.clear();
            let memory = &self.memory;
            let content = reader.content(&mut |item| {
                is_empty = false;
                match item {
                    Item::Entry(entry) => lives_until = lives_until.min(memory.end_of(&entry)),
                    Item::Timer(domain, time) => timers.push((domain, time)),
                    Item::Key(_) | Item::Tombstone(_) => {}
                }
            })?;
            if !is_empty {
                self.load_row(KeyRef { bytes: key, hash: hash_key(key), group }, lives_until, content, &timers)?;
            }
        }
        Ok(())
    }

    /// Whether everything in a key group is stored as it would be from the state held here.
    fn is_as_held(&self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<bool> {
        if (0..).zip(states).any(|(stored, today)| *today != Some(stored)) {
            return Ok(false);
        }
        let mut reader = Reader::new(group, bytes)?;
        while let Some(item) = reader.next()? {
            if let Item::Entry(entry) = item
                && !(usize::from(entry.state) < states.len() && self.memory.is_as_held(&entry))
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The same for content that is held otherwise than it is stored.
    fn load_changed(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        let mut held = MemoryState::new(&self.states);
        held.restore(group, bytes, states)?;
        self.unseen |= held.has_unseen();
        let (mut reader, mut writer) = (Reader::new(group, bytes)?, std::mem::take(&mut self.writer));
        let mut timers = Vec::new();
        while let Some(item) = reader.next()? {
            let Item::Key(key) = item else { continue };
            timers.clear();
            reader.content(&mut |item| {
                if let Item::Timer(domain, time) = item {
                    timers.push((domain, time));
                }
            })?;
            let key = KeyRef { bytes: key, hash: hash_key(key), group };
            // A key of which nothing is left is not there.
            let Some(id) = held.find(key) else { continue };
            held.save(id, &mut writer);
            let lives_until = held.end_of_life(id, crate::Timestamp::MIN);
            self.load_row(key, lives_until, writer.content(), &timers)?;
        }
        self.writer = writer;
        Ok(())
    }

    fn load_row(&mut self, key: KeyRef<'_>, lives_until: i64, content: &[u8], timers: &[(Domain, i64)]) -> Result<()> {
        let Self { rows, row_key, row, .. } = self;
        row.clear();
        row.extend_from_slice(&lives_until.to_be_bytes());
        row.extend_from_slice(content);
        key_row(key.group, key.bytes, row_key);
        rows.load(Space::Keys, row_key, row)?;
        self.away += 1;
        for &(domain, time) in timers {
            timer_row(domain, time, key.group, key.bytes, row_key);
            rows.load(Space::Timers, row_key, &[])?;
            let [event, processing] = &mut self.timers;
            if domain == Domain::Event { event } else { processing }.add(row_key);
        }
        Ok(())
    }
}
