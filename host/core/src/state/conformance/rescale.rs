//! State at other parallelisms.

use tidemill_wit::descriptor::{StateDescriptor, StateKind};

use super::Open;
use super::rig::{Snapshot, state};
use crate::key_group::{KeyGroup, hash_key, key_group, range_of};
use crate::schema::samples::{basket, everything, random_value, tree};
use crate::state::KeyedState;
use crate::state::layout::{Form, Writer};

const MAX_PARALLELISM: u32 = 128;
const STATES: [(StateKind, Option<i64>); 5] = [
    (StateKind::Value, None),
    (StateKind::List, None),
    (StateKind::Map, Some(i64::MAX)),
    (StateKind::Reducing, Some(i64::MAX)),
    (StateKind::Aggregating, None),
];

/// Random state of all kinds and types goes from one worker to seven, three and one for each key group, and comes back byte by byte.
pub(super) fn round_trip(open: Open<'_>, seed: u64) {
    let states = STATES.map(|(kind, ttl)| state(kind, ttl));
    let written = random(seed);
    let mut snapshot = written.clone();
    for parallelism in [1, 7, 3, MAX_PARALLELISM, 1] {
        snapshot = restored(open, &states, &snapshot, parallelism);
        assert!(snapshot == written, "seed {seed}, parallelism {parallelism}: the state is not what it was");
    }
}

/// What the workers write after they have restored their parts.
fn restored(open: Open<'_>, states: &[StateDescriptor], snapshot: &Snapshot, parallelism: u32) -> Snapshot {
    let ids: Vec<Option<u8>> = (0u8..).take(STATES.len()).map(Some).collect();
    let mut all = Vec::new();
    for worker in 0..parallelism {
        let mine = range_of(worker, MAX_PARALLELISM, parallelism);
        let mut state: Box<dyn KeyedState> = open(states);
        for (group, bytes) in snapshot.iter().filter(|(group, _)| mine.contains(&u32::from(group.0))) {
            state.restore(*group, bytes, &ids).expect("restore");
        }
        state.snapshot(&mut |group, bytes| all.push((group, bytes.to_vec()))).expect("snapshot");
    }
    all
}

/// A snapshot of some hundred keys; of fewer where code is not optimized.
fn random(seed: u64) -> Snapshot {
    let mut rng = numbers(seed);
    let mut keys: Vec<(KeyGroup, Vec<u8>)> = (0..if cfg!(debug_assertions) { 60 } else { 300u32 })
        .map(|n| {
            let key = [&n.to_be_bytes()[..], &rng().to_be_bytes()[..usize::try_from(rng() % 8).unwrap_or(0)]].concat();
            (key_group(hash_key(&key), MAX_PARALLELISM), key)
        })
        .collect();
    keys.sort();
    let (mut writer, mut groups) = (Writer::default(), Vec::new());
    for of_group in keys.chunk_by(|a, b| a.0 == b.0) {
        let group = of_group[0].0;
        writer.begin(group);
        of_group.iter().for_each(|(_, key)| content(key, &mut rng, &mut writer));
        groups.push((group, writer.finish().to_vec()));
    }
    groups
}

fn content(key: &[u8], rng: &mut impl FnMut() -> u64, writer: &mut Writer) {
    let tables = [basket(), tree(), everything()];
    let value = |rng: &mut dyn FnMut() -> u64| {
        let table = &tables[usize::try_from(rng() % 3).unwrap_or(0)];
        let mut value = Vec::new();
        random_value(table, &table.root, &mut *rng, &mut value);
        value
    };
    writer.key(key);
    for (id, (kind, ttl)) in (0u8..).zip(STATES) {
        // Every key has the first state, so that it is there at all.
        if id > 0 && rng().is_multiple_of(2) {
            continue;
        }
        let mut stamp = || ttl.map(|_| i64::try_from(rng() >> 2).unwrap_or(0));
        match Form::of(kind) {
            Form::Value => {
                let stamp = stamp();
                writer.value(id, stamp, &value(rng));
            }
            Form::List => {
                let count = 1 + usize::try_from(rng() % 90).unwrap_or(0);
                writer.entries(id, Form::List, false, count);
                (0..count).for_each(|_| writer.element(None, &value(rng)));
            }
            Form::Map => {
                let count = 1 + u32::try_from(rng() % 90).unwrap_or(0);
                writer.entries(id, Form::Map, true, count as usize);
                for entry in 0..count {
                    let stamp = i64::try_from(rng() >> 2).unwrap_or(0);
                    writer.entry(Some(stamp), &entry.to_be_bytes(), &value(rng));
                }
            }
        }
    }
    let first = i64::try_from(rng() >> 2).unwrap_or(0);
    let times: Vec<i64> = (0..i64::try_from(rng() % 4).unwrap_or(0)).map(|n| first + n * 7).collect();
    writer.timers(&times, &times[..times.len() / 2]);
}

/// Random numbers (the algorithm `SplitMix64`).
fn numbers(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
