//! Opening a split's file, at first and again after it rested.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_core::Result;
use tidemill_core::source::Split;

use super::super::discover::{Listed, is_absent};
use super::super::feeds::matches;
use super::super::handles::Handle;
use super::super::identity::{Identity, key};
use super::super::mark::{Mark, Print};
use super::super::shared::{Gone, Shared};
use super::{Filled, Stamp, Window, failed, other_content, shorter};

/// A file that was opened.
type Opened = (PathBuf, Handle, Metadata);

impl Window {
    /// Opens a split's file at its position, which must be the begin of a line or the end of the file.
    ///
    /// # Errors
    /// The file cannot be read, is gone with something that was not read, or has other content, and the source does not allow that.
    pub(in super::super) fn open(shared: &Arc<Shared>, split: &Split) -> Result<Self> {
        let path = shared.config.base.join(&split.name);
        let identity = split.identity.as_deref().and_then(Identity::from_text);
        let mark = split.mark.as_deref().and_then(Mark::from_text);
        let mut window = Self {
            shared: Arc::clone(shared),
            key: identity.map(|identity| identity.key()),
            home: path.clone(),
            path,
            copy: None,
            entry: (0, 0),
            handle: None,
            follow: shared.config.follow,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            position: split.position,
            head: Print::default(),
            known: mark.map_or(0, |mark| mark.known),
            stamp: Stamp::default(),
            line: if split.position == 0 { Some(1) } else { mark.and_then(|mark| mark.line) },
            drained: false,
            stray: false,
            lost: None,
            over: false,
            ended: false,
        };
        if let Some(key) = window.key {
            shared.readers.begin(key);
        }
        match find(shared, &window.path, identity)? {
            Some((path, handle, metadata)) => {
                window.stray = !matches(&shared.config.pattern, &path);
                (window.home, window.path) = (path.clone(), path);
                window.entry = (metadata.dev(), metadata.ino());
                window.stamp = Stamp::of(&metadata);
                window.known = metadata.len();
                window.handle = Some(handle);
                window.check(split, identity, mark, metadata.len())?;
            }
            None => window.begin_without_file(split, identity, mark)?,
        }
        Ok(window)
    }

    /// Compares the file with what was read of it.
    fn check(&mut self, split: &Split, identity: Option<Identity>, mark: Option<Mark>, size: u64) -> Result<()> {
        let position = split.position;
        if position == 0 {
            return Ok(());
        }
        if size < position {
            return self.begin_again(&shorter(size, position));
        }
        // A checkpoint of an earlier version has no mark.
        let head = identity.map(|identity| identity.head()).unwrap_or_default();
        let remembered = mark.unwrap_or_else(|| Mark { head, ..Mark::default() });
        let Some(Handle { file, .. }) = &self.handle else { return Ok(()) };
        let failed = |error| failed("read", &self.path, &error);
        if !remembered.is_in(file, position).map_err(failed)? {
            return self.begin_again(&other_content(position));
        }
        self.head = remembered.head;
        self.load_edge()?;
        let before = self.buffer.get(..self.start).and_then(<[u8]>::last);
        if mark.is_none() && position < size && !matches!(before, Some(b'\n' | b'\r')) {
            return self.begin_again(&format!("has no line that begins at byte {position}, where reading stopped"));
        }
        Ok(())
    }

    fn begin_again(&mut self, how: &str) -> Result<()> {
        self.replaced(how)?;
        self.line = Some(1);
        Ok(())
    }

    /// The file was there when the split was found, a moment ago or at the start of the job.
    fn begin_without_file(&mut self, split: &Split, identity: Option<Identity>, mark: Option<Mark>) -> Result<()> {
        let new = split.position == 0 && mark.is_none();
        // Of files that come and go, some go before they are read.
        let empty = new && (self.follow || identity.is_some_and(|identity| identity.was_empty()));
        let known = if empty { Some(0) } else { mark.map(|mark| mark.known) };
        if empty && self.follow {
            self.shared.warn(&format!("the file `{}` was gone before anything was read of it", split.name.escape_debug()));
        } else {
            self.shared.end_gone(&[Gone { name: &split.name, position: split.position, known, certain: false }])?;
        }
        (self.follow, self.over, self.ended) = (false, true, !new);
        Ok(())
    }

    /// Opens the file again after it rested. Returns what the reader has to know if it is not there, or has other content.
    pub(super) fn reopen(&mut self) -> Result<Option<Filled>> {
        let entry = self.entry;
        let open = |path: &Path| open(&self.shared, path, |now| (now.dev(), now.ino()) == entry);
        let mut opened = open(&self.path)?;
        if opened.is_none()
            && let Some(path) = self.new_path()?
        {
            opened = open(&path)?;
        }
        if opened.is_none()
            && let Some(path) = self.key.and_then(|key| self.shared.renamed(&self.path, key))
        {
            opened = open(&path)?;
            self.stray = opened.is_some();
        }
        let Some((path, handle, metadata)) = opened else { return self.without_file() };
        if !self.stray {
            self.home.clone_from(&path);
        }
        (self.path, self.handle) = (path, Some(handle));
        (self.stamp, self.known) = (Stamp::of(&metadata), metadata.len());
        let read = self.read_to();
        if metadata.len() < read {
            return self.replaced(&shorter(metadata.len(), read)).map(Some);
        }
        if !self.is_unchanged(self.end)? {
            return self.replaced(&other_content(self.position)).map(Some);
        }
        Ok(None)
    }

    /// The path that the file has now, if it was renamed to one that the pattern matches.
    pub(super) fn new_path(&self) -> Result<Option<PathBuf>> {
        let is_mine = |file: &Listed| (file.metadata.dev(), file.metadata.ino()) == self.entry;
        Ok(self.shared.files()?.into_iter().find(is_mine).map(|file| PathBuf::from(file.path)))
    }

    /// Whether the path still leads to the file.
    pub(super) fn is_named(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.entry)
    }
}

/// The file of a split, under its name or, if it was renamed since, under another that matches.
fn find(shared: &Shared, path: &Path, identity: Option<Identity>) -> Result<Option<Opened>> {
    let is_mine = |now: &Metadata| identity.is_none_or(|identity| key(now) == identity.key());
    if let Some(opened) = open(shared, path, is_mine)? {
        return Ok(Some(opened));
    }
    let Some(identity) = identity else { return Ok(None) };
    let renamed = shared.files()?.into_iter().find(|file| key(&file.metadata) == identity.key());
    renamed.map_or(Ok(None), |file| open(shared, Path::new(&file.path), is_mine))
}

/// Opens the file at a path; `None` if there is none, or it is not the one that is wanted.
fn open(shared: &Shared, path: &Path, is_wanted: impl FnOnce(&Metadata) -> bool) -> Result<Option<Opened>> {
    let opened = shared.handles.open(path).and_then(|handle| {
        let metadata = handle.file.metadata()?;
        Ok((handle, metadata))
    });
    match opened {
        Ok((handle, metadata)) if metadata.is_file() && is_wanted(&metadata) => Ok(Some((path.to_owned(), handle, metadata))),
        Ok(_) => Ok(None),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(failed("open", path, &error)),
    }
}
