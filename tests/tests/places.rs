//! Whose the folders and files of a job are, and where they are looked for: started from another folder, with a changed spec or component, among
//! files that somebody else has planted, and on a machine that lacks something.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use tidemill_tests::cli::{Workplace, component, records, signal, tidemill};

const DATA: &str = "tidemill-data/picky";

/// A job over three records in a folder `a` of a workplace.
fn in_folder_a() -> Workplace {
    let place = Workplace::picky("");
    fs::create_dir(place.path("a")).unwrap();
    fs::rename(place.path("job.yaml"), place.path("a/job.yaml")).unwrap();
    place.write("a/in/1.jsonl", records(&["pass"; 3]));
    place
}

/// Takes the visible output away, as a reader does.
fn take_output(place: &Workplace, folder: &str) -> usize {
    let names = place.names(folder).into_iter().filter(|name| !name.starts_with('.')).collect::<Vec<_>>();
    names.iter().for_each(|name| fs::remove_file(place.path(folder).join(name)).unwrap());
    names.len()
}

#[test]
fn the_jobs_folder_is_beside_its_spec() {
    let place = in_folder_a();
    place.run(&["run", "a/job.yaml"]).expect(0, &["started job picky from nothing", "finished"]);
    assert!(place.path("a").join(DATA).is_dir() && !place.path("tidemill-data").exists());
    assert!(take_output(&place, "a/out/main") > 0);
    fs::create_dir(place.path("b")).unwrap();
    for job in ["a/job.yaml", "a/../a/job.yaml", "b/../a/job.yaml"] {
        place.run(&["run", job]).expect(0, &["finished already"]);
    }
    let mut elsewhere = place.command(&["run", "../a/job.yaml"]);
    let said = elsewhere.current_dir(place.path("b")).output().unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains("finished already"), "{said:?}");
    assert_eq!(take_output(&place, "a/out/main"), 0);
}

#[test]
fn a_folder_in_the_working_directory_of_an_earlier_version_is_used() {
    let place = in_folder_a();
    place.run(&["run", "a/job.yaml", "--data-dir", DATA]).expect(0, &["finished"]);
    // As an earlier version leaves it, and as this one does.
    for revision in [true, false] {
        if !revision {
            fs::remove_file(place.path(DATA).join("checkpoints/REVISION")).unwrap();
        }
        place.run(&["run", "a/job.yaml"]).expect(0, &["of an earlier version; move it", "finished already"]);
    }
    fs::create_dir(place.path("a/tidemill-data")).unwrap();
    fs::rename(place.path(DATA), place.path("a").join(DATA)).unwrap();
    let moved = place.run(&["run", "a/job.yaml"]);
    assert!(!moved.expect(0, &["finished already"]).stderr.contains("WARN"));
}

#[test]
fn output_that_was_taken_away_is_not_written_again_without_a_word() {
    let place = in_folder_a();
    place.run(&["run", "a/job.yaml"]).expect(0, &["finished"]);
    let other = ["run", "a/job.yaml", "--data-dir", "other"];
    place.run(&other).expect(2, &["already holds committed output", "a/tidemill-data/picky: --data-dir names"]);
    assert!(take_output(&place, "a/out/main") > 0);
    place.run(&other).expect(2, &["has been taken away since", "a/tidemill-data/picky: --data-dir names that folder", "--fresh"]);
    assert!(place.visible("a/out/main").is_empty());
    // Another job is none of its business.
    place.run(&["run", "a/job.yaml", "--set", "name=second", "--set", "sinks.out.file.path=out/second"]).expect(0, &["finished"]);
    place.run(&[&other[..], &["--fresh"]].concat()).expect(0, &["finished"]);
    let names = place.names("a/out/main");
    assert!(names.iter().any(|name| name.starts_with("part-1-")), "a name that a reader has had: {names:?}");
    assert_eq!(place.visible("a/out/main").len(), 3);
}

