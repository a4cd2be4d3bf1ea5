//! Writes keys in use to the store.

use std::ops::Range;

use super::CachedState;
use super::rows::{Rows, Space, key_of, key_row, timer_row};
use crate::Result;
use crate::key_group::KeyGroup;
use crate::state::layout::Writer;
use crate::time::Timestamp;

impl<R: Rows> CachedState<R> {
    /// Writes the keys whose change lies back furthest, until few enough are left.
    pub(super) fn trickle(&mut self) -> Result<()> {
        let room = self.pace.room(self.dirty);
        self.write_until(room)
    }

    /// Writes all changed keys.
    pub(super) fn write_all(&mut self) -> Result<()> {
        self.write_until(0)?;
        self.commit()
    }

    fn write_until(&mut self, left: usize) -> Result<()> {
        while self.dirty > left {
            let Some(id) = self.queue.pop_front() else { return Ok(()) };
            if self.notes.get(id as usize).is_some_and(|note| note.dirty) {
                self.write(id);
                if self.staged.is_full() {
                    self.commit()?;
                }
            }
        }
        if self.dirty == 0 {
            self.queue.clear();
        }
        Ok(())
    }

    /// Makes visible in the store what was written.
    pub(super) fn commit(&mut self) -> Result<()> {
        self.staged.commit(&mut self.rows)
    }

    /// Writes a key in use with its timers.
    pub(super) fn write(&mut self, id: u32) {
        let lives_until = self.memory.end_of_life(id, Timestamp(self.pace.now));
        let Self { memory, notes, staged, dirty, row_key, row, writer, .. } = self;
        let Some((note, key)) = notes.get_mut(id as usize).zip(memory.key_at(id)) else { return };
        *dirty -= usize::from(std::mem::take(&mut note.dirty));
        memory.save(id, writer);
        row.clear();
        row.extend_from_slice(&lives_until.to_be_bytes());
        row.extend_from_slice(writer.content());
        key_row(key.group, key.bytes(), row_key);
        staged.put(Space::Keys, row_key, row);
        for timer in note.timers.unsettled() {
            timer_row(timer.domain, timer.time, key.group, key.bytes(), row_key);
            if timer.at.live { staged.put(Space::Timers, row_key, &[]) } else { staged.delete(Space::Timers, row_key) }
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
