//! State in memory, plain enough to be right.

use std::collections::BTreeMap;

use tidemill_wit::columns::BlobsBuf;
use tidemill_wit::descriptor::{Descriptor, StateDescriptor, TtlUpdate, write_op};

use crate::columns::{Batch, Cells, Entries};
use crate::effects::Writes;
use crate::host::{Host, Level};

/// All keys' state, the reference tables, and the log.
pub(super) struct Store {
    pub(super) states: Vec<StateDescriptor>,
    /// By state, key and entry key; a value's entry key is empty, a list's is the index.
    pub(super) items: BTreeMap<(u8, Vec<u8>, Vec<u8>), Item>,
    /// The broadcast states, by state and entry key.
    pub(super) broadcast: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
    pub(super) tables: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
    pub(super) log: Vec<(Level, String)>,
    pub(super) whole_entries: usize,
    pub(super) now: i64,
    /// The keys of the running batch.
    pub(super) keys: BlobsBuf,
}

#[derive(Clone)]
pub(super) struct Item {
    bytes: Vec<u8>,
    /// When it was last renewed.
    stamp: i64,
}

impl Store {
    pub(super) fn new(descriptor: &Descriptor) -> Self {
        Self {
            states: descriptor.states.clone(),
            items: BTreeMap::new(),
            broadcast: BTreeMap::new(),
            tables: BTreeMap::new(),
            log: Vec::new(),
            whole_entries: 64,
            now: 0,
            keys: BlobsBuf::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Applies what broadcast records write.
    pub(super) fn apply_broadcast(&mut self, writes: &Writes) {
        for (row, (op, &state)) in writes.op.iter().zip(&writes.state).enumerate() {
            let entry = (state, writes.entry.get(row).to_vec());
            match *op {
                write_op::PUT_ENTRY => _ = self.broadcast.insert(entry, writes.value.get(row).to_vec()),
                write_op::REMOVE_ENTRY => _ = self.broadcast.remove(&entry),
                _ => self.broadcast.retain(|(other, _), _| *other != state),
            }
        }
    }

    pub(super) fn apply(&mut self, writes: &Writes) {
        for (row, (op, (&state, &slot))) in writes.op.iter().zip(writes.state.iter().zip(&writes.slot)).enumerate() {
            let (key, entry) = (self.keys.get(slot as usize).to_vec(), writes.entry.get(row).to_vec());
            let item = Item { bytes: writes.value.get(row).to_vec(), stamp: self.now };
            match *op {
                write_op::PUT | write_op::PUT_ENTRY => {
                    self.items.insert((state, key, entry), item);
                }
                write_op::CLEAR => self.items.retain(|(other, owner, _), _| (*other, owner.as_slice()) != (state, key.as_slice())),
                write_op::REMOVE_ENTRY => {
                    self.items.remove(&(state, key, entry));
                }
                write_op::APPEND => {
                    let last = self.of(state, &key).last().map_or(0, |(index, _)| index_of(index) + 1);
                    self.items.insert((state, key, last.to_be_bytes().to_vec()), item);
                }
                _ => self.touch(state, &key, &entry),
            }
        }
    }

    /// An empty entry key of a list means all its elements.
    fn touch(&mut self, state: u8, key: &[u8], entry: &[u8]) {
        let now = self.now;
        let renews = self.states.get(usize::from(state)).is_some_and(|state| state.ttl_update == TtlUpdate::OnReadAndWrite);
        let touched = self
            .items
            .iter_mut()
            .filter(|((other, owner, own), _)| (*other, owner.as_slice()) == (state, key) && (own == entry || entry.is_empty()));
        touched.filter(|_| renews).for_each(|(_, item)| item.stamp = now);
    }

    fn of(&self, state: u8, key: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        let first = (state, key.to_vec(), Vec::new());
        self.items
            .range(first..)
            .take_while(move |((other, owner, _), _)| (*other, owner.as_slice()) == (state, key))
            .map(|((_, _, entry), item)| (entry.as_slice(), item.bytes.as_slice()))
    }

    fn expire(&mut self) {
        let (states, now) = (&self.states, self.now);
        self.items.retain(|(state, _, _), item| {
            let ttl = states.get(usize::from(*state)).and_then(|state| state.ttl);
            ttl.is_none_or(|ttl| item.stamp.saturating_add(ttl) > now)
        });
    }
}

impl Host for Store {
    fn get_entry(&mut self, slot: u32, state: u8, key: &[u8]) -> Option<Vec<u8>> {
        let owner = self.keys.get(slot as usize).to_vec();
        self.items.get(&(state, owner, key.to_vec())).map(|item| item.bytes.clone())
    }

    fn scan_entries(&mut self, slot: u32, state: u8, after: Option<&[u8]>, limit: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let all = self.of(state, self.keys.get(slot as usize)).filter(|(entry, _)| after.is_none_or(|after| *entry > after));
        all.take(limit as usize).map(|(entry, bytes)| (entry.to_vec(), bytes.to_vec())).collect()
    }

    fn get_broadcast_entry(&mut self, state: u8, key: &[u8]) -> Option<Vec<u8>> {
        self.broadcast.get(&(state, key.to_vec())).cloned()
    }

    fn scan_broadcast_entries(&mut self, state: u8, after: Option<&[u8]>, limit: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let entries = self.broadcast.iter().filter(|((other, key), _)| *other == state && after.is_none_or(|after| key.as_slice() > after));
        entries.take(limit as usize).map(|((_, key), value)| (key.clone(), value.clone())).collect()
    }

    fn lookup(&mut self, table: u8, key: &[u8]) -> Option<Vec<u8>> {
        self.tables.get(&(table, key.to_vec())).cloned()
    }

    fn log(&mut self, level: Level, message: &str) {
        self.log.push((level, message.to_owned()));
    }

    fn count(&mut self, counter: &str, n: u64) {
        self.log.push((Level::Debug, format!("{counter} +{n}")));
    }
}

/// The columns of a batch's context.
pub(super) struct Prefetched {
    keys: BlobsBuf,
    values: Vec<OwnedCells>,
    entries: Vec<OwnedEntries>,
}

#[derive(Default)]
struct OwnedCells {
    present: Vec<u8>,
    items: BlobsBuf,
}

#[derive(Default)]
struct OwnedEntries {
    whole: Vec<u8>,
    ends: Vec<u32>,
    key: BlobsBuf,
    value: BlobsBuf,
}

impl Prefetched {
    pub(super) fn new(store: &mut Store, keys: BlobsBuf) -> Self {
        store.expire();
        store.keys = keys.clone();
        let (mut values, mut entries) = (Vec::new(), Vec::new());
        for (state, id) in store.states.iter().zip(0u8..) {
            if state.kind.has_entries() {
                let list = state.entry_key.is_none();
                entries.push(OwnedEntries::new(keys.view().iter().map(|key| store.of(id, key).collect()), list, store.whole_entries));
            } else {
                values.push(OwnedCells::new(keys.view().iter().map(|key| store.of(id, key).next())));
            }
        }
        Self { keys, values, entries }
    }

    pub(super) fn columns(&self) -> (Vec<Cells<'_>>, Vec<Entries<'_>>) {
        let cells = self.values.iter().map(|column| Cells { present: &column.present, items: column.items.view() });
        let entries = self.entries.iter().map(|column| Entries {
            whole: &column.whole,
            ends: &column.ends,
            key: column.key.view(),
            value: column.value.view(),
        });
        (cells.collect(), entries.collect())
    }

    pub(super) fn batch<'a>(&'a self, watermark: i64, clock: i64, values: &'a [Cells<'a>], entries: &'a [Entries<'a>]) -> Batch<'a> {
        Batch { watermark, processing_time: clock, keys: self.keys.view(), values, entries }
    }
}

impl OwnedCells {
    fn new<'a>(values: impl Iterator<Item = Option<(&'a [u8], &'a [u8])>>) -> Self {
        let mut column = Self::default();
        for value in values {
            column.present.push(u8::from(value.is_some()));
            column.items.push(value.map_or(&[], |(_, bytes)| bytes));
        }
        column
    }
}

impl OwnedEntries {
    fn new<'a>(slots: impl Iterator<Item = Vec<(&'a [u8], &'a [u8])>>, list: bool, limit: usize) -> Self {
        let mut column = Self::default();
        for entries in slots {
            let whole = entries.len() <= limit;
            column.whole.push(u8::from(whole));
            for (key, value) in entries.into_iter().filter(|_| whole) {
                column.key.push(if list { &[] } else { key });
                column.value.push(value);
            }
            column.ends.push(u32::try_from(column.key.len()).unwrap_or(u32::MAX));
        }
        column
    }
}

fn index_of(entry: &[u8]) -> u32 {
    entry.try_into().map_or(0, u32::from_be_bytes)
}
