//! Sources: splits that are read from a position on.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tidemill_wit::columns::BlobsBuf;

use crate::{Result, Timestamp};

/// A part of a source that is read in order by one subtask: a file, a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Its number within the source, given at discovery, in order, and kept for the life of the job. Of an unbounded source the splits that
    /// ended first are forgotten when there are many, so numbers may be missing.
    pub id: u32,
    /// Its name: a path, or topic and partition.
    pub name: String,
    /// How the source tells it from another split of the same name, if it has to; its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Where reading goes on: all records before it have been emitted.
    pub position: u64,
    /// What the source remembers of that position beside it, such as what was before it; its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// Whether the split has been read to its end (bounded sources only).
    pub finished: bool,
    /// How many of the records before the position could not be decoded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub invalid: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "for serde")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Split {
    /// A split that nothing was read of, with the id that follows those of `known`.
    #[must_use]
    pub fn new(known: &[Self], name: impl Into<String>) -> Self {
        // Ids are given in order, so the last one is the highest.
        Self {
            id: known.last().map_or(0, |last| last.id + 1),
            name: name.into(),
            identity: None,
            position: 0,
            mark: None,
            finished: false,
            invalid: 0,
        }
    }
}

/// Connects to one system; shared by all subtasks.
pub trait Source: Send + Sync {
    /// Looks at what has become of the splits from which the job starts, before new ones are discovered. May finish a split that is gone, take
    /// one up again that is back, and give one its new name.
    ///
    /// # Errors
    /// A split is gone with something that was not read, or the system cannot be listed.
    fn resume(&self, known: &mut [Split]) -> Result<()> {
        _ = known;
        Ok(())
    }

    /// Adds the splits that exist now and are not known yet at the end, in a stable order (see [`Split::new`]). May give a known split its
    /// new name. The positions of known splits are those from which the job started.
    ///
    /// # Errors
    /// The system cannot be listed: a missing file, an unreadable folder, a dead broker; or a known split is not what it was.
    fn discover(&self, known: &mut Vec<Split>) -> Result<()>;

    /// Opens a split at its position; the reader may begin at another one, if the split has other content by now.
    ///
    /// # Errors
    /// The split cannot be read, or is not what it was.
    fn open(&self, split: &Split) -> Result<Box<dyn SplitReader>>;

    /// Whether every split ends. A bounded source is discovered once; an unbounded one again and again.
    fn bounded(&self) -> bool;

    /// A record's position in a split in words, for people.
    fn place(&self, split: &str, position: u64) -> String {
        format!("{split}:{position}")
    }
}

/// Reads one split, record by record, already decoded into the consumer's input type.
pub trait SplitReader: Send {
    /// Appends records up to the limit. Must not wait for data.
    ///
    /// # Errors
    /// The split cannot be read further.
    fn poll(&mut self, limit: Limit, rows: &mut SourceRows) -> Result<Polled>;

    /// The position after the last record that `poll` returned, valid or not.
    fn position(&self) -> u64;

    /// What to store beside the position: see [`Split::mark`]. Asked for at each barrier, and when the split ends.
    fn mark(&self) -> Option<String> {
        None
    }

    /// The split's identity, if it is not the one with which the split was opened: see [`Split::identity`]. Asked for together with the mark.
    fn identity(&self) -> Option<String> {
        None
    }
}

/// Adds the names that are not known yet, for sources whose splits are told apart by name.
pub fn add_new(known: &mut Vec<Split>, names: impl IntoIterator<Item = String>) {
    let mut seen: HashSet<String> = known.iter().map(|split| split.name.clone()).collect();
    for name in names {
        if seen.insert(name.clone()) {
            known.push(Split::new(known, name));
        }
    }
}

/// How much one poll may return: whatever is reached first.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Records, valid or not.
    pub rows: usize,
    /// Bytes of input; one record may exceed it.
    pub bytes: usize,
}

/// What a poll found after the records that it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// There may be more at once.
    More,
    /// Nothing more now.
    Pending,
    /// The end of a bounded split.
    End,
}

/// The records of one poll.
#[derive(Clone, Debug, Default)]
pub struct SourceRows {
    /// The valid records, encoded as the consumer's input type.
    pub payload: BlobsBuf,
    /// Where each valid record begins, as [`Source::place`] takes it.
    pub position: Vec<u64>,
    /// The event time of each valid record, where the source knows them; else empty: they are taken from the records.
    pub time: Vec<Option<i64>>,
    /// The split's watermark after these records, where the source knows it; else it follows from the records' times.
    pub watermark: Option<Timestamp>,
    /// The records that do not parse or do not fit the type.
    pub invalid: Vec<InvalidRow>,
}

impl SourceRows {
    /// Removes all records, keeping the capacity.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.position.clear();
        self.time.clear();
        self.watermark = None;
        self.invalid.clear();
    }

    /// The number of records, valid or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.position.len() + self.invalid.len()
    }

    /// Whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A record that could not be decoded; it goes to the source's `invalid` lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRow {
    /// Where it begins, as [`Source::place`] takes it.
    pub position: u64,
    /// What was read.
    pub raw: Vec<u8>,
    /// What is wrong with it.
    pub reason: String,
}

/// The names of all sources and splits, for messages: workers look them up only when something is wrong.
#[derive(Default)]
pub struct SplitNames {
    names: Mutex<HashMap<(u32, u32), Named>>,
}

struct Named {
    uid: String,
    split: String,
    source: Arc<dyn Source>,
}

impl SplitNames {
    /// Adds a split of the source with this index and uid.
    pub fn add(&self, index: u32, uid: &str, source: &Arc<dyn Source>, split: &Split) {
        if let Ok(mut names) = self.names.lock() {
            let named = Named { uid: uid.to_owned(), split: split.name.clone(), source: Arc::clone(source) };
            names.insert((index, split.id), named);
        }
    }

    /// The source's uid and the place in words; `None` for records that no source record caused.
    #[must_use]
    pub fn place(&self, origin: crate::batch::Origin) -> Option<(String, String)> {
        let names = self.names.lock().ok()?;
        let Named { uid, split, source } = names.get(&(origin.source, origin.split))?;
        Some((uid.clone(), source.place(split, origin.position)))
    }
}

impl fmt::Debug for SplitNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SplitNames")
    }
}
