//! The source of a case: one split, whose records and watermarks are the case's steps.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_core::source::{Limit, Polled, Source, SourceRows, Split, SplitReader, add_new};
use tidemill_core::{Result, Timestamp};

/// The name of the split, of which messages and dead letters take theirs: `step:7`.
pub(super) const SPLIT: &str = "step";

/// The input of a run, as far as its steps have told it.
#[derive(Clone, Default)]
pub(super) struct StepSource {
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    ended: bool,
}

enum Item {
    Element { step: u64, time: Option<i64>, payload: Vec<u8> },
    Watermark(i64),
}

impl StepSource {
    /// Adds a record, encoded as the component's input type.
    pub(super) fn element(&self, step: u64, time: Option<i64>, payload: Vec<u8>) {
        self.queue().items.push_back(Item::Element { step, time, payload });
    }

    /// Adds a watermark.
    pub(super) fn watermark(&self, watermark: i64) {
        self.queue().items.push_back(Item::Watermark(watermark));
    }

    /// Nothing more comes.
    pub(super) fn end(&self) {
        self.queue().ended = true;
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for StepSource {
    fn discover(&self, known: &mut Vec<Split>) -> Result<()> {
        add_new(known, [SPLIT.to_owned()]);
        Ok(())
    }

    fn open(&self, split: &Split) -> Result<Box<dyn SplitReader>> {
        Ok(Box::new(Reader { source: self.clone(), position: split.position, watermark: Timestamp::MIN }))
    }

    fn bounded(&self) -> bool {
        true
    }
}

struct Reader {
    source: StepSource,
    position: u64,
    /// The last watermark of the case: records do not move it.
    watermark: Timestamp,
}

impl SplitReader for Reader {
    /// A watermark closes the batch before it.
    fn poll(&mut self, limit: Limit, rows: &mut SourceRows) -> Result<Polled> {
        let mut queue = self.source.queue();
        rows.watermark = Some(self.watermark);
        while rows.position.len() < limit.rows {
            match queue.items.front() {
                Some(Item::Element { .. }) => {}
                Some(Item::Watermark(watermark)) if rows.position.is_empty() => {
                    self.watermark = Timestamp(*watermark);
                    rows.watermark = Some(self.watermark);
                    queue.items.pop_front();
                    return Ok(Polled::More);
                }
                Some(Item::Watermark(_)) => return Ok(Polled::More),
                None if queue.ended => return Ok(Polled::End),
                None => return Ok(Polled::Pending),
            }
            if let Some(Item::Element { step, time, payload }) = queue.items.pop_front() {
                rows.payload.push(&payload);
                rows.position.push(step);
                rows.time.push(time);
                self.position = step + 1;
            }
        }
        Ok(Polled::More)
    }

    fn position(&self) -> u64 {
        self.position
    }
}
