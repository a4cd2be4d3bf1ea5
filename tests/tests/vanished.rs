//! Files of checkpoints and hidden output that somebody removes while the job runs: the next checkpoint is whole, and restores.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Child;

use serde_json::Value;
use tidemill_tests::cli::{Workplace, component, signal};

const DATA: &str = "tidemill-data/j";
const CHECKPOINTS: &str = "tidemill-data/j/checkpoints";
/// So many keys that state in memory goes to files of its own.
const KEYS: u64 = 3_000;

/// A job with state for each key, and a row of output for each record if `emits`.
fn job(interval: &str, emits: bool) -> Workplace {
    let place = Workplace::new();
    place.write(
        "job.yaml",
        format!(
            "name: j\nparallelism: 2\ncheckpoints: {{ interval: {interval} }}\nrestart: {{ strategy: exponential-delay, initial: 10ms, max: 20ms }}\n\
             sources: [ {{ uid: s, file: {{ path: \"data/*.jsonl\", format: json, follow: true }} }} ]\n\
             operators: [ {{ uid: o, input: s, key_by: [key], component: {} }} ]\n\
             sinks: [ {{ uid: out, input: o, file: {{ path: out, format: json }} }} ]\n",
            component("probe").display()
        ),
    );
    let mut records = String::new();
    for key in 0..KEYS {
        let emit = if emits { format!(",{{\"emit\":\"{key}-{:0100}\"}}", 0) } else { String::new() };
        writeln!(records, "{{\"key\":\"k{key}\",\"ops\":[{{\"put\":{key}}}{emit}]}}").unwrap();
    }
    place.write("data/a.jsonl", records);
    place
}

fn start(place: &Workplace, backend: &[&str], said: &str) -> Child {
    let child = place.start(&[&["run", "job.yaml"][..], backend].concat());
    place.wait_until("the job runs", || log(place).contains(said));
    child
}

fn log(place: &Workplace) -> String {
    fs::read_to_string(place.path("stderr.log")).unwrap_or_default()
}

/// The newest complete checkpoint; 0 if there is none.
fn newest(place: &Workplace) -> u64 {
    let complete = |id: &u64| place.path(format!("{CHECKPOINTS}/chk-{id}/manifest.json")).exists();
    let ids = place.names(CHECKPOINTS).into_iter().filter_map(|name| name.strip_prefix("chk-")?.parse().ok());
    ids.filter(complete).max().unwrap_or(0)
}

/// Removes a file or folder into which the job may be writing.
fn remove(place: &Workplace, what: &str) {
    let path = place.path(what);
    place.wait_until("it is removed", || {
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        // The job may have removed it itself by now, as a checkpoint that another one has replaced.
        removed.is_ok() || !path.exists()
    });
}

fn keys_in(place: &Workplace, path: &str) -> u64 {
    let shown = place.command(&["savepoint", "inspect", path, "--format", "json"]).output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let contents: Value = serde_json::from_slice(&shown.stdout).unwrap();
    contents["operators"][0]["keys"].as_u64().unwrap()
}

/// Removes something of an idle job, whose next checkpoint must be whole, then kills the job and starts it again.
fn remove_and_restore(what: impl Fn(&Workplace) -> String, backend: &[&str], warns: bool) {
    let place = job("100ms", false);
    let child = start(&place, backend, &format!("records_in={KEYS} "));
    let before = newest(&place);
    place.wait_until("checkpoints complete while the job is idle", || newest(&place) > before + 1);
    let what = what(&place);
    remove(&place, &what);
    let removed_at = newest(&place).max(before + 1);
    // The one under way may be what has vanished; the second after it began later.
    place.wait_until("two more checkpoints complete", || newest(&place) > removed_at + 2);
    let saved = place.command(&["savepoint", "create", "--data-dir", DATA, "sp"]).output().unwrap();
    if place.path(DATA).join("control.sock").exists() {
        assert!(saved.status.success(), "{saved:?}");
        assert_eq!(keys_in(&place, "sp"), KEYS, "{what}");
    }
    signal(&child, "-KILL");
    assert!(!place.finish(child).status.success());
    let said = log(&place);
    assert!(!warns || said.contains("were removed or cut while the job runs"), "{what}: {said}");
    assert!(!said.contains("the job failed"), "{what}: {said}");
    let complete = format!("{CHECKPOINTS}/chk-{}", newest(&place));
    assert_eq!(keys_in(&place, &complete), KEYS, "{what}");
    let child = start(&place, backend, "resumed from checkpoint");
    let saved = place.command(&["savepoint", "create", "job.yaml", "after"]).output().unwrap();
    assert!(saved.status.success(), "{saved:?}");
    assert_eq!(keys_in(&place, "after"), KEYS, "{what}");
    signal(&child, "-KILL");
    assert!(!place.finish(child).status.success());
}

