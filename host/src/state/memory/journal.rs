//! Files of what is recorded of a state, written on a thread of their own.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use tidemill_core::checkpoint::manifest::FileFormat;
use tidemill_core::disk::Disk;
use tidemill_core::key_group::KeyGroup;
use tidemill_core::state::{Frozen, FrozenFile, Journal, Piece, Recording, pass_pieces};
use tidemill_core::{Error, Result};
use tracing::warn;

use super::super::folder::Folder;
use super::file::{GroupsFile, pass_merged};

/// All key groups.
const ALL: Range<u32> = 0..u16::MAX as u32 + 1;
/// So many files are put together to one, however small they are.
const MOST_FILES: usize = 16;

/// Records one subtask's state in files.
pub(super) struct FileJournal {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The files so far; made with the first.
    files: Option<Arc<Files>>,
    /// How many records have begun.
    begun: u64,
    last: Option<JoinHandle<()>>,
}

/// The files of one subtask.
struct Files {
    disk: Arc<dyn Disk>,
    folder: Folder,
    known: Mutex<Known>,
}

/// The last record.
#[derive(Default)]
struct Known {
    /// The first file has all keys, each other what has changed since. Empty: nothing is known of the keys, so that the next record must
    /// be of all.
    files: Vec<Arc<GroupsFile>>,
    /// Whether a record that begins now can count on those before it.
    can_follow: bool,
}

impl FileJournal {
    /// Files in this folder, which is made when it is needed and goes with the journal.
    pub(super) fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self { disk, dir, files: None, begun: 0, last: None }
    }
}

impl Journal for FileJournal {
    fn begin(&mut self) -> Result<Recording> {
        let files = match &self.files {
            Some(files) => Arc::clone(files),
            None => {
                let disk = Arc::clone(&self.disk);
                let folder = Folder::create(Arc::clone(&disk), self.dir.clone())?;
                Arc::clone(self.files.insert(Arc::new(Files { disk, folder, known: Mutex::default() })))
            }
        };
        self.begun += 1;
        self.disk
            .create_local_dir(&files.folder.path)
            .map_err(|error| Error::storage(format!("making the folder {}", files.folder.path.display())).caused_by(error))?;
        let whole = files.begin_record();
        let ((pieces, taken), (sender, made)) = (channel(), channel());
        let record = Record { number: self.begun, whole, files: Arc::clone(&files), before: self.last.take() };
        let thread = Builder::new().name("recording".to_owned()).spawn(move || {
            // If nobody waits for the files, they are what the next record builds on all the same.
            _ = sender.send(record.make(&taken));
        });
        match thread {
            Ok(thread) => self.last = Some(thread),
            Err(error) => {
                files.known().can_follow = false;
                return Err(Error::storage("starting a thread to record state").caused_by(error));
            }
        }
        let frozen = Box::new(FilesToBe { made, there: None, files });
        Ok(Recording { whole, take: to_thread(pieces), frozen })
    }
}

/// Hands pieces over. A thread that has ended early has said why where the files are waited for.
fn to_thread(pieces: Sender<Piece>) -> Box<dyn FnMut(Piece) + Send> {
    Box::new(move |piece| {
        _ = pieces.send(piece);
    })
}

impl Files {
    /// Whether the record that begins must be of all keys: nothing was recorded before, or not all of it is there.
    fn begin_record(&self) -> bool {
        let mut known = self.known();
        let is_there = |file: &Arc<GroupsFile>| self.disk.length(&file.path).is_ok_and(|bytes| bytes == file.bytes);
        if !known.files.iter().all(is_there) {
            let folder = self.folder.path.display();
            warn!("files of live state in {folder} were removed or cut while the job runs: this checkpoint records all keys");
            *known = Known::default();
        }
        !std::mem::replace(&mut known.can_follow, true)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path.join(name)
    }
}

/// A record in the making.
struct Record {
    number: u64,
    whole: bool,
    files: Arc<Files>,
    before: Option<JoinHandle<()>>,
}

impl Record {
    /// Takes all pieces and writes them; returns the files of the state.
    fn make(mut self, taken: &Receiver<Piece>) -> Result<Vec<Arc<GroupsFile>>> {
        let made = self.write(taken);
        let mut known = self.files.known();
        match &made {
            Ok(files) => known.files.clone_from(files),
            Err(_) => *known = Known::default(),
        }
        made
    }

    fn write(&mut self, taken: &Receiver<Piece>) -> Result<Vec<Arc<GroupsFile>>> {
        let mut pieces = Vec::new();
        while pieces.last().is_none_or(|piece: &Piece| !piece.last) {
            pieces.push(taken.recv().map_err(|_| Error::storage("recording state was given up"))?);
        }
        if let Some(before) = self.before.take() {
            // What became of it is seen by what it has left.
            _ = before.join();
        }
        let mut files = if self.whole { Vec::new() } else { self.files.known().files.clone() };
        if !self.whole && files.is_empty() {
            return Err(Error::storage("what changed before could not be recorded: the next checkpoint records all state"));
        }
        let path = self.files.path(&format!("{:08}", self.number));
        files.push(Arc::new(GroupsFile::write(&self.files.disk, &path, |each| pass_pieces(&pieces, each))?));
        drop(pieces);
        if is_due(&files) {
            let paths: Vec<&Path> = files.iter().map(|file| &*file.path).collect();
            let path = self.files.path(&format!("{:08}-all", self.number));
            let merged = GroupsFile::write(&self.files.disk, &path, |each| pass_merged(&*self.files.disk, &paths, &ALL, each))?;
            files = vec![Arc::new(merged)];
        }
        Ok(files)
    }
}

/// Whether it is time to put the files together: when what has changed has half the size of what it has changed. So each byte of a change
/// is written a few times at most, and a restore reads little that is out of date.
fn is_due(files: &[Arc<GroupsFile>]) -> bool {
    let bytes = |files: &[Arc<GroupsFile>]| files.iter().map(|file| file.bytes).sum::<u64>();
    files.split_first().is_some_and(|(first, rest)| files.len() > MOST_FILES || bytes(rest) > first.bytes / 2)
}

/// A state that is being recorded.
struct FilesToBe {
    made: Receiver<Result<Vec<Arc<GroupsFile>>>>,
    there: Option<Vec<Arc<GroupsFile>>>,
    /// The folder stays as long as its files are needed.
    files: Arc<Files>,
}

impl FilesToBe {
    /// Waits for the files.
    fn there(&mut self) -> Result<&[Arc<GroupsFile>]> {
        let made = match self.there.take() {
            Some(files) => files,
            None => self.made.recv().map_err(|_| Error::storage("recording state was given up"))??,
        };
        Ok(self.there.insert(made))
    }
}

impl Frozen for FilesToBe {
    fn format(&self) -> FileFormat {
        FileFormat::KeyGroups
    }

    fn files(&mut self) -> Result<Vec<FrozenFile>> {
        let frozen = |file: &Arc<GroupsFile>| FrozenFile {
            name: file.content.clone(),
            path: file.path.clone(),
            content: Some(file.content.clone()),
        };
        Ok(self.there()?.iter().map(frozen).collect())
    }

    fn groups(&mut self, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        let disk = Arc::clone(&self.files.disk);
        let paths: Vec<&Path> = self.there()?.iter().map(|file| &*file.path).collect();
        pass_merged(&*disk, &paths, &ALL, each)
    }
}
