//! The cache over a store in memory: with room for all, for some and for nothing.

use std::collections::BTreeMap;

use tidemill_wit::descriptor::timer_op;

use super::pace::Pace;
use super::staged::Staged;
use super::{CachedState, Pool, Rows, Space};
use crate::Result;
use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::effects::{TimerOps, Writes};
use crate::key_group::{KeyGroup, hash_key};
use crate::state::KeyedState;
use crate::state::conformance::conformance;
use crate::time::Timestamp;

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

/// A batch that names a key and, if it is to be changed, moves its timer.
fn use_key(state: &mut CachedState<MapRows>, number: u32, change: bool) {
    let (bytes, mut slots) = (number.to_be_bytes(), SlotKeys::default());
    slots.push(KeyRef { bytes: &bytes, hash: hash_key(&bytes), group: KeyGroup(0) });
    state.prefetch(&slots, Timestamp(0), &mut Prefetched::default()).unwrap();
    if change {
        let timers = TimerOps { op: vec![timer_op::REGISTER], domain: vec![0], slot: vec![0], timestamp: vec![i64::from(number)] };
        state.apply(&slots, &Writes::default(), &timers, Timestamp(0)).unwrap();
    }
}

fn is_in_use(state: &CachedState<MapRows>, number: u32) -> bool {
    let bytes = number.to_be_bytes();
    state.memory.find(KeyRef { bytes: &bytes, hash: hash_key(&bytes), group: KeyGroup(0) }).is_some()
}

#[test]
fn a_key_that_is_used_again_stays_while_others_come_and_go() {
    for change in [false, true] {
        let mut state = CachedState::new(&[], MapRows::default(), &Pool::new(4_000));
        (0..100).for_each(|number| use_key(&mut state, number, true));
        assert!(state.away > 50, "there is not room for all");
        (0..100).for_each(|round| {
            use_key(&mut state, 7, change);
            use_key(&mut state, round, true);
            assert!(round < 30 || is_in_use(&state, 7), "round {round}, changed: {change}");
        });
        assert_eq!(state.key_count(), 100);
    }
}

#[test]
fn of_two_changes_of_a_row_the_later_one_counts() {
    let (mut staged, mut rows) = (Staged::default(), MapRows::default());
    staged.put(Space::Timers, b"b", b"");
    staged.put(Space::Keys, b"b", b"first");
    staged.delete(Space::Keys, b"a");
    staged.put(Space::Keys, b"a", b"new");
    staged.put(Space::Keys, b"b", b"second");
    staged.delete(Space::Timers, b"b");
    staged.commit(&mut rows).unwrap();
    let expected = [(b"a", b"new".to_vec()), (b"b", b"second".to_vec())];
    assert_eq!(rows.rows, expected.map(|(key, value)| ((Space::Keys, key.to_vec()), value)).into());
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
