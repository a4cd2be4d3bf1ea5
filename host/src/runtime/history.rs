//! What became of the job's checkpoints: a line of JSON for each in `history.jsonl` in the job's folder, the older ones in
//! `history-old.jsonl`. For people: nothing is decided by it, so it is not made durable line by line.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tidemill_core::checkpoint::manifest::StoredDatabase;
use tidemill_core::worker::{Node, TaskPart};
use tidemill_core::{Error, Result};
use tracing::warn;

use super::job::Job;
use crate::guarded;

const NEWEST: &str = "history.jsonl";
const OLDER: &str = "history-old.jsonl";
/// A file that is longer takes the place of the older one.
const MOST_BYTES: u64 = 4 << 20;

/// What became of a checkpoint or savepoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its id.
    pub id: u64,
    /// Whether it was for the job or for the user.
    pub kind: Kind,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it began, in milliseconds since the epoch.
    pub began: i64,
    /// From its barrier until its output was committed (a savepoint: until it was there), or until it failed, in milliseconds.
    pub duration_ms: u64,
    /// The length of its state in bytes.
    pub bytes: u64,
    /// How many of these bytes were written for it; the others are in files of earlier checkpoints.
    pub uploaded_bytes: u64,
    /// The subtasks that its barrier has passed, as far as their state was stored.
    pub tasks: Vec<TaskRecord>,
}

/// Whom a checkpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The job: it goes back to it after a failure.
    Checkpoint,
    /// The user.
    Savepoint,
}

/// How a checkpoint ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is there.
    Completed,
    /// It never was, or it may be there but its output was not committed before the job failed.
    Failed,
}

/// What a checkpoint took of one subtask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// The uid of the source, operator or sink.
    pub uid: String,
    /// The index of the subtask, which is that of its worker.
    pub subtask: u32,
    /// From the first barrier that it saw to the last, in microseconds: some of its channels waited meanwhile.
    pub aligned_us: u64,
    /// How long its worker stood still for its part, in microseconds.
    pub stopped_us: u64,
    /// The length of its state in bytes.
    pub bytes: u64,
}

impl Record {
    /// The longest alignment of a subtask, in microseconds.
    #[must_use]
    pub fn aligned_us(&self) -> u64 {
        self.tasks.iter().map(|task| task.aligned_us).max().unwrap_or(0)
    }

    /// The longest that a worker stood still, for all of its subtasks together, in microseconds.
    #[must_use]
    pub fn stopped_us(&self) -> u64 {
        let mut workers: BTreeMap<u32, u64> = BTreeMap::new();
        self.tasks.iter().for_each(|task| *workers.entry(task.subtask).or_default() += task.stopped_us);
        workers.into_values().max().unwrap_or(0)
    }
}

/// The history of a job's checkpoints, oldest first. What is no record of one, such as the half of a line that a crash left, is passed over.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn read(dir: &Path) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for name in [OLDER, NEWEST] {
        let path = dir.join(name);
        match guarded::read(&path).and_then(|mut file| {
            let mut text = Vec::new();
            file.read_to_end(&mut text).map(|_| text)
        }) {
            Ok(text) => records.extend(text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::storage(format!("reading {}", path.display())).caused_by(error)),
        }
    }
    if records.is_empty() {
        return Err(Error::config(format!(
            "there is no history of checkpoints in {}: no job has run in this folder, or its first checkpoint is still under way",
            dir.display()
        )));
    }
    Ok(records)
}

/// How a checkpoint ended, to be noted.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Its id.
    pub checkpoint: u64,
    /// Whom it was for.
    pub kind: Kind,
    /// When it began, in milliseconds since the epoch.
    pub began: i64,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// Gathers what checkpoints take, and writes it down.
pub(super) struct History {
    /// The job's folder; `None`: nobody wants to know.
    dir: Option<PathBuf>,
    /// The uids of the nodes of the graph.
    uids: Vec<String>,
    under_way: BTreeMap<u64, Gathered>,
    /// Whether the last record could not be written.
    is_failing: bool,
}

#[derive(Default)]
struct Gathered {
    bytes: u64,
    uploaded: u64,
    tasks: Vec<TaskRecord>,
}

impl History {
    pub(super) fn new(job: &Job) -> Self {
        let uid = |node: &Node| match node {
            Node::Source(settings) => settings.uid.clone(),
            Node::Operator(settings) => settings.uid.clone(),
            Node::Sink(index, _) => job.sinks.get(*index as usize).map_or_else(String::new, |(uid, _)| uid.clone()),
        };
        Self { dir: None, uids: job.graph.nodes.iter().map(uid).collect(), under_way: BTreeMap::new(), is_failing: false }
    }

    /// Begins to write, in the job's folder.
    pub(super) fn write_to(&mut self, dir: PathBuf) {
        self.dir = Some(dir);
    }

    /// So many bytes of state were written for a checkpoint.
    pub(super) fn uploaded(&mut self, checkpoint: u64, bytes: u64) {
        self.under_way.entry(checkpoint).or_default().uploaded += bytes;
    }

