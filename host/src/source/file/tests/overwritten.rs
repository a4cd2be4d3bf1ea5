//! Files that have other content than what was read of them.

use std::fs;

use tidemill_core::Kind;
use tidemill_core::source::{Polled, Source, SourceRows, Split, SplitReader};

use super::{ALL, Fixture, config, source, texts};
use crate::source::file::{FileSourceConfig, OnReplaced};

/// A file of which something was read, at one of these stages when it is overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is open.
    Open,
    /// It is closed, since there are many.
    Resting,
    /// The job has stopped.
    Stopped,
}

struct Trial {
    root: tempfile::TempDir,
    csv: bool,
    on_replaced: OnReplaced,
    stage: Stage,
    follow: bool,
}

impl Trial {
    fn source(&self) -> crate::source::file::FileSource {
        let config = FileSourceConfig { on_replaced: self.on_replaced, ..config(self.root.path(), "in", self.follow) };
        source(config, self.csv, if self.stage == Stage::Resting { 0 } else { 64 })
    }

    fn write(&self, rows: &str) {
        let head = if self.csv { "id\n" } else { "" };
        fs::write(self.root.path().join("in"), format!("{head}{rows}")).unwrap();
    }

    /// What is read after a change of the file of which the old rows were read: the rows' texts, or the error.
    fn read(&self, old: &str, change: impl FnOnce(&Self)) -> Result<Vec<String>, String> {
        self.write(old);
        // The next write is at another time, however fast the test is.
        fs::File::open(self.root.path().join("in")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        let source = self.source();
        let mut known = Vec::new();
        source.discover(&mut known).unwrap();
        let mut reader = source.open(&known[0]).unwrap();
        let limit = tidemill_core::source::Limit { rows: old.lines().count(), ..ALL };
        reader.poll(limit, &mut SourceRows::default()).unwrap();
        if self.follow {
            assert_eq!(reader.poll(ALL, &mut SourceRows::default()).unwrap(), Polled::Pending);
        }
        let split = Split { position: reader.position(), mark: reader.mark(), ..known[0].clone() };
        change(self);
        if self.stage != Stage::Stopped {
            return rest(&mut reader);
        }
        let (source, mut known) = (self.source(), vec![split]);
        source.resume(&mut known).map_err(|error| error.chain())?;
        source.discover(&mut known).map_err(|error| error.chain())?;
        assert_eq!(known.len(), 1, "{:?}", self.stage);
        let mut reader = source.open(&known[0]).map_err(|error| {
            assert_eq!(error.kind(), Kind::Corrupt);
            error.chain()
        })?;
        rest(&mut reader)
    }
}

fn rest(reader: &mut Box<dyn SplitReader>) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    loop {
        let mut rows = SourceRows::default();
        let polled = reader.poll(ALL, &mut rows).map_err(|error| {
            assert_eq!(error.kind(), Kind::Corrupt);
            error.chain()
        })?;
        found.extend(texts(&rows).into_iter().map(|(_, text)| text));
        if polled != Polled::More {
            return Ok(found);
        }
    }
}

fn each(mut test: impl FnMut(Trial)) {
    for stage in [Stage::Open, Stage::Resting, Stage::Stopped] {
        for (csv, follow) in [(false, true), (true, true), (false, false), (true, false)] {
            for on_replaced in [OnReplaced::Fail, OnReplaced::BeginAgain] {
                test(Trial { root: tempfile::tempdir().unwrap(), csv, on_replaced, stage, follow });
            }
        }
    }
}

fn rows(word: &str, count: usize) -> String {
    (100..100 + count).map(|row| format!("{word}{row}\n")).collect()
}

#[test]
fn other_content_is_an_error_or_is_read_from_the_begin() {
    // Longer than what was read, as long, shorter, shorter than one row; and with long heads and tails that are compared.
    for (old, new) in [(20, 50), (20, 20), (20, 5), (1, 1), (400, 500), (400, 399), (3, 0)] {
        each(|trial| {
            let case = format!("{:?}, csv {}, follow {}, {old} to {new}", trial.stage, trial.csv, trial.follow);
            let found = trial.read(&rows("old", old), |trial| trial.write(&rows("new", new)));
            if trial.on_replaced == OnReplaced::Fail {
                let error = found.unwrap_err();
                assert!(error.contains("the file `in` of source in was overwritten: it has "), "{case}: {error}");
                assert!(error.contains("--set sources.in.file.on_replaced=begin_again"), "{case}: {error}");
            } else {
                let first = if trial.csv { 2 } else { 1 };
                let expected: Vec<_> = (0..new).map(|row| format!("{}:new{}", first + row, 100 + row)).collect();
                let mut found = found.unwrap();
                found.sort_by_key(|text| text.split(':').next().unwrap().parse::<usize>().unwrap());
                assert_eq!(found, expected, "{case}");
            }
        });
    }
}

#[test]
fn a_head_or_a_tail_that_differs_is_noticed() {
    let old = rows("old", 400);
    for (from, to) in [("old100\n", "OLD100\n"), ("old499\n", "OLD499\n")] {
        each(|trial| {
            let found = trial.read(&old, |trial| trial.write(&format!("{}more\n", old.replace(from, to))));
            assert_eq!(found.is_err(), trial.on_replaced == OnReplaced::Fail, "{:?} {from}", trial.stage);
            assert!(found.is_err() || found.unwrap().len() == 401);
        });
    }
}

#[test]
fn a_file_that_grows_or_is_touched_is_the_same() {
    each(|trial| {
        let old = rows("old", 400);
        let line = if trial.csv { 402 } else { 401 };
        let found = trial.read(&old, |trial| trial.write(&format!("{old}more\n")));
        assert_eq!(found.unwrap(), [format!("{line}:more")], "{:?}", trial.stage);
        let touch = |trial: &Trial| {
            let file = fs::OpenOptions::new().append(true).open(trial.root.path().join("in")).unwrap();
            // The clock of the machine was set back.
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(7)).unwrap();
        };
        let again = Trial { root: tempfile::tempdir().unwrap(), ..trial };
        assert_eq!(again.read(&old, touch).unwrap(), [""; 0], "{:?}", again.stage);
    });
}

#[test]
fn positions_of_earlier_versions_are_checked_as_far_as_they_can_be() {
    for fixture in [Fixture::lines("id\nbc\n"), Fixture::csv("id\nbc\n")] {
        let message = |position| {
            let error = fixture.open(position).err().unwrap();
            assert_eq!(error.kind(), Kind::Corrupt);
            error.chain()
        };
        assert!(message(7).contains("has 6 bytes, fewer than the 7 that were already read"), "{}", message(7));
        assert!(message(4).contains("has no line that begins at byte 4"), "{}", message(4));
        assert!(fixture.open(6).is_ok());
    }
}

#[test]
fn a_line_that_is_cut_amid_its_writing_is_noticed() {
    let fixture = Fixture::new(b"a\nhalf", false, true, 100);
    let mut reader = fixture.open(0).unwrap();
    reader.poll(ALL, &mut SourceRows::default()).unwrap();
    fs::write(&fixture.path, "a\nother\n").unwrap();
    assert!(reader.poll(ALL, &mut SourceRows::default()).unwrap_err().chain().contains("has other content"));
}
