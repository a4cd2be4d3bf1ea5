//! State that was stored when NaN could be several keys, put together under one.
//!
//! What was stored first under the one form of NaN counts more than what was stored under others: values of it are kept, lists follow each
//! other, maps and timers are united.

use std::collections::BTreeMap;
use std::ops::Range;

use tidemill_wit::schema::TypeTable;

use super::layout::{Entry, Form, Item, Reader, Writer};
use crate::Result;
use crate::key_group::{KeyGroup, hash_key, key_group};
use crate::schema::KeyChecker;
use crate::time::Domain;

/// Finds and rewrites keys of an operator, and of its maps, that hold a NaN in another form than the one.
#[derive(Clone, Debug)]
pub struct OneNan {
    /// The number of key groups.
    groups: u32,
    key: Option<KeyChecker>,
    /// By the stored ids of the states.
    entries: Vec<Option<KeyChecker>>,
}

/// The keys of a group with their content; one that has been removed has none.
type Keys = BTreeMap<Vec<u8>, Option<Content>>;

#[derive(Clone, Debug, Default)]
struct Content {
    states: BTreeMap<u8, (Form, Vec<Stored>)>,
    event: Vec<i64>,
    processing: Vec<i64>,
}

#[derive(Clone, Debug)]
struct Stored {
    stamp: Option<i64>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl OneNan {
    /// For an operator's key type and the key types of its maps, in the order of its states, with so many key groups. `None`: no key has floats.
    pub fn of<'a>(key: Option<&TypeTable>, entries: impl Iterator<Item = Option<&'a TypeTable>>, groups: u32) -> Option<Self> {
        let with_floats = |table: Option<&TypeTable>| table.map(KeyChecker::new).filter(KeyChecker::has_floats);
        let found = Self { groups, key: with_floats(key), entries: entries.map(with_floats).collect() };
        (found.key.is_some() || found.entries.iter().any(Option::is_some)).then_some(found)
    }

    /// Whether keys of the operator may have to move to other key groups.
    #[must_use]
    pub fn moves_keys(&self) -> bool {
        self.key.is_some()
    }

    /// Takes the keys of a group that must move, under the groups and keys that they move to.
    ///
    /// # Errors
    /// The bytes break the layout.
    pub fn moved(&self, group: KeyGroup, bytes: &[u8], into: &mut Moved) -> Result<()> {
        let Some(checker) = &self.key else { return Ok(()) };
        for (key, content) in read(group, bytes)? {
            let canonical = canonical(checker, &key);
            if let Some(content) = content.filter(|_| canonical != key) {
                let group = key_group(hash_key(&canonical), self.groups);
                into.keys.entry(group).or_default().entry(canonical).or_default().push(content);
            }
        }
        Ok(())
    }

    /// Writes a group anew, with the keys that have moved to it. Empty bytes stand for a group that was not stored.
    ///
    /// # Errors
    /// The bytes break the layout.
    pub fn group<'w>(&self, group: KeyGroup, bytes: &[u8], moved: &mut Moved, writer: &'w mut Writer) -> Result<&'w [u8]> {
        let mut keys = if bytes.is_empty() { Keys::new() } else { read(group, bytes)? };
        if let Some(checker) = &self.key {
            keys.retain(|key, _| canonical(checker, key) == *key);
        }
        for (key, contents) in moved.keys.remove(&group).unwrap_or_default() {
            let content = keys.entry(key).or_default().get_or_insert_default();
            contents.into_iter().for_each(|other| content.add(other));
        }
        writer.begin(group);
        for (key, content) in keys {
            match content {
                Some(content) => self.write(&key, content, writer),
                None => writer.tombstone(&key),
            }
        }
        Ok(writer.finish())
    }

    fn write(&self, key: &[u8], content: Content, writer: &mut Writer) {
        writer.key(key);
        for (state, (form, mut stored)) in content.states {
            if let (Form::Map, Some(Some(checker))) = (form, self.entries.get(usize::from(state))) {
                stored = united(stored.into_iter().map(|entry| (canonical(checker, &entry.key), entry)));
            }
            // What came together may have been stored with a TTL and without.
            let stamped = stored.iter().all(|entry| entry.stamp.is_some());
            if form != Form::Value {
                writer.entries(state, form, stamped, stored.len());
            }
            for Stored { stamp, key, value } in stored {
                let stamp = stamp.filter(|_| stamped);
                match form {
                    Form::Value => writer.value(state, stamp, &value),
                    Form::List => writer.element(stamp, &value),
                    Form::Map => writer.entry(stamp, &key, &value),
                }
            }
        }
        writer.timers(&content.event, &content.processing);
    }

    /// The one form of a map's key.
    #[must_use]
    pub fn entry(&self, state: u8, key: &[u8]) -> Vec<u8> {
        match self.entries.get(usize::from(state)) {
            Some(Some(checker)) => canonical(checker, key),
            _ => key.to_vec(),
        }
    }
}