    /// A worker's part of a checkpoint is stored: a state file of so many bytes and databases.
    pub(super) fn stored(&mut self, checkpoint: u64, worker: u32, tasks: &[TaskPart], file: u64, databases: &[StoredDatabase]) {
        let gathered = self.under_way.entry(checkpoint).or_default();
        let length = |database: &StoredDatabase| database.files.iter().map(|file| file.bytes).sum::<u64>();
        gathered.bytes += file + databases.iter().map(length).sum::<u64>();
        let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        gathered.tasks.extend(tasks.iter().map(|part| {
            let uid = self.uids.get(part.node).cloned().unwrap_or_default();
            let own = databases.iter().filter(|database| database.operator == uid).map(length).sum::<u64>();
            let (aligned_us, stopped_us) = (micros(part.aligned), micros(part.stopped));
            TaskRecord { uid, subtask: worker, aligned_us, stopped_us, bytes: part.bytes + own }
        }));
    }

    /// Writes down how a checkpoint ended. That it cannot be written is no harm to the job.
    pub(super) fn note(&mut self, verdict: Verdict) {
        let later = self.under_way.split_off(&(verdict.checkpoint + 1));
        let Gathered { bytes, uploaded, mut tasks } =
            std::mem::replace(&mut self.under_way, later).remove(&verdict.checkpoint).unwrap_or_default();
        let Some(dir) = &self.dir else { return };
        let place = |task: &TaskRecord| self.uids.iter().position(|uid| *uid == task.uid);
        tasks.sort_by_key(|task| (place(task), task.subtask));
        let record = Record {
            id: verdict.checkpoint,
            kind: verdict.kind,
            outcome: if verdict.failure.is_some() { Outcome::Failed } else { Outcome::Completed },
            reason: verdict.failure,
            began: verdict.began,
            duration_ms: verdict.duration_ms,
            bytes,
            uploaded_bytes: uploaded,
            tasks,
        };
        let written = append(dir, &record);
        if let (Err(error), false) = (&written, self.is_failing) {
            warn!(checkpoint = record.id, "cannot write down what became of checkpoint {} in {}: {error}", record.id, dir.display());
        }
        // Said once, not at every checkpoint.
        self.is_failing = written.is_err();
    }
}

fn append(dir: &Path, record: &Record) -> std::io::Result<()> {
    let path = dir.join(NEWEST);
    let open = || match guarded::write(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => guarded::create_new(&path),
        result => result,
    };
    let mut file = open()?;
    let mut length = file.metadata()?.len();
    if length > MOST_BYTES {
        fs::rename(&path, dir.join(OLDER))?;
        file = open()?;
        length = 0;
    }
    let mut line = Vec::new();
    let mut last = [b'\n'];
    if length > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    if last != *b"\n" {
        // The process died amid a line.
        line.push(b'\n');
    }
    serde_json::to_writer(&mut line, record)?;
    line.push(b'\n');
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::{Kind, MOST_BYTES, NEWEST, OLDER, Outcome, Record, TaskRecord, append, read};

    fn record(id: u64) -> Record {
        let task =
            |uid: &str, subtask, stopped_us| TaskRecord { uid: uid.to_owned(), subtask, aligned_us: 9 * stopped_us, stopped_us, bytes: 5 };
        Record {
            id,
            kind: Kind::Checkpoint,
            outcome: Outcome::Completed,
            reason: None,
            began: 1_786_788_000_123,
            duration_ms: 45,
            bytes: 3_000,
            uploaded_bytes: 200,
            tasks: vec![task("a", 0, 5), task("b", 0, 6), task("a", 1, 10), task("b", 1, 0)],
        }
    }

    #[test]
    fn what_is_noted_is_read_even_after_a_crash_amid_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = read(folder.path()).unwrap_err().chain();
        assert!(nothing.contains("no history of checkpoints"), "{nothing}");
        append(folder.path(), &record(1)).unwrap();
        let mut file = OpenOptions::new().append(true).open(folder.path().join(NEWEST)).unwrap();
        file.write_all(br#"{"id":2,"kind":"checkp"#).unwrap();
        let failed = Record { kind: Kind::Savepoint, outcome: Outcome::Failed, reason: Some("disk full".to_owned()), ..record(3) };
        append(folder.path(), &failed).unwrap();
        assert_eq!(read(folder.path()).unwrap(), [record(1), failed]);
        assert_eq!((record(1).aligned_us(), record(1).stopped_us()), (90, 11), "a worker stands still for one task after the other");
    }

    #[test]
    fn it_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let large = Record { reason: Some("x".repeat(300_000)), ..record(0) };
        (0..60).for_each(|id| append(folder.path(), &Record { id, ..large.clone() }).unwrap());
        let bytes: u64 = [OLDER, NEWEST].iter().map(|name| fs::metadata(folder.path().join(name)).unwrap().len()).sum();
        let ids: Vec<u64> = read(folder.path()).unwrap().iter().map(|record| record.id).collect();
        assert!(bytes < 2 * MOST_BYTES + 700_000 && ids.len() > 14, "{bytes} bytes for {ids:?}");
        assert_eq!(ids, (60 - ids.len() as u64..60).collect::<Vec<_>>(), "the newest, in order");
    }

    #[test]
    fn nothing_is_written_through_what_somebody_else_planted() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join(NEWEST)).unwrap();
        assert!(append(folder.path(), &record(1)).unwrap_err().to_string().contains("is a symbolic link"));
        assert!(read(folder.path()).unwrap_err().chain().contains("is a symbolic link"));
        fs::remove_file(folder.path().join(NEWEST)).unwrap();
        fs::hard_link(&victim, folder.path().join(NEWEST)).unwrap();
        assert!(append(folder.path(), &record(1)).unwrap_err().to_string().contains("hard link"));
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }
}