#[test]
fn a_finished_job_that_has_changed_says_in_what() {
    let place = Workplace::picky("");
    place.write("in/1.jsonl", records(&["pass"; 3]));
    place.write("day2/1.jsonl", records(&["pass"; 5]));
    place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
    place.run(&["run", "job.yaml", "--set", "checkpoints.interval=1s", "--parallelism", "2"]).expect(0, &["finished already"]);
    let changed = ["run", "job.yaml", "--set", "sources.in.file.path=day2/*.jsonl", "--set", "sinks.out.file.path=out/day2"];
    let expected =
        ["source in: path was in/*.jsonl and is day2/*.jsonl", "sink out: path was out/main and is out/day2", "nothing was read"];
    for _ in 0..2 {
        place.run(&changed).expect(2, &expected);
    }
    place.run(&["run", "job.yaml"]).expect(0, &["finished already"]);
    // As earlier versions left it: nobody can know.
    let revision = place.path(DATA).join("checkpoints/REVISION");
    let kept = fs::read(&revision).unwrap();
    fs::remove_file(&revision).unwrap();
    place.run(&changed).expect(0, &["finished already"]);
    fs::write(&revision, &kept[1..]).unwrap();
    place.run(&changed).expect(0, &["REVISION is damaged", "finished already"]);
    place.run(&[&changed[..], &["--fresh"]].concat()).expect(0, &["finished"]);
    assert_eq!(place.visible("out/day2").len(), 5);
}

#[test]
fn another_component_and_other_parameters_are_named_once_at_the_next_start() {
    let place = Workplace::picky(", follow: true");
    let mut code = fs::read(component("picky")).unwrap();
    place.write("picky.wasm", &code);
    let spec = fs::read_to_string(place.path("job.yaml")).unwrap();
    place.write("job.yaml", spec.replace(&component("picky").display().to_string(), "picky.wasm"));
    place.write("in/1.jsonl", records(&["pass"; 3]));
    let run_until_killed = || {
        let mut child = place.start(&["run", "job.yaml"]);
        let newest =
            || place.names(&format!("{DATA}/checkpoints")).into_iter().filter_map(|name| name.strip_prefix("chk-")?.parse().ok()).max();
        let before: Option<u64> = newest();
        place.wait_until("two checkpoints complete", || newest() >= before.or(Some(0)).map(|id| id + 2));
        child.kill().unwrap();
        place.finish(child).stderr
    };
    assert!(!run_until_killed().contains("not what it was"));
    // A custom section changes the digest and nothing else.
    code.extend_from_slice(&[0, 2, 1, b'x']);
    place.write("picky.wasm", &code);
    let checkpoint = place.names(&format!("{DATA}/checkpoints")).into_iter().find(|name| name.starts_with("chk-")).unwrap();
    let plan = place.run(&["plan", "job.yaml", "--from", &format!("{DATA}/checkpoints/{checkpoint}")]);
    plan.expect(0, &["operator picky: component was sha256:"]);
    let said = run_until_killed();
    assert_eq!(said.matches("is not what it was when it last ran: operator picky: component was sha256:").count(), 1, "{said}");
    assert!(!run_until_killed().contains("not what it was"));
    place.write("job.yaml", fs::read_to_string(place.path("job.yaml")).unwrap().replace("timestamp: ts", "timestamp: id"));
    assert!(run_until_killed().contains("source in: timestamp was ts and is id"));
}

#[test]
fn a_planted_link_or_fifo_in_a_sinks_folder_harms_nobody() {
    let place = Workplace::picky("");
    place.write("in/1.jsonl", records(&["pass"; 3]));
    place.write("victim", "precious");
    fs::create_dir_all(place.path("out/main")).unwrap();
    let lock = place.path("out/main/.tidemill-lock");
    symlink(place.path("victim"), &lock).unwrap();
    place.run(&["run", "job.yaml"]).expect(2, &["job.yaml:", ".tidemill-lock` of the sink's folder", "is a symbolic link", "remove it"]);
    fs::remove_file(&lock).unwrap();
    fs::hard_link(place.path("victim"), &lock).unwrap();
    place.run(&["run", "job.yaml"]).expect(2, &["is a hard link"]);
    fs::remove_file(&lock).unwrap();
    assert!(Command::new("mkfifo").arg(&lock).status().unwrap().success());
    place.run(&["run", "job.yaml"]).expect(2, &["is not a regular file"]);
    fs::remove_file(&lock).unwrap();
    symlink(place.path("victim"), place.path("out/main/.tidemill-job-picky")).unwrap();
    place.run(&["run", "job.yaml", "--fresh"]).expect(0, &["finished"]);
    assert_eq!(fs::read(place.path("victim")).unwrap(), b"precious");
    assert_eq!(place.visible("out/main").len(), 3);
}

