//! Writes keys in use to the store.

use std::ops::Range;

use super::CachedState;
use super::note::Note;
use super::rows::{Layer, Rows, Space, key_of, key_row, timer_row};
use super::staged::Staged;
use crate::Result;
use crate::key_group::KeyGroup;
use crate::state::layout::Writer;

impl<R: Rows> CachedState<R> {
    /// Writes all changed keys.
    pub(super) fn write_all(&mut self) -> Result<()> {
        let mut next = 0;
        while let Some(id) = self.memory.settle_next(next) {
            next = id;
            self.write(id);
            if self.staged.is_full() {
                self.commit()?;
            }
        }
        self.commit()
    }

    /// Makes visible in the store what was written.
    pub(super) fn commit(&mut self) -> Result<()> {
        self.staged.commit(&mut self.rows)
    }

    /// Writes a key in use with its timers.
    pub(super) fn write(&mut self, id: u32) {
        let lives_until = self.memory.end_of_life(id, self.now);
        self.memory.settle(id);
        let Self { memory, notes, staged, row_key, row, writer, .. } = self;
        let Some((note, key)) = notes.get_mut(id as usize).zip(memory.key_at(id)) else { return };
        memory.save(id, writer);
        let mut to = RowsOfKey { group: key.group, key: key.bytes(), layer: Layer::Live, staged, row_key, row };
        to.put(lives_until, writer.content(), note);
    }
}

/// The rows of one key, to be staged.
pub(super) struct RowsOfKey<'a> {
    pub(super) group: KeyGroup,
    pub(super) key: &'a [u8],
    pub(super) layer: Layer,
    pub(super) staged: &'a mut Staged,
    pub(super) row_key: &'a mut Vec<u8>,
    pub(super) row: &'a mut Vec<u8>,
}

impl RowsOfKey<'_> {
    /// Stages the key's content, and what has changed of its timers.
    pub(super) fn put(&mut self, lives_until: i64, content: &[u8], note: &mut Note) {
        let Self { group, key, layer, staged, row_key, row } = self;
        row.clear();
        row.extend_from_slice(&lives_until.to_be_bytes());
        row.extend_from_slice(content);
        key_row(*group, key, row_key);
        staged.put(*layer, Space::Keys, row_key, row);
        for timer in note.timers.unsettled() {
            timer_row(timer.domain, timer.time, *group, key, row_key);
            if timer.at.live { staged.put(*layer, Space::Timers, row_key, &[]) } else { staged.delete(*layer, Space::Timers, row_key) }
        }
        note.stored = true;
        note.timers.settle();
    }
}

/// Passes key groups that are stored as rows on, in the layout of checkpoints: the groups of a range, in order.
///
/// # Errors
/// The rows cannot be read or are not what was written, or `into` fails.
pub fn pass_groups(rows: &dyn Rows, range: Range<u32>, into: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
    let (mut group, mut writer, mut outcome) = (None, Writer::default(), Ok(()));
    let Ok(first) = u16::try_from(range.start) else { return Ok(()) };
    rows.scan(Space::Keys, &first.to_be_bytes(), &mut |row_key, row| {
        let Some(key) = key_of(row_key).filter(|key| u32::from(key.group.0) < range.end) else { return false };
        let content = match super::away::content(row) {
            Ok((_, content)) => content,
            Err(error) => {
                outcome = Err(error);
                return false;
            }
        };
        if group != Some(key.group) {
            if let Some(group) = group {
                outcome = into(group, writer.finish());
            }
            group = Some(key.group);
            writer.begin(key.group);
        }
        writer.key_with(key.bytes, content);
        outcome.is_ok()
    })?;
    match (group, &outcome) {
        (Some(group), Ok(())) => into(group, writer.finish()),
        _ => outcome,
    }
}
