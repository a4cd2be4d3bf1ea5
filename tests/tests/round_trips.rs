//! Random state of all kinds and types goes from backend to backend and from parallelism to parallelism: what can be read of it stays the
//! same. A failing seed is printed; `TIDEMILL_SEED=n` replays it, `TIDEMILL_SEEDS=n` runs more.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test cannot go on")]

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use tidemill::disk::RealDisk;
use tidemill::savepoint::{Contents, Selection, diff, dump};
use tidemill::spec::job::StateBackend as Spec;
use tidemill::state::{HAS_ROCKSDB, backend};
use tidemill::store::CheckpointStore;
use tidemill::store::savepoint::Saved;
use tidemill_core::checkpoint::manifest::Manifest;
use tidemill_core::key_group::{KeyGroup, hash_key, key_group};
use tidemill_core::schema::samples::{basket, everything, random_value, tree};
use tidemill_core::state::KeyedState;
use tidemill_core::state::layout::{Form, Writer};
use tidemill_tests::cli::number;
use tidemill_tests::stored::{self, KEY_GROUPS, UID};
use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate};
use tidemill_wit::schema::{Type, TypeTable};

const MEMORY: Spec = Spec::Memory;
/// So little that nearly all keys are put away.
const ROCKSDB: Spec = Spec::Rocksdb { memory: 8 << 20 };

/// All kinds, with and without a time to live that does not end, of types of all kinds.
fn states() -> Vec<StateDescriptor> {
    let kinds = [StateKind::Value, StateKind::List, StateKind::Map, StateKind::Reducing, StateKind::Aggregating];
    let tables = [basket(), tree(), everything(), TypeTable::of(Type::I64)];
    let state = |(number, kind): (usize, StateKind)| StateDescriptor {
        name: format!("state-{number}"),
        kind,
        value: tables[number % tables.len()].clone(),
        entry_key: (kind == StateKind::Map).then(|| TypeTable::of(Type::U64)),
        ttl: (number % 3 == 1).then_some(i64::MAX),
        ttl_update: TtlUpdate::OnCreateAndWrite,
    };
    kinds.iter().cycle().copied().take(12).enumerate().map(state).collect()
}

/// The content of some key groups, as a savepoint has it.
fn random(states: &[StateDescriptor], rng: &mut Rng) -> Vec<(KeyGroup, Vec<u8>)> {
    let mut keys: Vec<(KeyGroup, Vec<u8>)> = (0..rng.u64(1..1_500))
        .map(|number| {
            let (length, mut encoded) = (rng.usize(0..60), Vec::new());
            let text: String = (0..length).map(|_| rng.alphanumeric()).collect();
            tidemill_wit::key::put_bytes(&mut encoded, format!("{text}\0{number}").as_bytes());
            (key_group(hash_key(&encoded), KEY_GROUPS), encoded)
        })
        .collect();
    keys.sort();
    let (mut writer, mut groups) = (Writer::default(), Vec::new());
    for of_group in keys.chunk_by(|a, b| a.0 == b.0) {
        writer.begin(of_group[0].0);
        for (_, key) in of_group {
            writer.key(key);
            content(states, rng, &mut writer);
        }
        groups.push((of_group[0].0, writer.finish().to_vec()));
    }
    groups
}

fn content(states: &[StateDescriptor], rng: &mut Rng, writer: &mut Writer) {
    let only_timers = rng.u8(..) < 20;
    for (id, state) in (0u8..).zip(states) {
        if only_timers || rng.u8(..) < 150 {
            continue;
        }
        let value = |rng: &mut Rng| {
            let mut value = Vec::new();
            random_value(&state.value, &state.value.root, &mut || rng.u64(..), &mut value);
            value
        };
        let stamp = |rng: &mut Rng| state.ttl.map(|_| rng.i64(0..1 << 40));
        let most = if rng.u8(..) < 8 { 300 } else { 6 };
        let (form, count) = (Form::of(state.kind), rng.usize(1..most));
        if form != Form::Value {
            writer.entries(id, form, state.ttl.is_some(), count);
        }
        match form {
            Form::Value => writer.value(id, stamp(rng), &value(rng)),
            Form::List => (0..count).for_each(|_| writer.element(stamp(rng), &value(rng))),
            Form::Map => (0..count as u64).for_each(|entry| writer.entry(stamp(rng), &(entry * 3).to_be_bytes(), &value(rng))),
        }
    }
    let times = |rng: &mut Rng, least: usize| {
        let mut times: Vec<i64> = (0..rng.usize(least..least + 3)).map(|_| rng.i64(..)).collect();
        times.sort_unstable();
        times.dedup();
        times
    };
    let event = times(rng, 1);
    writer.timers(&event, &times(rng, 0));
}

