//! State that is recorded while it goes on changing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tidemill_wit::descriptor::{StateDescriptor, StateKind};

use super::state;
use crate::Result;
use crate::checkpoint::manifest::FileFormat;
use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::effects::{TimerOps, Writes};
use crate::key_group::KeyGroup;
use crate::state::conformance::conformance;
use crate::state::layout::{Writer, merge};
use crate::state::{DueTimers, Frozen, FrozenFile, Journal, KeyedState, MemoryState, Piece, Recording, Scan, pass_pieces};
use crate::time::{Domain, Timestamp};

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

/// A state that is recorded again and again: each record, with those before it, must be the state as it was when the record began.
struct Recorded {
    state: MemoryState,
    recorder: Recorder,
    /// The groups of each record since the last whole one.
    records: Vec<Groups>,
    /// What the record under way must come to.
    expected: Option<Groups>,
    calls: usize,
    every: usize,
    step: usize,
}

impl Recorded {
    fn new(states: &[StateDescriptor], every: usize, step: usize) -> Self {
        let recorder = Recorder::default();
        *recorder.whole.lock().unwrap() = true;
        let state = MemoryState::new(states).with_journal(Box::new(recorder.clone())).even_if_small();
        Self { state, recorder, records: Vec::new(), expected: None, calls: 0, every, step }
    }

    fn turn(&mut self) -> &mut MemoryState {
        self.calls += 1;
        if self.expected.is_some() && self.step > 0 {
            self.state.record_up_to(self.step);
        }
        if self.calls.is_multiple_of(self.every) {
            self.end();
            // Now and then the records are lost.
            let whole = self.records.is_empty() || self.records.len() > 5;
            if whole {
                self.records.clear();
            }
            *self.recorder.whole.lock().unwrap() = whole;
            self.expected = Some(content(&mut self.state));
            self.state.freeze().unwrap().unwrap();
        }
        &mut self.state
    }

    fn end(&mut self) {
        let Some(expected) = self.expected.take() else { return };
        self.state.record_up_to(usize::MAX);
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

impl KeyedState for Recorded {
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
        self.turn().expire(now)
    }

    fn snapshot(&mut self, into: &mut dyn FnMut(KeyGroup, &[u8])) -> Result<()> {
        self.end();
        self.state.snapshot(into)
    }

    fn restore(&mut self, group: KeyGroup, bytes: &[u8], states: &[Option<u8>]) -> Result<()> {
        self.turn().restore(group, bytes, states)
    }
}

#[test]
fn a_record_is_the_state_as_it_was() {
    for (every, step) in [(2, 0), (7, 1), (20, 3)] {
        conformance(&mut |states| Box::new(Recorded::new(states, every, step)));
    }
}

#[test]
fn little_state_is_not_recorded() {
    let recorder = Recorder::default();
    let mut state = MemoryState::new(&[state(StateKind::Value, None)]).with_journal(Box::new(recorder));
    assert!(state.freeze().unwrap().is_none() && !state.go_on_freezing());
    let mut writer = Writer::default();
    writer.begin(KeyGroup(3));
    for key in 0..1_024u32 {
        writer.key(&key.to_be_bytes());
        writer.value(0, None, b"v");
        writer.timers(&[], &[]);
    }
    state.restore(KeyGroup(3), writer.finish(), &[Some(0)]).unwrap();
    assert!(state.freeze().unwrap().is_some() && !state.go_on_freezing());
}
