//! A batch is processed part by part: one call a part, so that what a call made can drain before the next one makes more.

use std::ops::Range;
use std::time::Duration;

use super::failure::CallError;
use super::pace::Weight;
use super::{Env, Operator};
use crate::batch::Batch;
use crate::detector::Failure;
use crate::{Error, Result, Timestamp};

/// How far a batch has been processed.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// The rows that are still to be processed.
    rows: Range<usize>,
    /// The row that the detector has called bad, and why: those before it come first.
    bad: Option<(usize, String)>,
    /// After a failure whose row is not known, the rows go one by one until the bad one is found.
    singly: bool,
    /// The processing time of the whole batch.
    now: Timestamp,
}

impl Cursor {
    /// Whether the whole batch has been processed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many rows are still to be processed.
    #[must_use]
    pub fn left(&self) -> usize {
        self.rows.len()
    }

    /// The rest of the batch is processed at a later time than its begin.
    pub fn renew(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The rows of the next call, at most `most`.
    fn part(&self, most: usize) -> Range<usize> {
        let end = self.bad.as_ref().map_or(self.rows.end, |(row, _)| *row);
        let most = if self.singly { 1 } else { most };
        self.rows.start..end.min(self.rows.start.saturating_add(most))
    }
}

impl Operator {
    /// Begins a batch; [`process_part`](Self::process_part) goes through it. Its processing time is fixed here, so that it makes no
    /// difference how many parts the batch takes.
    pub fn begin(&mut self, batch: &Batch, now: Timestamp) -> Cursor {
        self.reads.lines.settle();
        self.metrics.records_in += batch.len() as u64;
        let late = |row: &usize| !batch.broadcast && batch.time_of(*row).is_some_and(|time| time <= self.watermark.0);
        self.metrics.late_records += (0..batch.len()).filter(late).count() as u64;
        Cursor { rows: 0..batch.len(), bad: None, singly: false, now }
    }

    /// Processes a whole batch, however much comes of it.
    ///
    /// # Errors
    /// As [`process_part`](Self::process_part).
    pub fn process(&mut self, batch: &Batch, env: &mut Env<'_>) -> Result<()> {
        let mut cursor = self.begin(batch, env.now);
        while !cursor.is_done() {
            self.process_part(batch, &mut cursor, env)?;
        }
        Ok(())
    }

    /// Processes the next part of a batch with one call.
    ///
    /// # Errors
    /// The job must fail: see [`OnError`](super::OnError).
    pub fn process_part(&mut self, batch: &Batch, cursor: &mut Cursor, env: &mut Env<'_>) -> Result<()> {
        env.now = cursor.now;
        let before = cursor.rows.start;
        if let Some((row, reason)) = cursor.bad.take_if(|(row, _)| *row == before) {
            self.reads.lines.settle();
            self.bad_record(batch, row, &reason, env)?;
            cursor.rows.start += 1;
            cursor.singly = false;
        } else {
            let part = cursor.part(self.row_pace.rows_into(env.outputs.room()));
            let began = (self.stopwatch)();
            let outcome = self.call_elements(batch, part.clone(), env);
            self.after_rows(&outcome, part.len(), (self.stopwatch)().saturating_sub(began));
            match outcome {
                Ok(consumed) => cursor.rows.start += consumed,
                Err(CallError::Host(error)) => return Err(self.host_failure(error)),
                Err(CallError::Detector(failure)) => {
                    self.reads.lines.again();
                    let failure = self.after_failure(failure)?;
                    self.after_failed_part(batch, cursor, part, failure)?;
                }
            }
        }
        // Twice as many places as there can be new keys, so that what expires is removed faster than keys arrive.
        (0..=(cursor.rows.start - before) / 32).try_for_each(|_| self.reads.state.expire(env.now))?;
        env.outputs.flush();
        self.drop_what_has_grown()
    }

    /// Learns from a call with so many rows how many the next one should have.
    fn after_rows(&mut self, outcome: &Result<usize, CallError>, rows: usize, took: Duration) {
        self.effort.record_time += took;
        match outcome {
            Ok(consumed) => {
                self.effort.records += *consumed as u64;
                self.row_pace.after(rows, false, self.weight(took));
            }
            // What the call gave out means nothing, but its time does.
            Err(_) if rows == 1 => {
                self.effort.records += 1;
                self.row_pace.after(rows, false, Weight { took, ..Weight::default() });
            }
            Err(_) => {}
        }
    }

    /// Finds out which row is to blame: nothing of the part has happened yet.
    fn after_failed_part(&mut self, batch: &Batch, cursor: &mut Cursor, part: Range<usize>, failure: Failure) -> Result<()> {
        let among_rows_before = cursor.bad.take().is_some();
        match failure {
            Failure::BadRecord { row, reason } if (row as usize) < part.len() && !among_rows_before => {
                cursor.bad = Some((part.start + row as usize, reason));
            }
            Failure::Fatal(reason) if part.len() == 1 => {
                let error = self.fatal(&self.record_at(batch, part.start), &reason);
                return Err(error.at(self.site_of(batch, part.start, &reason)));
            }
            // The other subtasks may have been in time: their copies of the broadcast state would differ from here on.
            Failure::Deadline(reason) if part.len() == 1 && batch.broadcast => {
                let at = self.record_at(batch, part.start);
                return Err(Error::guest(format!(
                    "operator {}: {at} was not processed on the broadcast input: {reason}",
                    self.settings.uid
                )));
            }
            Failure::Trap(reason) | Failure::Deadline(reason) | Failure::BadRecord { reason, .. } if part.len() == 1 => {
                cursor.bad = Some((part.start, reason));
            }
            Failure::CutShort => {
                self.row_pace.was_cut_short();
                cursor.singly = true;
            }
            // It may have been too much at once as well.
            Failure::Trap(_) | Failure::Deadline(_) | Failure::BadRecord { .. } | Failure::Fatal(_) | Failure::Machine(_) => {
                self.row_pace.shrink(part.len());
                cursor.singly = true;
            }
        }
        Ok(())
    }
}
