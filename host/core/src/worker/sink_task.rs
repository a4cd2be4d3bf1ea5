//! The subtask of a sink.

use super::input::{Input, Next};
use super::{Events, Turn};
use crate::Result;
use crate::exchange::Receiver;
use crate::sink::{Prepared, SinkWriter};

/// The subtask of a sink.
pub struct SinkTask {
    sink: u32,
    input: Input,
    writer: Box<dyn SinkWriter>,
    records: u64,
}

impl SinkTask {
    /// Connects a writer of the sink with this index.
    #[must_use]
    pub fn new(sink: u32, writer: Box<dyn SinkWriter>, channels: Vec<Receiver>) -> Self {
        Self { sink, input: Input::new(channels), writer, records: 0 }
    }

    pub(super) fn run(&mut self, events: &mut Events) -> Result<Turn> {
        match self.input.next() {
            None => return Ok(Turn::Waiting(None)),
            Some(Next::Batch(batch)) => {
                self.records += batch.len() as u64;
                self.writer.write(&batch)?;
            }
            Some(Next::Outcome(_)) => {}
            Some(Next::Barrier(barrier)) => events.barrier = Some(barrier),
            Some(Next::End) => events.ended = true,
        }
        Ok(Turn::Worked)
    }

    pub(super) fn is_aligning(&self) -> bool {
        self.input.is_aligning()
    }

    /// Ends what belongs to a checkpoint.
    pub(super) fn prepare_commit(&mut self, checkpoint: u64) -> Result<(u32, Prepared)> {
        Ok((self.sink, self.writer.prepare_commit(checkpoint)?))
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }
}
