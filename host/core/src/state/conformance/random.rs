//! Random steps on a backend and on the model.

use tidemill_wit::descriptor::{StateDescriptor, StateKind, write_op};

use super::Open;
use super::model::Model;
use super::rig::{Batch, GROUPS, Pair, Rig, key, rows, state};
use crate::key_group::range_of;
use crate::state::{PREFETCH_BYTES, PREFETCH_ENTRIES};
use crate::time::{Domain, Timestamp};

const KINDS: [StateKind; 3] = [StateKind::Value, StateKind::List, StateKind::Map];
const TTL: i64 = 100;

/// Runs steps drawn from a seed, which is named when the backend differs from the model.
pub(super) fn run(open: Open<'_>, seed: u64, steps: usize) {
    let states: Vec<StateDescriptor> = [None, Some(TTL)].into_iter().flat_map(|ttl| KINDS.map(|kind| state(kind, ttl))).collect();
    let mut walk = Walk { dice: Dice(seed), rig: Rig::new(open(&states)), model: Model::new(&states), at: String::new() };
    for step in 0..steps {
        walk.at = format!("seed {seed}, step {step}");
        walk.rig.now += walk.dice.below(4) * walk.dice.below(4) * 5;
        walk.model.expire(walk.rig.now);
        match walk.dice.below(10) {
            0 => walk.restore(open, &states),
            1 | 2 => walk.fire(),
            3 => walk.rig.state.expire(Timestamp(walk.rig.now)).expect("expire"),
            _ => walk.batch(&states),
        }
        for domain in Domain::ALL {
            let expected = walk.model.timers(domain).len() as u64;
            assert_eq!(walk.rig.state.timer_count(domain), expected, "{}: {domain:?} timers", walk.at);
            let next = walk.model.timers(domain).first().map(|timer| Timestamp(timer.0));
            assert_eq!(walk.rig.state.next_timer(domain), next, "{}: next {domain:?} timer", walk.at);
        }
    }
    walk.rig.expire_to(walk.model.keys().len() as u64);
}

struct Walk {
    dice: Dice,
    rig: Rig,
    model: Model,
    /// Where the walk is, for messages.
    at: String,
}

impl Walk {
    /// Reads a few keys, then writes to them.
    fn batch(&mut self, states: &[StateDescriptor]) {
        let first = self.dice.below(20);
        let names: Vec<Vec<u8>> = (first..first + 1 + self.dice.below(6)).map(name).collect();
        let keys: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        self.compare(&keys);
        let mut batch = Batch::default();
        for _ in 0..self.dice.below(12) {
            let slot = u32::try_from(self.dice.index(keys.len())).unwrap_or(0);
            batch = if self.dice.below(3) == 0 { self.timer(batch, slot) } else { self.write(batch, slot, states) };
        }
        self.rig.apply(&keys, &batch);
        self.model.apply(&keys, &batch, self.rig.now);
        self.compare(&keys);
    }

    fn timer(&mut self, batch: Batch, slot: u32) -> Batch {
        let domain = Domain::ALL[self.dice.index(2)];
        let time = match self.dice.below(20) {
            0 => i64::MIN,
            1 => i64::MAX,
            _ => self.dice.below(12) - 3,
        };
        if self.dice.below(4) == 0 { batch.delete(slot, domain, time) } else { batch.register(slot, domain, time) }
    }

    fn write(&mut self, mut batch: Batch, slot: u32, states: &[StateDescriptor]) -> Batch {
        let state = u8::try_from(self.dice.index(states.len())).unwrap_or(0);
        let kind = states[usize::from(state)].kind;
        let entry = if kind == StateKind::Map { entry_key(self.dice.below(90)) } else { Vec::new() };
        match (self.dice.below(12), kind) {
            (0, _) => batch.clear(slot, state),
            (1 | 2, StateKind::List) => batch.touch(slot, state, &u32::try_from(self.dice.below(5)).unwrap_or(0).to_be_bytes()),
            (1 | 2, _) => batch.touch(slot, state, &entry),
            (3..6, StateKind::Map) => batch.remove_entry(slot, state, &entry),
            (6, StateKind::List | StateKind::Map) => {
                for n in 0..self.dice.below(90) {
                    batch = match kind {
                        StateKind::List => batch.append(slot, state, &n.to_le_bytes()),
                        _ => batch.put_entry(slot, state, &entry_key(n), &n.to_le_bytes()),
                    };
                }
                batch
            }
            (7, StateKind::Map) => (5..90).fold(batch, |batch, n| batch.remove_entry(slot, state, &entry_key(n))),
            (_, kind) => {
                let op = match kind {
                    StateKind::List => write_op::APPEND,
                    StateKind::Map => write_op::PUT_ENTRY,
                    _ => write_op::PUT,
                };
                let size = if self.dice.below(15) == 0 { self.dice.index(6_000) } else { self.dice.index(20) };
                let value = vec![u8::try_from(self.dice.below(200)).unwrap_or(0); size];
                batch.write(op, slot, state, &entry, &value)
            }
        }
    }

