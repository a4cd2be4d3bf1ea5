//! Writes the hidden parts of one subtask.

use std::sync::{Arc, OnceLock};

use tidemill_core::batch::Batch;
use tidemill_core::disk::DiskFile;
use tidemill_core::sink::{Committable, Job, Prepared, SinkWriter, WriterTask};
use tidemill_core::{Error, Kind, Result};
use xxhash_rust::xxh3::Xxh3;

use super::commit::Part;
use super::{Folder, RowEncode, name};

/// How much text is collected before it goes to the file.
const BUFFER: usize = 64 << 10;

/// One subtask's writer. The first failure is the last: every later call repeats it, since a part of unknown content must not be committed.
pub(super) struct PartWriter {
    folder: Arc<Folder>,
    task: WriterTask,
    encoder: Box<dyn RowEncode>,
    /// The number of the next part of this writer.
    sequence: u64,
    open: Option<OpenPart>,
    /// Text that is not in the file yet.
    buffer: Vec<u8>,
    /// Shared with the jobs that sync its parts.
    failure: Arc<Failure>,
}

/// The first failure of a writer, if any.
type Failure = OnceLock<(Kind, String)>;

/// A part that is being written.
struct OpenPart {
    name: String,
    file: Box<dyn DiskFile>,
    bytes: u64,
    hash: Box<Xxh3>,
}

impl PartWriter {
    pub(super) fn new(folder: Arc<Folder>, task: WriterTask, encoder: Box<dyn RowEncode>) -> Self {
        Self { folder, task, encoder, sequence: 1, open: None, buffer: Vec::with_capacity(BUFFER * 2), failure: Arc::default() }
    }

    fn guarded<T>(&mut self, action: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if let Some((kind, message)) = self.failure.get() {
            return Err(Error::new(*kind, message.clone()));
        }
        let failure = Arc::clone(&self.failure);
        action(self).inspect_err(|error| note(&failure, error))
    }

    fn append(&mut self, batch: &Batch) -> Result<()> {
        for payload in batch.payloads().iter() {
            if self.buffer.is_empty() && self.open.is_none() {
                self.begin();
            }
            self.encoder.encode(payload, &mut self.buffer).map_err(|reason| {
                Error::connector(format!("cannot write a record to the sink's folder `{}`: {reason}", self.folder.config.dir.display()))
            })?;
            self.buffer.push(b'\n');
            if self.buffer.len() >= BUFFER {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn begin(&mut self) {
        if let Some(header) = &self.folder.config.header {
            self.buffer.extend_from_slice(header);
            self.buffer.push(b'\n');
        }
    }

    /// Moves the buffer into the part's file, which is made at the first time.
    fn flush(&mut self) -> Result<()> {
        let failed = |error| self.folder.failed("write to", error);
        let part = match &mut self.open {
            Some(part) => part,
            none => {
                let name = name::hidden(self.folder.config.job, self.task, self.sequence, &self.folder.config.extension);
                let file = self.folder.disk.create(&self.folder.path(&name)).map_err(failed)?;
                self.sequence += 1;
                none.insert(OpenPart { name, file, bytes: 0, hash: Box::default() })
            }
        };
        part.file.write(&self.buffer).map_err(failed)?;
        part.hash.update(&self.buffer);
        part.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn end_part(&mut self, checkpoint: u64) -> Result<Prepared> {
        if !self.buffer.is_empty() {
            self.flush()?;
        }
        let Some(part) = self.open.take() else { return Ok(Prepared::default()) };
        let committed = Part {
            hidden: part.name.clone(),
            visible: name::visible(self.task, checkpoint, &self.folder.config.extension),
            bytes: part.bytes,
            checksum: format!("{:016x}", part.hash.digest()),
        };
        let committable = Committable { subtask: self.task.subtask, payload: committed.to_json()? };
        Ok(Prepared { committable: Some(committable), job: Some(self.sync_job(part)) })
    }

    /// Makes a part durable, bytes and name.
    fn sync_job(&self, mut part: OpenPart) -> Job {
        let (folder, failure) = (Arc::clone(&self.folder), Arc::clone(&self.failure));
        Box::new(move || {
            let synced = part.file.sync().map_err(|error| folder.failed("write to", error)).and_then(|()| folder.sync());
            synced.inspect_err(|error| note(&failure, error))?;
            folder.remember_synced(part.name);
            Ok(())
        })
    }
}

impl SinkWriter for PartWriter {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        self.guarded(|writer| writer.append(batch))
    }

    fn prepare_commit(&mut self, checkpoint: u64) -> Result<Prepared> {
        self.guarded(|writer| writer.end_part(checkpoint))
    }
}

fn note(failure: &Failure, error: &Error) {
    // A second failure changes nothing.
    failure.get_or_init(|| (error.kind(), error.chain()));
}
