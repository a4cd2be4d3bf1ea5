//! Entries of which every subtask holds the same copy.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_wit::descriptor::{Descriptor, StateDescriptor, StateKind, write_op};

use super::{PAGE, State};
use crate::broadcast::BroadcastContext;
use crate::context::{AnyContext, Core};
use crate::detector::{FieldOptions, Handle, Ids};
use crate::effects::Writes;
use crate::encode::type_name;
use crate::schema::table_of;
use crate::{Failure, Schema, ordered};

/// Entries in the natural order of their keys, of which every subtask holds the same copy (Flink's broadcast state): written while broadcast
/// records are processed, read in any call. Small states are read whole, once a batch.
pub struct BroadcastState<K, V> {
    name: &'static str,
    state: u8,
    entries: BTreeMap<Vec<u8>, Entry<K, V>>,
    /// Whether all that is stored is in `entries`.
    whole: bool,
    /// Whether anything was read in this batch.
    read: bool,
    /// What was stored before the batch is gone.
    cleared: bool,
    /// The encoded key of the running call.
    key: Vec<u8>,
}

struct Entry<K, V> {
    key: K,
    value: Option<V>,
    written: bool,
}

impl<K: Schema + DeserializeOwned, V: Schema + DeserializeOwned> BroadcastState<K, V> {
    /// The value of an entry; `None` if there is no such entry.
    ///
    /// # Errors
    /// What is stored does not decode; the job fails.
    pub fn get<'b, Q>(&mut self, ctx: &mut impl AnyContext<'b>, key: &Q) -> Result<Option<&V>, Failure>
    where
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let core = ctx.core();
        self.encode(key).map_err(Failure::Fatal)?;
        self.read_page(core)?;
        if !self.whole && !self.entries.contains_key(&self.key) {
            let stored = core.host.get_broadcast_entry(self.state, &self.key);
            let value = stored.map(|bytes| self.decode(&bytes)).transpose()?;
            self.entries.insert(self.key.clone(), Entry { key: self.decode_key(&self.key)?, value, written: false });
        }
        Ok(self.entries.get(&self.key).and_then(|entry| entry.value.as_ref()))
    }

    /// Whether there is such an entry.
    ///
    /// # Errors
    /// What is stored does not decode; the job fails.
    pub fn contains<'b, Q>(&mut self, ctx: &mut impl AnyContext<'b>, key: &Q) -> Result<bool, Failure>
    where
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        Ok(self.get(ctx, key)?.is_some())
    }

    /// Calls `visit` with each entry in the order of their keys.
    ///
    /// # Errors
    /// What is stored does not decode, or `visit` fails.
    pub fn for_each<'b>(
        &mut self,
        ctx: &mut impl AnyContext<'b>,
        mut visit: impl FnMut(&K, &V) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.read_all(ctx.core())?;
        let visible = self.entries.values().filter_map(|entry| entry.value.as_ref().map(|value| (&entry.key, value)));
        visible.into_iter().try_for_each(|(key, value)| visit(key, value))
    }

    /// The number of entries. All of them are read.
    ///
    /// # Errors
    /// What is stored does not decode; the job fails.
    pub fn len<'b>(&mut self, ctx: &mut impl AnyContext<'b>) -> Result<usize, Failure> {
        self.read_all(ctx.core())?;
        Ok(self.entries.values().filter(|entry| entry.value.is_some()).count())
    }

    /// Whether there are no entries.
    ///
    /// # Errors
    /// What is stored does not decode; the job fails.
    pub fn is_empty<'b>(&mut self, ctx: &mut impl AnyContext<'b>) -> Result<bool, Failure> {
        self.len(ctx).map(|len| len == 0)
    }

    /// Sets an entry.
    pub fn put<D, Q>(&mut self, ctx: &mut BroadcastContext<'_, D>, key: &Q, value: V)
    where
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.write(&mut ctx.core, key, Some(value));
    }

    /// Removes an entry; does nothing if there is none.
    pub fn remove<D, Q>(&mut self, ctx: &mut BroadcastContext<'_, D>, key: &Q)
    where
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.write(&mut ctx.core, key, None);
    }

    /// Removes all entries.
    pub fn clear<D>(&mut self, ctx: &mut BroadcastContext<'_, D>) {
        let _ = ctx;
        self.entries.clear();
        (self.whole, self.read, self.cleared) = (true, true, true);
    }

    fn write<Q: Serialize + ?Sized>(&mut self, core: &mut Core<'_>, key: &Q, value: Option<V>) {
        let key = self.encode(key).and_then(|()| self.decode_key(&self.key).map_err(|failure| failure.to_string()));
        match key {
            Ok(key) => _ = self.entries.insert(self.key.clone(), Entry { key, value, written: true }),
            Err(error) => core.fault(error),
        }
    }

    /// At the first read of a batch: the first entries at once, which are all if they are few.
    fn read_page(&mut self, core: &mut Core<'_>) -> Result<(), Failure> {
        if self.read {
            return Ok(());
        }
        self.read = true;
        self.take(core, None).map(|last| self.whole = last.is_none())
    }

    fn read_all(&mut self, core: &mut Core<'_>) -> Result<(), Failure> {
        let mut after = None;
        while !self.whole {
            after = self.take(core, after.as_deref())?;
            self.whole = after.is_none();
        }
        self.read = true;
        Ok(())
    }

    /// Reads a page of entries, under what the batch has written. Returns the last key if there may be more.
    fn take(&mut self, core: &mut Core<'_>, after: Option<&[u8]>) -> Result<Option<Vec<u8>>, Failure> {
        let mut page = core.host.scan_broadcast_entries(self.state, after, PAGE);
        let last = if page.len() < PAGE as usize { None } else { page.last().map(|(key, _)| key.clone()) };
        for (key, value) in page.drain(..) {
            if !self.entries.contains_key(&key) {
                let entry = Entry { key: self.decode_key(&key)?, value: Some(self.decode(&value)?), written: false };
                self.entries.insert(key, entry);
            }
        }
        Ok(last)
    }

    fn encode<Q: Serialize + ?Sized>(&mut self, key: &Q) -> Result<(), String> {
        self.key.clear();
        ordered::append(key, &mut self.key).map_err(|error| format!("a key of broadcast state {} does not encode: {error}", self.name))
    }

    fn decode_key(&self, bytes: &[u8]) -> Result<K, Failure> {
        ordered::from_bytes(bytes)
            .map_err(|error| Failure::Fatal(format!("a key of broadcast state {} does not decode: {error}", self.name)))
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, Failure> {
        let failed = |error| Failure::Fatal(format!("broadcast state {} does not decode as {}: {error}", self.name, type_name::<V>()));
        postcard::from_bytes(bytes).map_err(failed)
    }
}

