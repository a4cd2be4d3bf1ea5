//! State that is recorded while it goes on changing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tidemill_wit::descriptor::{StateKind, write_op};

use super::state;
use crate::Result;
use crate::checkpoint::manifest::FileFormat;
use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::effects::{TimerOps, Writes};
use crate::key_group::{KeyGroup, hash_key};
use crate::state::conformance::{Before, conformance};
use crate::state::layout::{Writer, merge};
use crate::state::{Frozen, FrozenFile, Journal, KeyedState, MemoryState, Piece, Recording, pass_pieces};
use crate::time::Timestamp;

type Groups = Vec<(KeyGroup, Vec<u8>)>;

/// What is recorded, in memory.
#[derive(Clone, Default)]
struct Recorder {
    pieces: Arc<Mutex<Vec<Piece>>>,
    whole: Arc<Mutex<bool>>,
}

struct Nowhere;

impl Frozen for Nowhere {
    fn format(&self) -> FileFormat {
        FileFormat::KeyGroups
    }

    fn files(&mut self) -> Result<Vec<FrozenFile>> {
        Ok(Vec::new())
    }

    fn groups(&mut self, _: &mut dyn FnMut(KeyGroup, &[u8]) -> Result<()>) -> Result<()> {
        Ok(())
    }
}

impl Journal for Recorder {
    fn begin(&mut self) -> Result<Recording> {
        let pieces = Arc::clone(&self.pieces);
        let take = Box::new(move |piece| pieces.lock().unwrap().push(piece));
        Ok(Recording { whole: *self.whole.lock().unwrap(), take, frozen: Box::new(Nowhere) })
    }
}

/// Records a state again and again: each record, with those before it, must be the state as it was when the record began.
struct Recordings {
    recorder: Recorder,
    /// The groups of each record since the last whole one.
    records: Vec<Groups>,
    /// What the record under way must come to.
    expected: Option<Groups>,
    calls: usize,
    every: usize,
    step: usize,
}

impl Recordings {
    fn turn(&mut self, state: &mut MemoryState) {
        self.calls += 1;
        if self.expected.is_some() && self.step > 0 {
            state.record_up_to(self.step);
        }
        if self.calls.is_multiple_of(self.every) {
            self.end(state);
            // Now and then the records are lost.
            let whole = self.records.is_empty() || self.records.len() > 5;
            if whole {
                self.records.clear();
            }
            *self.recorder.whole.lock().unwrap() = whole;
            self.expected = Some(content(state));
            state.freeze().unwrap().unwrap();
        }
    }

    fn end(&mut self, state: &mut MemoryState) {
        let Some(expected) = self.expected.take() else { return };
        state.record_up_to(usize::MAX);
        let pieces = std::mem::take(&mut *self.recorder.pieces.lock().unwrap());
        let last: Vec<bool> = pieces.iter().map(|piece| piece.last).collect();
        assert!(last.last() == Some(&true) && last.iter().filter(|last| **last).count() == 1, "one piece ends a record: {last:?}");
        let mut groups = Groups::new();
        let mut each = |group, bytes: &[u8]| {
            groups.push((group, bytes.to_vec()));
            Ok(())
        };
        pass_pieces(&pieces, &mut each).unwrap();
        self.records.push(groups);
        assert!(self.merged() == expected, "the records are not the state as it was");
    }

    fn merged(&self) -> Groups {
        let (mut merged, mut writer) = (Groups::new(), Writer::default());
        for group in self.records.iter().flatten().map(|(group, _)| *group).collect::<BTreeSet<_>>() {
            let of_group = |groups: &Groups| Some(groups.iter().find(|(of, _)| *of == group)?.1.clone());
            let parts: Vec<Vec<u8>> = self.records.iter().filter_map(of_group).collect();
            if !parts.is_empty()
                && let Some(bytes) = merge(group, &parts, &mut writer).unwrap()
            {
                merged.push((group, bytes.to_vec()));
            }
        }
        merged
    }
}

fn content(state: &mut MemoryState) -> Groups {
    let mut groups = Groups::new();
    state.snapshot(&mut |group, bytes| groups.push((group, bytes.to_vec()))).unwrap();
    groups
}

#[test]
fn a_record_is_the_state_as_it_was() {
    for (every, step) in [(2, 0), (7, 1), (20, 3)] {
        conformance(&mut |states| {
            let recorder = Recorder::default();
            let state = MemoryState::new(states).with_journal(Box::new(recorder.clone())).even_if_small();
            let mut recordings = Recordings { recorder, records: Vec::new(), expected: None, calls: 0, every, step };
            Box::new(Before { state, turn: move |state: &mut MemoryState| recordings.turn(state) })
        });
    }
}

#[test]
fn little_state_is_not_recorded() {
    let recorder = Recorder::default();
    let mut state = MemoryState::new(&[state(StateKind::Value, None)]).with_journal(Box::new(recorder));
    assert!(state.freeze().unwrap().is_none() && !state.go_on_freezing().unwrap());
    let mut writer = Writer::default();
    writer.begin(KeyGroup(3));
    for key in 0..1_024u32 {
        writer.key(&key.to_be_bytes());
        writer.value(0, None, b"v");
        writer.timers(&[], &[]);
    }
    state.restore(KeyGroup(3), writer.finish(), &[Some(0)]).unwrap();
    assert!(state.freeze().unwrap().is_some() && !state.go_on_freezing().unwrap());
}

