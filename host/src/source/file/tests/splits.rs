//! Files that are many, linked, renamed, copied and replaced.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidemill_core::source::{Limit, Polled, Source, SourceRows, Split, SplitReader};
use tidemill_core::{Error, Kind};

use super::{ALL, config, texts};
use crate::source::file::FileSource;

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

    /// Starts with what is known. Known files as `id:name@position`, those that have ended with a dot.
    fn start(&mut self) -> Result<Vec<String>, Error> {
        self.source.resume(&mut self.known)?;
        self.discover()
    }

    /// As [`start`](Self::start), while the job runs.
    fn discover(&mut self) -> Result<Vec<String>, Error> {
        self.source.discover(&mut self.known)?;
        let text = |split: &Split| format!("{}:{}@{}{}", split.id, split.name, split.position, if split.finished { "." } else { "" });
        Ok(self.known.iter().map(text).collect())
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
    super::source(config(dir, pattern, follow), csv, 64)
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
    assert_eq!(folder.start().unwrap(), ["0:a.log@0", "1:b.log@0"]);
    assert_eq!(folder.discover().unwrap().len(), 2);
    // Stored before names were relative, and before identities were.
    let absolute = folder.path("b.log").to_str().unwrap().to_owned();
    folder.known = vec![Split { position: 2, ..Split::new(&[], absolute) }];
    assert_eq!(folder.start().unwrap(), ["0:b.log@2", "1:a.log@0"]);
    assert!(folder.known[0].identity.is_some());
    assert!(folder.source.bounded());
    folder.known.clear();
    fs::remove_file(folder.path("a.log")).unwrap();
    fs::remove_file(folder.path("b.log")).unwrap();
    assert!(folder.start().is_err());
}

#[test]
fn a_renamed_or_linked_file_is_the_same_and_a_new_one_of_its_inode_is_not() {
    for follow in [false, true] {
        let mut folder = Folder::new(follow);
        folder.write("a.log", "a\n");
        folder.start().unwrap();
        folder.known[0].position = 2;
        folder.rename("a.log", "b.log");
        assert_eq!(folder.start().unwrap(), ["0:b.log@2"]);
        fs::hard_link(folder.path("b.log"), folder.path("a.log")).unwrap();
        std::os::unix::fs::symlink("b.log", folder.path("c.log")).unwrap();
        assert_eq!(folder.start().unwrap(), ["0:a.log@2"]);
        fs::remove_file(folder.path("a.log")).unwrap();
        fs::remove_file(folder.path("b.log")).unwrap();
        fs::remove_file(folder.path("c.log")).unwrap();
        // File systems use inodes again at once.
        folder.write("c.log", "c\n");
        assert_eq!(folder.discover().unwrap(), ["0:a.log@2", "1:c.log@0"]);
    }
}

#[test]
fn a_replaced_file_is_gone_and_a_copy_takes_its_place() {
    let mut folder = Folder::new(false);
    folder.write("a.log", "a\nb\n");
    folder.start().unwrap();
    folder.known[0].position = 2;
    folder.write("new", "x\ny\n");
    folder.rename("new", "a.log");
    refused(folder.start(), "a.log` of source in is gone, and what it had from byte 2 on");
    folder.known[0] = Split { position: 4, finished: true, ..folder.known[0].clone() };
    assert_eq!(folder.start().unwrap(), ["0:a.log@4.", "1:a.log@0"]);
    folder.known.truncate(1);
    folder.known[0] = Split { position: 0, finished: false, ..folder.known[0].clone() };
    assert_eq!(folder.start().unwrap(), ["0:a.log@0"], "nothing was read of it");
    folder.known[0].position = 2;
    folder.write("copy", "x\ny\nz\n");
    folder.rename("copy", "a.log");
    assert_eq!(folder.start().unwrap(), ["0:a.log@2"]);
    assert_eq!(poll(&mut folder.open(0).unwrap()), (vec!["@2:y".to_owned(), "@4:z".to_owned()], Polled::End));
}

#[test]
fn a_copy_takes_the_place_of_a_followed_file_that_is_there_no_more_or_had_a_kilobyte() {
    for (lines, is_kept, is_copy) in [(10, false, true), (10, true, false), (500, false, true), (500, true, true)] {
        let mut folder = Folder::new(true);
        let text: String = (0..lines).map(|line| format!("{line}\n")).collect();
        folder.write("a.log", &text);
        folder.start().unwrap();
        let mut reader = folder.open(0).unwrap();
        assert_eq!(poll(&mut reader).0.len(), lines);
        folder.known[0] = Split { position: reader.position(), mark: reader.mark(), ..folder.known[0].clone() };
        folder.write("copy", &format!("{text}more\n"));
        if is_kept {
            folder.rename("a.log", "old");
        }
        folder.rename("copy", "a.log");
        folder.restart();
        let found = folder.start().unwrap();
        let expected = if is_copy { format!("0:a.log@{}", text.len()) } else { "1:a.log@0".to_owned() };
        assert_eq!(found.last(), Some(&expected));
        assert_eq!(poll(&mut folder.open(found.len() - 1).unwrap()).0.len(), if is_copy { 1 } else { lines + 1 });
    }
}

#[test]
fn a_followed_file_may_be_rotated() {
    let mut folder = Folder::new(true);
    folder.write("a.log", "1\n");
    folder.start().unwrap();
    let mut reader = folder.open(0).unwrap();
    assert_eq!(poll(&mut reader), (vec!["1:1".to_owned()], Polled::Pending));
    // To a name that matches: it is read on.
    folder.rename("a.log", "a.log.1");
    folder.write("a.log", "2\n");
    fs::write(folder.path("a.log.1"), "1\nlast\n").unwrap();
    assert_eq!(folder.discover().unwrap(), ["0:a.log.1@0", "1:a.log@0"]);
    assert_eq!(poll(&mut reader), (vec!["2:last".to_owned()], Polled::Pending));
    // To one that does not: it ends, with what is in it.
    let mut second = folder.open(1).unwrap();
    assert_eq!(poll(&mut second), (vec!["1:2".to_owned()], Polled::Pending));
    folder.rename("a.log", "old");
    folder.write("old", "2\n3");
    folder.write("a.log", "4\n");
    assert_eq!(poll(&mut second), (vec!["2:3".to_owned()], Polled::End));
    folder.known[0] = Split { position: 7, mark: reader.mark(), ..folder.known[0].clone() };
    folder.known[1] = Split { position: 3, finished: true, ..folder.known[1].clone() };
    folder.restart();
    assert_eq!(folder.start().unwrap(), ["0:a.log.1@7", "1:a.log@3.", "2:a.log@0"]);
    assert_eq!(poll(&mut folder.open(2).unwrap()), (vec!["1:4".to_owned()], Polled::Pending));
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
                assert!(source.shared.handles.count() <= 64, "{} are open", source.shared.handles.count());
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
            assert!(readers.iter().all(Option::is_none) && source.shared.handles.count() == 0);
        }
    }
}
