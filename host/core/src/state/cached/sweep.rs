//! Expired content of keys that are put away.

use super::CachedState;
use super::away::content;
use super::rows::{Rows, Space, key_of};
use crate::Result;
use crate::detector::SlotKeys;
use crate::time::Timestamp;

/// How many rows are looked at in one step.
const ROWS: usize = 256;
/// In one of how many calls rows are looked at: to begin a scan costs more than to go on.
const CALLS: u32 = 16;

/// Where the last step stopped.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    calls: u32,
    /// The row after which to go on.
    after: Vec<u8>,
}

impl<R: Rows> CachedState<R> {
    /// Removes expired content of the next few keys that are put away.
    pub(super) fn sweep_away(&mut self, now: Timestamp) -> Result<()> {
        self.sweep.calls += 1;
        if self.away == 0 || self.sweep.calls < CALLS {
            return Ok(());
        }
        self.sweep.calls = 0;
        let mut after = std::mem::take(&mut self.sweep.after);
        let (keys, ended) = self.next_away(&mut after, |lives_until| lives_until <= now.0)?;
        if !ended {
            self.sweep.after = after;
        }
        self.bring_all(&keys, None)?;
        for (_, id) in std::mem::take(&mut self.missing.loaded) {
            self.memory.expire_key(id, now);
            self.resize(id);
        }
        self.forget_removed()?;
        Ok(())
    }

    /// Content that was restored and waits to be seen is seen now: its TTL begins.
    pub(super) fn see(&mut self, now: Timestamp) -> Result<()> {
        if !self.unseen {
            return Ok(());
        }
        self.unseen = false;
        self.memory.see(now);
        for id in 0..self.memory.places() {
            if self.memory.key_at(id).is_some() {
                self.resize(id);
            }
        }
        let (mut after, mut ended) = (Vec::new(), false);
        while !ended {
            let keys;
            (keys, ended) = self.next_away(&mut after, |_| true)?;
            self.bring_all(&keys, Some(now.0))?;
            for (_, id) in std::mem::take(&mut self.missing.loaded) {
                self.memory.changing(id);
            }
            self.after_change()?;
        }
        self.looked = false;
        Ok(())
    }

    /// Looks at the next rows after `after`, which moves on. Returns the keys put away that `wanted` takes, by when something of them
    /// expires, and whether these were the last.
    pub(super) fn next_away(&self, after: &mut Vec<u8>, wanted: impl Fn(i64) -> bool) -> Result<(SlotKeys, bool)> {
        let (mut keys, mut seen, mut outcome) = (SlotKeys::default(), 0, Ok(()));
        // The least key above: none lies between.
        let mut from = after.clone();
        if !from.is_empty() {
            from.push(0);
        }
        self.rows.scan(Space::Keys, &from, &mut |row_key, row| {
            if seen == ROWS {
                return false;
            }
            seen += 1;
            after.clear();
            after.extend_from_slice(row_key);
            match (key_of(row_key), content(row)) {
                (Some(key), Ok((lives_until, _))) => {
                    if wanted(lives_until) && self.memory.find(key).is_none() {
                        keys.push(key);
                    }
                }
                (None, _) => {}
                (_, Err(error)) => outcome = Err(error),
            }
            outcome.is_ok()
        })?;
        outcome.map(|()| (keys, seen < ROWS))
    }
}