#[test]
fn a_job_without_address_space_names_the_limit_and_not_the_component() {
    let place = Workplace::picky("");
    place.write("in/1.jsonl", records(&["pass"; 3]));
    let ended = place.finish(place.start_limited("-v 1000000", &["run", "job.yaml"]));
    ended.expect(1, &["976 MiB of address space (ulimit -v)", "raise the limit"]);
    assert!(!ended.stderr.contains("describe itself"), "{ended:#?}");
    let ended = place.finish(place.start_limited("-H -n 6", &["run", "job.yaml"]));
    ended.expect(1, &["Too many open files", "(ulimit -n)"]);
}

/// Only root can become a user whose threads are counted.
#[test]
fn a_job_without_threads_names_the_limit() {
    let place = Workplace::picky("");
    place.write("in/1.jsonl", records(&["pass"; 3]));
    let as_nobody = |limit: &str, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        let shell = format!("ulimit -u {limit}; exec \"$0\" \"$@\"");
        command.args(["--reuid", "64321", "--clear-groups", "bash", "-c", &shell]).arg(tidemill()).args(arguments);
        command.current_dir(place.path("")).env("RUST_BACKTRACE", "0").output()
    };
    assert!(Command::new("chmod").args(["-R", "a+rwX"]).arg(place.path("")).status().unwrap().success());
    if !as_nobody("unlimited", &["validate", "job.yaml"]).is_ok_and(|output| output.status.success()) {
        return;
    }
    for limit in ["1", "2", "3"] {
        let output = as_nobody(limit, &["run", "job.yaml", "--fresh"]).unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{limit}: {text}");
        assert!(text.contains("cannot start the thread `") && text.contains("ulimit -u") && !text.contains("panicked"), "{limit}: {text}");
    }
}

#[test]
fn a_folder_of_somebody_else_in_the_place_of_the_jobs_own_keeps_what_is_in_it() {
    for (name, file) in [("state", "thesis/notes.txt"), ("checkpoints", "scratch/notes.txt"), ("checkpoints", "chk-1/notes.txt")] {
        let place = Workplace::picky("");
        place.write("in/1.jsonl", records(&["pass"; 3]));
        place.write(&format!("precious/{file}"), "mine");
        fs::create_dir_all(place.path(DATA)).unwrap();
        symlink(place.path("precious"), place.path(DATA).join(name)).unwrap();
        let folder = file.split('/').next().unwrap();
        place.run(&["run", "job.yaml"]).expect(2, &[&format!("{DATA}/{name}/{folder},"), "move it elsewhere"]);
        assert_eq!(fs::read(place.path("precious").join(file)).unwrap(), b"mine");
        // A disk of its own has only this.
        fs::rename(place.path("precious").join(folder), place.path("kept")).unwrap();
        place.write("precious/lost+found/1", "mine");
        place.run(&["run", "job.yaml"]).expect(0, &["finished"]);
        assert!(place.path("precious/lost+found/1").exists());
    }
}

#[test]
fn a_savepoint_in_a_folder_that_the_job_cleans_is_refused_and_a_lost_socket_is_told() {
    let place = Workplace::picky(", follow: true");
    place.write("in/1.jsonl", records(&["pass"]));
    let child = place.start(&["run", "job.yaml"]);
    place.wait_until("the record is out", || place.visible("out/main").len() == 1);
    for inside in ["state/sp", "checkpoints/chk-5000", "checkpoints/sp"] {
        let path = format!("{DATA}/{inside}");
        let texts = ["a savepoint cannot be in", "/savepoints/NAME"];
        place.run(&["savepoint", "create", "job.yaml", &path]).expect(2, &texts);
        place.run(&["stop", "job.yaml", "--savepoint", &path]).expect(2, &texts);
        place.run(&["rescale", "job.yaml", "--parallelism", "2", "--savepoint", &path]).expect(2, &texts);
        assert!(!place.path(&path).exists());
    }
    place.run(&["savepoint", "create", "job.yaml", &format!("{DATA}/savepoints/1")]).expect(0, &["savepoint"]);
    fs::remove_file(place.path(DATA).join("control.sock")).unwrap();
    let holder = format!("process {} holds the folder", child.id());
    place.run(&["stop", "job.yaml"]).expect(2, &[&holder, "SIGTERM stops its job"]);
    signal(&child, "-TERM");
    place.finish(child).expect(0, &["stopped"]);
    place.run(&["stop", "job.yaml"]).expect(2, &["no job runs in the folder"]);
}
