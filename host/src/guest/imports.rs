//! What the host offers to guests. Everything a guest passes is copied or looked at in place, under the store's limits.

use tidemill_core::detector::Reads;
use tidemill_core::effects::{Effects, Outputs, TimerOps, Writes};
use tidemill_core::state::Scan;
use tidemill_wit::columns::BlobsBuf;
use wasmtime::component::{ComponentType, Lift, Linker, LinkerInstance, WasmList, WasmStr};
use wasmtime::{Engine, Result, StoreContextMut, bail};

use super::generated::tidemill::process::telemetry::Level;
use super::limits::{self, OverLimit};
use super::store::Host;

/// The most entries that one scan returns, however many are asked for: the next scan goes on after the last of them.
const SCAN_ENTRIES: u32 = 1024;

/// Binds the contract's imports.
pub(super) fn linker(engine: &Engine) -> Result<Linker<Host>> {
    let mut linker = Linker::new(engine);
    collector(&mut linker.instance("tidemill:process/collector@0.1.0")?)?;
    keyed_state(&mut linker.instance("tidemill:process/keyed-state@0.1.0")?)?;
    broadcast_state(&mut linker.instance("tidemill:process/broadcast-state@0.1.0")?)?;
    reference_tables(&mut linker.instance("tidemill:process/reference-tables@0.1.0")?)?;
    telemetry(&mut linker.instance("tidemill:process/telemetry@0.1.0")?)?;
    Ok(linker)
}

fn collector(instance: &mut LinkerInstance<'_, Host>) -> Result<()> {
    instance.func_wrap("emit", |mut store: StoreContextMut<'_, Host>, (effects,): (EffectsView,)| {
        let mut kept = store.data_mut().begin_emit()?;
        effects.copy(&store, &mut kept);
        store.data_mut().end_emit(kept);
        Ok(())
    })
}

fn keyed_state(instance: &mut LinkerInstance<'_, Host>) -> Result<()> {
    type Get = (u32, u8, WasmList<u8>);
    instance.func_wrap("get-entry", |mut store: StoreContextMut<'_, Host>, (slot, state, entry): Get| {
        let (host, mut found) = (store.data(), Vec::new());
        let key = host.key_with_entries(slot, state)?;
        let reads = host.reads();
        let [keys, ..] = &reads.keys;
        match reads.state.get_entry(key, state, &keys.of(state, entry.as_le_slice(&store)), reads.processing_time, &mut found) {
            Ok(there) => Ok((there.then_some(found),)),
            Err(error) => Err(store.data_mut().fatal(&error)),
        }
    })?;

    type Scanned = (u32, u8, Option<WasmList<u8>>, u32);
    instance.func_wrap("scan-entries", |mut store: StoreContextMut<'_, Host>, (slot, state, after, limit): Scanned| {
        let (host, mut found, mut bytes) = (store.data(), Vec::new(), 0);
        let [keys, ..] = &host.reads().keys;
        let after = after.as_ref().map(|after| keys.of(state, after.as_le_slice(&store)));
        let scan =
            Scan { key: host.key_with_entries(slot, state)?, state, after: after.as_deref(), limit: limit.min(SCAN_ENTRIES) as usize };
        let (reads, most) = (host.reads(), host.output_limit());
        let scanned = reads.state.scan_entries(&scan, reads.processing_time, &mut |key, value| {
            bytes += key.len() + value.len();
            if bytes <= most {
                found.push((key.to_vec(), value.to_vec()));
            }
        });
        match scanned {
            Ok(()) if bytes > most => Err(scanned_too_much(limit, most)),
            Ok(()) => Ok((found,)),
            Err(error) => Err(store.data_mut().fatal(&error)),
        }
    })
}

fn scanned_too_much(limit: u32, most: usize) -> wasmtime::Error {
    OverLimit(format!("a scan of {limit} entries gave more than {}: use a lower limit", limits::bytes(most as u64))).into()
}

fn broadcast_state(instance: &mut LinkerInstance<'_, Host>) -> Result<()> {
    instance.func_wrap("get-entry", |store: StoreContextMut<'_, Host>, (state, entry): (u8, WasmList<u8>)| {
        let [_, keys, _] = &store.data().reads().keys;
        let found = store.data().broadcast(state)?.get(state, &keys.of(state, entry.as_le_slice(&store)));
        Ok((found.map(<[u8]>::to_vec),))
    })?;

    type Scanned = (u8, Option<WasmList<u8>>, u32);
    instance.func_wrap("scan-entries", |store: StoreContextMut<'_, Host>, (state, after, limit): Scanned| {
        let (host, mut found, mut bytes) = (store.data(), Vec::new(), 0);
        let [_, keys, _] = &host.reads().keys;
        let after = after.as_ref().map(|after| keys.of(state, after.as_le_slice(&store)));
        for (key, value) in host.broadcast(state)?.scan(state, after.as_deref()).take(limit.min(SCAN_ENTRIES) as usize) {
            bytes += key.len() + value.len();
            if bytes > host.output_limit() {
                return Err(scanned_too_much(limit, host.output_limit()));
            }
            found.push((key.to_vec(), value.to_vec()));
        }
        Ok((found,))
    })
}

