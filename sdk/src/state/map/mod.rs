//! Entries per key, in the order of their keys.

mod overlay;
mod scan;

use std::borrow::Borrow;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidemill_wit::descriptor::{Descriptor, StateDescriptor, StateKind};

use self::overlay::{Mark, Overlay};
use self::scan::{Seen, Touched};
use super::{State, decode};
use crate::context::Core;
use crate::detector::{FieldOptions, Handle, Ids, StateId};
use crate::effects::Writes;
use crate::function::KeyedProcessFunction;
use crate::schema::table_of;
use crate::{Context, Failure, Schema, ordered};

/// Entries per key, in the natural order of their own keys (Flink's `MapState`). The batch's own writes are laid over what was stored
/// before.
pub struct MapState<K, V> {
    id: StateId,
    overlay: Overlay<V>,
    touched: Touched,
    /// The encoded entry key of the running call.
    key: Vec<u8>,
    keys: PhantomData<fn(&K) -> K>,
}

impl<K: Schema + DeserializeOwned, V: Schema + DeserializeOwned> MapState<K, V> {
    /// The value of an entry; `None` if there is no such entry.
    ///
    /// # Errors
    /// The stored value does not decode; the job fails.
    #[inline]
    pub fn get<D, Q>(&mut self, ctx: &mut Context<'_, D>, key: &Q) -> Result<Option<&V>, Failure>
    where
        D: KeyedProcessFunction,
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let cell = self.read(&mut ctx.core, key)?;
        Ok(self.overlay.value(cell).as_ref())
    }

    /// The value of an entry, to be changed in place; `None` if there is no such entry. It counts as written.
    ///
    /// # Errors
    /// The stored value does not decode; the job fails.
    pub fn get_mut<D, Q>(&mut self, ctx: &mut Context<'_, D>, key: &Q) -> Result<Option<&mut V>, Failure>
    where
        D: KeyedProcessFunction,
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        let cell = self.read(&mut ctx.core, key)?;
        if self.overlay.value(cell).is_some() {
            self.overlay.mark(cell, Mark::Written);
        }
        Ok(self.overlay.value_mut(cell).as_mut())
    }

    /// Whether there is such an entry.
    ///
    /// # Errors
    /// The stored value does not decode; the job fails.
    pub fn contains<D, Q>(&mut self, ctx: &mut Context<'_, D>, key: &Q) -> Result<bool, Failure>
    where
        D: KeyedProcessFunction,
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        Ok(self.get(ctx, key)?.is_some())
    }

    /// Sets an entry.
    #[inline]
    pub fn put<D, Q>(&mut self, ctx: &mut Context<'_, D>, key: &Q, value: V)
    where
        D: KeyedProcessFunction,
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.write(&mut ctx.core, key, Some(value));
    }

