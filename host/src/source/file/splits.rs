//! Which split is which file.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use tidemill_core::Result;
use tidemill_core::source::Split;

use super::discover::{self, Listed, is_absent, unreadable};
use super::identity::{Identity, Key, key};
use super::mark::Mark;
use super::shared::{Gone, Left, Shared};

/// Finds the files of the splits from which a job starts: a file may have another name by now, or be a copy. Splits whose files are gone end,
/// and those of followed files that had ended so and are there again go on.
///
/// # Errors
/// The files cannot be listed, or a file is gone that was not read to its end, and the source does not give such rests up.
pub(super) fn resume(shared: &Shared, known: &mut [Split]) -> Result<()> {
    let listed = shared.files()?;
    let mut index = Index::of(shared, known);
    let mut there = vec![false; known.len()];
    let mut others = Vec::new();
    for file in &listed {
        let name = relative(shared, &file.path);
        match index.same(known, file, name)? {
            Some(at) => {
                if let (Some(split), Some(there)) = (known.get_mut(at), there.get_mut(at)) {
                    name.clone_into(&mut split.name);
                    *there = true;
                    go_on(shared, split, file);
                }
            }
            None => others.push((file, name)),
        }
    }
    for (file, name) in others {
        let Some(at) = index.by_name.get(name).copied().filter(|at| there.get(*at) == Some(&false)) else { continue };
        let Some(split) = known.get_mut(at) else { continue };
        let Some(found) = look(shared, file)? else { continue };
        if !found.is_of(split, shared.config.follow)? {
            if split.finished && !shared.config.follow {
                let (name, position) = (split.name.escape_debug(), split.position);
                shared.warn(&format!(
                    "another file is in the place of `{name}`, which was read to its end, byte {position}: it is read from its begin"
                ));
            }
        } else {
            // What was read of the old one is in no checkpoint, or the same is in its copy.
            if let Some(old) = stored(split) {
                shared.left().remove(&old.key());
            }
            split.identity = Some(found.identity.to_text());
            index.by_key.entry(found.identity.key()).or_default().push(at);
            if let Some(there) = there.get_mut(at) {
                *there = true;
            }
        }
    }
    end_missing(shared, known, &there, &listed)
}

/// A split whose file is there.
fn go_on(shared: &Shared, split: &mut Split, file: &Listed) {
    if !split.finished {
        return;
    }
    if shared.config.follow {
        split.finished = false;
    } else if file.metadata.len() > split.position {
        let (name, position) = (split.name.escape_debug(), split.position);
        shared.warn(&format!("the file `{name}` has grown since it was read to its end, byte {position}: what follows is not read (`follow: true` reads files that grow)"));
    }
}

fn end_missing(shared: &Shared, known: &mut [Split], there: &[bool], listed: &[Listed]) -> Result<()> {
    let mut left = shared.left();
    left.values_mut().for_each(|left| left.ended = false);
    let (mut gone, mut ended) = (Vec::new(), Vec::new());
    let is_missing = |(split, there): &(&mut Split, &bool)| !split.finished && !**there;
    for (split, _) in known.iter_mut().zip(there).filter(is_missing) {
        let path = shared.config.base.join(&split.name);
        // A file in a folder that cannot be read is not gone.
        if let Err(error) = fs::metadata(&path)
            && !is_absent(&error)
        {
            return Err(unreadable(&path, &error));
        }
        let identity = stored(split);
        // This process may have seen more of it than the checkpoint.
        let seen = identity.and_then(|identity| left.get(&identity.key())).map(|left| left.known);
        let mark = split.mark.as_deref().and_then(Mark::from_text).map(|mark| mark.known);
        let unread = split.position == 0 && identity.is_some_and(|identity| identity.was_empty());
        let noted = if mark.is_none() && unread { Some(0) } else { mark };
        let size = noted.max(seen);
        if size.is_none_or(|size| size > split.position)
            && let Some(now) = identity.and_then(|identity| shared.renamed(&path, identity.key()))
            && let Some(name) = shared.name(&now).to_str()
        {
            shared.warn(&format!(
                "the file `{}` was renamed to `{}`, which the pattern does not match; what was not read of it is read, then its split ends",
                split.name.escape_debug(),
                name.escape_debug()
            ));
            name.clone_into(&mut split.name);
            continue;
        }
        gone.push((split.name.clone(), split.position, size));
        split.finished = true;
        if let Some(identity) = identity {
            let (name, position, mark) = (split.name.clone(), split.position, split.mark.clone());
            let known = position.max(seen.unwrap_or(0));
            ended.push((identity.key(), Left { name, position, known, mark, ended: true }));
        }
    }
    // Files that an attempt before this one read, and no checkpoint knows.
    let found: HashSet<Key> =
        known.iter().filter_map(stored).map(|identity| identity.key()).chain(listed.iter().map(|file| key(&file.metadata))).collect();
    gone.extend(left.extract_if(|key, _| !found.contains(key)).map(|(_, left)| (left.name, 0, Some(left.known))));
    drop(left);
    let gone: Vec<Gone<'_>> = gone.iter().map(|(name, position, known)| Gone { name, position: *position, known: *known }).collect();
    shared.end_gone(&gone)?;
    shared.left().extend(ended);
    Ok(())
}

