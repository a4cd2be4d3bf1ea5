//! What is removed from a disk that fails and loses power is whole or gone, however often its removal is tried.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, wherever in it")]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tidemill::store::CheckpointStore;
use tidemill::store::savepoint::SavepointFolder;
use tidemill_core::checkpoint::manifest::{Manifest, VERSION};
use tidemill_core::disk::Disk;
use tidemill_tests::sim_disk::{Faults, SimDisk};

const SEEDS: u64 = 300;

/// Lets every second call fail, tries to remove something a few times, and then stops the machine.
fn removed(disk: &SimDisk, rng: &mut Rng, remove: impl Fn() -> tidemill_core::Result<()>) {
    disk.set_faults(Faults { probability: 0.5, kind: ErrorKind::Other, free_bytes: None });
    for _ in 0..rng.usize(1..5) {
        _ = remove();
    }
    disk.crash(rng);
}

/// Whether the manifest is there; then the state file that it names must be.
fn is_there(disk: &SimDisk, base: &Path, manifest: &Path, seed: u64) -> bool {
    let Ok(bytes) = disk.read(manifest) else { return false };
    for file in Manifest::from_bytes(&bytes).unwrap().files {
        assert!(
            disk.read(&base.join(&file.path)).is_ok_and(|bytes| bytes.len() as u64 == file.bytes),
            "seed {seed}: {} is gone",
            file.path
        );
    }
    true
}

#[test]
fn a_checkpoint() {
    let mut stayed = 0;
    for seed in 0..SEEDS {
        let (disk, mut rng, dir) = (SimDisk::new(seed), Rng::with_seed(seed), Path::new("/job/checkpoints"));
        let store = CheckpointStore::open(Arc::new(disk.clone()), dir.to_owned()).unwrap();
        let files = vec![store.write_state(1, 0, b"state").unwrap()];
        store.write_manifest(&Manifest { version: VERSION, checkpoint: 1, files, ..Manifest::default() }).unwrap();
        removed(&disk, &mut rng, || store.discard(1));
        stayed += u64::from(is_there(&disk, dir, &dir.join("chk-1/manifest.json"), seed));
    }
    assert!((1..SEEDS).contains(&stayed), "{stayed} of {SEEDS} stayed");
}

#[test]
fn a_savepoint() {
    let mut stayed = 0;
    for seed in 0..SEEDS {
        let (disk, mut rng, dir) = (SimDisk::new(seed), Rng::with_seed(seed), PathBuf::from("/savepoint"));
        let folder = SavepointFolder::create(Arc::new(disk.clone()), dir.clone()).unwrap();
        let files = vec![folder.stream_state(0, &mut |out| out(b"state")).unwrap()];
        folder.write_manifest(&Manifest { version: VERSION, savepoint: true, files, ..Manifest::default() }).unwrap();
        let again = rng.bool();
        removed(&disk, &mut rng, || {
            folder.discard()?;
            // Another savepoint is to be made there.
            if again { SavepointFolder::create(Arc::new(disk.clone()), dir.clone()).map(drop) } else { Ok(()) }
        });
        stayed += u64::from(is_there(&disk, &dir, &dir.join("manifest.json"), seed));
    }
    assert!((1..SEEDS).contains(&stayed), "{stayed} of {SEEDS} stayed");
}