    /// Sets entries.
    pub fn put_all<D, Q>(&mut self, ctx: &mut Context<'_, D>, entries: impl IntoIterator<Item = (Q, V)>)
    where
        D: KeyedProcessFunction,
        K: Borrow<Q>,
        Q: Serialize,
    {
        entries.into_iter().for_each(|(key, value)| self.put(ctx, &key, value));
    }

    /// Removes an entry; does nothing if there is none.
    #[inline]
    pub fn remove<D, Q>(&mut self, ctx: &mut Context<'_, D>, key: &Q)
    where
        D: KeyedProcessFunction,
        K: Borrow<Q>,
        Q: Serialize + ?Sized,
    {
        self.write(&mut ctx.core, key, None);
    }

    /// Removes all entries.
    pub fn clear<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) {
        self.overlay.clear_slot(ctx.core.slot);
    }

    /// Whether there are no entries.
    ///
    /// # Errors
    /// Never at present.
    pub fn is_empty<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<bool, Failure> {
        let mut empty = true;
        self.scan(&mut ctx.core, false, &mut |_, _| {
            empty = false;
            Ok(false)
        })?;
        Ok(empty)
    }

    /// The number of entries. All of them are visited.
    ///
    /// # Errors
    /// Never at present.
    pub fn len<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<usize, Failure> {
        let mut len = 0;
        self.scan(&mut ctx.core, false, &mut |_, _| {
            len += 1;
            Ok(true)
        })?;
        Ok(len)
    }

    /// The keys in order.
    ///
    /// # Errors
    /// A stored key does not decode; the job fails.
    pub fn keys<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<Vec<K>, Failure> {
        let (mut keys, id) = (Vec::new(), self.id);
        self.scan(&mut ctx.core, true, &mut |key, _| {
            keys.push(decode_key(id, key)?);
            Ok(true)
        })?;
        Ok(keys)
    }

    /// The entries in the order of their keys.
    ///
    /// # Errors
    /// A stored key or value does not decode; the job fails.
    pub fn entries<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<Vec<(K, V)>, Failure>
    where
        V: Clone,
    {
        let mut entries = Vec::new();
        self.for_each(ctx, |key, value| {
            entries.push((key, value.clone()));
            Ok(())
        })?;
        Ok(entries)
    }

    /// Calls `visit` with each entry in the order of their keys, without keeping them all in memory.
    ///
    /// # Errors
    /// A stored key or value does not decode, or `visit` fails.
    pub fn for_each<D>(&mut self, ctx: &mut Context<'_, D>, mut visit: impl FnMut(K, &V) -> Result<(), Failure>) -> Result<(), Failure>
    where
        D: KeyedProcessFunction,
    {
        let id = self.id;
        self.scan(&mut ctx.core, true, &mut |key, value| {
            let key = decode_key(id, key)?;
            match value {
                Seen::Own(value) => visit(key, value)?,
                Seen::Stored(bytes) => visit(key, &decode(id, bytes)?)?,
            }
            Ok(true)
        })
    }

    /// Keeps only the entries for which `keep` says so, asked in the order of their keys (`remove` of an iterator of Flink's).
    ///
    /// # Errors
    /// A stored key or value does not decode; the job fails.
    pub fn retain<D: KeyedProcessFunction>(
        &mut self,
        ctx: &mut Context<'_, D>,
        mut keep: impl FnMut(&K, &V) -> bool,
    ) -> Result<(), Failure> {
        let mut gone = Vec::new();
        self.for_each(ctx, |key, value| {
            if !keep(&key, value) {
                gone.push(key);
            }
            Ok(())
        })?;
        gone.iter().for_each(|key| self.remove(ctx, key));
        Ok(())
    }

    /// The keys in order; not a read that renews a time to live.
    pub(crate) fn peek_keys<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>) -> Result<Vec<K>, Failure> {
        let (mut keys, id) = (Vec::new(), self.id);
        self.scan(&mut ctx.core, false, &mut |key, _| {
            keys.push(decode_key(id, key)?);
            Ok(true)
        })?;
        Ok(keys)
    }

    /// Sets an entry to what `make` makes of its value.
    pub(crate) fn replace_with<D: KeyedProcessFunction>(
        &mut self,
        ctx: &mut Context<'_, D>,
        key: &K,
        make: impl FnOnce(Option<V>) -> V,
    ) -> Result<(), Failure> {
        let cell = self.read(&mut ctx.core, key)?;
        let value = make(self.overlay.value_mut(cell).take());
        self.overlay.set(ctx.core.slot, &self.key, Some(value));
        Ok(())
    }

    /// Removes an entry and gives back its value.
    pub(crate) fn take<D: KeyedProcessFunction>(&mut self, ctx: &mut Context<'_, D>, key: &K) -> Result<Option<V>, Failure> {
        let cell = self.read(&mut ctx.core, key)?;
        let value = self.overlay.value_mut(cell).take();
        if value.is_some() {
            self.overlay.set(ctx.core.slot, &self.key, None);
        }
        Ok(value)
    }

    /// The cell of an entry, with its value before or in this batch.
    #[inline]
    fn read<Q: Serialize + ?Sized>(&mut self, core: &mut Core<'_>, key: &Q) -> Result<usize, Failure> {
        self.encode(key).map_err(Failure::Fatal)?;
        if let Some(cell) = self.overlay.find(core.slot, &self.key) {
            return Ok(cell);
        }
        let value = if self.overlay.cleared(core.slot) { None } else { self.stored(core)? };
        Ok(self.overlay.insert(core.slot, &self.key, value, Mark::Read))
    }

    #[inline]
    fn write<Q: Serialize + ?Sized>(&mut self, core: &mut Core<'_>, key: &Q, value: Option<V>) {
        match self.encode(key) {
            Ok(()) => self.overlay.set(core.slot, &self.key, value),
            Err(error) => core.fault(error),
        }
    }

    /// The stored value of the entry `self.key`.
    fn stored(&self, core: &mut Core<'_>) -> Result<Option<V>, Failure> {
        let column = core.batch.entries.get(self.id.column).copied().unwrap_or_default();
        match column.range(core.slot) {
            Some(range) => column.find(range, &self.key).map(|entry| decode(self.id, column.value.get(entry))).transpose(),
            None => core.host.get_entry(core.slot, self.id.state, &self.key).map(|bytes| decode(self.id, &bytes)).transpose(),
        }
    }

    fn encode<Q: Serialize + ?Sized>(&mut self, key: &Q) -> Result<(), String> {
        self.key.clear();
        ordered::append(key, &mut self.key).map_err(|error| format!("a key of state {} does not encode: {error}", self.id.name))
    }
}

fn decode_key<K: DeserializeOwned>(id: StateId, bytes: &[u8]) -> Result<K, Failure> {
    ordered::from_bytes(bytes).map_err(|error| Failure::Fatal(format!("a key of state {} does not decode: {error}", id.name)))
}

impl<K: Schema + DeserializeOwned, V: Schema + DeserializeOwned> Handle for MapState<K, V> {
    fn describe(options: &FieldOptions, descriptor: &mut Descriptor) {
        let state = options.state(StateKind::Map, table_of::<V>());
        descriptor.states.push(StateDescriptor { entry_key: Some(table_of::<K>()), ..state });
    }

    fn create(options: &FieldOptions, ids: &mut Ids<'_>) -> Result<Self, String> {
        let id = ids.entry_state(options.name);
        Ok(Self { id, overlay: Overlay::default(), touched: Touched::default(), key: Vec::new(), keys: PhantomData })
    }

    fn begin(&mut self, slots: usize) {
        self.overlay.begin(slots);
        self.touched.clear();
    }

    fn finish(&mut self, writes: &mut Writes) -> Result<(), Failure> {
        self.overlay.finish(self.id.state, writes).map_err(Failure::Fatal)?;
        self.touched.finish(self.id.state, &self.overlay, writes);
        Ok(())
    }
}

impl<K, V> State for MapState<K, V> {}
