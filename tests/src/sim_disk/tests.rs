use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use fastrand::Rng;
use tidemill_core::disk::Disk;

use super::{Faults, SimDisk};

fn disk() -> SimDisk {
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new("/a/b")).unwrap();
    disk
}

fn write(disk: &SimDisk, path: &str, bytes: &[u8], sync: bool) {
    let mut file = disk.create(Path::new(path)).unwrap();
    file.write(bytes).unwrap();
    if sync {
        file.sync().unwrap();
    }
}

/// What many crashes leave of the same history: the names with their bytes.
fn outcomes(history: impl Fn(&SimDisk)) -> BTreeSet<String> {
    let outcome = |seed| {
        let disk = disk();
        history(&disk);
        disk.crash(&mut Rng::with_seed(seed));
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = |path: &Path| String::from_utf8_lossy(&disk.read(path).unwrap_or_default()).into_owned();
        let files = disk.list(Path::new("/a/b")).unwrap();
        files.iter().map(|path| format!("{}={}", name(path), text(path))).collect::<Vec<_>>().join(" ")
    };
    (0..300).map(outcome).collect()
}

#[test]
fn what_was_synced_survives() {
    let found = outcomes(|disk| {
        write(disk, "/a/b/x", b"one", true);
        disk.sync_dir(Path::new("/a/b")).unwrap();
    });
    assert_eq!(found, BTreeSet::from(["x=one".to_owned()]));
}

#[test]
fn what_was_not_synced_may_survive_or_not() {
    let found = outcomes(|disk| {
        write(disk, "/a/b/x", b"one", false);
        disk.sync_dir(Path::new("/a/b")).unwrap();
    });
    assert!(["x=", "x=o", "x=on", "x=one"].iter().all(|outcome| found.contains(*outcome)), "{found:?}");
    assert!(found.iter().any(|outcome| outcome.starts_with("x=o") && !"x=one".starts_with(outcome.as_str())), "torn: {found:?}");

    let found = outcomes(|disk| {
        write(disk, "/a/b/x", b"old", true);
        disk.sync_dir(Path::new("/a/b")).unwrap();
        write(disk, "/a/b/y", b"new", true);
        disk.rename(Path::new("/a/b/y"), Path::new("/a/b/x")).unwrap();
    });
    let expected = ["x=old", "x=old y=new", "x=new"].map(str::to_owned);
    assert_eq!(found, BTreeSet::from(expected), "a rename is atomic");

    let found = outcomes(|disk| {
        write(disk, "/a/b/x", b"x", true);
        disk.sync_dir(Path::new("/a/b")).unwrap();
        disk.remove_dir(Path::new("/a/b")).unwrap();
    });
    assert_eq!(found, BTreeSet::from(["".to_owned(), "x=x".to_owned()]));
}

#[test]
fn synced_bytes_are_safe_from_later_ones() {
    let found = outcomes(|disk| {
        let mut file = disk.create(Path::new("/a/b/x")).unwrap();
        file.write(b"one").unwrap();
        file.sync().unwrap();
        file.write(b"two").unwrap();
        disk.sync_dir(Path::new("/a/b")).unwrap();
    });
    assert!(found.len() > 3 && found.iter().all(|outcome| outcome.starts_with("x=one")), "{found:?}");
}

#[test]
fn calls_fail_as_told() {
    let disk = disk();
    disk.set_faults(Faults { free_bytes: Some(5), ..Faults::default() });
    let mut file = disk.create(Path::new("/a/b/x")).unwrap();
    file.write(b"one").unwrap();
    assert_eq!(file.write(b"two").unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(disk.read(Path::new("/a/b/x")).unwrap(), b"onetw");
    disk.set_faults(Faults { probability: 0.5, kind: ErrorKind::PermissionDenied, ..Faults::default() });
    let failed = (0..100).filter(|_| disk.sync_dir(Path::new("/a/b")).is_err()).count();
    assert!((20..80).contains(&failed), "{failed}");
    disk.set_faults(Faults::default());

    disk.stop_after(2);
    disk.sync_dir(Path::new("/a/b")).unwrap();
    file.write(b"").unwrap();
    assert!(file.write(b"three").is_err() && disk.read(Path::new("/a/b/x")).is_err() && disk.list(Path::new("/a")).is_err());
    disk.crash(&mut Rng::with_seed(1));
    disk.sync_dir(Path::new("/a/b")).unwrap();
    assert!(file.write(b"of another life").unwrap_err().to_string().contains("opened before the crash"));
}

#[test]
fn a_failed_sync_is_not_healed_by_another() {
    let found = outcomes(|disk| {
        let mut file = disk.create(Path::new("/a/b/x")).unwrap();
        disk.sync_dir(Path::new("/a/b")).unwrap();
        file.write(b"one").unwrap();
        disk.set_faults(Faults { probability: 1.0, ..Faults::default() });
        file.sync().unwrap_err();
        disk.set_faults(Faults::default());
        file.sync().unwrap();
    });
    assert!(found.contains("x=") && found.contains("x=one"), "{found:?}");
}

#[test]
fn folders_and_files_are_told_apart() {
    let disk = disk();
    write(&disk, "/a/x", b"", true);
    assert_eq!(disk.list(Path::new("/a")).unwrap(), [Path::new("/a/b"), Path::new("/a/x")]);
    assert_eq!(disk.create_dir(Path::new("/a/x/y")).unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(disk.create(Path::new("/none/x")).err().unwrap().kind(), ErrorKind::NotFound);
    disk.remove(Path::new("/none/x")).unwrap();
    disk.remove_dir(Path::new("/a/b")).unwrap();
    disk.sync_dir(Path::new("/a")).unwrap();
    disk.crash(&mut Rng::with_seed(1));
    assert_eq!(disk.list(Path::new("/a")).unwrap(), [Path::new("/a/x")]);
}

#[test]
fn a_kill_keeps_what_was_not_synced_but_closes_files() {
    let disk = disk();
    let mut file = disk.create(Path::new("/a/b/x")).unwrap();
    file.write(b"one").unwrap();
    disk.stop_after(0);
    assert!(!disk.is_down() && file.sync().is_err() && disk.is_down());
    disk.kill();
    assert_eq!(disk.read(Path::new("/a/b/x")).unwrap(), b"one");
    assert!(!disk.is_down() && file.write(b"two").is_err());
}

#[test]
fn what_was_taken_away_does_not_come_back() {
    let found = outcomes(|disk| {
        ["/a/b/x", "/a/b/y"].into_iter().for_each(|path| write(disk, path, b"one", true));
        disk.sync_dir(Path::new("/a/b")).unwrap();
        disk.take(Path::new("/a/b/x"));
    });
    assert_eq!(found, BTreeSet::from(["y=one".to_owned()]));
}
