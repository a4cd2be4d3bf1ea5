//! What is in a checkpoint folder, and what its manifests name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use tidemill_tests::cli::Workplace;

use super::CHECKPOINTS;

/// The complete checkpoints with the paths of the files that each names, relative to the folder.
#[derive(Debug)]
pub(crate) struct Checkpoints(BTreeMap<String, BTreeSet<String>>);

impl Checkpoints {
    /// Those of the job.
    pub(crate) fn of(place: &Workplace) -> Self {
        let folder = place.path(CHECKPOINTS);
        let complete = place.names(CHECKPOINTS).into_iter().filter(|name| folder.join(name).join("manifest.json").exists());
        Self(complete.map(|name| (name.clone(), named(&folder.join(name)))).collect())
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// The paths of all files of one of them.
    pub(crate) fn files_of(&self, name: &str) -> &BTreeSet<String> {
        &self.0[name]
    }

    /// The paths of the files of one of them that others may name too.
    pub(crate) fn shared_of(&self, name: &str) -> BTreeSet<String> {
        self.0[name].iter().filter(|path| path.starts_with("shared/")).cloned().collect()
    }

    /// The files in the folder that none of them names. Notes are none.
    pub(crate) fn unreferenced(&self, place: &Workplace) -> BTreeSet<String> {
        let (mut found, mut folders) = (BTreeSet::new(), vec![String::new()]);
        while let Some(folder) = folders.pop() {
            for name in place.names(&format!("{CHECKPOINTS}/{folder}")) {
                let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                let is_note = ["COMMITTING", "COMMITTED", "FINISHED", "OWNER", "REVISION", "INCARNATION", "LOCK"].contains(&name.as_str());
                let of_complete = self.0.keys().any(|complete| path == format!("{complete}/manifest.json"));
                if place.path(CHECKPOINTS).join(&path).is_dir() {
                    folders.push(path);
                } else if !(of_complete || is_note || self.0.values().any(|named| named.contains(&path))) {
                    found.insert(path);
                }
            }
        }
        found
    }
}

/// The files that a checkpoint's manifest names.
fn named(checkpoint: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(checkpoint.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(text.rsplit_once("\nxxh3").unwrap().0).unwrap();
    let databases = manifest["databases"].as_array().into_iter().flatten();
    let files = databases.flat_map(|database| database["files"].as_array().unwrap()).chain(manifest["files"].as_array().unwrap());
    files.map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

/// The number of a checkpoint's folder.
pub(crate) fn id(name: &str) -> Option<u64> {
    name.strip_prefix("chk-")?.parse().ok()
}

/// The name of the newest checkpoint.
pub(crate) fn newest(place: &Workplace) -> String {
    Checkpoints::of(place).names().max_by_key(|name| id(name)).unwrap().clone()
}
