//! The names in folders.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use fastrand::Rng;

use super::Entry;

/// The files in a folder, by the index of their content. Folders within it are found by their paths.
#[derive(Default)]
pub(super) struct Folder {
    /// What programs see.
    current: BTreeMap<OsString, usize>,
    /// What is on the disk for certain.
    durable: BTreeMap<OsString, usize>,
    /// The changes since; each is atomic, and a crash may keep any of them.
    changes: Vec<Vec<Entry>>,
    removed: bool,
}

impl Folder {
    pub(super) fn exists(&self) -> bool {
        !self.removed
    }

    pub(super) fn get(&self, name: &OsStr) -> Option<usize> {
        self.current.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &OsString> {
        self.current.keys()
    }

    /// Changes entries as one unit; `None` removes.
    pub(super) fn change(&mut self, entries: impl IntoIterator<Item = Entry>) {
        let entries = entries.into_iter().collect::<Vec<_>>();
        apply(&mut self.current, &entries);
        self.changes.push(entries);
    }

    /// Removes a name durably, without anything else that is not durable yet.
    pub(super) fn take(&mut self, name: &OsStr) {
        self.current.remove(name);
        self.durable.remove(name);
    }

    pub(super) fn remove_all(&mut self) {
        let names = self.current.keys().cloned().collect::<Vec<_>>();
        names.into_iter().for_each(|name| self.change([(name, None)]));
        self.removed = true;
    }

    /// Makes the folder anew if it had been removed.
    pub(super) fn revive(&mut self) {
        self.removed = false;
    }

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.current);
        self.changes.clear();
    }

    /// Returns whether the folder is gone.
    pub(super) fn crash(&mut self, rng: &mut Rng) -> bool {
        if self.removed && rng.bool() {
            return true;
        }
        self.removed = false;
        for entries in self.changes.drain(..).filter(|_| rng.bool()) {
            apply(&mut self.durable, &entries);
        }
        self.current.clone_from(&self.durable);
        false
    }
}

fn apply(names: &mut BTreeMap<OsString, usize>, entries: &[Entry]) {
    for (name, file) in entries {
        match file {
            Some(file) => names.insert(name.clone(), *file),
            None => names.remove(name),
        };
    }
}
