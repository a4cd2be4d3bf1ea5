//! The subtask of a source: reads its splits, the one furthest behind in event time first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::invalid::InvalidPolicy;
use super::{Events, SourceStatistics, Turn};
use crate::batch::{Batch, Origin};
use crate::drift::Member;
use crate::exchange::{Barrier, Element, Outputs, Purpose};
use crate::rate::MaxRate;
use crate::sample::{Sample, Samples};
use crate::schema::FieldPath;
use crate::schema::lanes::encode_invalid;
use crate::source::{InvalidRow, Limit, Polled, Source, SourceRows, Split, SplitNames, SplitReader};
use crate::watermark::{Progress, SplitWatermarks, Strategy};
use crate::{Error, Result, Timestamp};

/// How long a source without records waits before it looks again, in milliseconds.
const POLL_INTERVAL: i64 = 20;
/// The same for a source whose rate is used up, or that has to wait for others.
const PAUSE_INTERVAL: i64 = 1;
/// How many bytes of input one turn reads.
const POLL_BYTES: usize = 512 * 1024;
/// By which factor a turn reads less after a barrier has not got through in time.
const CAUTION: usize = 8;
/// How many splits that have ended a subtask of an unbounded source remembers. Splits of such sources end when they are gone, such as rotated
/// files, while new ones keep coming; a checkpoint stores every remembered split.
const ENDED_SPLITS: usize = 10_000;
/// The lane of the valid records.
pub const MAIN_LANE: usize = 0;
/// The lane of the records that could not be decoded.
pub const INVALID_LANE: usize = 1;

/// What all subtasks of a source share.
pub struct SourceSettings {
    /// The source's uid in the job spec.
    pub uid: String,
    /// Its index among the job's sources.
    pub index: u32,
    /// The connector.
    pub source: Arc<dyn Source>,
    /// Where a record's event time is; `None`: records have none.
    pub timestamp: Option<FieldPath>,
    /// How watermarks follow.
    pub watermark: Strategy,
    /// What becomes of records that cannot be decoded.
    pub invalid: InvalidPolicy,
    /// With which other sources it stays together in event time; `None`: with none.
    pub alignment: Option<Alignment>,
    /// How many records a second all subtasks may read together; `None`: as many as they can.
    pub max_rate: Option<MaxRate>,
    /// How many records one turn reads at most.
    pub batch_rows: usize,
    /// How many it reads at most for now, fewer after checkpoints whose barriers did not get through in time.
    pub caution: AtomicUsize,
    /// The names of all splits.
    pub splits: Arc<SplitNames>,
}

impl SourceSettings {
    /// Reads fewer records in a turn from now on. Few of them wait in queues then, so that a barrier gets through however slow they turn out
    /// to be.
    pub fn read_less(&self) {
        self.caution.store((self.rows_at_once() / CAUTION).max(1), Ordering::Relaxed);
    }

    /// Undoes one [`read_less`](Self::read_less).
    pub fn read_more(&self) {
        self.caution.store(self.rows_at_once().saturating_mul(CAUTION), Ordering::Relaxed);
    }

    fn rows_at_once(&self) -> usize {
        self.batch_rows.min(self.caution.load(Ordering::Relaxed))
    }
}

/// The sources of a group do not run further ahead of the slowest of them than they are allowed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// The group's name.
    pub group: String,
    /// By how many milliseconds the source's watermark may be ahead of the slowest one in the group.
    pub max_drift: i64,
}

/// The subtask of a source.
pub struct SourceTask {
    settings: Arc<SourceSettings>,
    member: Option<Member>,
    splits: Vec<OpenSplit>,
    /// The ids of the splits that have ended and may be forgotten, in the order in which they ended.
    ended_splits: VecDeque<u32>,
    watermarks: SplitWatermarks,
    outputs: Outputs,
    rows: SourceRows,
    records: u64,
    invalid: u64,
    invalid_samples: Samples,
    /// The next turn only says that the subtask has ended; then nothing more comes.
    ended: bool,
    stopped: bool,
    quiet_until: Timestamp,
}

struct OpenSplit {
    split: Split,
    reader: Option<Box<dyn SplitReader>>,
}

