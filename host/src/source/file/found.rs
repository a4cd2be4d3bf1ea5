//! Which known split a file belongs to: by its inode and birth, or by its content if it is a copy.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use tidemill_core::Result;
use tidemill_core::source::Split;

use super::discover::{self, Listed, unreadable};
use super::folders::Folders;
use super::identity::{HEAD, Identity, Key, key};
use super::mark::Mark;
use super::shared::{Left, Shared};

/// Looks into a file that is not known. `None`: it cannot be read now, which is said.
pub(super) fn look(shared: &Shared, file: &Listed) -> Result<Option<Found>> {
    match Found::of(file) {
        Err(error) if shared.config.follow => {
            shared.warn(&error.chain());
            Ok(None)
        }
        found => found.map(Some),
    }
}

pub(super) fn stored(split: &Split) -> Option<Identity> {
    split.identity.as_deref().and_then(Identity::from_text)
}

/// The name of a file's split: relative to the folder of the spec if it is below it, so that the folder may be moved.
pub(super) fn relative<'a>(shared: &Shared, path: &'a str) -> &'a str {
    shared.name(Path::new(path)).to_str().unwrap_or(path)
}

/// A file that was listed, looked into.
pub(super) struct Found {
    file: fs::File,
    size: u64,
    pub(super) identity: Identity,
}

impl Found {
    fn of(listed: &Listed) -> Result<Self> {
        let path = Path::new(&listed.path);
        let file = discover::open(path)?;
        // What was listed may have been replaced since.
        let look = || file.metadata().and_then(|metadata| Ok((metadata.len(), Identity::of(&file, &metadata)?)));
        let (size, identity) = look().map_err(|error| unreadable(path, &error))?;
        Ok(Self { file, size, identity })
    }

    /// Whether the file, under the split's name, may stand for the one that the split began with: nothing was read yet, or it is a copy, or
    /// it is not known which file that was.
    pub(super) fn is_of(&self, split: &Split, shared: &Shared, folders: &mut Folders) -> Result<bool> {
        let Some(stored) = stored(split) else { return Ok(true) };
        let (follow, position) = (shared.config.follow, split.position);
        let mark = split.mark.as_deref().and_then(Mark::from_text);
        if position == 0 && !split.finished && (!follow || mark.is_none_or(|mark| mark.known == 0)) {
            return Ok(true);
        }
        let has_same_head = || stored.has_same_head(&self.file);
        let is_copy = match mark {
            _ if !follow => has_same_head().and_then(|same| Ok(same && mark.map_or(Ok(true), |mark| mark.is_in(&self.file, position))?)),
            Some(mark) if position == 0 && !split.finished => has_same_head().map(|same| same && self.size >= mark.known),
            Some(mark) => mark.continues_in(&self.file, self.size, position),
            None => Ok(false),
        };
        let is_copy = is_copy.map_err(|error| unreadable(Path::new(&split.name), &error))?;
        let path = shared.config.base.join(&split.name);
        Ok(is_copy && (!follow || tells_a_copy(position, split.finished, || folders.renamed(&shared.config.pattern, &path, stored.key()))))
    }

    /// Whether the file is a copy of one that was left so when its split ended.
    pub(super) fn is_copy_of(&self, left: &Left) -> Result<bool> {
        let Some(mark) = left.mark.as_deref().and_then(Mark::from_text).filter(|_| left.position >= HEAD as u64) else { return Ok(false) };
        mark.continues_in(&self.file, self.size, left.position).map_err(|error| unreadable(Path::new(&left.name), &error))
    }

    pub(super) fn split(&self, known: &[Split], name: &str) -> Split {
        Split { identity: Some(self.identity.to_text()), ..Split::new(known, name) }
    }
}

/// Whether equal content up to a position tells a copy of a followed file. Such files are rotated, and the next one of a name may begin like
/// the one before it, with a header or a few records: if so little was read, the file must have been replaced, neither renamed in its folder
/// nor gone for a while.
pub(super) fn tells_a_copy(position: u64, ended: bool, renamed: impl FnOnce() -> Option<PathBuf>) -> bool {
    position >= HEAD as u64 || (!ended && renamed().is_none())
}

/// The known splits by what they are found by. Of several of one name, or of one file, the last counts.
pub(super) struct Index {
    pub(super) by_name: HashMap<String, usize>,
    pub(super) by_key: HashMap<Key, Vec<usize>>,
}

impl Index {
    /// Of splits whose names become relative first: they may have been stored before the folder of the spec was known.
    pub(super) fn of(shared: &Shared, known: &mut [Split]) -> Self {
        let mut index = Self { by_name: HashMap::with_capacity(known.len()), by_key: HashMap::with_capacity(known.len()) };
        for (at, split) in known.iter_mut().enumerate() {
            if let name = relative(shared, &split.name)
                && name.len() < split.name.len()
            {
                split.name = name.to_owned();
            }
            index.by_name.insert(split.name.clone(), at);
            if let Some(identity) = stored(split) {
                index.by_key.entry(identity.key()).or_default().push(at);
            }
        }
        index
    }

    /// The split of a file. It is opened only if its metadata do not tell.
    pub(super) fn same(&self, known: &[Split], file: &Listed, name: &str) -> Result<Option<usize>> {
        for &at in self.by_key.get(&key(&file.metadata)).map_or(&[][..], Vec::as_slice).iter().rev() {
            let Some((split, stored)) = known.get(at).and_then(|split| Some((split, stored(split)?))) else { continue };
            if stored.is_entry(&file.metadata, split.name == name) {
                return Ok(Some(at));
            }
            let path = Path::new(&file.path);
            if stored.is_same(&file.metadata, &discover::open(path)?).map_err(|error| unreadable(path, &error))? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}
