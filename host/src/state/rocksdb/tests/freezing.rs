//! Freezing while everything goes on: random programs against a map, and the conformance of a backend that is frozen again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tidemill_core::detector::Cells;
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::conformance::{Before, conformance};
use tidemill_core::state::{CachedState, Frozen, KeyedState, Layer, Rows, Space, pass_groups};
use tidemill_wit::columns::BlobsBuf;

use super::super::super::folder::Folder;
use super::super::RocksBackend;
use super::super::database::Database;
use super::super::options::Memory;
use super::super::overlay::Room;
use super::super::rows::DatabaseRows;
use crate::disk::RealDisk;

type Row = (Space, Vec<u8>);
type Map = BTreeMap<Row, Vec<u8>>;

/// What a snapshot has passed on.
type Content = Vec<(KeyGroup, Vec<u8>)>;

const SPACES: [Space; 2] = [Space::Keys, Space::Timers];

/// The rows of frozen files.
fn thaw(frozen: &mut dyn Frozen, scratch: &Path) -> DatabaseRows {
    let dir = scratch.join(format!("{:x}", fastrand::u64(..)));
    std::fs::create_dir(&dir).unwrap();
    for file in frozen.files().unwrap() {
        std::fs::copy(file.path, dir.join(file.name)).unwrap();
    }
    DatabaseRows::new(Arc::new(Database::read(Folder::on(Arc::new(RealDisk), dir)).unwrap()), Room::new(0)).unwrap()
}

fn scanned(rows: &dyn Rows, space: Space, from: &[u8], most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let each = &mut |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        found.len() < most
    };
    rows.scan(space, from, each).unwrap();
    found
}

/// The rows of some keys, looked for together.
fn together(rows: &dyn Rows, space: Space, keys: &BTreeSet<Vec<u8>>) -> Vec<Option<Vec<u8>>> {
    let (mut asked, mut found) = (BlobsBuf::default(), Cells::default());
    keys.iter().for_each(|key| asked.push(key));
    rows.get_many(space, &asked, &mut found).unwrap();
    found.present.iter().zip(found.items.view().iter()).map(|(present, value)| (*present == 1).then(|| value.to_vec())).collect()
}

fn of_map(map: &Map, space: Space, from: &[u8], most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows = map.range((space, from.to_vec())..).take_while(|((found, _), _)| *found == space);
    rows.map(|((_, key), value)| (key.clone(), value.clone())).take(most).collect()
}

fn change(map: &mut Map, row: Row, value: Option<Vec<u8>>) {
    match value {
        Some(value) => map.insert(row, value),
        None => map.remove(&row),
    };
}

fn key(rng: &mut Rng) -> Vec<u8> {
    (0..rng.usize(1..3)).map(|_| rng.u8(..8)).collect()
}

/// Puts and deletes some rows: of the barrier, if they are held, or since then.
fn change_some(rng: &mut Rng, rows: &mut DatabaseRows, map: &mut Map, mut held: Option<&mut (Map, BTreeSet<Row>)>) {
    for _ in 0..rng.usize(..20) {
        let (space, key) = (SPACES[rng.usize(..2)], key(rng));
        let value = rng.bool().then(|| vec![rng.u8(..); rng.usize(..9)]);
        let (row, mut layer, mut is_seen) = ((space, key.clone()), Layer::Live, true);
        if let Some((of_barrier, since)) = &mut held {
            if rng.bool() {
                layer = Layer::Held;
                change(of_barrier, row.clone(), value.clone());
                is_seen = !since.contains(&row);
            } else {
                since.insert(row.clone());
            }
        }
        match &value {
            Some(value) => rows.put(layer, space, &key, value),
            None => rows.delete(layer, space, &key),
        }
        if is_seen {
            change(map, row, value);
        }
    }
}