impl OpenSplit {
    /// The split as a checkpoint stores it now.
    fn now(&self) -> Split {
        let Self { split, reader } = self;
        let Some(reader) = reader else { return split.clone() };
        Split { mark: reader.mark(), identity: reader.identity().or_else(|| split.identity.clone()), ..split.clone() }
    }
}

impl SourceTask {
    /// A subtask that reads the given splits from their positions on; a member of a group if the source is aligned with others.
    ///
    /// # Errors
    /// A split cannot be opened.
    pub fn new(settings: Arc<SourceSettings>, splits: Vec<Split>, member: Option<Member>, outputs: Outputs) -> Result<Self> {
        let mut task = Self {
            watermarks: SplitWatermarks::new(settings.watermark),
            settings,
            member,
            splits: Vec::new(),
            ended_splits: VecDeque::new(),
            outputs,
            rows: SourceRows::default(),
            records: 0,
            invalid: 0,
            invalid_samples: Samples::default(),
            ended: false,
            stopped: false,
            quiet_until: Timestamp::MIN,
        };
        splits.into_iter().try_for_each(|split| task.assign(split))?;
        Ok(task)
    }

    /// Adds a split.
    ///
    /// # Errors
    /// The split cannot be opened.
    pub fn assign(&mut self, mut split: Split) -> Result<()> {
        let SourceSettings { index, uid, source, splits, .. } = &*self.settings;
        splits.add(*index, uid, source, &split);
        let reader = if split.finished { None } else { Some(source.open(&split)?) };
        if let Some(reader) = &reader {
            split.position = reader.position();
        }
        self.watermarks.add(split.finished);
        if split.finished {
            self.may_forget(split.id);
        }
        self.splits.push(OpenSplit { split, reader });
        self.forget_ended();
        self.quiet_until = Timestamp::MIN;
        Ok(())
    }

    /// Notes that a split has ended, and that it need not be remembered as long as the source: a bounded one would find it again.
    fn may_forget(&mut self, id: u32) {
        if !self.settings.source.bounded() {
            self.ended_splits.push_back(id);
        }
    }

    /// Forgets the splits that ended first, if too many have.
    fn forget_ended(&mut self) {
        while self.ended_splits.len() > ENDED_SPLITS {
            let Some(at) = self.ended_splits.pop_front().and_then(|id| self.index_of(id)) else { continue };
            // INVARIANT: the split with the highest id is remembered, since ids are given in order after it.
            if at + 1 == self.splits.len() {
                continue;
            }
            let invalid = self.splits.remove(at).split.invalid;
            self.watermarks.remove(at);
            // They still count for `max_invalid`.
            if let Some(next) = self.splits.get_mut(at) {
                next.split.invalid = next.split.invalid.saturating_add(invalid);
            }
        }
    }

    /// Splits are in the order of their ids.
    fn index_of(&self, id: u32) -> Option<usize> {
        self.splits.binary_search_by_key(&id, |open| open.split.id).ok()
    }

    pub(super) fn run(&mut self, now: Timestamp, events: &mut Events) -> Result<Turn> {
        let blocked = self.outputs.blocked();
        let wanted = self.settings.rows_at_once().min(self.outputs.room());
        let rows = if blocked { 0 } else { self.settings.max_rate.as_ref().map_or(wanted, |rate| rate.available(now, wanted)) };
        self.watermarks.pass_time(now, !blocked);
        if blocked || self.stopped || self.ended {
            return Ok(Turn::Waiting(None));
        }
        if self.is_finished() {
            self.end();
            events.ended = true;
            return Ok(Turn::Worked);
        }
        self.tell_progress();
        if let Some(member) = &self.member {
            self.watermarks.pause_above(member.limit());
        }
        if now < self.quiet_until {
            return Ok(Turn::Waiting(Some(self.quiet_until)));
        }
        // Other subtasks may have been faster to use what was left of the rate.
        let rows = self.settings.max_rate.as_ref().map_or(rows, |rate| rate.take(now, rows));
        if rows > 0 && self.read_of(rows)? {
            return Ok(Turn::Worked);
        }
        if rows > 0 && (0..self.splits.len()).any(|split| self.is_paused(split)) {
            // The next step may find the others further on: it looks again.
            return Ok(Turn::Waiting(Some(now.plus(PAUSE_INTERVAL))));
        }
        self.quiet_until = now.plus(if rows == 0 { PAUSE_INTERVAL } else { POLL_INTERVAL });
        Ok(Turn::Waiting(Some(self.quiet_until)))
    }

