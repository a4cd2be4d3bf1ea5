//! Broadcast state of one operator: maps of which every subtask holds the same copy, kept in memory as in Flink.

use std::collections::BTreeMap;
use std::ops::Bound;

use tidemill_wit::descriptor::write_op;

use super::{Migration, OneNan};
use crate::effects::Writes;
use crate::{Error, Result};

/// The broadcast states of one operator's subtask. Ids of states are indexes into the descriptor's broadcast states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BroadcastStates {
    states: Vec<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl BroadcastStates {
    /// So many empty states.
    #[must_use]
    pub fn new(states: usize) -> Self {
        Self { states: vec![BTreeMap::new(); states] }
    }

    /// The number of states.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there are no states.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// The value of an entry.
    #[must_use]
    pub fn get(&self, state: u8, entry: &[u8]) -> Option<&[u8]> {
        self.states.get(usize::from(state))?.get(entry).map(Vec::as_slice)
    }

    /// Entries in order after `after` (exclusive).
    pub fn scan(&self, state: u8, after: Option<&[u8]>) -> impl Iterator<Item = (&[u8], &[u8])> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.states.get(usize::from(state)).map(|entries| entries.range::<[u8], _>((from, Bound::Unbounded)));
        entries.into_iter().flatten().map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    /// Applies checked writes.
    pub fn apply(&mut self, writes: &Writes) {
        for (row, (&op, &state)) in writes.op.iter().zip(&writes.state).enumerate() {
            let Some(entries) = self.states.get_mut(usize::from(state)) else { continue };
            match op {
                write_op::CLEAR => entries.clear(),
                write_op::PUT_ENTRY => _ = entries.insert(writes.entry.get(row).to_vec(), writes.value.get(row).to_vec()),
                write_op::REMOVE_ENTRY => _ = entries.remove(writes.entry.get(row)),
                _ => {}
            }
        }
    }

    /// The states of a snapshot, by their ids there.
    ///
    /// # Errors
    /// The bytes are not such a snapshot.
    pub fn read(bytes: &[u8], count: usize) -> Result<Self> {
        let mut states = Self::new(count);
        let ids: Vec<Option<u8>> = (0..=u8::MAX).take(count).map(Some).collect();
        states.restore(bytes, &ids, &Migration::default())?;
        Ok(states)
    }

    /// Appends everything: per entry the state's id, then key and value, each after its length as a little-endian u32.
    #[expect(clippy::cast_possible_truncation, reason = "an entry is far below 4 GiB: it came out of one call")]
    pub fn snapshot(&self, into: &mut Vec<u8>) {
        for (state, entries) in (0u8..).zip(&self.states) {
            for (key, value) in entries {
                into.push(state);
                for part in [key, value] {
                    into.extend_from_slice(&(part.len() as u32).to_le_bytes());
                    into.extend_from_slice(part);
                }
            }
        }
    }

    /// Adds what [`snapshot`](Self::snapshot) wrote. `states` maps the ids of the snapshot to today's; a state that maps to `None` is
    /// dropped. `migration` says by the ids of the snapshot how values change.
    ///
    /// # Errors
    /// The bytes are not such a snapshot.
    pub fn restore(&mut self, bytes: &[u8], states: &[Option<u8>], migration: &Migration) -> Result<()> {
        self.restore_with(bytes, states, migration, None)
    }

    /// The same of a snapshot in which NaN can be several keys.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub fn restore_with(&mut self, mut bytes: &[u8], states: &[Option<u8>], migration: &Migration, one_nan: Option<&OneNan>) -> Result<()> {
        while let Some((&state, rest)) = bytes.split_first() {
            bytes = rest;
            let entry = part(&mut bytes).zip(part(&mut bytes)).zip(states.get(usize::from(state)));
            let Some(((key, value), today)) = entry else {
                return Err(Error::corrupt("broadcast state is cut off, or of a state that the checkpoint does not describe"));
            };
            if let Some(entries) = today.and_then(|today| self.states.get_mut(usize::from(today))) {
                let value = migration.value(state, value)?;
                let today = one_nan.map_or_else(|| key.to_vec(), |one| one.entry(state, key));
                if today == key {
                    entries.insert(today, value);
                } else {
                    entries.entry(today).or_insert(value);
                }
            }
        }
        Ok(())
    }
}

fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use tidemill_wit::descriptor::write_op;

    use super::BroadcastStates;
    use crate::effects::Writes;
    use crate::state::Migration;

    fn write(states: &mut BroadcastStates, op: u8, state: u8, entry: &[u8], value: &[u8]) {
        let mut writes = Writes { op: vec![op], state: vec![state], slot: vec![0], ..Writes::default() };
        writes.entry.push(entry);
        writes.value.push(value);
        states.apply(&writes);
    }

    fn sample() -> BroadcastStates {
        let mut states = BroadcastStates::new(2);
        for (state, key) in [(0, b"b"), (0, b"a"), (1, b"z"), (0, b"c")] {
            write(&mut states, write_op::PUT_ENTRY, state, key, &[state, 7]);
        }
        states
    }

    #[test]
    fn entries_come_in_order() {
        let mut states = sample();
        let keys = |states: &BroadcastStates, after| states.scan(0, after).map(|(key, _)| key.to_vec()).collect::<Vec<_>>().concat();
        assert_eq!((keys(&states, None), keys(&states, Some(b"a"))), (b"abc".to_vec(), b"bc".to_vec()));
        write(&mut states, write_op::REMOVE_ENTRY, 0, b"b", b"");
        assert_eq!((states.get(0, b"b"), states.get(0, b"c"), states.get(9, b"c")), (None, Some(&[0, 7][..]), None));
        write(&mut states, write_op::CLEAR, 0, b"", b"");
        assert_eq!((keys(&states, None), states.get(1, b"z")), (vec![], Some(&[1, 7][..])));
    }

    #[test]
    fn states_are_counted() {
        let (none, two) = (BroadcastStates::new(0), sample());
        assert_eq!(((none.len(), none.is_empty()), (two.len(), two.is_empty())), ((0, true), (2, false)));
    }

    #[test]
    fn a_snapshot_comes_back_under_new_ids() {
        let (states, mut bytes) = (sample(), Vec::new());
        states.snapshot(&mut bytes);
        let mut same = BroadcastStates::new(2);
        same.restore(&bytes, &[Some(0), Some(1)], &Migration::default()).unwrap();
        assert_eq!(same, states);
        assert_eq!(BroadcastStates::read(&bytes, 2).unwrap(), states);
        assert!(BroadcastStates::read(&bytes, 1).is_err(), "it holds two states");
        let mut moved = BroadcastStates::new(1);
        moved.restore(&bytes, &[None, Some(0)], &Migration::default()).unwrap();
        assert_eq!(moved.scan(0, None).collect::<Vec<_>>(), [(&b"z"[..], &[1, 7][..])]);
    }

    #[test]
    fn a_snapshot_with_several_nans_has_one() {
        let floats = tidemill_wit::schema::TypeTable::of(tidemill_wit::schema::Type::F64);
        let one = super::OneNan::of(None, [Some(&floats)].into_iter(), 128).unwrap();
        let (canonical, other) = (0xFFF8_0000_0000_0000u64.to_be_bytes(), 0xFFF8_0000_0000_0001u64.to_be_bytes());
        for (keys, expected) in [(&[canonical, other][..], 0), (&[other], 1)] {
            let (mut states, mut bytes) = (BroadcastStates::new(1), Vec::new());
            keys.iter().for_each(|key| write(&mut states, write_op::PUT_ENTRY, 0, key, &[u8::from(*key == other)]));
            states.snapshot(&mut bytes);
            let mut restored = BroadcastStates::new(1);
            restored.restore_with(&bytes, &[Some(0)], &Migration::default(), Some(&one)).unwrap();
            assert_eq!(restored.scan(0, None).collect::<Vec<_>>(), [(&canonical[..], &[expected][..])]);
        }
    }

    #[test]
    fn damaged_snapshots_are_refused() {
        let mut bytes = Vec::new();
        sample().snapshot(&mut bytes);
        let whole = bytes.len() / 4;
        for len in (1..bytes.len()).filter(|len| len % whole != 0) {
            assert!(BroadcastStates::new(2).restore(&bytes[..len], &[Some(0), Some(1)], &Migration::default()).is_err(), "cut to {len}");
        }
        assert!(BroadcastStates::new(2).restore(&bytes, &[Some(0)], &Migration::default()).is_err(), "an unknown state");
    }
}