fn backends() -> Vec<Vec<&'static str>> {
    let mut backends = vec![vec![]];
    if cfg!(feature = "rocksdb") {
        backends.push(vec!["--set", "state.backend=rocksdb", "--set", "state.memory=8MiB"]);
    }
    backends
}

#[test]
fn shared_files_are_written_again() {
    for backend in backends() {
        remove_and_restore(|_| format!("{CHECKPOINTS}/shared"), &backend, true);
    }
}

#[test]
fn one_shared_file_that_is_cut_is_written_again() {
    for backend in backends() {
        let cut = |place: &Workplace| {
            let name = place.names(&format!("{CHECKPOINTS}/shared")).into_iter().find(|name| !name.ends_with(".tmp")).unwrap();
            let path = format!("{CHECKPOINTS}/shared/{name}");
            // What is removed then is nothing that anybody needs.
            let bytes = fs::read(place.path(&path)).unwrap();
            fs::remove_file(place.path(&path)).unwrap();
            place.write(&path, &bytes[..bytes.len() / 2]);
            place.write("nothing", "");
            "nothing".to_owned()
        };
        remove_and_restore(cut, &backend, false);
    }
}

#[test]
fn all_checkpoints_are_written_again() {
    for backend in backends() {
        remove_and_restore(|_| CHECKPOINTS.to_owned(), &backend, true);
    }
}

#[test]
fn the_newest_checkpoint_alone_and_its_manifest_are_followed_by_whole_ones() {
    for backend in backends() {
        remove_and_restore(|place| format!("{CHECKPOINTS}/chk-{}", newest(place)), &backend, false);
        remove_and_restore(|place| format!("{CHECKPOINTS}/chk-{}/manifest.json", newest(place)), &backend, false);
    }
}

#[test]
fn the_jobs_own_folder_is_made_again() {
    // A database needs its local files, so this is for state in memory.
    remove_and_restore(|_| DATA.to_owned(), &[], false);
}

#[test]
fn hidden_output_that_is_gone_is_written_again() {
    let place = job("1h", true);
    let child = start(&place, &[], &format!("records_in={KEYS} "));
    let hidden = || place.names("out").into_iter().find(|name| name.starts_with(".part-"));
    place.wait_until("some output is hidden", || hidden().is_some());
    fs::remove_file(Path::new(&place.path("out")).join(hidden().unwrap())).unwrap();
    let create = |path: &str| place.command(&["savepoint", "create", "job.yaml", path, "--wait-committed"]).output().unwrap();
    let refused = create("sp");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("hidden part(s) of sink out were removed or cut"), "{said}");
    assert!(!place.path("sp/manifest.json").exists());
    place.wait_until("the job has begun again", || log(&place).matches("started job j from nothing").count() == 2);
    place.wait_until("it has read all again", || {
        let log = log(&place);
        log.rsplit_once("started job j from nothing").is_some_and(|(_, after)| after.contains(&format!("records_in={KEYS} ")))
    });
    let saved = create("sp");
    assert!(saved.status.success(), "{saved:?}");
    assert_eq!(place.visible("out").len() as u64, KEYS);
    assert!(place.command(&["stop", "job.yaml"]).status().unwrap().success());
    place.finish(child).expect(0, &["stopped"]);
    assert_eq!(place.visible("out").len() as u64, KEYS);
}

#[test]
fn a_start_from_an_older_checkpoint_than_the_sinks_have_committed_is_refused() {
    let place = job("100ms", true);
    let child = start(&place, &[], &format!("records_in={KEYS} "));
    place.wait_until("the output is committed", || place.visible("out").len() as u64 == KEYS);
    assert!(place.command(&["stop", "job.yaml"]).status().unwrap().success());
    place.finish(child).expect(0, &["stopped"]);
    let ahead =
        place.names("out").into_iter().filter_map(|name| name.strip_prefix("part-")?.split('-').next()?.parse::<u64>().ok()).max().unwrap();
    // A checkpoint from before the output, as a backup may have it.
    let text = fs::read_to_string(place.path(format!("{CHECKPOINTS}/chk-{}/manifest.json", newest(&place)))).unwrap();
    let mut manifest: Value = serde_json::from_str(text.rsplit_once("\nxxh3").unwrap().0).unwrap();
    for name in place.names(CHECKPOINTS).into_iter().filter(|name| name.starts_with("chk-")) {
        fs::remove_dir_all(place.path(format!("{CHECKPOINTS}/{name}"))).unwrap();
    }
    let older = ahead - 1;
    manifest["checkpoint"] = older.into();
    let text = serde_json::to_string(&manifest).unwrap();
    let hash = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    place.write(&format!("{CHECKPOINTS}/chk-{older}/manifest.json"), format!("{text}\nxxh3 {hash:016x}\n"));
    place
        .run(&["run", "job.yaml"])
        .expect(1, &["sink out has committed output up to checkpoint", "a newer one was removed", "--new-incarnation"]);
}
