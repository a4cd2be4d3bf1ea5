//! Which split is which file.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use tidemill_core::Result;
use tidemill_core::source::Split;

use super::discover::{self, Listed, unreadable};
use super::identity::Identity;
use super::{FileSourceConfig, changed};

/// Adds the files that match now and are not known. A known file that was renamed keeps its split, under its new name.
///
/// # Errors
/// The files cannot be listed, or there is another file under the name of one that was partly read, and the source does not follow its files.
pub(super) fn discover(config: &FileSourceConfig, known: &mut Vec<Split>) -> Result<()> {
    let listed = discover::files(&config.pattern, config.follow)?;
    let index = Index::of(config, known);
    for file in listed {
        let name = relative(&config.base, &file.path);
        if index.is_settled(known, &file, name) {
            continue;
        }
        let found = Found::of(&file)?;
        if let Some(split) = index.by_inode(known, &found)? {
            name.clone_into(&mut split.name);
            continue;
        }
        match index.by_name.get(name).and_then(|at| known.get_mut(*at)) {
            Some(split) if found.may_be_of(split, config.follow)? => split.identity = Some(found.identity.to_text()),
            // What is left of the old file is read as long as it is open; this one is new.
            Some(_) if config.follow => known.push(found.split(known, name)),
            Some(split) => return Err(replaced(Path::new(&file.path), split, &found.identity)),
            None => known.push(found.split(known, name)),
        }
    }
    Ok(())
}

/// Checks that a file which is opened is that of the split.
///
/// # Errors
/// It is another one.
pub(super) fn check(split: &Split, path: &Path, file: &File, follow: bool) -> Result<()> {
    let Some(stored) = stored(split) else { return Ok(()) };
    let failed = |error| unreadable(path, &error);
    let now = Identity::of(file, &file.metadata().map_err(failed)?).map_err(failed)?;
    if stored.is_same(&now, file).map_err(failed)? || (!follow && stored.has_same_head(file).map_err(failed)?) {
        return Ok(());
    }
    Err(replaced(path, split, &now))
}

fn stored(split: &Split) -> Option<Identity> {
    split.identity.as_deref().and_then(Identity::from_text)
}

/// The name of a file's split: relative to the folder of the spec if it is below it, so that the folder may be moved.
fn relative<'a>(base: &Path, path: &'a str) -> &'a str {
    let below = Path::new(path).strip_prefix(base).ok().and_then(Path::to_str);
    below.filter(|name| !name.is_empty()).unwrap_or(path)
}

fn replaced(path: &Path, split: &Split, now: &Identity) -> tidemill_core::Error {
    let before = stored(split).map_or(0, |identity| identity.inode());
    let read = split.position;
    changed(
        path,
        &format!(
            "was replaced: it is file number {} on its disk, but the one of which {read} bytes were read was number {before}",
            now.inode()
        ),
    )
}

/// A file that was listed, looked into.
struct Found {
    file: File,
    identity: Identity,
}

impl Found {
    fn of(listed: &Listed) -> Result<Self> {
        let path = Path::new(&listed.path);
        let file = discover::open(path)?;
        // What was listed may have been replaced since.
        let identity = file.metadata().and_then(|metadata| Identity::of(&file, &metadata)).map_err(|error| unreadable(path, &error))?;
        Ok(Self { file, identity })
    }

    /// Whether the file, under the split's name, may stand for the one that the split began with: nothing was read yet, or it is a copy, or
    /// it is not known which file that was. If files are followed, it is the next one of that name.
    fn may_be_of(&self, split: &Split, follow: bool) -> Result<bool> {
        let Some(stored) = stored(split) else { return Ok(true) };
        if follow {
            return Ok(false);
        }
        if split.position == 0 && !split.finished {
            return Ok(true);
        }
        stored.has_same_head(&self.file).map_err(|error| unreadable(Path::new(&split.name), &error))
    }

    fn split(&self, known: &[Split], name: &str) -> Split {
        Split { identity: Some(self.identity.to_text()), ..Split::new(known, name) }
    }
}

/// The known splits by what they are found by. Of several under one name the last counts.
struct Index {
    by_name: HashMap<String, usize>,
    by_inode: HashMap<u64, Vec<usize>>,
}

impl Index {
    /// Of splits whose names become relative first: they may have been stored before the folder of the spec was known.
    fn of(config: &FileSourceConfig, known: &mut [Split]) -> Self {
        let mut index = Self { by_name: HashMap::with_capacity(known.len()), by_inode: HashMap::with_capacity(known.len()) };
        for (at, split) in known.iter_mut().enumerate() {
            if let name = relative(&config.base, &split.name)
                && name.len() < split.name.len()
            {
                split.name = name.to_owned();
            }
            index.by_name.insert(split.name.clone(), at);
            if let Some(identity) = stored(split) {
                index.by_inode.entry(identity.inode()).or_default().push(at);
            }
        }
        index
    }

    /// Whether a file is known under its name, so that it need not be opened.
    fn is_settled(&self, known: &[Split], file: &Listed, name: &str) -> bool {
        let split = self.by_name.get(name).and_then(|at| known.get(*at));
        split.and_then(stored).is_some_and(|identity| identity.is_entry(&file.metadata))
    }

    /// The split of the same file, if it had another name.
    fn by_inode<'a>(&self, known: &'a mut [Split], found: &Found) -> Result<Option<&'a mut Split>> {
        for &at in self.by_inode.get(&found.identity.inode()).map_or(&[][..], Vec::as_slice) {
            if let Some(split) = known.get(at)
                && let Some(stored) = stored(split)
                && stored.is_same(&found.identity, &found.file).map_err(|error| unreadable(Path::new(&split.name), &error))?
            {
                return Ok(known.get_mut(at));
            }
        }
        Ok(None)
    }
}