impl<K: Schema + DeserializeOwned, V: Schema + DeserializeOwned> Handle for BroadcastState<K, V> {
    fn describe(options: &FieldOptions, descriptor: &mut Descriptor) {
        descriptor.broadcast_states.push(StateDescriptor {
            name: options.name.to_owned(),
            kind: StateKind::Map,
            value: table_of::<V>(),
            entry_key: Some(table_of::<K>()),
            ttl: options.ttl,
            ttl_update: options.ttl_update,
        });
    }

    fn create(options: &FieldOptions, ids: &mut Ids<'_>) -> Result<Self, String> {
        let (name, state) = (options.name, ids.broadcast_state());
        Ok(Self { name, state, entries: BTreeMap::new(), whole: false, read: false, cleared: false, key: Vec::new() })
    }

    fn begin(&mut self, _: usize) {
        self.entries.clear();
        (self.whole, self.read, self.cleared) = (false, false, false);
    }

    fn finish(&mut self, writes: &mut Writes) -> Result<(), Failure> {
        if self.cleared {
            writes.push(write_op::CLEAR, self.state, 0, &[]);
        }
        for (key, entry) in self.entries.iter().filter(|(_, entry)| entry.written) {
            match &entry.value {
                Some(value) => writes.push_value(write_op::PUT_ENTRY, self.state, 0, key, value).map_err(Failure::Fatal)?,
                None => writes.push(write_op::REMOVE_ENTRY, self.state, 0, key),
            }
        }
        Ok(())
    }
}

impl<K, V> State for BroadcastState<K, V> {}
