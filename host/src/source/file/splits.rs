//! Which split is which file.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use tidemill_core::Result;
use tidemill_core::source::Split;

use super::discover::{self, Listed, is_absent, unreadable};
use super::feeds::matches;
use super::folders::Folders;
use super::found::{Found, Index, look, relative, stored};
use super::identity::{Identity, Key, key};
use super::mark::Mark;
use super::shared::{Gone, Left, Shared};

/// Finds the files of the splits from which a job starts: a file may have another name by now, or be a copy. Splits whose files are gone end,
/// and those of followed files that had ended so and are there again go on.
///
/// # Errors
/// The files cannot be listed, or a file is gone that was not read to its end, and the source does not give such rests up.
pub(super) fn resume(shared: &Shared, known: &mut [Split]) -> Result<()> {
    shared.readers.identify(known);
    let listed = shared.files()?;
    let mut index = Index::of(shared, known);
    let mut there = vec![false; known.len()];
    let (mut others, mut folders) = (Vec::new(), Folders::default());
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
        if !found.is_of(split, shared, &mut folders)? {
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
            if shared.config.follow && split.position > 0 {
                shared.warn_of_copy(&split.name, split.position);
            }
            go_on(shared, split, file);
        }
    }
    end_missing(shared, known, &there, &listed, &mut folders)
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

fn end_missing(shared: &Shared, known: &mut [Split], there: &[bool], listed: &[Listed], folders: &mut Folders) -> Result<()> {
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
        let mark = split.mark.as_deref().and_then(Mark::from_text);
        let unread = split.position == 0 && identity.is_some_and(|identity| identity.was_empty());
        let noted = if mark.is_none() && unread { Some(0) } else { mark.map(|mark| mark.known) };
        let size = noted.max(seen);
        // It may have grown since it was last looked at, and who writes to it may not know yet that it was renamed: its reader will see. One whose
        // name matches was left out of the list: it cannot be read now.
        let pattern = &shared.config.pattern;
        let now = identity.and_then(|identity| folders.renamed(pattern, &path, identity.key()));
        let now = now.filter(|now| !matches(pattern, now) || size.is_none_or(|size| size > split.position));
        if let Some((now, identity)) = now.zip(identity)
            && is_file(&now, identity, mark, split.position)
            && let Some(name) = shared.name(&now).to_str()
        {
            rename(shared, split, name);
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
    let gone: Vec<Gone<'_>> =
        gone.iter().map(|(name, position, known)| Gone { name, position: *position, known: *known, certain: false }).collect();
    shared.end_gone(&gone)?;
    shared.left().extend(ended);
    Ok(())
}

/// Gives a split the name under which its rest is read.
fn rename(shared: &Shared, split: &mut Split, name: &str) {
    if split.name != name {
        shared.warn(&format!(
            "the file `{}` was renamed to `{}`, which the pattern does not match; what was not read of it is read, then its split ends",
            split.name.escape_debug(),
            name.escape_debug()
        ));
        name.clone_into(&mut split.name);
    }
}

/// Whether a renamed file of a split's inode is the split's file, and no other that was given the inode.
fn is_file(path: &Path, identity: Identity, mark: Option<Mark>, position: u64) -> bool {
    let has_content = || discover::open(path).is_ok_and(|file| mark.unwrap_or_default().is_in(&file, position).unwrap_or(false));
    !identity.is_ambiguous() || has_content()
}

/// Adds the files that match now and are not known. A known file that was renamed keeps its split, under its new name. One whose split had
/// ended because the file was gone is read on, as a new split.
///
/// # Errors
/// The files cannot be listed, or there are none and none will come.
pub(super) fn discover(shared: &Shared, known: &mut Vec<Split>) -> Result<()> {
    // ORDER: before the files are listed, since a reader may move on at any time.
    shared.readers.identify(known);
    let listed = shared.files()?;
    if listed.is_empty() && known.is_empty() && !shared.config.follow {
        return Err(discover::nothing(&shared.config.pattern));
    }
    let index = Index::of(shared, known);
    let mut there = vec![false; known.len()];
    let mut others = Vec::new();
    for file in &listed {
        let name = relative(shared, &file.path);
        let Some(at) = index.same(known, file, name)? else {
            others.push((file, name));
            continue;
        };
        if let (Some(split), Some(there)) = (known.get_mut(at), there.get_mut(at)) {
            name.clone_into(&mut split.name);
            *there = true;
        }
        if let Some((split, left)) = known.get(at).zip(came_back(shared, key(&file.metadata))) {
            let back = Split { position: left.position, mark: left.mark, finished: false, invalid: 0, ..split.clone() };
            known.push(Split { id: Split::new(known, "").id, ..back });
        }
    }
    for (file, name) in others {
        let Some(found) = look(shared, file)? else { continue };
        let before = index.by_name.get(name).filter(|at| there.get(**at) == Some(&false)).and_then(|at| known.get(*at));
        match succession(shared, before, &found)? {
            Succession::Undecided => {}
            Succession::New => known.push(found.split(known, name)),
            Succession::Copy(left) => {
                shared.warn_of_copy(name, left.position);
                known.push(Split { position: left.position, mark: left.mark, ..found.split(known, name) });
            }
        }
    }
    Ok(())
}

/// What a file is to the one that had its name before.
enum Succession {
    /// Another file.
    New,
    /// A copy of it, which had ended so.
    Copy(Left),
    /// The reader of the old file has not come to its end yet, and will say; or it reads on in this one.
    Undecided,
}

fn succession(shared: &Shared, before: Option<&Split>, found: &Found) -> Result<Succession> {
    let now = found.identity.key();
    if shared.readers.take_other(now) {
        return Ok(Succession::New);
    }
    // ORDER: first whether either is read, in one look, then how the old one was left: a reader moves on in one step, and leaves word before
    // it ends.
    let Some(old) = before.filter(|_| shared.config.follow).and_then(stored) else {
        return Ok(if shared.readers.are_reading(&[now]) { Succession::Undecided } else { Succession::New });
    };
    if shared.readers.are_reading(&[now, old.key()]) {
        return Ok(Succession::Undecided);
    }
    let left = shared.left().get(&old.key()).filter(|left| left.ended).cloned();
    match left {
        Some(left) if found.is_copy_of(&left)? => {
            shared.left().remove(&old.key());
            Ok(Succession::Copy(left))
        }
        _ => Ok(Succession::New),
    }
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