/// All that can be read of a checkpoint: every state as lines, and the numbers.
fn dumped(saved: &Saved, states: &[StateDescriptor]) -> Vec<String> {
    let mut lines = Vec::new();
    for state in states {
        let selection = Selection { operator: UID, state: &state.name, key: None };
        let mut found = |row| {
            lines.push(format!("{}: {}", state.name, serde_json::to_string(&row).unwrap()));
            Ok(())
        };
        dump(saved, &selection, &mut found).unwrap();
    }
    let contents = Contents::read(saved).unwrap().operators.remove(0);
    lines.push(format!("{} keys, {} and {} timers", contents.keys, contents.event_timers, contents.processing_timers));
    lines
}

/// The newest checkpoint of a walk through backends and parallelisms.
struct Walk<'a> {
    dir: &'a Path,
    states: &'a [StateDescriptor],
    key: TypeTable,
    from: (CheckpointStore, Manifest),
}

impl Walk<'_> {
    /// Restores it and takes another.
    fn step(&mut self, spec: Spec, parallelism: u32, canonical: bool) {
        let (store, manifest) = &self.from;
        let backend = backend(spec, &self.dir.join("live")).unwrap();
        let subtasks = stored::restore(store, manifest, self.states, &*backend, parallelism).unwrap();
        let id = manifest.checkpoint + 1;
        let manifest = stored::store(store, id, (&self.key, self.states), subtasks, canonical).unwrap();
        self.from.1 = manifest;
    }

    fn saved(&self, id: u64) -> Saved {
        Saved::open(Arc::new(RealDisk), &self.dir.join(format!("store/chk-{id}"))).unwrap()
    }
}

#[test]
fn state_stays_the_same_on_its_way_through_backends_and_parallelisms() {
    let other = if HAS_ROCKSDB { ROCKSDB } else { MEMORY };
    let (first, count) = (number("TIDEMILL_SEED", 0), number("TIDEMILL_SEEDS", 2).min(200));
    for seed in first..first + if std::env::var_os("TIDEMILL_SEED").is_some() { 1 } else { count } {
        let rng = &mut Rng::with_seed(seed);
        let (dir, states, key) = (tempfile::tempdir().unwrap(), states(), TypeTable::of(Type::String));
        let store = CheckpointStore::open(Arc::new(RealDisk), dir.path().join("store")).unwrap();
        let groups = random(&states, rng);
        let mut begin: Box<dyn KeyedState> = backend(MEMORY, &dir.path().join("live")).unwrap().open(UID, 0, &states).unwrap();
        let ids: Vec<_> = (0u8..).map(Some).take(states.len()).collect();
        groups.iter().for_each(|(group, bytes)| begin.restore(*group, bytes, &ids).unwrap());
        let manifest = stored::store(&store, 1, (&key, &states), vec![begin], true).unwrap();
        let mut walk = Walk { dir: dir.path(), states: &states, key, from: (store, manifest) };
        let expected = dumped(&walk.saved(1), &states);
        // The same parallelism twice: files are taken over. Then savepoints, which are never files.
        for (spec, parallelism) in
            [(other, 1), (other, 1), (other, 7), (MEMORY, 7), (other, 3), (other, 3), (other, KEY_GROUPS), (other, 1), (MEMORY, 1)]
        {
            walk.step(spec, parallelism, rng.u8(..) < 60);
            let saved = walk.saved(walk.from.1.checkpoint);
            let found = dumped(&saved, &states);
            let step = format!("TIDEMILL_SEED={seed}: {spec:?} at parallelism {parallelism}");
            assert!(found == expected, "{step}: {:?}", found.iter().zip(&expected).find(|(found, expected)| found != expected));
            assert_eq!(diff(&walk.saved(1), &saved).unwrap(), [], "{step}");
        }
    }
}