    /// Whether everything has been read.
    fn is_finished(&self) -> bool {
        self.settings.source.bounded() && self.splits.iter().all(|open| open.reader.is_none())
    }

    /// Tells that no records come any more, and that the subtask holds nobody back.
    fn end(&mut self) {
        self.ended = true;
        if let Some(member) = &self.member {
            member.report(None);
        }
        self.end_time();
        self.outputs.broadcast(&Element::End);
    }

    /// Tells that event time has ended: every timer fires.
    fn end_time(&mut self) {
        if self.watermarks.is_idle() {
            // An idle channel's watermark would be ignored.
            self.outputs.broadcast(&Element::Status(false));
        }
        self.outputs.broadcast(&Element::Watermark(Timestamp::MAX));
    }

    /// Whether a split has to wait for others: it is too far ahead.
    fn is_paused(&self, split: usize) -> bool {
        self.watermarks.is_paused(split) && self.splits.get(split).is_some_and(|open| open.reader.is_some())
    }

    /// As [`read`](Self::read); gives back what is not used of the rate.
    fn read_of(&mut self, rows: usize) -> Result<bool> {
        let before = self.records;
        let found = self.read(rows)?;
        if let Some(rate) = &self.settings.max_rate {
            rate.give_back(rows.saturating_sub(usize::try_from(self.records - before).unwrap_or(rows)));
        }
        Ok(found)
    }

