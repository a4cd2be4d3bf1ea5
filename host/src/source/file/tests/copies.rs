//! Copies that take the place of followed files, while the job runs and between two runs, and files that were rotated meanwhile.

use std::fs;

use super::gone::{Job, each};

/// Rows that a copy is told by: more than a kilobyte.
fn many(word: &str) -> String {
    (0..400).map(|row| format!("{word}{row}\n")).collect()
}

/// Replaces a file by a copy with more, as `rsync` and `sed -i` do.
fn replace_by_copy(job: &Job, name: &str, more: &str) {
    let mut content = fs::read_to_string(job.path(name)).unwrap();
    content.push_str(more);
    fs::write(job.path("copy"), content).unwrap();
    job.rename("copy", name);
}

/// What several turns read, with discovery in between.
fn turns(job: &mut Job) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..4 {
        found.extend(job.poll().unwrap());
        job.discover();
    }
    found
}

#[test]
fn a_copy_is_read_on_while_the_job_runs_and_between_runs() {
    for (rows, live) in [("1\n2\n".to_owned(), true), ("1\n2\n".to_owned(), false), (many("x"), true), (many("x"), false)] {
        each(true, |mut job| {
            let case = format!("{} rows, live {live}, csv {}, open {}", rows.lines().count(), job.csv, job.open);
            // It is small when it is found, and grows.
            job.write("data/a.log", "0\n");
            job.discover();
            assert_eq!(job.poll().unwrap(), ["0"], "{case}");
            job.append("data/a.log", &rows);
            assert_eq!(job.poll().unwrap().len(), rows.lines().count(), "{case}");
            job.poll().unwrap();
            for more in ["first", "second"] {
                let before = job.checkpoint();
                replace_by_copy(&job, "data/a.log", &format!("{more}\n"));
                if live {
                    job.discover();
                    assert_eq!(turns(&mut job), [more], "{case}");
                } else {
                    job.start(before.clone(), true).unwrap();
                    assert_eq!(turns(&mut job), [more], "{case}");
                }
                assert_eq!((job.checkpoint().len(), job.ended().len()), (1, 0), "{case}");
                assert!(job.said().iter().any(|text| text.contains("it is taken for a copy")), "{case}: {:?}", job.said());
                // A restart, by itself and by hand, from before and from after.
                for (checkpoint, expected) in [(before, vec![more]), (job.checkpoint(), vec![])] {
                    for other in [false, true] {
                        job.start(checkpoint.clone(), other).unwrap();
                        assert_eq!(turns(&mut job), expected, "{case}");
                        assert_eq!(job.checkpoint().len(), 1, "{case}");
                    }
                }
            }
            // It is known under another name by now.
            job.rename("data/a.log", "data/b.log");
            job.append("data/b.log", "third\n");
            assert_eq!(turns(&mut job), ["third"], "{case}");
            job.start(job.checkpoint(), true).unwrap();
            assert_eq!((turns(&mut job).len(), job.checkpoint().len()), (0, 1), "{case}");
        });
    }
}

#[test]
fn the_next_file_of_a_name_is_another_though_it_begins_alike() {
    for live in [true, false] {
        each(true, |mut job| {
            let case = format!("live {live}, csv {}, open {}", job.csv, job.open);
            job.write("data/a.log", "1\n");
            job.discover();
            assert_eq!(job.poll().unwrap(), ["1"]);
            job.poll().unwrap();
            job.rename("data/a.log", "data/a.log.1");
            job.write("data/a.log", "1\n2\n");
            if !live {
                job.start(job.checkpoint(), true).unwrap();
            }
            job.discover();
            assert_eq!(turns(&mut job), ["1", "2"], "{case}");
        });
    }
}

#[test]
fn other_content_under_the_name_is_another_file() {
    for (old, new) in [(many("x"), many("y")), (many("x"), "x0\n".to_owned()), ("1\n".to_owned(), "2\n3\n".to_owned())] {
        for live in [true, false] {
            each(true, |mut job| {
                let case = format!("{} to {}, live {live}, csv {}, open {}", old.len(), new.len(), job.csv, job.open);
                job.write("data/a.log", &old);
                job.discover();
                assert_eq!(job.poll().unwrap().len(), old.lines().count(), "{case}");
                job.poll().unwrap();
                job.write("new", &new);
                job.rename("new", "data/a.log");
                if !live {
                    job.start(job.checkpoint(), true).unwrap();
                }
                assert_eq!(turns(&mut job).len(), new.lines().count(), "{case}");
                assert_eq!(job.ended(), ["data/a.log"], "{case}");
            });
        }
    }
}

#[test]
fn a_file_that_was_gone_and_is_restored_as_a_copy_is_read_on() {
    for live in [true, false] {
        each(true, |mut job| {
            let case = format!("live {live}, csv {}, open {}", job.csv, job.open);
            job.write("data/a.log", &many("x"));
            job.discover();
            assert_eq!(job.poll().unwrap().len(), 400);
            job.poll().unwrap();
            fs::copy(job.path("data/a.log"), job.path("backup")).unwrap();
            fs::remove_file(job.path("data/a.log")).unwrap();
            assert_eq!(turns(&mut job).len(), 0, "{case}");
            assert_eq!(job.ended(), ["data/a.log"], "{case}");
            job.append("backup", "more\n");
            job.rename("backup", "data/a.log");
            if !live {
                job.start(job.checkpoint(), true).unwrap();
            }
            assert_eq!(turns(&mut job), ["more"], "{case}");
        });
    }
}

#[test]
fn what_a_file_has_got_before_it_was_rotated_between_runs_is_read() {
    each(true, |mut job| {
        let case = format!("csv {}, open {}", job.csv, job.open);
        job.write("data/a.log", "1\n2\n");
        job.discover();
        assert_eq!(job.poll().unwrap(), ["1", "2"]);
        job.poll().unwrap();
        let checkpoint = job.checkpoint();
        job.append("data/a.log", "3\n");
        job.rename("data/a.log", "data/a.log.1");
        job.write("data/a.log", "4\n");
        for other in [true, false] {
            job.start(checkpoint.clone(), other).unwrap();
            assert_eq!(turns(&mut job), ["3", "4"], "{case}");
            assert_eq!(job.ended(), ["data/a.log.1"], "{case}");
        }
        // Where it is not found nobody knows whether it had more.
        job.rename("data/a.log.1", "old");
        job.start(checkpoint, true).unwrap();
        assert_eq!(turns(&mut job), ["4"], "{case}");
        let end = if job.csv { 7 } else { 4 };
        let expected = format!("it was read to its end, as far as was seen, byte {end}, so its split has ended");
        assert!(job.said().iter().any(|text| text.contains(&expected)), "{case}: {:?}", job.said());
    });
}
