//! Removes expired content in small steps.

use super::super::layout::{FRESH, Form};
use super::MemoryState;
use super::block::{self, LARGE};
use super::large::Large;
use crate::time::Timestamp;

/// How many places are looked at in one step.
const PLACES: usize = 64;

/// Large content is looked at so often in a time to live: each look goes over all of it.
const LOOKS: i64 = 64;

/// Where the last step stopped.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    id: u32,
    /// The state and entry of a large map that was left in the middle.
    entry: Option<(usize, Box<[u8]>)>,
}

impl MemoryState {
    /// Removes expired content of the next few keys.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        if !self.shapes.iter().any(|shape| shape.stamped()) {
            return;
        }
        for _ in 0..PLACES.min(self.keys.slab.places()) {
            if self.keys.slab.get(self.sweep.id).is_none() {
                self.sweep = Sweep::default();
            }
            let id = self.sweep.id;
            // Most keys live on: that is told without a look at their content, which would be a cache miss.
            if self.keys.slab.get(id).is_some_and(|key| key.lives_until <= now.0) {
                self.sweep.entry = self.sweep_key(id, now);
                if self.sweep.entry.is_some() {
                    return;
                }
                if self.keys.remove_if_empty(id) {
                    self.places.forget();
                } else {
                    self.note_end_of_life(id, now);
                }
            }
            self.sweep.id += 1;
        }
    }

    /// Notes when the key is to be looked at again: when the next of its content expires, or a while later if it is large.
    pub(super) fn note_end_of_life(&mut self, id: u32, now: Timestamp) {
        let Self { shapes, keys, .. } = self;
        let Some(key) = keys.slab.get_mut(id).filter(|key| !key.block.is_free()) else { return };
        let mut cell = key.block.first_cell();
        key.lives_until = i64::MAX;
        for shape in &*shapes {
            if shape.stamped() && cell.count == LARGE {
                let ttl = shape.ttl.unwrap_or(0);
                key.lives_until = key.lives_until.min(now.0.saturating_add((ttl / LOOKS).max(1)));
            } else if shape.stamped() && cell.count > 0 {
                let (body, life) = (key.block.body(cell), shape.life(Timestamp::MIN));
                let end = if shape.form == Form::Value {
                    life.end_of(block::value(body, true).0)
                } else {
                    block::entries(body, true).map(|entry| life.end_of(entry.stamp)).min().unwrap_or(i64::MAX)
                };
                key.lives_until = key.lives_until.min(end);
            }
            cell = key.block.cell_after(cell);
        }
    }

    /// Removes expired content of one key; returns where it stopped in a large map.
    fn sweep_key(&mut self, id: u32, now: Timestamp) -> Option<(usize, Box<[u8]>)> {
        if self.keys.slab.get(id)?.block.is_free() {
            return None;
        }
        let resumed = self.sweep.entry.take();
        let first = resumed.as_ref().map_or(0, |(state, _)| *state);
        let mut after = resumed.map(|(_, entry)| entry);
        for state in first..self.shapes.len() {
            let mut cell = self.cell_mut(id, state, now)?;
            if !cell.shape.stamped() {
                continue;
            }
            if let Some(last) = cell.expire(after.take().as_deref()) {
                return Some((state, last));
            }
        }
        None
    }

    /// Stamps restored content that has not been seen under a TTL yet.
    #[inline]
    pub(super) fn first_seen(&mut self, now: Timestamp) {
        if self.unseen {
            self.unseen = false;
            self.stamp_unseen(now);
        }
    }

    fn stamp_unseen(&mut self, now: Timestamp) {
        self.all_changing();
        let Self { shapes, keys, larges, .. } = self;
        for id in (0..).take(keys.slab.places()) {
            let Some(key) = keys.slab.get_mut(id).filter(|key| !key.block.is_free()) else { continue };
            key.lives_until = i64::MIN;
            let mut cell = key.block.first_cell();
            for shape in &*shapes {
                if shape.stamped() && cell.count == LARGE {
                    if let Some(large) = larges.get_mut(block::place(key.block.body(cell))) {
                        stamp_large(large, now);
                    }
                } else if shape.stamped() && cell.count > 0 {
                    let body = key.block.body_mut(cell);
                    if shape.form == Form::Value {
                        if block::value(body, true).0 == FRESH {
                            block::restamp_value(body, now.0);
                        }
                    } else {
                        let places: Vec<usize> =
                            block::entries(body, true).filter(|entry| entry.stamp == FRESH).map(|entry| entry.range.start).collect();
                        places.into_iter().for_each(|at| block::restamp_entry(body, at, now.0));
                    }
                }
                cell = key.block.cell_after(cell);
            }
        }
    }
}

fn stamp_large(large: &mut Large, now: Timestamp) {
    let stamp = |stamp: &mut i64| {
        if *stamp == FRESH {
            *stamp = now.0;
        }
    };
    match large {
        Large::Free => {}
        Large::Value(value) => stamp(&mut value.stamp),
        Large::List(list) => list.stamps_mut().iter_mut().for_each(stamp),
        Large::Map(map) => map.entries.values_mut().for_each(|entry| stamp(&mut entry.stamp)),
    }
}