    /// Reads from the split furthest behind that has something. Returns whether one had.
    fn read(&mut self, rows: usize) -> Result<bool> {
        let readable = |&index: &usize| self.splits.get(index).is_some_and(|open| open.reader.is_some()) && !self.is_paused(index);
        let mut order: Vec<usize> = (0..self.splits.len()).filter(readable).collect();
        order.sort_by_key(|&index| (self.watermarks.of(index), index));
        for index in order {
            let Some(OpenSplit { split, reader: Some(reader) }) = self.splits.get_mut(index) else { continue };
            self.rows.clear();
            let polled = reader.poll(Limit { rows, bytes: POLL_BYTES }, &mut self.rows)?;
            split.position = reader.position();
            let id = split.id;
            if !self.rows.is_empty() {
                // A change to active goes ahead of the records.
                self.watermarks.resume(index);
                self.tell_progress();
                self.emit(index, id)?;
            }
            if polled == Polled::End {
                self.close(index);
            }
            if let Some(watermark) = self.rows.watermark.take() {
                self.watermarks.advance(index, watermark);
            }
            if polled == Polled::Pending && self.rows.is_empty() {
                self.watermarks.wait(index);
                continue;
            }
            if !self.is_finished() {
                self.tell_progress();
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Looks for records at the next turn, whenever the last one found none.
    pub(super) fn wake(&mut self) {
        self.quiet_until = Timestamp::MIN;
    }

    fn close(&mut self, index: usize) {
        if let Some(open) = self.splits.get_mut(index) {
            // The mark belongs to the position: that of the start would not fit the end.
            open.split = Split { finished: true, ..open.now() };
            open.reader = None;
            let id = open.split.id;
            self.may_forget(id);
        }
        self.watermarks.finish(index);
    }

    /// Gives the records their times and sends them; those without a valid time join the invalid ones.
    fn emit(&mut self, index: usize, split: u32) -> Result<()> {
        let mut rows = std::mem::take(&mut self.rows);
        if !rows.payload.fits(0) {
            return Err(Error::connector(format!("source {}: a record is larger than 4 GiB when decoded", self.settings.uid)));
        }
        self.records += rows.len() as u64;
        let source = self.settings.index;
        let origin = |position| Origin { source, split, position };
        let mut batch = Batch::default();
        let mut newest = None;
        match &self.settings.timestamp {
            _ if !rows.time.is_empty() => {
                newest = rows.time.iter().copied().max().flatten();
                rows.position.iter().zip(&rows.time).for_each(|(&position, &time)| batch.push_head(time, origin(position)));
                std::mem::swap(&mut batch.payload, &mut rows.payload);
            }
            None => {
                rows.position.iter().for_each(|&position| batch.push_head(None, origin(position)));
                std::mem::swap(&mut batch.payload, &mut rows.payload);
            }
            Some(path) => {
                for (payload, &position) in rows.payload.view().iter().zip(&rows.position) {
                    match path.timestamp(payload) {
                        Ok(Some(time)) => {
                            newest = newest.max(Some(time));
                            batch.push(payload, Some(time), origin(position));
                        }
                        Ok(None) => rows.invalid.push(without_time(position, payload, "the timestamp is missing")),
                        Err(reason) => rows.invalid.push(without_time(position, payload, &reason)),
                    }
                }
            }
        }
        if let (Some(newest), None) = (newest, rows.watermark) {
            self.watermarks.record(index, Timestamp(newest));
        }
        self.outputs.send(MAIN_LANE, batch)?;
        self.emit_invalid(&mut rows.invalid, index)?;
        self.rows = rows;
        Ok(())
    }

    /// Sends the records that could not be decoded to their lane, or fails the job with the first one that the policy does not allow.
    fn emit_invalid(&mut self, invalid: &mut [InvalidRow], index: usize) -> Result<()> {
        let Some(OpenSplit { split, .. }) = self.splits.get_mut(index) else { return Ok(()) };
        if invalid.is_empty() {
            return Ok(());
        }
        invalid.sort_by_key(|row| row.position);
        if let Some((row, why)) = self.settings.invalid.refuses(invalid) {
            let SourceSettings { uid, source, .. } = &*self.settings;
            let place = source.place(&split.name, row.position);
            return Err(Error::input(format!("source {uid}: the record at {place} is invalid: {}. {why}", row.reason)));
        }
        split.invalid += invalid.len() as u64;
        self.invalid += invalid.len() as u64;
        let split = split.clone();
        self.sample(invalid, &split);
        if self.outputs.is_read(INVALID_LANE) {
            let mut payload = Vec::new();
            for row in &*invalid {
                let origin = Origin { source: self.settings.index, split: split.id, position: row.position };
                let place = self.settings.splits.place(origin).map_or_else(String::new, |(_, place)| place);
                payload.clear();
                encode_invalid(&row.reason, &place, &row.raw, &mut payload);
                self.outputs.push(INVALID_LANE, &payload, None, origin)?;
            }
            self.outputs.flush();
        }
        Ok(())
    }

    /// Keeps the first and the newest invalid record for messages.
    fn sample(&mut self, invalid: &[InvalidRow], split: &Split) {
        let source = &*self.settings.source;
        if let (None, Some(row)) = (&self.invalid_samples.first, invalid.first()) {
            self.invalid_samples.add(Sample { place: source.place(&split.name, row.position), reason: row.reason.clone() });
        }
        if let Some(row) = invalid.last() {
            self.invalid_samples.add(Sample { place: source.place(&split.name, row.position), reason: row.reason.clone() });
        }
    }

    fn tell_progress(&mut self) {
        while let Some(progress) = self.watermarks.poll() {
            self.outputs.broadcast(&match progress {
                Progress::Advance(watermark) => Element::Watermark(watermark),
                Progress::Idle => Element::Status(true),
                Progress::Active => Element::Status(false),
            });
        }
        if let Some(member) = &self.member {
            member.report(self.watermarks.reached());
        }
    }

    /// Puts a barrier into the stream.
    pub(super) fn barrier(&mut self, barrier: Barrier) {
        self.stopped |= barrier.purpose.stops();
        if barrier.purpose == Purpose::Drain && !self.ended {
            self.end_time();
        }
        self.outputs.broadcast(&Element::Barrier(barrier));
    }

    /// The splits with their positions: all records before them have been sent.
    pub(super) fn splits(&self) -> Vec<Split> {
        self.splits.iter().map(OpenSplit::now).collect()
    }

    /// What all subtasks of the source share.
    #[must_use]
    pub fn settings(&self) -> &SourceSettings {
        &self.settings
    }

    pub(super) fn statistics(&self) -> SourceStatistics {
        SourceStatistics {
            records: self.records,
            invalid: self.invalid,
            invalid_samples: self.invalid_samples.clone(),
            watermark: self.watermarks.emitted(),
        }
    }
}

fn without_time(position: u64, payload: &[u8], reason: &str) -> InvalidRow {
    InvalidRow { position, raw: payload.to_vec(), reason: reason.to_owned() }
}