#[test]
fn whatever_is_done_while_a_database_is_frozen_is_there_and_not_in_its_files() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..10 {
        let mut rng = Rng::with_seed(seed);
        let memory = Memory::new(64 << 20);
        let database =
            Database::create(Folder::on(Arc::new(RealDisk), folder.path().join(seed.to_string())), &memory.database(), &memory).unwrap();
        // Without room the worker waits for the end of each freezing at the next commit.
        let room = Room::new(if seed % 5 == 0 { 0 } else { 1 << 20 });
        let mut rows = DatabaseRows::new(Arc::new(database), room).unwrap();
        let mut map = Map::new();
        let mut frozen: Vec<(Box<dyn Frozen>, Map)> = Vec::new();
        // What is held for a barrier, and what has changed since.
        let mut held: Option<(Map, BTreeSet<Row>)> = None;
        for step in 0..300 {
            change_some(&mut rng, &mut rows, &mut map, held.as_mut());
            rows.commit().unwrap();
            let (space, key, most) = (SPACES[rng.usize(..2)], key(&mut rng), rng.usize(1..80));
            let mut value = vec![1];
            let found = rows.get(space, &key, &mut value).unwrap();
            let expected = map.get(&(space, key.clone()));
            assert_eq!(found.then_some(&value), expected, "seed {seed}, step {step}");
            let keys: BTreeSet<Vec<u8>> = (0..rng.usize(..40)).map(|_| self::key(&mut rng)).collect();
            let expected: Vec<_> = keys.iter().map(|key| map.get(&(space, key.clone())).cloned()).collect();
            assert_eq!(together(&rows, space, &keys), expected, "seed {seed}, step {step}");
            assert_eq!(scanned(&rows, space, &key, most), of_map(&map, space, &key, most), "seed {seed}, step {step}");
            if rng.u8(..15) == 0 {
                match held.take() {
                    None => {
                        assert!(rows.hold().unwrap());
                        held = Some((map.clone(), BTreeSet::new()));
                    }
                    Some((of_barrier, _)) => frozen.push((rows.freeze().unwrap().unwrap(), of_barrier)),
                }
            }
        }
        // One that nobody asks for leaves nothing.
        assert!(frozen.len() > 2);
        frozen.truncate(frozen.len() - 1);
        for (frozen, map) in &mut frozen {
            let thawed = thaw(&mut **frozen, folder.path());
            for space in SPACES {
                assert_eq!(scanned(&thawed, space, &[], usize::MAX), of_map(map, space, &[], usize::MAX), "seed {seed}");
            }
        }
        drop((rows, frozen));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "seed {seed}: something is left");
    }
}

/// The memtables of all are over their limit together, and none of them is so large that it goes to a file by itself.
#[test]
#[expect(clippy::disallowed_methods, reason = "a limit for a test that hangs")]
fn databases_do_not_wait_for_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Memory::new(1 << 20);
    let mut databases = Vec::new();
    while !memory.buffers().are_over() {
        let path = folder.path().join(databases.len().to_string());
        let database = Database::create(Folder::on(Arc::new(RealDisk), path.clone()), &memory.database(), &memory).unwrap();
        let mut rows = DatabaseRows::new(Arc::new(database), Room::new(0)).unwrap().with_buffers(memory.buffers());
        for space in SPACES {
            rows.put(Layer::Live, space, b"key", b"value");
        }
        rows.commit().unwrap();
        databases.push(rows);
    }
    let begin = std::time::Instant::now();
    while databases.iter().any(DatabaseRows::is_behind) {
        assert!(begin.elapsed().as_secs() < 60, "they wait for ever");
    }
}

/// What was frozen last, and what there was then.
struct Frosty {
    rng: Rng,
    scratch: PathBuf,
    frozen: Option<(Box<dyn Frozen>, Content)>,
}

impl Frosty {
    fn turn(&mut self, state: &mut dyn KeyedState) {
        // Sometimes slowly, so that much changes before it has been written.
        if self.frozen.is_some() && self.rng.u8(..8) == 0 {
            state.go_on_freezing().unwrap();
        }
        if self.rng.u8(..100) > 0 {
            return;
        }
        while state.go_on_freezing().unwrap() {}
        self.check();
        let mut content = Vec::new();
        state.snapshot(&mut |group, bytes| content.push((group, bytes.to_vec()))).unwrap();
        self.frozen = Some((state.freeze().unwrap().unwrap(), content));
    }

    fn check(&mut self) {
        let Some((mut frozen, content)) = self.frozen.take() else { return };
        let (rows, mut found) = (thaw(&mut *frozen, &self.scratch), Vec::new());
        pass_groups(&rows, 0..u32::from(u16::MAX) + 1, &mut |group, bytes| {
            found.push((group, bytes.to_vec()));
            Ok(())
        })
        .unwrap();
        assert!(found == content, "what is frozen is not the state as it was");
    }
}

#[test]
fn conforms_while_it_is_frozen_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut backend = RocksBackend::in_folder(&folder.path().join("state"), 64 << 20).unwrap();
    // Room for some keys only, so that others come from the database and go to it all the time.
    backend.pool = tidemill_core::state::Pool::new(2_000);
    let mut seed = 0;
    conformance(&mut |states| {
        seed += 1;
        let state = CachedState::new(states, backend.create("operator", 0).unwrap(), &backend.pool);
        let mut frosty = Frosty { rng: Rng::with_seed(seed), scratch: folder.path().to_owned(), frozen: None };
        Box::new(Before { state, turn: move |state: &mut CachedState<DatabaseRows>| frosty.turn(state) })
    });
}
