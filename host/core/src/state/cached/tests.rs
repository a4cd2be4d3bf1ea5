//! The cache over a store in memory: with room for all, for some and for nothing.

use std::collections::BTreeMap;

use super::pace::Pace;
use super::{CachedState, Pool, Rows, Space};
use crate::Result;
use crate::state::conformance::conformance;

/// Rows in memory.
#[derive(Default)]
struct MapRows {
    rows: BTreeMap<(Space, Vec<u8>), Vec<u8>>,
    pending: Vec<(Space, Vec<u8>, Option<Vec<u8>>)>,
}

impl Rows for MapRows {
    fn get(&self, space: Space, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let found = self.rows.get(&(space, key.to_vec()));
        into.clear();
        into.extend_from_slice(found.map_or(&[], Vec::as_slice));
        Ok(found.is_some())
    }

    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.pending.push((space, key.to_vec(), Some(value.to_vec())));
    }

    fn delete(&mut self, space: Space, key: &[u8]) {
        self.pending.push((space, key.to_vec(), None));
    }

    fn commit(&mut self) -> Result<()> {
        for (space, key, value) in self.pending.drain(..) {
            match value {
                Some(value) => self.rows.insert((space, key), value),
                None => self.rows.remove(&(space, key)),
            };
        }
        Ok(())
    }

    fn scan(&self, space: Space, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let rows = self.rows.range((space, from.to_vec())..).take_while(|((found, _), _)| *found == space);
        for ((_, key), value) in rows {
            if !each(key, value) {
                break;
            }
        }
        Ok(())
    }
}

#[test]
fn conforms_with_any_room() {
    for (room, least, interval) in [(0, 0, 0), (0, 3, 200), (2_000, 0, 0), (2_000, 5, 1_000), (1 << 30, 4096, 5_000), (1 << 30, 0, 0)] {
        let pool = Pool::new(room);
        conformance(&mut |states| {
            let mut pace = Pace::new(least);
            pace.interval = interval;
            Box::new(CachedState { pace, ..CachedState::new(states, MapRows::default(), &pool) })
        });
    }
}
