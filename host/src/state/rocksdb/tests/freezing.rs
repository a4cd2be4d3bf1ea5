//! Freezing while everything goes on: random programs against a map, and the conformance of a backend that is frozen again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tidemill_core::Result;
use tidemill_core::detector::{Cells, KeyRef, Prefetched, SlotKeys};
use tidemill_core::effects::{TimerOps, Writes};
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::conformance::conformance;
use tidemill_core::state::{DueTimers, Frozen, KeyedState, Rows, Scan, Space, StateBackend, pass_groups};
use tidemill_core::time::{Domain, Timestamp};
use tidemill_wit::columns::BlobsBuf;

use super::super::super::folder::Folder;
use super::super::RocksBackend;
use super::super::database::Database;
use super::super::options::Memory;
use super::super::overlay::Room;
use super::super::rows::DatabaseRows;

type Map = BTreeMap<(Space, Vec<u8>), Vec<u8>>;

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
    DatabaseRows::new(Arc::new(Database::read(Folder::real(dir)).unwrap()), Room::new(0)).unwrap()
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

fn key(rng: &mut Rng) -> Vec<u8> {
    (0..rng.usize(1..3)).map(|_| rng.u8(..8)).collect()
}

#[test]
fn whatever_is_done_while_a_database_is_frozen_is_there_and_not_in_its_files() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..10 {
        let mut rng = Rng::with_seed(seed);
        let memory = Memory::new(64 << 20);
        let database = Database::create(&folder.path().join(seed.to_string()), &memory.database(), &memory, true).unwrap();
        // Without room the worker waits for the end of each freezing at the next commit.
        let room = Room::new(if seed % 5 == 0 { 0 } else { 1 << 20 });
        let mut rows = DatabaseRows::new(Arc::new(database), room).unwrap();
        let mut map = Map::new();
        let mut frozen: Vec<(Box<dyn Frozen>, Map)> = Vec::new();
        for step in 0..300 {
            for _ in 0..rng.usize(..20) {
                let (space, key) = (SPACES[rng.usize(..2)], key(&mut rng));
                if rng.bool() {
                    let value = vec![rng.u8(..); rng.usize(..9)];
                    rows.put(space, &key, &value);
                    map.insert((space, key), value);
                } else {
                    rows.delete(space, &key);
                    map.remove(&(space, key));
                }
            }
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
            if rng.u8(..30) == 0 {
                frozen.push((rows.freeze().unwrap().unwrap(), map.clone()));
            }
        }
        // One that nobody asks for leaves nothing.
        frozen.truncate(frozen.len().max(1) - 1);
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

/// State that is frozen before a batch now and then, and checks at the end that the files hold what there was.
struct Frosty {
    state: Box<dyn KeyedState>,
    rng: Rng,
    scratch: PathBuf,
    frozen: Option<(Box<dyn Frozen>, Content)>,
}

impl Frosty {
    fn freeze(&mut self) {
        if self.rng.u8(..100) > 0 {
            return;
        }
        self.check();
        let mut content = Vec::new();
        self.state.snapshot(&mut |group, bytes| content.push((group, bytes.to_vec()))).unwrap();
        self.frozen = Some((self.state.freeze().unwrap().unwrap(), content));
    }

    fn check(&mut self) {
        let Some((mut frozen, content)) = self.frozen.take() else { return };
        let (rows, mut found) = (thaw(&mut *frozen, &self.scratch), Vec::new());
        pass_groups(&rows, 0..u32::from(u16::MAX) + 1, &mut |group, bytes| {
            found.push((group, bytes.to_vec()));
            Ok(())
        })
        .unwrap();
        assert_eq!(found, content);
    }
}

impl Drop for Frosty {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}

impl KeyedState for Frosty {
    fn prefetch(&mut self, slots: &SlotKeys, now: Timestamp, into: &mut Prefetched) -> Result<()> {
        self.state.prefetch(slots, now, into)
    }

    fn get_entry(&self, key: KeyRef<'_>, state: u8, entry: &[u8], now: Timestamp, into: &mut Vec<u8>) -> Result<bool> {
        self.state.get_entry(key, state, entry, now, into)
    }

    fn scan_entries(&self, scan: &Scan<'_>, now: Timestamp, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.state.scan_entries(scan, now, found)
    }

    fn apply(&mut self, slots: &SlotKeys, writes: &Writes, timers: &TimerOps, now: Timestamp) -> Result<()> {
        self.freeze();
        self.state.apply(slots, writes, timers, now)
    }

    fn due_timers(&mut self, domain: Domain, horizon: Timestamp, limit: usize, into: &mut DueTimers) -> Result<()> {
        self.state.due_timers(domain, horizon, limit, into)
    }

    fn remove_timers(&mut self, domain: Domain, due: &DueTimers, count: usize) -> Result<()> {
        self.state.remove_timers(domain, due, count)
    }

    fn next_timer(&self, domain: Domain) -> Option<Timestamp> {
        self.state.next_timer(domain)
    }

    fn timer_count(&self, domain: Domain) -> u64 {
        self.state.timer_count(domain)
    }

    fn key_count(&self) -> u64 {
        self.state.key_count()
    }

    fn expire(&mut self, now: Timestamp) -> Result<()> {
        self.state.expire(now)
    }

    fn snapshot(&mut self, into: &mut dyn FnMut(KeyGroup, &[u8])) -> Result<()> {
        self.state.snapshot(into)
    }

    fn restore(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        self.state.restore(group, bytes, states)
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
        let state = backend.open("operator", 0, states).unwrap();
        Box::new(Frosty { state, rng: Rng::with_seed(seed), scratch: folder.path().to_owned(), frozen: None })
    });
}
