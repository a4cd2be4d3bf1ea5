//! Files that are removed, rotated away, and come back.

use std::fs;
use std::path::PathBuf;

use tidemill_core::source::{Limit, Polled, Source, SourceRows, Split, SplitReader};
use tidemill_core::{Error, Kind};

use super::{ALL, config, source, texts};
use crate::source::file::{FileSource, FileSourceConfig, OnGone};

/// Files of a followed or bounded source, read as a job reads them.
pub(super) struct Job {
    pub(super) root: tempfile::TempDir,
    follow: bool,
    pub(super) csv: bool,
    /// How many files stay open.
    pub(super) open: usize,
    pub(super) on_gone: OnGone,
    source: FileSource,
    /// As the coordinator knows them: with the positions of the start.
    pub(super) known: Vec<Split>,
    readers: Vec<(Split, Option<Box<dyn SplitReader>>)>,
}

impl Job {
    pub(super) fn new(follow: bool, csv: bool, open: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("data")).unwrap();
        let source = source(config(root.path(), "data/*.log", follow), csv, open);
        Self { root, follow, csv, open, on_gone: OnGone::Fail, source, known: Vec::new(), readers: Vec::new() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(super) fn write(&self, name: &str, rows: &str) {
        let head = if self.csv { "id\n" } else { "" };
        fs::write(self.path(name), format!("{head}{rows}")).unwrap();
    }

    pub(super) fn append(&self, name: &str, rows: &str) {
        use std::io::Write;
        fs::OpenOptions::new().append(true).open(self.path(name)).unwrap().write_all(rows.as_bytes()).unwrap();
    }

    pub(super) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// Finds new files, and opens them.
    pub(super) fn discover(&mut self) {
        let before = self.known.len();
        self.source.discover(&mut self.known).unwrap();
        for split in &self.known[before..] {
            self.readers.push((split.clone(), Some(self.source.open(split).unwrap())));
        }
    }

    /// Polls each file once. Returns what was read, without places.
    pub(super) fn poll(&mut self) -> Result<Vec<String>, Error> {
        self.poll_rows(ALL)
    }

    pub(super) fn poll_rows(&mut self, limit: Limit) -> Result<Vec<String>, Error> {
        let mut found = Vec::new();
        for (split, place) in &mut self.readers {
            let Some(reader) = place else { continue };
            let mut rows = SourceRows::default();
            let polled = reader.poll(limit, &mut rows)?;
            (split.position, split.mark) = (reader.position(), reader.mark());
            split.identity = reader.identity().or_else(|| split.identity.take());
            found.extend(texts(&rows).into_iter().map(|(_, text)| text.split_once(':').unwrap().1.to_owned()));
            if polled == Polled::End {
                (split.finished, *place) = (true, None);
            }
        }
        found.sort();
        Ok(found)
    }

    /// The splits as a checkpoint has them.
    pub(super) fn checkpoint(&self) -> Vec<Split> {
        self.readers.iter().map(|(split, _)| split.clone()).collect()
    }

    /// Starts from a checkpoint; `other`: in another process.
    pub(super) fn start(&mut self, checkpoint: Vec<Split>, other: bool) -> Result<(), Error> {
        self.readers.clear();
        if other {
            let config = FileSourceConfig { on_gone: self.on_gone, ..config(self.root.path(), "data/*.log", self.follow) };
            self.source = source(config, self.csv, self.open);
        }
        self.known = checkpoint;
        self.source.resume(&mut self.known)?;
        self.source.discover(&mut self.known)?;
        for split in &self.known {
            let reader = if split.finished { None } else { Some(self.source.open(split)?) };
            self.readers.push((split.clone(), reader));
        }
        Ok(())
    }

    pub(super) fn ended(&self) -> Vec<&str> {
        self.readers.iter().filter(|(_, reader)| reader.is_none()).map(|(split, _)| &*split.name).collect()
    }

    pub(super) fn said(&self) -> Vec<String> {
        self.source.shared.said()
    }
}

/// With all files open, and with all closed between polls.
pub(super) fn each(follow: bool, mut test: impl FnMut(Job)) {
    for (csv, open) in [(false, 64), (true, 64), (false, 0), (true, 0)] {
        test(Job::new(follow, csv, open));
    }
}

#[test]
fn a_file_that_was_read_to_its_end_and_is_gone_ends_its_split() {
    for how in ["removed", "archived", "replaced"] {
        each(true, |mut job| {
            let case = format!("{how}, csv {}, open {}", job.csv, job.open);
            job.write("data/a.log", "1\n2\n");
            job.write("data/b.log", "3\n");
            job.discover();
            assert_eq!(job.poll().unwrap(), ["1", "2", "3"]);
            assert_eq!(job.poll().unwrap(), [""; 0]);
            job.rename("data/a.log", "a.old");
            match how {
                "removed" => fs::remove_file(job.path("a.old")).unwrap(),
                "replaced" => job.write("data/a.log", "4\n"),
                _ => {}
            }
            let checkpoint = job.checkpoint();
            // While it runs.
            let mut found = job.poll().unwrap();
            job.discover();
            found.extend(job.poll().unwrap());
            assert_eq!(found, if how == "replaced" { vec!["4"] } else { vec![] }, "{case}");
            assert_eq!(job.ended(), ["data/a.log"], "{case}");
            let warning = |job: &Job| job.said().iter().filter(|text| text.contains("`data/a.log` is gone")).count();
            assert_eq!(warning(&job), 1, "{case}");
            // At an automatic restart, and at a start by hand; the second start has nothing to say.
            for other in [false, true] {
                job.start(checkpoint.clone(), other).unwrap();
                assert_eq!(job.poll().unwrap(), if how == "replaced" { vec!["4"] } else { vec![] }, "{case}");
                // At a start nobody has the file open, so its end is less certain, and that is said.
                assert_eq!(job.ended(), ["data/a.log"], "{case}");
                assert!((1..=if other { 1 } else { 2 }).contains(&warning(&job)), "{case}: {:?}", job.said());
            }
            let later = job.checkpoint();
            job.start(later, true).unwrap();
            assert_eq!((job.poll().unwrap().len(), warning(&job)), (0, 0), "{case}");
        });
    }
}

#[test]
fn what_an_open_file_still_has_is_read_when_it_is_gone() {
    let mut job = Job::new(true, false, 64);
    job.write("data/a.log", "1\n");
    job.discover();
    assert_eq!(job.poll().unwrap(), ["1"]);
    job.append("data/a.log", "2\n3");
    job.rename("data/a.log", "old");
    assert_eq!(job.poll().unwrap(), ["2", "3"], "half a last line is a record");
    assert_eq!(job.ended(), ["data/a.log"]);
}

#[test]
fn an_unread_rest_that_is_gone_is_an_error_unless_it_is_given_up() {
    for follow in [true, false] {
        each(follow, |mut job| {
            job.write("data/a.log", "1\n2\n3\n");
            job.write("data/b.log", "4\n");
            job.discover();
            job.poll_rows(Limit { rows: 1, ..ALL }).unwrap();
            let checkpoint = job.checkpoint();
            job.rename("data/a.log", "old");
            let case = format!("follow {follow}, csv {}, open {}", job.csv, job.open);
            if job.open == 0 {
                let error = job.poll().unwrap_err();
                assert!(error.kind() == Kind::Corrupt && error.chain().contains("on_gone=skip"), "{case}: {error}");
            } else {
                assert_eq!(job.poll().unwrap(), ["2", "3"], "{case}");
            }
            for other in [false, true] {
                let error = job.start(checkpoint.clone(), other).unwrap_err();
                let from = if job.csv { 5 } else { 2 };
                let expected = format!(
                    "the file `data/a.log` of source in is gone, and 4 bytes of it, from byte {from} on, were not read: put it back under a name \
                     that matches `data/*.log`, or give that up and keep the state: run once with --set sources.in.file.on_gone=skip"
                );
                assert!(error.kind() == Kind::Corrupt && error.chain() == expected, "{case}: {error}");
            }
            // Both ways on that it names.
            job.rename("old", "data/c.log");
            job.start(checkpoint.clone(), true).unwrap();
            assert_eq!(job.poll().unwrap(), ["2", "3"], "{case}");
            job.rename("data/c.log", "old");
            job.on_gone = OnGone::Skip;
            job.start(checkpoint, true).unwrap();
            assert_eq!((job.poll().unwrap().len(), job.ended().contains(&"data/a.log")), (0, true), "{case}");
            assert!(job.said().iter().any(|text| text.contains("as `on_gone: skip` says")), "{case}: {:?}", job.said());
        });
    }
}

#[test]
fn the_rest_of_a_file_that_was_rotated_in_its_folder_is_read() {
    each(true, |mut job| {
        job.write("data/a.log", "1\n2\n3\n");
        job.discover();
        assert_eq!(job.poll_rows(Limit { rows: 1, ..ALL }).unwrap(), ["1"]);
        let checkpoint = job.checkpoint();
        job.rename("data/a.log", "data/a.log.1");
        job.write("data/a.log", "4\n");
        job.discover();
        let case = format!("csv {}, open {}", job.csv, job.open);
        let expected = (vec!["2".to_owned(), "3".to_owned(), "4".to_owned()], vec!["data/a.log"]);
        let mut found = job.poll().unwrap();
        job.discover();
        found.extend(job.poll().unwrap());
        assert_eq!((found, job.ended()), expected, "{case}");
        for other in [false, true] {
            job.start(checkpoint.clone(), other).unwrap();
            let mut found = job.poll().unwrap();
            found.extend(job.poll().unwrap());
            assert_eq!((found, job.ended()), (expected.0.clone(), vec!["data/a.log.1"]), "{case}");
        }
        // What is stored is not believed: only a file in a folder of the pattern is looked for.
        fs::create_dir(job.path("secret")).unwrap();
        job.rename("data/a.log.1", "secret/a.log.1");
        let stray = checkpoint.into_iter().map(|split| Split { name: "secret/a.log".to_owned(), ..split }).collect();
        assert!(job.start(stray, true).unwrap_err().chain().contains("is gone"), "{case}");
    });
}

#[test]
fn what_an_attempt_read_behind_the_checkpoint_is_an_unread_rest() {
    let mut job = Job::new(true, false, 64);
    job.write("data/a.log", "1\n");
    job.discover();
    job.poll().unwrap();
    job.poll().unwrap();
    let checkpoint = job.checkpoint();
    job.append("data/a.log", "2\n");
    job.write("data/new.log", "3\n");
    job.discover();
    assert_eq!(job.poll().unwrap(), ["2", "3"]);
    let all = job.checkpoint();
    for name in ["data/a.log", "data/new.log"] {
        fs::remove_file(job.path(name)).unwrap();
    }
    let error = job.start(checkpoint.clone(), false).unwrap_err().chain();
    assert!(error.contains("2 bytes of it, from byte 2 on") && error.contains("(and so it is with 1 more)"), "{error}");
    job.start(all, false).unwrap();
    // Another process cannot know it.
    job.start(checkpoint, true).unwrap();
}

#[test]
fn a_position_of_an_earlier_version_does_not_say_whether_the_file_was_read() {
    let mut job = Job::new(true, false, 64);
    job.write("data/a.log", "1\n");
    job.discover();
    job.poll().unwrap();
    let old = |split: Split| Split { mark: None, ..split };
    let checkpoint: Vec<_> = job.checkpoint().into_iter().map(old).collect();
    job.start(checkpoint.clone(), true).unwrap();
    fs::remove_file(job.path("data/a.log")).unwrap();
    let error = job.start(checkpoint.clone(), true).unwrap_err().chain();
    assert!(error.contains("what it had from byte 2 on, if anything, was not read"), "{error}");
    job.on_gone = OnGone::Skip;
    job.start(checkpoint, true).unwrap();
}

#[test]
fn a_followed_file_that_comes_back_is_read_on() {
    each(true, |mut job| {
        job.write("data/a.log", "1\n");
        job.discover();
        job.poll().unwrap();
        // With its folder it is away, and nobody knows for how long.
        job.rename("data", "away");
        assert_eq!(job.poll().unwrap(), [""; 0]);
        job.discover();
        assert!(job.ended().is_empty());
        job.rename("away", "data");
        job.append("data/a.log", "2\n");
        assert_eq!(job.poll().unwrap(), ["2"]);
        job.poll().unwrap();
        // Without its folder it is gone; it comes back while the job runs, and between two starts.
        for (word, name, next, starts) in [("3", "data/a.log", "data/b.log", false), ("4", "data/b.log", "data/c.log", true)] {
            job.rename(name, "a.old");
            assert_eq!(job.poll().unwrap(), [""; 0]);
            assert!(job.readers.iter().all(|(_, reader)| reader.is_none()));
            job.append("a.old", &format!("{word}\n"));
            job.rename("a.old", next);
            if starts {
                job.start(job.checkpoint(), true).unwrap();
            } else {
                job.discover();
                job.discover();
            }
            assert_eq!(job.poll().unwrap(), [word], "csv {}, open {}", job.csv, job.open);
            job.poll().unwrap();
        }
    });
}

#[test]
fn a_bounded_job_goes_on_without_the_files_that_it_has_read() {
    let mut job = Job::new(false, false, 64);
    job.write("data/a.log", "1\n");
    job.write("data/b.log", "2\n");
    job.discover();
    assert_eq!(job.poll().unwrap(), ["1", "2"]);
    let checkpoint = job.checkpoint();
    fs::remove_file(job.path("data/a.log")).unwrap();
    job.append("data/b.log", "3\n");
    job.start(checkpoint.clone(), true).unwrap();
    assert_eq!(job.poll().unwrap(), [""; 0]);
    assert!(job.said()[0].contains("`data/b.log` has grown since it was read to its end, byte 2"), "{:?}", job.said());
    job.write("data/new", "4\n");
    job.rename("data/new", "data/b.log");
    job.start(checkpoint, true).unwrap();
    assert_eq!(job.poll().unwrap(), ["4"]);
    assert!(job.said()[0].contains("another file is in the place of `data/b.log`"), "{:?}", job.said());
}

#[test]
fn a_file_that_goes_before_it_is_opened_stops_nothing() {
    let mut job = Job::new(true, false, 64);
    job.write("data/a.log", "1\n");
    job.source.discover(&mut job.known).unwrap();
    job.rename("data/a.log", "data/b.log");
    let mut reader = job.source.open(&job.known[0]).unwrap();
    assert_eq!(reader.poll(ALL, &mut SourceRows::default()).unwrap(), Polled::Pending, "it is found under its new name");
    fs::remove_file(job.path("data/b.log")).unwrap();
    let mut reader = job.source.open(&job.known[0]).unwrap();
    assert_eq!(reader.poll(ALL, &mut SourceRows::default()).unwrap(), Polled::End);
    assert!(job.said()[0].contains("was gone before anything was read of it"), "{:?}", job.said());
}

#[test]
fn what_cannot_be_read_does_not_stop_a_followed_source() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let mut job = Job::new(true, false, 64);
    job.write("data/a.log", "1\n");
    job.discover();
    job.write("data/secret.log", "2\n");
    let secret = job.path("data/secret.log");
    let permit = |mode| fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).unwrap();
    permit(0);
    // Root may read everything.
    let is_root = fs::read(&secret).is_ok();
    symlink("nowhere", job.path("data/link.log")).unwrap();
    fs::create_dir(job.path("data/folder.log")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(job.path("data/pipe.log")).status().unwrap().success());
    job.discover();
    assert_eq!(job.poll().unwrap().first().map(String::as_str), Some("1"));
    let said = job.said();
    let says = |text: &str| said.iter().any(|said| said.contains(text));
    assert!(says("link.log`") && says("pipe.log` is not a regular file") && (is_root || says("secret.log`")), "{said:?}");
    permit(0o600);
    job.discover();
    assert!(is_root || job.poll().unwrap() == ["2"]);
    // A file that was read gives its name to a pipe, which nobody must wait for.
    fs::remove_file(job.path("data/a.log")).unwrap();
    job.rename("data/pipe.log", "data/a.log");
    job.discover();
    job.poll().unwrap();
    assert_eq!(job.ended(), ["data/a.log"]);
}
