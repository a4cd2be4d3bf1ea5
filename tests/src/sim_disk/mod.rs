//! A disk in memory that forgets at a crash what was not synced, as real ones do, and that fails when told to.

mod contents;
mod faults;
mod file;
mod folder;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Cursor, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use tidemill_core::disk::{Disk, DiskFile, DiskReader};

use contents::Contents;
pub use faults::Faults;
use file::{Content, OpenFile};
use folder::Folder;

/// The disk; clones share it.
///
/// At a [`crash`](SimDisk::crash), bytes that were not synced are lost, kept, or torn; names that were not synced (created, renamed,
/// removed) have each been made durable or not. A rename is atomic. Files opened before the crash can no longer be written. A file may have
/// several names.
///
/// Folders named `scratch`, and what is in them, are for files that nobody needs after a crash. Nothing fails there, no call is counted and
/// no crash changes anything, so that threads which write there do not disturb what the seed decides.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

struct State {
    rng: Rng,
    faults: Faults,
    /// Calls that change something, since the beginning.
    changes: u64,
    /// Calls that failed because of [`Faults`].
    failed: u64,
    /// How many crashes there were; files remember in which life they were opened.
    life: u64,
    /// How many more calls that change something succeed before the machine stops.
    stop_after: Option<u64>,
    /// Whether the machine stopped by [`SimDisk::stop_after`] and has not been crashed yet.
    down: bool,
    contents: Contents,
    /// Whether files can have names in scratch folders too: whether those are on the same file system.
    links: bool,
    /// The name before whose appearance its folder is removed.
    vanishing: Option<String>,
    folders: BTreeMap<PathBuf, Folder>,
}

impl SimDisk {
    /// An empty disk. Faults are drawn from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (rng, faults) = (Rng::with_seed(seed), Faults::default());
        let folders = BTreeMap::from([(PathBuf::from("/"), Folder::default())]);
        let state = State {
            rng,
            faults,
            changes: 0,
            failed: 0,
            life: 0,
            stop_after: None,
            down: false,
            contents: Contents::default(),
            links: true,
            vanishing: None,
            folders,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Stops the machine and starts it again, with what the disk has kept; `rng` decides about what was not synced. Ends a stop by
    /// [`stop_after`](Self::stop_after) and all faults.
    pub fn crash(&self, rng: &mut Rng) {
        let mut state = self.lock();
        let State { contents, folders, .. } = &mut *state;
        contents.durable().for_each(|content| content.crash(rng));
        let lasting = folders.iter_mut().filter(|(path, _)| !is_scratch(path));
        let removed = lasting.filter_map(|(path, folder)| folder.crash(rng).then(|| path.clone())).collect::<Vec<_>>();
        folders.retain(|path, _| !removed.iter().any(|gone| path.starts_with(gone)));
        state.life += 1;
        (state.stop_after, state.down) = (None, false);
        state.faults = Faults::default();
    }

    /// Kills the process that uses the disk, and starts another: the machine runs on, so what was not synced is still there. Ends a stop by
    /// [`stop_after`](Self::stop_after) and all faults.
    pub fn kill(&self) {
        let mut state = self.lock();
        state.life += 1;
        (state.stop_after, state.down) = (None, false);
        state.faults = Faults::default();
    }

    /// Whether the machine, or the process that uses the disk, has been stopped by [`stop_after`](Self::stop_after).
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.lock().down
    }

    /// Removes a file, as another process does: nothing that befalls the job's process and no fault hinders it, and it is durable.
    pub fn take(&self, path: &Path) {
        if let Ok((dir, name)) = parts(path)
            && let Some(folder) = self.lock().folders.get_mut(dir)
        {
            folder.take(name);
        }
    }

    /// Removes a folder with all that is in it, as another process does, right before a file in it is renamed to this name, once.
    pub fn remove_folder_before(&self, name: &str) {
        self.lock().vanishing = Some(name.to_owned());
    }

    /// Says whether files can be linked into scratch folders.
    pub fn set_links(&self, links: bool) {
        self.lock().links = links;
    }

    /// Opens a file for writing as `O_TRUNC` does: what has the name is emptied, under all of its names. No [`Disk`] does that; programs that
    /// break the rules do.
    ///
    /// # Errors
    /// Those of [`Disk::create`].
    pub fn truncate(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.lock();
        let (dir, name) = parts(path)?;
        let Some(file) = state.folder(dir)?.get(name) else {
            drop(state);
            return self.create(path);
        };
        state.change(path)?;
        state.content(file, path)?.empty();
        Ok(Box::new(OpenFile::new(self.clone(), file, path.to_owned(), state.life)))
    }

    /// Sets which calls fail from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// Lets `changes` more calls that change something succeed; the machine stops at the next one, which may still happen in part or not at
    /// all, and every call fails until [`crash`](Self::crash).
    pub fn stop_after(&self, changes: u64) {
        self.lock().stop_after = Some(changes);
    }

