//! Sinks that break a rule on purpose, and the list of all deliberate faults: a simulation that misses one of them proves nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_core::Result;
use tidemill_core::batch::Batch;
use tidemill_core::sink::{Committable, Prepared, Sink, SinkWriter, WriterTask};

use super::faulty_disk::DiskFault;
use super::schedule::Fault;

/// Every fault with its name.
pub const FAULTS: [(&str, Fault); 10] = [
    ("a sink that commits before the manifest is durable", Fault { sink: hasty, ..Fault::NONE }),
    ("a restore that does not commit (rule 2)", Fault { sink: forgetful, ..Fault::NONE }),
    ("checkpoints whose bytes are not synced", Fault { store: Some(DiskFault::SyncsNoBytes), ..Fault::NONE }),
    ("checkpoints whose names are not synced", Fault { store: Some(DiskFault::SyncsNoNames), ..Fault::NONE }),
    ("a cleaner that removes one file too many", Fault { store: Some(DiskFault::RemovesAnother), ..Fault::NONE }),
    ("a cleaner that leaves files that nobody names", Fault { store: Some(DiskFault::KeepsShared), ..Fault::NONE }),
    ("a restore that brings a file twice, and empties it through its link", Fault { store: Some(DiskFault::FetchesTwice), ..Fault::NONE }),
    ("a savepoint that commits its output", Fault { savepoints_commit: true, ..Fault::NONE }),
    ("output whose bytes are not synced", Fault { output: Some(DiskFault::SyncsNoBytes), ..Fault::NONE }),
    ("output whose names are not synced", Fault { output: Some(DiskFault::SyncsNoNames), ..Fault::NONE }),
];

struct Hasty(Arc<dyn Sink>);

fn hasty(sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
    Arc::new(Hasty(sink))
}

impl Sink for Hasty {
    fn writer(&self, task: WriterTask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(HastyWriter { writer: self.0.writer(task)?, sink: Arc::clone(&self.0) }))
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        self.0.commit(committables)
    }

    fn commit_again(&self, committables: &[Committable]) -> Result<()> {
        self.0.commit_again(committables)
    }

    fn clean(&self) -> Result<()> {
        self.0.clean()
    }

    fn newest_commit(&self) -> Result<Option<(u32, u64)>> {
        // The rule that would stop a restart over output without a checkpoint is not what is tested here.
        Ok(None)
    }
}

struct HastyWriter {
    writer: Box<dyn SinkWriter>,
    sink: Arc<dyn Sink>,
}

impl SinkWriter for HastyWriter {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        self.writer.write(batch)
    }

    fn prepare_commit(&mut self, checkpoint: u64) -> Result<Prepared> {
        let mut prepared = self.writer.prepare_commit(checkpoint)?;
        if let Some(job) = prepared.job.take() {
            job()?;
        }
        if let Some(committable) = &prepared.committable {
            self.sink.commit(std::slice::from_ref(committable))?;
        }
        Ok(prepared)
    }
}

struct Forgetful {
    sink: Arc<dyn Sink>,
    /// Whether a writer was made: a restore commits before that.
    restored: AtomicBool,
}

fn forgetful(sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
    Arc::new(Forgetful { sink, restored: AtomicBool::default() })
}

impl Sink for Forgetful {
    fn writer(&self, task: WriterTask) -> Result<Box<dyn SinkWriter>> {
        self.restored.store(true, Ordering::Relaxed);
        self.sink.writer(task)
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        if self.restored.load(Ordering::Relaxed) { self.sink.commit(committables) } else { Ok(()) }
    }

    fn commit_again(&self, committables: &[Committable]) -> Result<()> {
        if self.restored.load(Ordering::Relaxed) { self.sink.commit_again(committables) } else { Ok(()) }
    }

    fn clean(&self) -> Result<()> {
        self.sink.clean()
    }

    fn newest_commit(&self) -> Result<Option<(u32, u64)>> {
        self.sink.newest_commit()
    }
}
