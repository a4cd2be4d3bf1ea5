//! The cache over a store in memory: with room for all, for some and for nothing.

use std::collections::BTreeMap;

use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate, timer_op, write_op};
use tidemill_wit::schema::{Type, TypeTable};

use super::pace::Pace;
use super::staged::Staged;
use super::{CachedState, Pool, Rows, Space};
use crate::Result;
use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::effects::{TimerOps, Writes};
use crate::key_group::{KeyGroup, hash_key};
use crate::state::conformance::conformance;
use crate::state::{DueTimers, GroupSource, KeyedState, Scan};
use crate::time::{Domain, Timestamp};

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

/// A guest may ask for entries of any key, also of one that no batch has named.
#[test]
fn a_key_that_is_put_away_is_read_where_it_is() {
    let states = [StateDescriptor {
        name: "n".to_owned(),
        kind: StateKind::Map,
        value: TypeTable::of(Type::U8),
        entry_key: None,
        ttl: None,
        ttl_update: TtlUpdate::OnCreateAndWrite,
    }];
    let mut state = CachedState::new(&states, MapRows::default(), &Pool::new(0));
    for (number, value) in [(1, b"one"), (2, b"two")] {
        let (bytes, mut slots) = (u32::to_be_bytes(number), SlotKeys::default());
        slots.push(KeyRef { bytes: &bytes, hash: hash_key(&bytes), group: KeyGroup(0) });
        let mut writes = Writes { op: vec![write_op::PUT_ENTRY], state: vec![0], slot: vec![0], ..Writes::default() };
        writes.entry.push(b"e");
        writes.value.push(value);
        state.apply(&slots, &writes, &TimerOps::default(), Timestamp(0)).unwrap();
    }
    assert_eq!(state.away, 2);
    let expected: [Option<&[u8]>; 3] = [Some(b"one"), Some(b"two"), None];
    for (number, expected) in (1u32..).zip(expected) {
        let bytes = number.to_be_bytes();
        let key = KeyRef { bytes: &bytes, hash: hash_key(&bytes), group: KeyGroup(0) };
        let (mut value, mut scanned) = (Vec::new(), Vec::new());
        let found = state.get_entry(key, 0, b"e", Timestamp(0), &mut value).unwrap();
        assert_eq!(found.then_some(&value[..]), expected);
        let scan = Scan { key, state: 0, after: None, limit: 5 };
        state.scan_entries(&scan, Timestamp(0), &mut |_, value| scanned.push(value.to_vec())).unwrap();
        assert_eq!(scanned.first().map(Vec::as_slice), expected);
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

/// A state that is written out and gone on with from its rows, as after a crash, before every so many calls.
struct Interrupted {
    states: Vec<StateDescriptor>,
    state: CachedState<MapRows>,
    pool: Pool,
    calls: u32,
    every: u32,
}

impl Interrupted {
    fn turn(&mut self) -> &mut CachedState<MapRows> {
        self.calls += 1;
        if self.calls.is_multiple_of(self.every) {
            let (keys, next) =
                (self.state.key_count(), Domain::ALL.map(|domain| (self.state.timer_count(domain), self.state.next_timer(domain))));
            assert!(self.state.freeze().unwrap().is_none());
            let rows = std::mem::take(&mut self.state.rows);
            self.state = CachedState::go_on(&self.states, rows, &self.pool).unwrap().unwrap();
            let after = Domain::ALL.map(|domain| (self.state.timer_count(domain), self.state.next_timer(domain)));
            assert_eq!((self.state.key_count(), after), (keys, next));
        }
        &mut self.state
    }
}

impl KeyedState for Interrupted {
    fn prefetch(&mut self, slots: &SlotKeys, now: Timestamp, into: &mut Prefetched) -> Result<()> {
        self.turn().prefetch(slots, now, into)
    }

    fn get_entry(&self, key: KeyRef<'_>, state: u8, entry: &[u8], now: Timestamp, into: &mut Vec<u8>) -> Result<bool> {
        self.state.get_entry(key, state, entry, now, into)
    }

    fn scan_entries(&self, scan: &Scan<'_>, now: Timestamp, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.state.scan_entries(scan, now, found)
    }

    fn apply(&mut self, slots: &SlotKeys, writes: &Writes, timers: &TimerOps, now: Timestamp) -> Result<()> {
        self.turn().apply(slots, writes, timers, now)
    }

    fn due_timers(&mut self, domain: Domain, horizon: Timestamp, limit: usize, into: &mut DueTimers) -> Result<()> {
        self.turn().due_timers(domain, horizon, limit, into)
    }

    fn remove_timers(&mut self, domain: Domain, due: &DueTimers, count: usize) -> Result<()> {
        self.turn().remove_timers(domain, due, count)
    }

    fn next_timer(&self, domain: Domain) -> Option<Timestamp> {
        self.state.next_timer(domain)
    }

    fn timer_count(&self, domain: Domain) -> u64 {
        self.state.timer_count(domain)
    }

    fn key_count(&self) -> u64 {
        self.state.key_count()
    }

    fn expire(&mut self, now: Timestamp) -> Result<()> {
        // A sweep begins anew whenever the state does: it would never get far.
        self.state.expire(now)
    }

    fn snapshot(&mut self, into: &mut dyn FnMut(KeyGroup, &[u8])) -> Result<()> {
        self.turn().snapshot(into)
    }

    fn restore(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        self.turn().restore(group, bytes, states)
    }

    fn restore_all(&mut self, source: GroupSource<'_>, states: &[Option<u8>]) -> Result<()> {
        self.turn().restore_all(source, states)
    }
}

#[test]
fn goes_on_from_rows_that_were_written_out() {
    for (room, every) in [(0, 1), (2_000, 3), (1 << 30, 1), (1 << 30, 7)] {
        let pool = Pool::new(room);
        conformance(&mut |states| {
            let state = CachedState::new(states, MapRows::default(), &pool);
            Box::new(Interrupted { states: states.to_vec(), state, pool: pool.clone(), calls: 0, every })
        });
    }
}

#[test]
fn rows_of_other_states_are_not_gone_on_with() {
    let declared = |kinds: &[(StateKind, Option<i64>)]| -> Vec<StateDescriptor> {
        let state = |(kind, ttl): &(StateKind, Option<i64>)| StateDescriptor {
            name: "n".to_owned(),
            kind: *kind,
            value: TypeTable::of(Type::U8),
            entry_key: None,
            ttl: *ttl,
            ttl_update: TtlUpdate::OnCreateAndWrite,
        };
        kinds.iter().map(state).collect()
    };
    let (value, list) = ((StateKind::Value, Some(5)), (StateKind::List, None));
    let pool = Pool::new(0);
    let goes_on = |then: &[(StateKind, Option<i64>)], now: &[(StateKind, Option<i64>)]| {
        let mut state = CachedState::new(&declared(then), MapRows::default(), &pool);
        state.freeze().unwrap();
        CachedState::go_on(&declared(now), state.rows, &pool).unwrap().is_some()
    };
    assert!(goes_on(&[value, list], &[value, list]) && goes_on(&[value], &[value, list]), "a new state at the end has no content");
    for now in [&[list][..], &[list, value], &[(StateKind::Value, None), list], &[(StateKind::Value, Some(6)), list], &[]] {
        assert!(!goes_on(&[value, list], now), "{now:?}");
    }
    assert!(CachedState::go_on(&declared(&[]), MapRows::default(), &pool).unwrap().is_none(), "rows of which nothing is known");
}
