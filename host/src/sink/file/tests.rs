use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidemill_core::Kind;
use tidemill_core::batch::{Batch, Origin};
use tidemill_core::sink::{Committable, Remembered, Sink, SinkWriter, WriterTask};

use super::{FileSink, FileSinkConfig, Owner, RowEncode};
use crate::disk::RealDisk;

/// Takes UTF-8.
struct Text;

impl RowEncode for Text {
    fn encode(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(std::str::from_utf8(payload).map_err(|_| "not UTF-8".to_owned())?.as_bytes());
        Ok(())
    }
}

const TASK: WriterTask = WriterTask { subtask: 1, incarnation: 0, attempt: 0xf00 };

struct Fixture {
    _root: TempDir,
    dir: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("out/alerts");
        Self { _root: root, dir }
    }

    fn sink(&self) -> FileSink {
        sink(&self.dir, None)
    }

    fn names(&self) -> Vec<String> {
        let mut names = fs::read_dir(&self.dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>();
        names.sort();
        names
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.dir.join(name)).unwrap()
    }
}

fn sink(dir: &Path, header: Option<&str>) -> FileSink {
    let config = FileSinkConfig {
        dir: dir.to_owned(),
        job: 0xa,
        owner: None,
        extension: "jsonl".to_owned(),
        header: header.map(|header| header.as_bytes().to_vec()),
    };
    FileSink::new(config, Arc::new(RealDisk), Arc::new(|| Box::new(Text) as Box<dyn RowEncode>))
}

fn batch(rows: &[&[u8]]) -> Batch {
    let mut batch = Batch::default();
    rows.iter().for_each(|row| batch.push(row, None, Origin::NONE));
    batch
}

/// Writes rows and ends the part durably.
fn part(writer: &mut dyn SinkWriter, checkpoint: u64, rows: &[&[u8]]) -> Committable {
    writer.write(&batch(rows)).unwrap();
    let prepared = writer.prepare_commit(checkpoint).unwrap();
    prepared.job.unwrap()().unwrap();
    prepared.committable.unwrap()
}

#[test]
fn parts_are_hidden_until_the_commit() {
    let fixture = Fixture::new();
    let sink = fixture.sink();
    let mut writer = sink.writer(TASK).unwrap();
    assert_eq!(fixture.names(), [""; 0], "a part without rows makes no file");
    assert!(writer.prepare_commit(6).unwrap().committable.is_none());
    let first = part(&mut *writer, 7, &[b"a", b"b"]);
    let second = part(&mut *writer, 8, &[b"c"]);
    assert_eq!(fixture.names(), [".part-0-1-1-f00-a.jsonl", ".part-0-2-1-f00-a.jsonl"]);
    assert_eq!(sink.newest_commit().unwrap(), None);
    sink.commit(std::slice::from_ref(&first)).unwrap();
    assert_eq!(fixture.names(), [".part-0-2-1-f00-a.jsonl", "part-7-1.jsonl"]);
    assert_eq!(fixture.text("part-7-1.jsonl"), "a\nb\n");
    assert_eq!(sink.newest_commit().unwrap(), Some((0, 7)));
    sink.commit(&[first.clone(), second.clone()]).unwrap();
    fixture.sink().commit(&[first, second]).unwrap();
    assert_eq!((fixture.names().len(), &fixture.text("part-8-1.jsonl")[..]), (2, "c\n"));
}

#[test]
fn large_parts_and_headers_are_whole() {
    let fixture = Fixture::new();
    let sink = sink(&fixture.dir, Some("id,name"));
    let mut writer = sink.writer(WriterTask { incarnation: 3, ..TASK }).unwrap();
    let row = vec![b'x'; 50_000];
    let committables = [part(&mut *writer, 1, &[&row, &row, &row]), part(&mut *writer, 2, &[b"1,a"])];
    fixture.sink().commit(&committables).unwrap();
    assert_eq!(fixture.names(), ["part-3-1-1.jsonl", "part-3-2-1.jsonl"]);
    assert_eq!(fixture.text("part-3-1-1.jsonl").len(), 8 + 3 * 50_001);
    assert_eq!(fixture.text("part-3-2-1.jsonl"), "id,name\n1,a\n");
    assert_eq!(fixture.sink().newest_commit().unwrap(), Some((3, 2)));
}

#[test]
fn a_restart_commits_what_the_checkpoint_names_and_cleans_the_rest() {
    let fixture = Fixture::new();
    fixture.sink().clean().unwrap();
    let mut writer = fixture.sink().writer(TASK).unwrap();
    let committables = [part(&mut *writer, 7, &[b"a"]), part(&mut *writer, 7, &[b"left"])];
    fs::write(fixture.dir.join(".notes"), "mine").unwrap();
    let other = ".part-0-1-1-f00-b.jsonl";
    fs::write(fixture.dir.join(other), "another job's").unwrap();
    fs::write(fixture.dir.join("part-of-the-story.txt"), "mine").unwrap();
    let restarted = fixture.sink();
    restarted.commit(&committables[..1]).unwrap();
    restarted.clean().unwrap();
    assert_eq!(fixture.names(), [".notes", other, "part-7-1.jsonl", "part-of-the-story.txt"]);
    // Renamed, but the folder of the hidden name was not synced: both names are there after a crash.
    fs::write(fixture.dir.join(".part-0-1-1-f00-a.jsonl"), "a\n").unwrap();
    fixture.sink().commit(&committables[..1]).unwrap();
    assert_eq!(fixture.names(), [".notes", other, "part-7-1.jsonl", "part-of-the-story.txt"]);
}

