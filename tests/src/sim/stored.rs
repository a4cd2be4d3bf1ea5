//! What must be true of everything that is stored: checkpoints and savepoints are whole, and nothing else stays.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tidemill_core::checkpoint::manifest::Manifest;
use tidemill_core::checkpoint::snapshot::Snapshot;
use tidemill_core::disk::Disk;
use xxhash_rust::xxh3::xxh3_64;

use super::life::CHECKPOINTS;
use crate::sim_disk::SimDisk;

/// Where savepoints go, each in a folder of its own.
pub const SAVEPOINTS: &str = "/savepoints";

/// Every checkpoint that has a manifest is whole, and so is every savepoint; those in `completed` are there.
///
/// # Errors
/// What is missing or damaged.
pub fn check_whole(disk: &SimDisk, completed: &[PathBuf]) -> Result<(), String> {
    for (dir, manifest) in manifests(disk, CHECKPOINTS)? {
        check_files(disk, Path::new(CHECKPOINTS), &manifest).map_err(|what| format!("{}: {what}", dir.display()))?;
    }
    let savepoints = manifests(disk, SAVEPOINTS)?;
    for (dir, manifest) in &savepoints {
        let wrong = |what: &str| Err(format!("savepoint {}: {what}", dir.display()));
        if !manifest.savepoint || !manifest.databases.is_empty() {
            return wrong("is not one of its own");
        }
        if manifest.files.len() != manifest.parallelism as usize {
            return wrong("has not a file for each worker");
        }
        check_files(disk, dir, manifest).map_err(|what| format!("savepoint {}: {what}", dir.display()))?;
    }
    match completed.iter().find(|dir| !savepoints.iter().any(|(found, _)| found == *dir)) {
        Some(lost) => Err(format!("savepoint {} is gone", lost.display())),
        None => Ok(()),
    }
}

/// After a start: there is no shared file that no checkpoint names, and nothing of a checkpoint without manifest.
///
/// # Errors
/// What should not be there.
pub fn check_no_leftovers(disk: &SimDisk) -> Result<(), String> {
    let manifests = manifests(disk, CHECKPOINTS)?;
    let files = manifests.iter().flat_map(|(_, manifest)| &manifest.databases).flat_map(|database| &database.files);
    let named: BTreeSet<PathBuf> = files.map(|file| Path::new(CHECKPOINTS).join(&file.path)).collect();
    let shared = list(disk, &Path::new(CHECKPOINTS).join("shared"))?;
    if let Some(left) = shared.iter().find(|path| !named.contains(*path)) {
        return Err(format!("{} stays, though no checkpoint names it", left.display()));
    }
    let is_whole = |dir: &PathBuf| manifests.iter().any(|(whole, _)| whole == dir);
    let folders = list(disk, Path::new(CHECKPOINTS))?.into_iter().filter(|path| is_checkpoint(path));
    match folders.into_iter().find(|dir| !is_whole(dir)) {
        Some(left) => Err(format!("{} stays, though it has no manifest", left.display())),
        None => Ok(()),
    }
}

/// The folders within one that have a manifest.
pub(super) fn manifests(disk: &SimDisk, within: &str) -> Result<Vec<(PathBuf, Manifest)>, String> {
    let mut found = Vec::new();
    for dir in list(disk, Path::new(within))? {
        let path = dir.join("manifest.json");
        if list(disk, &dir)?.contains(&path) {
            let bytes = disk.read(&path).map_err(|error| error.to_string())?;
            let manifest = Manifest::from_bytes(&bytes).map_err(|error| format!("{}: {}", path.display(), error.chain()))?;
            found.push((dir, manifest));
        }
    }
    Ok(found)
}

fn check_files(disk: &SimDisk, base: &Path, manifest: &Manifest) -> Result<(), String> {
    for file in &manifest.files {
        let bytes = check_file(disk, &base.join(&file.path), file.bytes, &file.checksum)?;
        Snapshot::parse(&bytes).map_err(|error| format!("{}: {}", file.path, error.chain()))?;
    }
    let mut files = manifest.databases.iter().flat_map(|database| &database.files);
    files.try_for_each(|file| check_file(disk, &base.join(&file.path), file.bytes, &file.checksum).map(drop))
}

fn check_file(disk: &SimDisk, path: &Path, bytes: u64, checksum: &str) -> Result<Vec<u8>, String> {
    let found = disk.read(path).map_err(|error| format!("{} is named, but: {error}", path.display()))?;
    if found.len() as u64 != bytes || format!("{:016x}", xxh3_64(&found)) != checksum {
        return Err(format!("{} is not what was written", path.display()));
    }
    Ok(found)
}

fn is_checkpoint(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("chk-"))
}

fn list(disk: &SimDisk, dir: &Path) -> Result<Vec<PathBuf>, String> {
    disk.list(dir).map_err(|error| error.to_string())
}
