//! The start of a job that has finished: there is nothing to do, which must not be mistaken for having read what has come since.

use tidemill_core::{Error, Result};
use tracing::warn;

use super::{JobEnd, connectors};
use crate::source::file::Unread;
use crate::spec::JobSpec;
use crate::store::CheckpointStore;

/// How many files a message names.
const NAMED: usize = 3;

/// There is nothing to do for a job that has finished, unless it has become another one.
///
/// # Errors
/// It was changed since.
pub(super) fn finished_before(spec: &JobSpec, store: &CheckpointStore, checkpoint: u64, changes: &[String]) -> Result<JobEnd> {
    if changes.is_empty() {
        return Ok(JobEnd::AlreadyFinished { checkpoint, unread: unread(spec, store) });
    }
    Err(Error::config(format!(
        "the job {} has finished, with checkpoint {checkpoint}, and has been changed since: {}. nothing was read: run it again from the \
         beginning of its input with --fresh, give the changed job another name, or undo the changes",
        spec.name,
        changes.join("; ")
    )))
}

/// What each source has by now that the job has not read, for people. What cannot be told is only warned of: the job has finished all the same.
fn unread(spec: &JobSpec, store: &CheckpointStore) -> Vec<String> {
    let manifest = match store.newest() {
        Ok(Some(manifest)) => manifest,
        Ok(None) => return Vec::new(),
        Err(error) => {
            warn!("whether there is input that the job has not read cannot be told: {}", error.chain());
            return Vec::new();
        }
    };
    let mut unread = Vec::new();
    for source in &spec.sources {
        let uid = &source.uid.value;
        let Some(known) = manifest.sources.iter().find(|known| known.uid == *uid) else { continue };
        match connectors::unread(source, &known.splits) {
            Ok(found) => unread.extend(describe(uid, &found)),
            Err(error) => warn!("whether source {uid} has input that the job has not read cannot be told: {}", error.chain()),
        }
    }
    unread
}

fn describe(uid: &str, unread: &Unread) -> Option<String> {
    let files = |count: usize| if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    let part = |names: &[String], what: &str| {
        let named: Vec<_> = names.iter().take(NAMED).map(|name| format!("`{}`", name.escape_debug())).collect();
        let more = if names.len() > NAMED { ", .." } else { "" };
        (!names.is_empty()).then(|| format!("{} {what} ({}{more})", files(names.len()), named.join(", ")))
    };
    let are = |names: &[String]| if names.len() == 1 { "is" } else { "are" };
    let grown = part(&unread.grown, &format!("that {} longer than what was read", are(&unread.grown)));
    let parts: Vec<_> = [part(&unread.new, &format!("that {} new", are(&unread.new))), grown].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("source {uid} has {}", parts.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::describe;
    use crate::source::file::Unread;

    #[test]
    fn a_few_files_are_named() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let told = |new: &[&str], grown: &[&str]| describe("in", &Unread { new: names(new), grown: names(grown) });
        assert_eq!(told(&[], &[]), None);
        assert_eq!(told(&["b"], &[]).unwrap(), "source in has 1 file that is new (`b`)");
        assert_eq!(
            told(&["b", "c", "d", "e"], &["a\n"]).unwrap(),
            "source in has 4 files that are new (`b`, `c`, `d`, ..) and 1 file that is longer than what was read (`a\\n`)"
        );
    }
}