#[test]
fn a_part_that_is_not_what_was_written_stops_the_job() {
    let check = |change: &dyn Fn(&Fixture), expected: &str| {
        let fixture = Fixture::new();
        let committable = part(&mut *fixture.sink().writer(TASK).unwrap(), 7, &[b"a"]);
        change(&fixture);
        let before = fixture.names();
        let error = fixture.sink().commit(&[committable]).unwrap_err();
        assert_eq!((error.kind(), fixture.names()), (Kind::Corrupt, before));
        let text = error.chain();
        let path = fixture.dir.join("part-7-1.jsonl");
        assert!(text.starts_with(&format!("cannot commit `{}` of checkpoint 7: ", path.display())), "{text}");
        assert!(text.contains(expected) && text.ends_with("or start again with --fresh"), "{text}");
    };
    let hidden = |fixture: &Fixture| fixture.dir.join(".part-0-1-1-f00-a.jsonl");
    check(&|fixture| fs::remove_file(hidden(fixture)).unwrap(), "neither it nor `.part-0-1-1-f00-a.jsonl` exists");
    check(&|fixture| fs::write(hidden(fixture), "ab\n").unwrap(), "has 3 bytes instead of 2");
    check(&|fixture| fs::write(hidden(fixture), "b\n").unwrap(), "has the checksum ");
    check(&|fixture| fs::write(fixture.dir.join("part-7-1.jsonl"), "other").unwrap(), "a file of that name exists, and has 5 bytes");
}

#[test]
fn committables_cannot_lead_out_of_the_folder() {
    let fixture = Fixture::new();
    for names in [
        "\"hidden\":\"../x\",\"final\":\"part-1-1.jsonl\"",
        "\"hidden\":\".part-0-1-1-f-a.jsonl\",\"final\":\"part-1-1.a/../b\"",
        "\"no\":1",
    ] {
        let payload = format!("{{{names},\"bytes\":1,\"checksum\":\"0\"}}");
        assert_eq!(fixture.sink().commit(&[Committable { subtask: 0, payload }]).unwrap_err().kind(), Kind::Corrupt);
    }
}

#[test]
fn the_first_failure_is_repeated() {
    let fixture = Fixture::new();
    let mut writer = fixture.sink().writer(TASK).unwrap();
    let first = writer.write(&batch(&[b"ok", b"\xff"])).unwrap_err().chain();
    assert!(first.contains("out/alerts`: not UTF-8"), "{first}");
    assert_eq!(writer.write(&batch(&[b"ok"])).unwrap_err().chain(), first);
    assert_eq!(writer.prepare_commit(1).err().unwrap().chain(), first);

    let mut writer = fixture.sink().writer(TASK).unwrap();
    fs::remove_dir_all(&fixture.dir).unwrap();
    writer.write(&batch(&[b"small"])).unwrap();
    let first = writer.prepare_commit(1).err().unwrap().chain();
    assert!(first.contains("cannot write to the sink's folder") && first.contains(".part-0-1-1-f00-a.jsonl"), "{first}");
    assert_eq!(writer.prepare_commit(2).err().unwrap().chain(), first);
}

#[test]
fn a_folder_that_cannot_be_written_is_named_before_any_row() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.dir.parent().unwrap()).unwrap();
    fs::write(&fixture.dir, "a file").unwrap();
    let error = fixture.sink().writer(TASK).err().unwrap();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.chain().contains("out/alerts`: ") && error.chain().ends_with("name a folder in the sink's path"), "{}", error.chain());
    assert!(fixture.sink().newest_commit().is_err());
}

#[test]
fn a_folder_remembers_each_jobs_newest_commit_though_readers_take_its_output() {
    let fixture = Fixture::new();
    let of = |job: &str, id: u64| {
        let owner = Owner { job: job.to_owned(), data_dir: format!("/data/{job}-{id:x}").into() };
        let config = FileSinkConfig { dir: fixture.dir.clone(), job: id, owner: Some(owner), extension: "jsonl".to_owned(), header: None };
        FileSink::new(config, Arc::new(RealDisk), Arc::new(|| Box::new(Text) as Box<dyn RowEncode>))
    };
    let sink = of("one", 0xa);
    assert_eq!(sink.remembered().unwrap(), None);
    let mut writer = sink.writer(TASK).unwrap();
    let committables = [part(&mut *writer, 7, &[b"a"]), part(&mut *writer, 8, &[b"b"])];
    assert_eq!(sink.remembered().unwrap(), None, "nothing is visible");
    sink.commit(&committables).unwrap();
    of("one", 0xa).commit_again(&committables[..1]).unwrap();
    ["part-7-1.jsonl", "part-8-1.jsonl"].iter().for_each(|name| fs::remove_file(fixture.dir.join(name)).unwrap());
    let remembered = |elsewhere: Option<&str>| Remembered { incarnation: 0, checkpoint: 8, elsewhere: elsewhere.map(str::to_owned) };
    assert_eq!((sink.newest_commit().unwrap(), of("one", 0xa).remembered().unwrap()), (None, Some(remembered(None))));
    assert_eq!(of("one", 0xb).remembered().unwrap(), Some(remembered(Some("/data/one-a"))));
    assert_eq!(of("two", 0xb).remembered().unwrap(), None);
    assert_eq!(fixture.names(), [".tidemill-job-one"]);
    // Whatever somebody else makes of it is no error.
    let path = fixture.dir.join(".tidemill-job-one");
    for content in ["", "{}", "job one\n"] {
        fs::write(&path, content).unwrap();
        assert_eq!(of("one", 0xb).remembered().unwrap(), None, "{content}");
    }
}
