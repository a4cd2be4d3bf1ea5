//! The cache over a store in memory: with room for all, for some and for nothing.

use std::collections::BTreeMap;

use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate, timer_op, write_op};
use tidemill_wit::schema::{Type, TypeTable};

use super::rows::{key_of, key_row, timer_row};
use super::staged::Staged;
use super::{CachedState, Layer, Pool, Rows, Space, can_go_on, pass_groups};
use crate::Result;
use crate::checkpoint::manifest::FileFormat;
use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::effects::{TimerOps, Writes};
use crate::key_group::{KeyGroup, hash_key};
use crate::state::conformance::{Before, conformance};
use crate::state::layout::{Item, Reader, Writer};
use crate::state::{DueTimers, Frozen, FrozenFile, KeyedState, Scan};
use crate::time::{Domain, Timestamp};

type Map<T> = BTreeMap<(Space, Vec<u8>), T>;
type Change = (Layer, Space, Vec<u8>, Option<Vec<u8>>);

/// What stands before a key's content in its row.
const LIVES_UNTIL: usize = 8;

/// Rows in memory.
#[derive(Default)]
struct MapRows {
    rows: Map<Vec<u8>>,
    pending: Vec<Change>,
    can_hold: bool,
    behind: bool,
    full: bool,
    /// What was put and deleted since the store is held.
    live: Option<Map<Option<Vec<u8>>>>,
    frozen: Option<Map<Vec<u8>>>,
}

impl MapRows {
    /// All rows, as whoever reads them sees them.
    fn seen(&self) -> Map<Vec<u8>> {
        let mut rows = self.rows.clone();
        for (key, value) in self.live.iter().flatten() {
            match value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(key),
            };
        }
        rows
    }
}

impl Rows for MapRows {
    fn get(&self, space: Space, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let key = (space, key.to_vec());
        let live = self.live.as_ref().and_then(|live| live.get(&key)).map(Option::as_ref);
        let found = live.unwrap_or_else(|| self.rows.get(&key));
        into.clear();
        into.extend_from_slice(found.map_or(&[], Vec::as_slice));
        Ok(found.is_some())
    }

    fn put(&mut self, layer: Layer, space: Space, key: &[u8], value: &[u8]) {
        self.pending.push((layer, space, key.to_vec(), Some(value.to_vec())));
    }

    fn delete(&mut self, layer: Layer, space: Space, key: &[u8]) {
        self.pending.push((layer, space, key.to_vec(), None));
    }

    fn commit(&mut self) -> Result<()> {
        for (layer, space, key, value) in self.pending.drain(..) {
            if let (Layer::Live, Some(live)) = (layer, &mut self.live) {
                live.insert((space, key), value);
                continue;
            }
            match value {
                Some(value) => self.rows.insert((space, key), value),
                None => self.rows.remove(&(space, key)),
            };
        }
        Ok(())
    }

    fn hold(&mut self) -> Result<bool> {
        if self.can_hold {
            self.live = Some(BTreeMap::new());
        }
        Ok(self.can_hold)
    }

    fn is_behind(&self) -> bool {
        self.behind
    }

    fn is_full(&self) -> bool {
        self.full
    }

    fn freeze(&mut self) -> Result<Option<Box<dyn Frozen>>> {
        let seen = self.seen();
        self.frozen = Some(std::mem::replace(&mut self.rows, seen));
        self.live = None;
        Ok(Some(Box::new(Marked)))
    }

    fn scan(&self, space: Space, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let seen = if self.live.is_some() { &self.seen() } else { &self.rows };
        let rows = seen.range((space, from.to_vec())..).take_while(|((found, _), _)| *found == space);
        for ((_, key), value) in rows {
            if !each(key, value) {
                break;
            }
        }
        Ok(())
    }
}

/// Tells that it was asked.
struct Marked;

impl Frozen for Marked {
    fn format(&self) -> FileFormat {
        FileFormat::Database
    }

    fn files(&mut self) -> Result<Vec<FrozenFile>> {
        Ok(vec![FrozenFile { name: "file".to_owned(), path: "/".into(), content: None }])
    }