/// Keys on their way to the groups that they belong to.
#[derive(Debug, Default)]
pub struct Moved {
    keys: BTreeMap<KeyGroup, BTreeMap<Vec<u8>, Vec<Content>>>,
}

impl Moved {
    /// Keeps only what moves to these groups.
    pub fn keep(&mut self, groups: &Range<u32>) {
        self.keys.retain(|group, _| groups.contains(&u32::from(group.0)));
    }

    /// The groups that keys are still to move to.
    #[must_use]
    pub fn groups(&self) -> Vec<KeyGroup> {
        self.keys.keys().copied().collect()
    }
}

impl Content {
    fn add(&mut self, other: Self) {
        for (state, (form, stored)) in other.states {
            let (_, mine) = self.states.entry(state).or_insert((form, Vec::new()));
            match form {
                Form::Value => mine.extend(stored.into_iter().filter(|_| mine.is_empty()).take(1).collect::<Vec<_>>()),
                Form::List => mine.extend(stored),
                Form::Map => *mine = united(std::mem::take(mine).into_iter().chain(stored).map(|entry| (entry.key.clone(), entry))),
            }
        }
        for (mine, theirs) in [(&mut self.event, other.event), (&mut self.processing, other.processing)] {
            mine.extend(theirs);
            mine.sort_unstable();
            mine.dedup();
        }
    }
}

/// The entries in order of the keys that they have now, each once: of several, the one whose key was the same before, or the first.
fn united(entries: impl Iterator<Item = (Vec<u8>, Stored)>) -> Vec<Stored> {
    let mut found: BTreeMap<Vec<u8>, Stored> = BTreeMap::new();
    for (key, entry) in entries {
        match found.get_mut(&key) {
            None => _ = found.insert(key, entry),
            Some(other) if entry.key == key && other.key != key => *other = entry,
            Some(_) => {}
        }
    }
    found.into_iter().map(|(key, entry)| Stored { key, ..entry }).collect()
}

fn canonical(checker: &KeyChecker, key: &[u8]) -> Vec<u8> {
    let mut key = key.to_vec();
    checker.canonical(&mut key);
    key
}

fn read(group: KeyGroup, bytes: &[u8]) -> Result<Keys> {
    let (mut reader, mut keys, mut open) = (Reader::new(group, bytes)?, Keys::new(), None);
    while let Some(item) = reader.next()? {
        match (item, &mut open) {
            (Item::Key(key), _) => keys.extend(open.replace((key.to_vec(), Content::default())).map(|(key, content)| (key, Some(content)))),
            (Item::Tombstone(key), _) => _ = keys.insert(key.to_vec(), None),
            (Item::Entry(Entry { state, form, stamp, key, value }), Some((_, content))) => {
                let stored = Stored { stamp, key: key.to_vec(), value: value.to_vec() };
                content.states.entry(state).or_insert((form, Vec::new())).1.push(stored);
            }
            (Item::Timer(Domain::Event, time), Some((_, content))) => content.event.push(time),
            (Item::Timer(Domain::Processing, time), Some((_, content))) => content.processing.push(time),
            (Item::Entry(_) | Item::Timer(..), None) => {}
        }
    }
    keys.extend(open.map(|(key, content)| (key, Some(content))));
    Ok(keys)
}

#[cfg(test)]
mod tests;
