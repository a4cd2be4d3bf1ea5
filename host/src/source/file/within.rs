//! The name of a split comes back from storage, so it may be made to lead anywhere: only what the source's pattern matches is read.

use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};
use tidemill_core::source::Split;
use tidemill_core::{Error, Result};

use super::FileSourceConfig;
use super::discover::folder;
use super::feeds::looks_into;

/// Checks that the name under which a split's file is about to be opened lies in a folder that the pattern looks into.
///
/// # Errors
/// It does not: the pattern was changed, or the stored name was.
pub(super) fn check(config: &FileSourceConfig, split: &Split) -> Result<()> {
    let plain = |path: &Path| path.components().collect::<PathBuf>();
    let (path, pattern) = (plain(&config.base.join(&split.name)), plain(Path::new(&config.pattern)));
    if path == pattern {
        return Ok(());
    }
    let pattern = pattern.to_string_lossy();
    // The base of a pattern for one file is that file.
    let base = folder(&pattern);
    let stays_below = path.strip_prefix(&base).is_ok_and(|rest| rest.components().all(|part| matches!(part, Component::Normal(_))));
    let options = MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };
    // A file that was rotated to another name in its folder is known by what is in it.
    let is_beside = || path.parent().is_some_and(|folder| looks_into(&pattern, folder));
    if stays_below && (Pattern::new(&pattern).is_ok_and(|pattern| pattern.matches_path_with(&path, options)) || is_beside()) {
        return Ok(());
    }
    Err(Error::config(format!(
        "the checkpoint names the file `{}`, of which something is still to be read, but the source's path `{}` does not match it: write a \
         path that matches it, or start again from nothing with --fresh",
        path.display(),
        config.pattern
    )))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidemill_core::source::Split;

    use super::check;
    use crate::source::file::{FileSourceConfig, OnGone, OnReplaced};

    #[test]
    fn only_names_that_the_pattern_matches_are_opened() {
        for (pattern, name, fits) in [
            ("/job/data/*.jsonl", "data/a.jsonl", true),
            ("/job/data/*.jsonl", "data/.hidden.jsonl", true),
            ("/job/./data//*.jsonl", "data/a.jsonl", true),
            ("/job/../in/*.jsonl", "../in/a.jsonl", true),
            ("/in/*.jsonl", "/in/a.jsonl", true),
            ("/job/data/**/*.jsonl", "data/x/y/a.jsonl", true),
            ("/job/data/a[1].jsonl", "data/a[1].jsonl", true),
            ("/job/data/a.jsonl", "data/a.jsonl", true),
            ("/job/data/*.jsonl", "data/a.jsonl.1", true),
            ("/job/data/a.jsonl", "data/a.jsonl.1", true),
            ("/job/data/a.jsonl", "data/x/a.jsonl", false),
            ("/job/data/a.jsonl", "a.jsonl", false),
            ("/job/data/*.jsonl", "/etc/passwd", false),
            ("/job/data/*", "../../etc/passwd", false),
            ("/job/data/*", "data/../../etc/passwd", false),
            ("/job/data/**/*", "data/x/../../../etc/passwd", false),
            ("/job/data/*", "data/..", false),
            ("/job/data/*.jsonl", "data/x/a.jsonl", false),
            ("/job/data/*.jsonl", "", false),
        ] {
            let (pattern, base) = (pattern.to_owned(), "/job".into());
            let config = FileSourceConfig {
                uid: "in".to_owned(),
                pattern,
                base,
                follow: false,
                max_record_bytes: 1,
                timestamp: None,
                on_replaced: OnReplaced::Fail,
                on_gone: OnGone::Fail,
                gone_after: Duration::ZERO,
            };
            let checked = check(&config, &Split::new(&[], name));
            assert_eq!(checked.is_ok(), fits, "{} and {name}", config.pattern);
        }
    }
}