/// Adds the files that match now and are not known. A known file that was renamed keeps its split, under its new name. One whose split had
/// ended because the file was gone is read on, as a new split.
///
/// # Errors
/// The files cannot be listed, or there are none and none will come.
pub(super) fn discover(shared: &Shared, known: &mut Vec<Split>) -> Result<()> {
    let listed = shared.files()?;
    if listed.is_empty() && known.is_empty() && !shared.config.follow {
        return Err(discover::nothing(&shared.config.pattern));
    }
    let index = Index::of(shared, known);
    for file in listed {
        let name = relative(shared, &file.path);
        if let Some(at) = index.same(known, &file, name)? {
            if let Some(split) = known.get_mut(at) {
                name.clone_into(&mut split.name);
            }
            if let Some((split, left)) = known.get(at).zip(came_back(shared, key(&file.metadata))) {
                let back = Split { position: left.position, mark: left.mark, finished: false, ..split.clone() };
                known.push(Split { id: Split::new(known, "").id, ..back });
            }
        } else if let Some(found) = look(shared, &file)? {
            known.push(found.split(known, name));
        }
    }
    Ok(())
}

/// How a file was left whose split had ended because it was gone.
fn came_back(shared: &Shared, key: Key) -> Option<Left> {
    let mut left = shared.left();
    let found = left.get_mut(&key).filter(|left| left.ended)?;
    found.ended = false;
    let found = found.clone();
    drop(left);
    let name = found.name.escape_debug();
    shared.warn(&format!("the file `{name}`, which was gone, is there again: it is read from byte {} on", found.position));
    Some(found)
}

/// Looks into a file that is not known. `None`: it cannot be read now, which is said.
fn look(shared: &Shared, file: &Listed) -> Result<Option<Found>> {
    match Found::of(file) {
        Err(error) if shared.config.follow => {
            shared.warn(&error.chain());
            Ok(None)
        }
        found => found.map(Some),
    }
}

fn stored(split: &Split) -> Option<Identity> {
    split.identity.as_deref().and_then(Identity::from_text)
}

/// The name of a file's split: relative to the folder of the spec if it is below it, so that the folder may be moved.
fn relative<'a>(shared: &Shared, path: &'a str) -> &'a str {
    shared.name(Path::new(path)).to_str().unwrap_or(path)
}

/// A file that was listed, looked into.
struct Found {
    file: fs::File,
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
    /// it is not known which file that was. Followed files are rotated, and the next one of a name may begin like the one before it: then
    /// only a long beginning tells a copy.
    fn is_of(&self, split: &Split, follow: bool) -> Result<bool> {
        let Some(stored) = stored(split) else { return Ok(true) };
        let mark = split.mark.as_deref().and_then(Mark::from_text);
        if split.position == 0 && !split.finished && (!follow || mark.is_none_or(|mark| mark.known == 0)) {
            return Ok(true);
        }
        if follow && !(stored.has_whole_head() && mark.is_some() && split.position >= stored.head().length()) {
            return Ok(false);
        }
        let is_copy = || Ok(stored.has_same_head(&self.file)? && mark.map_or(Ok(true), |mark| mark.is_in(&self.file, split.position))?);
        is_copy().map_err(|error| unreadable(Path::new(&split.name), &error))
    }

    fn split(&self, known: &[Split], name: &str) -> Split {
        Split { identity: Some(self.identity.to_text()), ..Split::new(known, name) }
    }
}

/// The known splits by what they are found by. Of several of one name, or of one file, the last counts.
struct Index {
    by_name: HashMap<String, usize>,
    by_key: HashMap<Key, Vec<usize>>,
}

impl Index {
    /// Of splits whose names become relative first: they may have been stored before the folder of the spec was known.
    fn of(shared: &Shared, known: &mut [Split]) -> Self {
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
    fn same(&self, known: &[Split], file: &Listed, name: &str) -> Result<Option<usize>> {
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