    /// Compares all that can be read of some keys.
    fn compare(&mut self, keys: &[&[u8]]) {
        self.rig.prefetch(keys);
        for (slot, of) in keys.iter().enumerate() {
            for (column, state) in [0u8, 3].into_iter().enumerate() {
                let expected = self.model.entries(of, state).pop().map(|found| found.1);
                assert_eq!(self.rig.cell(column, slot), expected, "{}: value {state} of {of:?}", self.at);
            }
            for (column, state) in [1u8, 2, 4, 5].into_iter().enumerate() {
                let expected = self.model.entries(of, state);
                let bytes: usize = expected.iter().map(|(key, value)| key.len() + value.len()).sum();
                let small = expected.len() <= PREFETCH_ENTRIES && bytes <= PREFETCH_BYTES;
                let found = self.rig.cells(column, slot);
                assert_eq!(found, small.then(|| expected.clone()), "{}: entries {state} of {of:?}", self.at);
                let is_list = state == 1 || state == 4;
                self.compare_lazily(of, state, &if is_list { numbered(expected) } else { expected });
            }
        }
    }

    fn compare_lazily(&mut self, of: &[u8], state: u8, expected: &[Pair]) {
        let from = self.dice.index(expected.len() + 1);
        let limit = self.dice.index(9);
        let after = from.checked_sub(1).map(|before| expected[before].0.clone());
        let page: Vec<Pair> = expected.iter().skip(from).take(limit).cloned().collect();
        assert_eq!(self.rig.scan(of, state, after.as_deref(), limit), page, "{}: scan {state} of {of:?}", self.at);
        if let Some((entry, value)) = expected.get(from) {
            assert_eq!(self.rig.get(of, state, entry).as_ref(), Some(value), "{}: get {state} of {of:?}", self.at);
        }
        assert_eq!(self.rig.get(of, state, &[255; 9]), None);
    }

    /// Fires a few timers.
    fn fire(&mut self) {
        let domain = Domain::ALL[self.dice.index(2)];
        let horizon = [self.dice.below(12) - 3, i64::MIN, i64::MAX][self.dice.index(8).saturating_sub(5)];
        let limit = 1 + self.dice.index(8);
        let due = self.rig.due(domain, horizon, limit);
        let (expected, joined) = self.model.due(domain, horizon, limit);
        let found: Vec<_> = rows(&due).into_iter().map(|(time, bytes)| (time, key(&bytes).group, bytes)).collect();
        assert_eq!((&found, due.horizon.0), (&expected, joined), "{}: due up to {horizon}, limit {limit}", self.at);
        let count = self.dice.index(found.len() + 1);
        self.rig.remove(domain, &due, count);
        for timer in &found[..count] {
            self.model.timers(domain).remove(timer);
        }
    }

    /// Goes on from a snapshot, after looking at it in parts.
    fn restore(&mut self, open: Open<'_>, states: &[StateDescriptor]) {
        let snapshot = self.rig.snapshot();
        let ids: Vec<Option<u8>> = (0..).take(states.len()).map(Some).collect();
        let parts = 1 + u32::try_from(self.dice.below(3)).unwrap_or(0);
        for part in 0..parts {
            let range = range_of(part, GROUPS, parts);
            let mut rig = Rig::new(open(states));
            rig.now = self.rig.now;
            rig.restore(&snapshot.iter().filter(|(group, _)| range.contains(&u32::from(group.0))).cloned().collect(), &ids);
            for domain in Domain::ALL {
                let expected = self.model.timers_in(domain, &|group| range.contains(&u32::from(group.0)));
                assert_eq!(rig.state.timer_count(domain), expected as u64, "{}: timers in part {part} of {parts}", self.at);
            }
        }
        let mut rig = Rig::new(open(states));
        rig.now = self.rig.now;
        rig.restore(&snapshot, &ids);
        assert!(rig.snapshot() == snapshot, "{}: a snapshot of what was restored must be the same", self.at);
        self.rig = rig;
        let names: Vec<Vec<u8>> = (0..26).map(name).collect();
        self.compare(&names.iter().map(|name| &name[..]).collect::<Vec<_>>());
    }
}

/// Keys of several lengths, some the beginning of others.
fn name(n: i64) -> Vec<u8> {
    vec![b'k'; usize::try_from(n / 3).unwrap_or(0)].into_iter().chain([u8::try_from(n).unwrap_or(0)]).collect()
}

fn entry_key(n: i64) -> Vec<u8> {
    n.to_be_bytes()[usize::try_from(n % 7).unwrap_or(0)..].to_vec()
}

/// List elements with their indexes as keys.
fn numbered(elements: Vec<Pair>) -> Vec<Pair> {
    (0u32..).zip(elements).map(|(index, (_, value))| (index.to_be_bytes().to_vec(), value)).collect()
}

/// `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }

    fn below(&mut self, bound: usize) -> i64 {
        i64::try_from(self.index(bound)).unwrap_or(0)
    }
}
