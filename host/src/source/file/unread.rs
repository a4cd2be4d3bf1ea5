//! What has become of the input of a job that has finished: it may have grown since.

use tidemill_core::Result;
use tidemill_core::source::Split;

use super::FileSourceConfig;
use super::folders::Folders;
use super::found::{Index, look, relative};
use super::handles::Handles;
use super::shared::Shared;

/// Input that splits which have all been read to their ends do not cover. Files by name, relative to the folder of the spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Files that match and were not read.
    pub new: Vec<String>,
    /// Files that were read, and are longer by now.
    pub grown: Vec<String>,
}

/// Looks for input that was not read. No file is opened for its records.
///
/// # Errors
/// The files cannot be listed, or one cannot be opened to tell whether it is a copy of a known one.
pub fn unread(config: FileSourceConfig, known: &[Split]) -> Result<Unread> {
    let shared = Shared::new(config, Handles::of_process());
    let mut known = known.to_vec();
    let (listed, index) = (shared.files()?, Index::of(&shared, &mut known));
    let (mut unread, mut others) = (Unread::default(), Vec::new());
    let (mut there, mut folders) = (vec![false; known.len()], Folders::default());
    let has_grown = |at: usize, size: u64| known.get(at).is_some_and(|split| size > split.position);
    for file in &listed {
        let name = relative(&shared, &file.path);
        let Some(at) = index.same(&known, file, name)? else {
            others.push((file, name));
            continue;
        };
        there.get_mut(at).into_iter().for_each(|there| *there = true);
        if has_grown(at, file.metadata.len()) {
            unread.grown.push(name.to_owned());
        }
    }
    for (file, name) in others {
        let at = index.by_name.get(name).copied().filter(|at| there.get(*at) == Some(&false));
        let Some(found) = look(&shared, file)? else { continue };
        match at.and_then(|at| Some((at, known.get(at)?))) {
            Some((at, split)) if found.is_of(split, &shared, &mut folders)? => {
                if has_grown(at, file.metadata.len()) {
                    unread.grown.push(name.to_owned());
                }
            }
            _ => unread.new.push(name.to_owned()),
        }
    }
    Ok(unread)
}