    fn groups(&mut self, each: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        each(KeyGroup(7), b"group")
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

/// A barrier's keys are written in several turns, or at once if the store has no more room; not while it is behind.
#[test]
fn what_was_changed_before_a_barrier_is_written_in_turns() {
    let mut state = CachedState::new(&[], MapRows { can_hold: true, ..MapRows::default() }, &Pool::new(1 << 30));
    (0..3_000).for_each(|number| use_key(&mut state, number, true));
    let rows = |state: &CachedState<MapRows>| state.rows.rows.len();
    let mut frozen = state.freeze().unwrap().unwrap();
    assert!(frozen.files().unwrap_err().to_string().contains("was given up"), "it is not there yet");
    assert_eq!(rows(&state), 1, "the summary");
    state.rows.behind = true;
    assert!(state.go_on_freezing().unwrap() && rows(&state) == 1);
    state.rows.behind = false;
    assert!(state.go_on_freezing().unwrap());
    assert_eq!(rows(&state), 1 + 2 * 1_024, "a row for each key, and one for its timer");
    use_key(&mut state, 0, true);
    assert!(state.held.is_some(), "there is room");
    state.rows.full = true;
    use_key(&mut state, 1, true);
    assert!(state.held.is_none() && !state.go_on_freezing().unwrap());
    assert_eq!(state.rows.frozen.take().unwrap().len(), 1 + 2 * 3_000);
    assert_eq!(frozen.files().unwrap()[0].name, "file");
    let mut groups = Vec::new();
    let mut each = |group, bytes: &[u8]| {
        groups.push((group, bytes.to_vec()));
        Ok(())
    };
    frozen.groups(&mut each).unwrap();
    assert_eq!(groups, [(KeyGroup(7), b"group".to_vec())]);
}

/// What had no TTL when it was stored has one from when the state is first used, also where it has been put away meanwhile.
#[test]
fn restored_content_is_seen_where_it_is() {
    let states = [StateDescriptor {
        name: "n".to_owned(),
        kind: StateKind::Value,
        value: TypeTable::of(Type::U8),
        entry_key: None,
        ttl: Some(100),
        ttl_update: TtlUpdate::OnCreateAndWrite,
    }];
    let mut state = CachedState::new(&states, MapRows::default(), &Pool::new(0));
    let mut writer = Writer::default();
    writer.begin(KeyGroup(0));
    writer.key(b"k");
    writer.value(0, None, b"v");
    writer.timers(&[], &[]);
    state.restore(KeyGroup(0), writer.finish(), &[Some(0)]).unwrap();
    assert_eq!(state.away, 1);
    let mut slots = SlotKeys::default();
    slots.push(KeyRef { bytes: b"k", hash: hash_key(b"k"), group: KeyGroup(0) });
    let mut columns = Prefetched::default();
    state.apply(&SlotKeys::default(), &Writes::default(), &TimerOps::default(), Timestamp(1_000)).unwrap();
    for (now, present) in [(1_099, 1), (1_100, 0)] {
        state.prefetch(&slots, Timestamp(now), &mut columns).unwrap();
        assert_eq!(columns.values[0].present, [present], "at {now}");
        state.apply(&SlotKeys::default(), &Writes::default(), &TimerOps::default(), Timestamp(now)).unwrap();
    }
}

/// The clock hand goes round: of keys that are used once, the oldest go first.
#[test]
fn keys_that_are_used_once_go_in_turn() {
    let mut sizes = CachedState::new(&[], MapRows::default(), &Pool::new(1 << 30));
    use_key(&mut sizes, 0, true);
    let room = 3 * sizes.memory.size(0) + 1;
    let mut state = CachedState::new(&[], MapRows::default(), &Pool::new(room));
    for number in 0..20 {
        use_key(&mut state, number, true);
        let in_use: Vec<u32> = (0..=number).filter(|number| is_in_use(&state, *number)).collect();
        assert_eq!(in_use, (number.saturating_sub(2)..=number).collect::<Vec<_>>());
    }
}

/// Keys that are put away are looked at some at a time, each once, but for those in use.
#[test]
fn a_step_of_the_sweep_is_bounded() {
    let pool = Pool::new(0);
    let mut state = CachedState::new(&[], MapRows::default(), &pool);
    (0..512).for_each(|number| use_key(&mut state, number, true));
    use_key(&mut state, 300, false);
    let (mut after, mut steps) = (Vec::new(), Vec::new());
    loop {
        let (keys, ended) = state.next_away(&mut after, |_| true).unwrap();
        steps.push(keys.len());
        if ended {
            break;
        }
    }
    assert_eq!(steps, [256, 255, 0], "one is in use");
    assert_eq!(state.next_away(&mut Vec::new(), |_| false).unwrap().0.len(), 0);
}

/// As many keys come into use as their timers can fire in one call, and one more.
#[test]
fn due_timers_bring_few_keys() {
    let mut state = CachedState::new(&[], MapRows::default(), &Pool::new(0));
    (0..100).for_each(|number| use_key(&mut state, number, true));
    assert_eq!(state.away, 100);
    let mut due = DueTimers::default();
    state.due_timers(Domain::Event, Timestamp(1_000), 5, &mut due).unwrap();
    assert_eq!((due.timestamp.len(), state.memory.key_count()), (5, 6));
}

#[test]
fn groups_of_a_range_are_passed_on() {
    let mut state = CachedState::new(&[], MapRows::default(), &Pool::new(0));
    for group in [3, 4, 5, 6] {
        let mut slots = SlotKeys::default();
        slots.push(KeyRef { bytes: b"k", hash: hash_key(b"k"), group: KeyGroup(group) });
        let timers = TimerOps { op: vec![timer_op::REGISTER], domain: vec![0], slot: vec![0], timestamp: vec![1] };
        state.apply(&slots, &Writes::default(), &timers, Timestamp(0)).unwrap();
    }
    let mut passed = Vec::new();
    let mut each = |group, _: &[u8]| {
        passed.push(group);
        Ok(())
    };
    pass_groups(&state.rows, 4..6, &mut each).unwrap();
    assert_eq!(passed, [KeyGroup(4), KeyGroup(5)]);
}

#[test]
fn of_two_changes_of_a_row_the_later_one_counts() {
    let (mut staged, mut rows) = (Staged::default(), MapRows::default());
    staged.put(Layer::Live, Space::Timers, b"b", b"");
    staged.put(Layer::Live, Space::Keys, b"b", b"first");
    staged.delete(Layer::Live, Space::Keys, b"a");
    staged.put(Layer::Live, Space::Keys, b"a", b"new");
    staged.put(Layer::Live, Space::Keys, b"b", b"second");
    staged.delete(Layer::Live, Space::Timers, b"b");
    staged.commit(&mut rows).unwrap();
    let expected = [(b"a", b"new".to_vec()), (b"b", b"second".to_vec())];
    assert_eq!(rows.rows, expected.map(|(key, value)| ((Space::Keys, key.to_vec()), value)).into());
}

#[test]
fn conforms_with_any_room() {
    for room in [0, 2_000, 1 << 30] {
        let pool = Pool::new(room);
        conformance(&mut |states| Box::new(CachedState::new(states, MapRows::default(), &pool)));
    }
}

/// A state is written out and gone on with from its rows, as after a crash, before every so many calls.
#[test]
fn goes_on_from_rows_that_were_written_out() {
    for (room, every) in [(0, 1), (2_000, 3), (1 << 30, 7)] {
        let pool = Pool::new(room);
        conformance(&mut |states| {
            let (pool, declared, mut calls) = (pool.clone(), states.to_vec(), 0u32);
            let turn = move |state: &mut CachedState<MapRows>| {
                calls += 1;
                if calls.is_multiple_of(every) {
                    let about = |state: &CachedState<MapRows>| {
                        (state.key_count(), Domain::ALL.map(|domain| (state.timer_count(domain), state.next_timer(domain))))
                    };
                    let before = about(state);
                    assert!(state.freeze().unwrap().is_none());
                    let rows = std::mem::take(&mut state.rows);
                    *state = CachedState::go_on(&declared, rows, &pool).unwrap().unwrap();
                    assert_eq!(about(state), before);
                }
            };
            Box::new(Before { state: CachedState::new(states, MapRows::default(), &Pool::new(room)), turn })
        });
    }
}

/// The rows that a state comes to, if all keys were put away now. Unlike a snapshot, this writes nothing.
fn rows_of(state: &mut CachedState<MapRows>) -> Map<Vec<u8>> {
    let mut contents: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for ((space, row_key), row) in state.rows.seen() {
        if space == Space::Keys {
            contents.insert(row_key, row[LIVES_UNTIL..].to_vec());
        }
    }
    let (mut row_key, mut writer) = (Vec::new(), Writer::default());
    for id in 0..state.memory.places() {
        let Some(key) = state.memory.key_at(id) else { continue };
        key_row(key.group, key.bytes(), &mut row_key);
        state.memory.save(id, &mut writer);
        contents.insert(row_key.clone(), writer.content().to_vec());
    }
    let mut rows = Map::new();
    for (row, content) in contents {
        let key = key_of(&row).unwrap();
        let mut reader = Reader::of_key(key.group, &content);
        while let Some(item) = reader.next().unwrap() {
            if let Item::Timer(domain, time) = item {
                timer_row(domain, time, key.group, key.bytes, &mut row_key);
                rows.insert((Space::Timers, row_key.clone()), Vec::new());
            }
        }
        rows.insert((Space::Keys, row), content);
    }
    rows
}

/// The same of rows that were frozen.
fn without_times(rows: &Map<Vec<u8>>) -> Map<Vec<u8>> {
    let rows = rows.iter().filter(|((_, row_key), _)| *row_key != [0xFF]);
    rows.map(|(row, value)| (row.clone(), if row.0 == Space::Keys { value[LIVES_UNTIL..].to_vec() } else { value.clone() })).collect()
}

/// Whatever happens after a barrier, what is frozen is the state at the barrier, and can be gone on with.
#[test]
fn what_is_frozen_is_the_state_at_the_barrier() {
    for (room, every, step) in [(0, 3, 0), (2_000, 7, 1), (1 << 30, 20, 3), (1 << 30, 2, 0)] {
        let pool = Pool::new(room);
        conformance(&mut |states| {
            let (pool_of_copies, declared, mut calls) = (Pool::new(room), states.to_vec(), 0);
            let mut expected: Option<(Map<Vec<u8>>, u64)> = None;
            let turn = move |state: &mut CachedState<MapRows>| {
                calls += 1;
                if step > 0 && state.held.is_some() {
                    state.memory.record_up_to(step);
                    state.write_recorded().unwrap();
                }
                if calls % every > 0 {
                    return;
                }
                while state.go_on_freezing().unwrap() {}
                if let Some((expected, keys)) = expected.take() {
                    let rows = state.rows.frozen.take().unwrap();
                    assert!(without_times(&rows) == expected, "what is frozen is not the state as it was");
                    let rows = MapRows { rows, ..MapRows::default() };
                    let copy = CachedState::go_on(&declared, rows, &pool_of_copies).unwrap().unwrap();
                    assert_eq!(copy.key_count(), keys);
                }
                expected = Some((rows_of(state), state.key_count()));
                state.rows.can_hold = true;
                state.freeze().unwrap().unwrap();
            };
            Box::new(Before { state: CachedState::new(states, MapRows::default(), &pool), turn })
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
        let can = can_go_on(&declared(now), &state.rows).unwrap();
        assert_eq!(CachedState::go_on(&declared(now), state.rows, &pool).unwrap().is_some(), can);
        can
    };
    assert!(goes_on(&[value, list], &[value, list]) && goes_on(&[value], &[value, list]), "a new state at the end has no content");
    for now in [&[list][..], &[list, value], &[(StateKind::Value, None), list], &[(StateKind::Value, Some(6)), list], &[]] {
        assert!(!goes_on(&[value, list], now), "{now:?}");
    }
    assert!(CachedState::go_on(&declared(&[]), MapRows::default(), &pool).unwrap().is_none(), "rows of which nothing is known");
}