    /// The number of calls so far that change something: writes, syncs and changes of names.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// The number of calls so far that failed because of [`Faults`].
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.lock().failed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SimDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.lock();
        state.change(path)?;
        let (dir, name) = parts(path)?;
        state.folder(dir)?;
        let file = state.contents.add(is_scratch(dir));
        let folder = state.folder(dir)?;
        if folder.get(name).is_some() {
            folder.change([(name.to_owned(), None)]);
        }
        folder.change([(name.to_owned(), Some(file))]);
        Ok(Box::new(OpenFile::new(self.clone(), file, path.to_owned(), state.life)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        Ok(Box::new(Cursor::new(self.read(path)?)))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.change(to)?;
        let ((dir, old), (to_dir, new)) = (parts(from)?, parts(to)?);
        if !state.links && is_scratch(from) != is_scratch(to) {
            return Err(failure(ErrorKind::CrossesDevices, to, "on another file system"));
        }
        let file = state.folder(dir)?.get(old).ok_or_else(|| not_found(from))?;
        if !state.content(file, from)?.is_sealed() {
            return Err(failure(ErrorKind::InvalidInput, from, "linked, though it is not sealed"));
        }
        let folder = state.folder(to_dir)?;
        if folder.get(new).is_some() {
            return Err(failure(ErrorKind::AlreadyExists, to, "the name is taken"));
        }
        folder.change([(new.to_owned(), Some(file))]);
        Ok(())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.lock();
        state.check_up(path)?;
        let (dir, name) = parts(path)?;
        let file = state.folder(dir)?.get(name).ok_or_else(|| not_found(path))?;
        Ok(state.content(file, path)?.bytes().to_vec())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.change(from)?;
        let ((dir, old), (to_dir, new)) = (parts(from)?, parts(to)?);
        if dir != to_dir {
            return Err(failure(ErrorKind::CrossesDevices, from, "files are renamed within a folder only"));
        }
        if state.vanishing.take_if(|name| new == name.as_str()).is_some() {
            state.folder(dir)?.remove_all();
        }
        let folder = state.folder(dir)?;
        let file = folder.get(old).ok_or_else(|| not_found(from))?;
        folder.change([(old.to_owned(), None), (new.to_owned(), Some(file))]);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.change(path)?;
        let (dir, name) = parts(path)?;
        match state.folder(dir) {
            Ok(folder) if folder.get(name).is_some() => folder.change([(name.to_owned(), None)]),
            _ => {}
        }
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.change(path)?;
        if let Ok((dir, name)) = parts(path)
            && state.folders.get(dir).is_some_and(|folder| folder.get(name).is_some())
        {
            return Err(failure(ErrorKind::NotADirectory, path, "not a folder"));
        }
        state.folders.iter_mut().filter(|(dir, _)| dir.starts_with(path)).for_each(|(_, folder)| folder.remove_all());
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.lock();
        state.check_up(dir)?;
        let Some(folder) = state.folders.get(dir).filter(|folder| folder.exists()) else { return Ok(Vec::new()) };
        let folders = state.folders.iter().filter(|(path, folder)| folder.exists() && path.parent() == Some(dir));
        let mut paths = folder.names().map(|name| dir.join(name)).chain(folders.map(|(path, _)| path.clone())).collect::<Vec<_>>();
        paths.sort();
        Ok(paths)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        if state.folders.get(dir).is_some_and(Folder::exists) {
            return state.check_up(dir);
        }
        state.change(dir)?;
        for path in dir.ancestors() {
            if let Ok((parent, name)) = parts(path)
                && state.folders.get(parent).is_some_and(|folder| folder.get(name).is_some())
            {
                return Err(failure(ErrorKind::NotADirectory, path, "a file of this name exists"));
            }
            state.folders.entry(path.to_owned()).or_default().revive();
        }
        Ok(())
    }

    fn create_local_dir(&self, dir: &Path) -> io::Result<()> {
        self.create_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.change(dir)?;
        state.folder(dir)?.sync();
        let gone = |path: &Path, folder: &Folder| path.parent() == Some(dir) && !folder.exists();
        let gone = state.folders.iter().filter(|(path, folder)| gone(path, folder)).map(|(path, _)| path.clone()).collect::<Vec<_>>();
        state.folders.retain(|path, _| !gone.iter().any(|removed| path.starts_with(removed)));
        Ok(())
    }
}

impl State {
    /// Counts a call that changes something, or fails it.
    fn change(&mut self, path: &Path) -> io::Result<()> {
        self.check_up(path)?;
        if path.parent().is_some_and(is_scratch) {
            return Ok(());
        }
        match &mut self.stop_after {
            Some(0) => {
                self.down = true;
                return self.check_up(path);
            }
            Some(left) => *left -= 1,
            None => {}
        }
        self.changes += 1;
        if self.faults.fails(&mut self.rng) {
            self.failed += 1;
            return Err(failure(self.faults.kind, path, "simulated"));
        }
        Ok(())
    }

    fn check_up(&self, path: &Path) -> io::Result<()> {
        if self.down { Err(failure(ErrorKind::Other, path, "the simulated machine has stopped")) } else { Ok(()) }
    }

    fn folder(&mut self, dir: &Path) -> io::Result<&mut Folder> {
        self.folders.get_mut(dir).filter(|folder| folder.exists()).ok_or_else(|| not_found(dir))
    }

    fn content(&mut self, file: usize, path: &Path) -> io::Result<&mut Content> {
        self.contents.get(file).ok_or_else(|| not_found(path))
    }
}

/// Whether it is a scratch folder, or in one.
fn is_scratch(path: &Path) -> bool {
    path.iter().any(|part| part == "scratch")
}

fn parts(path: &Path) -> io::Result<(&Path, &OsStr)> {
    path.parent().zip(path.file_name()).ok_or_else(|| failure(ErrorKind::InvalidInput, path, "not the path of a file"))
}

fn not_found(path: &Path) -> io::Error {
    failure(ErrorKind::NotFound, path, "not found")
}

fn failure(kind: ErrorKind, path: &Path, what: &str) -> io::Error {
    io::Error::new(kind, format!("`{}`: {what} ({kind})", path.display()))
}

type Entry = (OsString, Option<usize>);

#[cfg(test)]
mod tests;
