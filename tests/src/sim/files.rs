//! State in memory whose checkpoints are files, some of them shared, as those of a database are.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tidemill::store::CheckpointStore;
use tidemill_core::checkpoint::manifest::StoredDatabase;
use tidemill_core::detector::{KeyRef, Prefetched, SlotKeys};
use tidemill_core::effects::{TimerOps, Writes};
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::{DueTimers, Frozen, FrozenFile, KeyedState, MemoryState, Scan, StateBackend, StoredGroups};
use tidemill_core::time::Domain;
use tidemill_core::{Error, Result, Timestamp};
use tidemill_wit::descriptor::StateDescriptor;
use xxhash_rust::xxh3::xxh3_64;

/// So many key groups are a file: few, so that some do not change from one checkpoint to the next.
const GROUPS_PER_FILE: usize = 16;

/// Makes such state. The local files are real, since what befalls them is of no interest: the machine's are made anew at every start.
pub struct FilesBackend {
    dir: Arc<TempDir>,
}

impl FilesBackend {
    /// With a folder for local files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Result<Self, String> {
        Ok(Self { dir: Arc::new(tempfile::tempdir().map_err(|error| error.to_string())?) })
    }
}

impl StateBackend for FilesBackend {
    fn open(&self, _: &str, _: u32, states: &[StateDescriptor]) -> Result<Box<dyn KeyedState>> {
        Ok(Box::new(State { memory: MemoryState::new(states), dir: Arc::clone(&self.dir) }))
    }
}

struct State {
    memory: MemoryState,
    dir: Arc<TempDir>,
}

/// Key groups with their contents.
type Groups = Vec<(KeyGroup, Vec<u8>)>;

struct FrozenGroups {
    groups: Groups,
    dir: Arc<TempDir>,
}

impl Frozen for FrozenGroups {
    fn files(&mut self) -> Result<Vec<FrozenFile>> {
        let (mut files, mut names) = (Vec::new(), String::new());
        for some in self.groups.chunk_by(|a, b| usize::from(a.0.0) / GROUPS_PER_FILE == usize::from(b.0.0) / GROUPS_PER_FILE) {
            let bytes = postcard::to_stdvec(&some.iter().map(|(group, bytes)| (group.0, bytes)).collect::<Vec<_>>());
            let bytes = bytes.map_err(|error| Error::storage("encoding key groups").caused_by(error))?;
            let content = format!("{:016x}", xxh3_64(&bytes));
            names.push_str(&content);
            files.push(self.file(&content, &bytes, Some(content.clone()))?);
        }
        // As the list of a database's tables, which is of this checkpoint only.
        let list = names.clone();
        files.push(self.file(&format!("LIST-{:016x}", xxh3_64(list.as_bytes())), list.as_bytes(), None)?);
        Ok(files)
    }

    fn groups(&mut self, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        self.groups.iter().try_for_each(|(group, bytes)| each(*group, bytes))
    }
}

impl FrozenGroups {
    fn file(&self, name: &str, bytes: &[u8], content: Option<String>) -> Result<FrozenFile> {
        let path = self.dir.path().join(name);
        if !path.exists() {
            fs::write(&path, bytes).map_err(|error| Error::storage("writing a local file").caused_by(error))?;
        }
        Ok(FrozenFile { name: name.to_owned(), path, content })
    }
}

struct Stored {
    groups: Groups,
    of: Range<u32>,
}

/// Reads what was stored of such state.
///
/// # Errors
/// A file is missing or not what was written.
pub fn open_stored(store: &CheckpointStore, stored: &StoredDatabase, of: Range<u32>, _: u64) -> Result<Arc<dyn StoredGroups>> {
    let dir = tempfile::tempdir().map_err(|error| Error::storage("making a folder").caused_by(error))?;
    let (mut groups, mut names, mut listed) = (Groups::new(), String::new(), None);
    for file in &stored.files {
        let to: PathBuf = dir.path().join(&file.name);
        store.fetch(file, &to)?;
        let bytes = fs::read(&to).map_err(|error| Error::storage("reading a local file").caused_by(error))?;
        if file.name.starts_with("LIST") {
            listed = Some(String::from_utf8_lossy(&bytes).into_owned());
            continue;
        }
        names.push_str(&file.name);
        let some: Vec<(u16, Vec<u8>)> = postcard::from_bytes(&bytes).map_err(|error| Error::corrupt("key groups").caused_by(error))?;
        groups.extend(some.into_iter().map(|(group, bytes)| (KeyGroup(group), bytes)));
    }
    if listed.as_ref() != Some(&names) {
        return Err(Error::corrupt(format!("the files of operator {} are {names}, but {listed:?} were stored", stored.operator)));
    }
    Ok(Arc::new(Stored { groups, of }))
}

impl StoredGroups for Stored {
    fn groups(&self) -> Range<u32> {
        self.of.clone()
    }

    fn read(&self, range: Range<u32>, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        let is_wanted = |group: KeyGroup| range.contains(&u32::from(group.0)) && self.of.contains(&u32::from(group.0));
        self.groups.iter().filter(|(group, _)| is_wanted(*group)).try_for_each(|(group, bytes)| each(*group, bytes))
    }
}

impl KeyedState for State {
    fn prefetch(&mut self, slots: &SlotKeys, now: Timestamp, into: &mut Prefetched) -> Result<()> {
        self.memory.prefetch(slots, now, into)
    }

    fn get_entry(&self, key: KeyRef<'_>, state: u8, entry: &[u8], now: Timestamp, into: &mut Vec<u8>) -> Result<bool> {
        self.memory.get_entry(key, state, entry, now, into)
    }

    fn scan_entries(&self, scan: &Scan<'_>, now: Timestamp, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.memory.scan_entries(scan, now, found)
    }

    fn apply(&mut self, slots: &SlotKeys, writes: &Writes, timers: &TimerOps, now: Timestamp) -> Result<()> {
        self.memory.apply(slots, writes, timers, now)
    }

    fn due_timers(&mut self, domain: Domain, horizon: Timestamp, limit: usize, into: &mut DueTimers) -> Result<()> {
        self.memory.due_timers(domain, horizon, limit, into)
    }

    fn remove_timers(&mut self, domain: Domain, due: &DueTimers, count: usize) -> Result<()> {
        self.memory.remove_timers(domain, due, count)
    }

    fn next_timer(&self, domain: Domain) -> Option<Timestamp> {
        self.memory.next_timer(domain)
    }

    fn timer_count(&self, domain: Domain) -> u64 {
        self.memory.timer_count(domain)
    }

    fn key_count(&self) -> u64 {
        self.memory.key_count()
    }

    fn expire(&mut self, now: Timestamp) -> Result<()> {
        self.memory.expire(now)
    }

    fn snapshot(&mut self, into: &mut dyn FnMut(KeyGroup, &[u8])) -> Result<()> {
        self.memory.snapshot(into)
    }

    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>> {
        let mut groups = Groups::new();
        self.memory.snapshot(&mut |group, bytes| groups.push((group, bytes.to_vec())))?;
        Ok(Some(Box::new(FrozenGroups { groups, dir: Arc::clone(&self.dir) })))
    }

    fn restore(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        self.memory.restore(group, bytes, states)
    }
}
