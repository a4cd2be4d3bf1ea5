//! Files as parts: a part is hidden while it is written, and gets its visible name by one rename once the checkpoint that covers it is
//! durable. So at every moment the visible parts hold what completed checkpoints cover, each record once.

mod commit;
mod memory;
mod name;
mod writer;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tidemill_core::disk::Disk;
use tidemill_core::sink::{Committable, Remembered, Sink, SinkWriter, WriterTask};
use tidemill_core::{Error, Kind, Result};

use self::commit::Attempt;
pub use self::memory::Owner;
pub use self::name::part_names;
use self::writer::PartWriter;
use crate::disk::kind_of;

/// Where to write and how.
#[derive(Clone, Debug)]
pub struct FileSinkConfig {
    /// The folder of the parts; made if it does not exist. No two sinks may share one; of two jobs each leaves the other's hidden parts alone.
    pub dir: PathBuf,
    /// Tells the job from all others, for as long as it lives.
    pub job: u64,
    /// The job as the folder remembers it; `None`: it does not.
    pub owner: Option<Owner>,
    /// What the names of parts end with, without the dot: `jsonl` or `csv`.
    pub extension: String,
    /// The first line of each part, without line end.
    pub header: Option<Vec<u8>>,
}

/// Turns one record into a line of text.
pub trait RowEncode: Send {
    /// Appends the record's text, without line end.
    ///
    /// # Errors
    /// The bytes are not a record of the sink's type.
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String>;
}

/// Makes an encoder for each subtask.
pub type EncoderFactory = Arc<dyn Fn() -> Box<dyn RowEncode> + Send + Sync>;

/// Parts in a folder.
pub struct FileSink {
    folder: Arc<Folder>,
    encoder: EncoderFactory,
}

/// What the subtasks' writers and the commits share.
struct Folder {
    config: FileSinkConfig,
    disk: Arc<dyn Disk>,
    /// The hidden parts that this process wrote and synced, so that committing them needs no second look at their bytes.
    synced: Mutex<HashSet<String>>,
    /// The newest commit that the folder remembers, as far as this process knows.
    noted: Mutex<Option<(u32, u64)>>,
}

impl FileSink {
    /// A sink that writes into the configured folder.
    #[must_use]
    pub fn new(config: FileSinkConfig, disk: Arc<dyn Disk>, encoder: EncoderFactory) -> Self {
        Self { folder: Arc::new(Folder { config, disk, synced: Mutex::default(), noted: Mutex::default() }), encoder }
    }
}

impl Sink for FileSink {
    fn writer(&self, task: WriterTask) -> Result<Box<dyn SinkWriter>> {
        self.folder.probe(task)?;
        Ok(Box::new(PartWriter::new(Arc::clone(&self.folder), task, (self.encoder)())))
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        self.folder.commit(committables, Attempt::First)
    }

    fn commit_again(&self, committables: &[Committable]) -> Result<()> {
        self.folder.commit(committables, Attempt::Again)
    }

    fn gone(&self, committables: &[Committable]) -> Result<Vec<usize>> {
        self.folder.gone(committables)
    }

    fn missing(&self, committables: &[Committable]) -> Result<Vec<usize>> {
        self.folder.missing(committables)
    }

    fn clean(&self) -> Result<()> {
        let leftovers =
            self.folder.names()?.into_iter().filter(|name| name::job_of(name) == Some(self.folder.config.job)).collect::<Vec<_>>();
        for name in &leftovers {
            let path = self.folder.path(name);
            self.folder.disk.remove(&path).map_err(|error| self.folder.failed("remove what an earlier run left in", error))?;
        }
        if leftovers.is_empty() { Ok(()) } else { self.folder.sync() }
    }

    fn newest_commit(&self) -> Result<Option<(u32, u64)>> {
        Ok(self.folder.names()?.iter().filter_map(|name| name::numbers_of(name)).max())
    }

    fn remembered(&self) -> Result<Option<Remembered>> {
        self.folder.remembered()
    }
}

impl Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.config.dir.join(name)
    }

    /// Makes the folder, and fails early if no file can be created in it.
    fn probe(&self, task: WriterTask) -> Result<()> {
        let path = self.path(&name::hidden(self.config.job, task, 0, &self.config.extension));
        let made = self.disk.create_dir(&self.config.dir).and_then(|()| self.disk.create(&path)).and_then(|_| self.disk.remove(&path));
        made.map_err(|error| {
            let advice = match error.kind() {
                ErrorKind::PermissionDenied => ": give the user that runs the job the permission to write there",
                ErrorKind::NotADirectory => ": name a folder in the sink's path",
                _ => "",
            };
            let text = format!("cannot write to the sink's folder `{}`: {error}{advice}", self.config.dir.display());
            Error::new(kind_of(&error, Kind::Connector), text)
        })
    }

    /// The names of the files in the folder, as far as they are text.
    fn names(&self) -> Result<Vec<String>> {
        let paths = self.disk.list(&self.config.dir).map_err(|error| self.failed("look into", error))?;
        Ok(paths.iter().filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
    }

    fn sync(&self) -> Result<()> {
        self.disk.sync_dir(&self.config.dir).map_err(|error| self.failed("write to", error))
    }

    fn failed(&self, action: &str, error: std::io::Error) -> Error {
        Error::connector(format!("cannot {action} the sink's folder `{}`", self.config.dir.display())).caused_by(error)
    }
}

#[cfg(test)]
mod tests;