fn reference_tables(instance: &mut LinkerInstance<'_, Host>) -> Result<()> {
    instance.func_wrap("lookup", |store: StoreContextMut<'_, Host>, (table, key): (u8, WasmList<u8>)| {
        let Reads { tables, keys: [_, _, keys], .. } = store.data().reads();
        let Some(found) = tables.get(usize::from(table)) else {
            bail!("lookup names table {table}, but the call has {}", tables.len());
        };
        Ok((found.get(&keys.of(table, key.as_le_slice(&store))).map(<[u8]>::to_vec),))
    })
}

fn telemetry(instance: &mut LinkerInstance<'_, Host>) -> Result<()> {
    instance.func_wrap("log", |mut store: StoreContextMut<'_, Host>, (level, message): (Level, WasmStr)| {
        let message = message.to_str(&store)?.into_owned();
        store.data_mut().log(level, &message);
        Ok(())
    })?;
    instance.func_wrap("count", |mut store: StoreContextMut<'_, Host>, (counter, n): (WasmStr, u64)| {
        let known = {
            let name = counter.to_str(&store)?;
            store.data().counter(&name).ok_or_else(|| name.into_owned())
        };
        match known {
            Ok(index) => store.data_mut().telemetry().add(index, n),
            Err(name) => store.data_mut().telemetry().count(&name, n),
        }
        Ok(())
    })
}

// Views of the guest's columns, read where they lie: bindgen! would make a new vector of every list.

#[derive(ComponentType, Lift)]
#[component(record)]
struct BlobsView {
    bytes: WasmList<u8>,
    ends: WasmList<u32>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct WritesView {
    op: WasmList<u8>,
    state: WasmList<u8>,
    slot: WasmList<u32>,
    entry: BlobsView,
    value: BlobsView,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct TimersView {
    op: WasmList<u8>,
    domain: WasmList<u8>,
    slot: WasmList<u32>,
    timestamp: WasmList<i64>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct OutputsView {
    lane: WasmList<u8>,
    row: WasmList<u32>,
    timestamp: WasmList<i64>,
    timed: WasmList<u8>,
    payload: BlobsView,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct EffectsView {
    writes: WritesView,
    timers: TimersView,
    outputs: OutputsView,
}

impl EffectsView {
    fn copy(&self, from: &StoreContextMut<'_, Host>, into: &mut Effects) {
        self.writes.copy(from, &mut into.writes);
        self.timers.copy(from, &mut into.timers);
        self.outputs.copy(from, &mut into.outputs);
    }
}

impl WritesView {
    fn copy(&self, from: &StoreContextMut<'_, Host>, into: &mut Writes) {
        replace(&mut into.op, self.op.as_le_slice(from));
        replace(&mut into.state, self.state.as_le_slice(from));
        replace(&mut into.slot, self.slot.as_le_slice(from));
        self.entry.copy(from, &mut into.entry);
        self.value.copy(from, &mut into.value);
    }
}

impl TimersView {
    fn copy(&self, from: &StoreContextMut<'_, Host>, into: &mut TimerOps) {
        replace(&mut into.op, self.op.as_le_slice(from));
        replace(&mut into.domain, self.domain.as_le_slice(from));
        replace(&mut into.slot, self.slot.as_le_slice(from));
        replace(&mut into.timestamp, self.timestamp.as_le_slice(from));
    }
}

impl OutputsView {
    fn copy(&self, from: &StoreContextMut<'_, Host>, into: &mut Outputs) {
        replace(&mut into.lane, self.lane.as_le_slice(from));
        replace(&mut into.row, self.row.as_le_slice(from));
        replace(&mut into.timestamp, self.timestamp.as_le_slice(from));
        replace(&mut into.timed, self.timed.as_le_slice(from));
        self.payload.copy(from, &mut into.payload);
    }
}

impl BlobsView {
    fn copy(&self, from: &StoreContextMut<'_, Host>, into: &mut BlobsBuf) {
        replace(&mut into.bytes, self.bytes.as_le_slice(from));
        replace(&mut into.ends, self.ends.as_le_slice(from));
    }
}

fn replace<T: Copy>(into: &mut Vec<T>, from: &[T]) {
    into.clear();
    into.extend_from_slice(from);
}
