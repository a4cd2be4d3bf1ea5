//! Files that are many, linked, renamed, copied and replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidemill_core::source::{Limit, Polled, Source, SourceRows, Split, SplitReader};
use tidemill_core::{Error, Kind};

use super::{ALL, PlainLines, PlainRows, texts};
use crate::source::file::{FileFormat, FileSource, FileSourceConfig, LineDecode, RowDecode};

/// A folder of files, and what is known of them.
struct Folder {
    root: TempDir,
    follow: bool,
    source: FileSource,
    known: Vec<Split>,
}

impl Folder {
    fn new(follow: bool) -> Self {
        let root = tempfile::tempdir().unwrap();
        let source = source(root.path(), "*.log*", follow, false);
        Self { root, follow, source, known: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// Known files as `id:name@position`.
    fn discover(&mut self) -> Result<Vec<String>, Error> {
        self.source.discover(&mut self.known)?;
        Ok(self.known.iter().map(|split| format!("{}:{}@{}", split.id, split.name, split.position)).collect())
    }

    /// Another process begins with what is known.
    fn restart(&mut self) {
        self.source = source(self.root.path(), "*.log*", self.follow, false);
    }

    fn open(&self, id: usize) -> Result<Box<dyn SplitReader>, Error> {
        self.source.open(&self.known[id])
    }
}

fn source(dir: &Path, pattern: &str, follow: bool, csv: bool) -> FileSource {
    let pattern = dir.join(pattern).to_str().unwrap().to_owned();
    let format = if csv {
        FileFormat::Csv(Arc::new(|| Box::new(PlainRows) as Box<dyn RowDecode>))
    } else {
        FileFormat::Lines(Arc::new(|| Box::new(PlainLines) as Box<dyn LineDecode>))
    };
    FileSource::new(FileSourceConfig { pattern, base: dir.to_owned(), follow, max_record_bytes: 1 << 20, timestamp: None }, format)
}

fn poll(reader: &mut Box<dyn SplitReader>) -> (Vec<String>, Polled) {
    let mut rows = SourceRows::default();
    let polled = reader.poll(ALL, &mut rows).unwrap();
    (texts(&rows).into_iter().map(|(_, text)| text).collect(), polled)
}

fn refused(result: Result<impl Sized, Error>, expected: &str) {
    let error = result.err().unwrap();
    assert!(error.kind() == Kind::Corrupt && error.chain().contains(expected), "{}", error.chain());
}

#[test]
fn files_are_known_by_names_below_the_folder_of_the_spec() {
    let mut folder = Folder::new(false);
    folder.write("b.log", "b\n");
    folder.write("a.log", "a\n");
    assert_eq!(folder.discover().unwrap(), ["0:a.log@0", "1:b.log@0"]);
    assert_eq!(folder.discover().unwrap().len(), 2);
    // Stored before names were relative, and before identities were.
    let absolute = folder.path("b.log").to_str().unwrap().to_owned();
    folder.known = vec![Split { position: 2, ..Split::new(&[], absolute) }];
    assert_eq!(folder.discover().unwrap(), ["0:b.log@2", "1:a.log@0"]);
    assert!(folder.source.bounded());
    fs::remove_file(folder.path("a.log")).unwrap();
    fs::remove_file(folder.path("b.log")).unwrap();
    assert!(folder.discover().is_err());
}

#[test]
fn a_renamed_or_linked_file_is_the_same_and_a_new_one_of_its_inode_is_not() {
    for follow in [false, true] {
        let mut folder = Folder::new(follow);
        folder.write("a.log", "a\n");
        folder.discover().unwrap();
        folder.known[0].position = 2;
        folder.rename("a.log", "b.log");
        assert_eq!(folder.discover().unwrap(), ["0:b.log@2"]);
        fs::hard_link(folder.path("b.log"), folder.path("a.log")).unwrap();
        assert_eq!(folder.discover().unwrap(), ["0:a.log@2"]);
        fs::remove_file(folder.path("a.log")).unwrap();
        fs::remove_file(folder.path("b.log")).unwrap();
        // File systems use inodes again at once.
        folder.write("c.log", "c\n");
        assert_eq!(folder.discover().unwrap(), ["0:a.log@2", "1:c.log@0"]);
    }
}

#[test]
fn a_replaced_file_is_refused_and_a_copy_is_not() {
    let mut folder = Folder::new(false);
    folder.write("a.log", "a\nb\n");
    folder.discover().unwrap();
    folder.known[0].position = 2;
    folder.write("new", "x\ny\n");
    folder.rename("new", "a.log");
    refused(folder.discover(), "of which 2 bytes were read was number");
    refused(folder.open(0), "of which 2 bytes were read was number");
    folder.known[0].finished = true;
    refused(folder.discover(), "a.log` was replaced");
    folder.known[0] = Split { position: 0, finished: false, ..folder.known[0].clone() };
    assert_eq!(folder.discover().unwrap(), ["0:a.log@0"], "nothing was read of it");
    folder.known[0].position = 2;
    folder.write("copy", "x\ny\nz\n");
    folder.rename("copy", "a.log");
    assert_eq!(folder.discover().unwrap(), ["0:a.log@2"]);
    assert_eq!(poll(&mut folder.open(0).unwrap()), (vec!["2:y".to_owned(), "4:z".to_owned()], Polled::End));
}

#[test]
fn a_followed_file_may_be_rotated() {
    let mut folder = Folder::new(true);
    folder.write("a.log", "1\n");
    folder.discover().unwrap();
    let mut reader = folder.open(0).unwrap();
    assert_eq!(poll(&mut reader), (vec!["0:1".to_owned()], Polled::Pending));
    // To a name that matches: it is read on.
    folder.rename("a.log", "a.log.1");
    folder.write("a.log", "2\n");
    fs::write(folder.path("a.log.1"), "1\nlast\n").unwrap();
    assert_eq!(folder.discover().unwrap(), ["0:a.log.1@0", "1:a.log@0"]);
    assert_eq!(poll(&mut reader), (vec!["2:last".to_owned()], Polled::Pending));
    // To one that does not: it ends, with what is in it.
    let mut second = folder.open(1).unwrap();
    assert_eq!(poll(&mut second), (vec!["0:2".to_owned()], Polled::Pending));
    folder.rename("a.log", "old");
    folder.write("old", "2\n3");
    folder.write("a.log", "4\n");
    assert_eq!(poll(&mut second), (vec!["2:3".to_owned()], Polled::End));
    folder.known[0].position = 7;
    folder.known[1] = Split { position: 3, finished: true, ..folder.known[1].clone() };
    folder.restart();
    assert_eq!(folder.discover().unwrap(), ["0:a.log.1@7", "1:a.log@3", "2:a.log@0"]);
    assert_eq!(poll(&mut folder.open(2).unwrap()), (vec!["0:4".to_owned()], Polled::Pending));
    // Between runs what was not read is lost: that is said.
    folder.known[2].position = 2;
    folder.rename("a.log", "older");
    folder.write("a.log", "4\n5\n");
    assert_eq!(folder.discover().unwrap().len(), 4);
    refused(folder.open(2), "a.log` was replaced");
    assert_eq!(poll(&mut folder.open(3).unwrap()).0, ["0:4", "2:5"]);
}

#[test]
fn few_of_many_files_are_open_and_all_are_read() {
    for (csv, follow) in [(false, false), (true, false), (false, true), (true, true)] {
        let root = tempfile::tempdir().unwrap();
        let count = 300;
        let lines = |file: usize| (0..5).map(|line| format!("{file}-{line}\n")).collect::<String>();
        for file in 0..count {
            let head = if csv { "id\n" } else { "" };
            fs::write(root.path().join(format!("{file:03}.log")), format!("{head}{}", lines(file))).unwrap();
        }
        let source = source(root.path(), "*.log", follow, csv);
        let mut known = Vec::new();
        source.discover(&mut known).unwrap();
        let mut readers: Vec<_> = known.iter().map(|split| Some(source.open(split).unwrap())).collect();
        let mut found = vec![String::new(); count];
        for _ in 0..10 {
            for (index, place) in readers.iter_mut().enumerate() {
                let Some(reader) = place else { continue };
                let mut rows = SourceRows::default();
                let polled = reader.poll(Limit { rows: 2, bytes: 1000 }, &mut rows).unwrap();
                assert!(source.handles.count() <= 64, "{} are open", source.handles.count());
                rows.payload.view().iter().for_each(|row| found[index] += &format!("{}\n", str::from_utf8(row).unwrap()));
                if polled == Polled::End {
                    *place = None;
                }
            }
        }
        assert!(found.iter().enumerate().all(|(file, text)| *text == lines(file)), "csv {csv}, follow {follow}");
        if follow {
            use std::io::Write;
            // A closed one is noticed when it grows, and found under its new name.
            let old = root.path().join("299.log");
            let mut file = fs::OpenOptions::new().append(true).open(&old).unwrap();
            fs::rename(&old, root.path().join("new.log")).unwrap();
            file.write_all(b"more\n").unwrap();
            fs::write(&old, "id\nother\n").unwrap();
            assert_eq!(poll(readers[299].as_mut().unwrap()).0.len(), 1);
        } else {
            assert!(readers.iter().all(Option::is_none) && source.handles.count() == 0);
        }
    }
}