/// Much state is recorded in several turns, and handed over in several pieces.
#[test]
fn a_record_takes_turns() {
    let recorder = Recorder::default();
    let mut state = MemoryState::new(&[state(StateKind::Value, None)]).with_journal(Box::new(recorder.clone()));
    let mut writer = Writer::default();
    writer.begin(KeyGroup(3));
    for key in 0..5_000u32 {
        writer.key(&key.to_be_bytes());
        writer.value(0, None, &[7; 100]);
        writer.timers(&[1], &[]);
    }
    let written = writer.finish().to_vec();
    state.restore(KeyGroup(3), &written, &[Some(0)]).unwrap();
    state.freeze().unwrap().unwrap();
    let mut turns = 1;
    while state.go_on_freezing().unwrap() {
        turns += 1;
    }
    assert_eq!(turns, 3, "two turns of 2,048 keys, and what is left");
    let pieces = std::mem::take(&mut *recorder.pieces.lock().unwrap());
    let sizes: Vec<usize> = pieces.iter().map(Piece::bytes).collect();
    assert!(sizes.len() == 4 && sizes[0] == 0 && sizes[1..3].iter().all(|size| (262_144..262_400).contains(size)), "{sizes:?}");
    let mut groups = Groups::new();
    let mut each = |group, bytes: &[u8]| {
        groups.push((group, bytes.to_vec()));
        Ok(())
    };
    pass_pieces(&pieces, &mut each).unwrap();
    assert!(groups == [(KeyGroup(3), written)]);
}

fn slots(key: &[u8]) -> SlotKeys {
    let mut slots = SlotKeys::default();
    slots.push(KeyRef { bytes: key, hash: hash_key(key), group: KeyGroup(3) });
    slots
}

/// Writes some elements or one value to the first state of a key.
fn write(state: &mut MemoryState, key: &[u8], op: u8, values: &[&[u8]], now: i64) {
    let mut writes = Writes { op: vec![op; values.len()], state: vec![0; values.len()], slot: vec![0; values.len()], ..Writes::default() };
    for value in values {
        writes.entry.push(b"");
        writes.value.push(value);
    }
    state.apply(&slots(key), &writes, &TimerOps::default(), Timestamp(now)).unwrap();
}

/// The keys of a record that is made now.
fn recorded(state: &mut MemoryState, recorder: &Recorder) -> Vec<Vec<u8>> {
    state.freeze().unwrap().unwrap();
    state.record_up_to(usize::MAX);
    let pieces = std::mem::take(&mut *recorder.pieces.lock().unwrap());
    let mut keys: Vec<Vec<u8>> = pieces.iter().flat_map(|piece| piece.iter().map(|(_, _, key, _)| key.to_vec())).collect();
    keys.sort();
    keys
}

#[test]
fn what_is_only_read_is_not_recorded_again() {
    for (kind, op, size) in
        [(StateKind::Value, write_op::PUT, 3), (StateKind::List, write_op::APPEND, 3), (StateKind::Value, write_op::PUT, 9_000)]
    {
        for ttl in [None, Some(1_000)] {
            let recorder = Recorder::default();
            let mut state = MemoryState::new(&[state(kind, ttl)]).with_journal(Box::new(recorder.clone())).even_if_small();
            for key in [b"a", b"b"] {
                write(&mut state, key, op, &[&vec![7; size]], 0);
            }
            assert_eq!(recorded(&mut state, &recorder), [b"a", b"b"]);
            state.prefetch(&slots(b"a"), Timestamp(1), &mut Prefetched::default()).unwrap();
            // A look at large content may remove some of it.
            let expected: &[&[u8]] = if size > 5_000 && ttl.is_some() { &[b"a"] } else { &[] };
            assert_eq!(recorded(&mut state, &recorder), expected, "{kind:?}, {size} bytes, TTL {ttl:?}");
            write(&mut state, b"b", op, &[b"new"], 2);
            assert_eq!(recorded(&mut state, &recorder), [b"b"]);
        }
    }
}

/// A look at a large list removes what has expired, which a record under way still has.
#[test]
fn what_a_look_removes_is_recorded_before() {
    let recorder = Recorder::default();
    let mut state = MemoryState::new(&[state(StateKind::List, Some(100))]).with_journal(Box::new(recorder.clone())).even_if_small();
    let elements = [&[7; 50][..]; 200];
    write(&mut state, b"k", write_op::APPEND, &elements, 0);
    write(&mut state, b"k", write_op::APPEND, &elements[..100], 60);
    let before = content(&mut state);
    state.freeze().unwrap().unwrap();
    state.prefetch(&slots(b"k"), Timestamp(120), &mut Prefetched::default()).unwrap();
    assert!(content(&mut state) != before, "what has expired is gone");
    state.record_up_to(usize::MAX);
    let pieces = std::mem::take(&mut *recorder.pieces.lock().unwrap());
    let mut groups = Groups::new();
    let mut each = |group, bytes: &[u8]| {
        groups.push((group, bytes.to_vec()));
        Ok(())
    };
    pass_pieces(&pieces, &mut each).unwrap();
    assert!(groups == before);
}
