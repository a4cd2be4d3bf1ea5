//! Snapshots.

use tidemill_wit::descriptor::StateKind;

use super::Open;
use super::rig::{Batch, GROUPS, Rig, Snapshot, key, pair, state};
use crate::error::Kind;
use crate::key_group::{KeyGroup, range_of};
use crate::state::layout::Writer;
use crate::time::{Domain, Timestamp};

const KINDS: [StateKind; 3] = [StateKind::Value, StateKind::List, StateKind::Map];
const ALL: [Option<u8>; 3] = [Some(0), Some(1), Some(2)];

/// What is restored at other group ranges is there, in its part only.
pub(super) fn round_trip(open: Open<'_>) {
    let states = KINDS.map(|kind| state(kind, None));
    let mut rig = Rig::new(open(&states));
    assert_eq!(rig.snapshot(), [], "nothing has no bytes");
    let names: Vec<[u8; 2]> = (0..100u16).map(u16::to_be_bytes).collect();
    for name in &names {
        let batch =
            Batch::default().put(0, 0, name).append(0, 1, b"x").append(0, 1, name).put_entry(0, 2, name, b"1").put_entry(0, 2, b"", b"2");
        rig.apply(&[name], &batch.register(0, Domain::Event, 3).register(0, Domain::Event, -3).register(0, Domain::Processing, 4));
    }
    let snapshot = rig.snapshot();
    for parts in [1, 3] {
        for part in 0..parts {
            let range = range_of(part, GROUPS, parts);
            let own: Snapshot = snapshot.iter().filter(|(group, _)| range.contains(&u32::from(group.0))).cloned().collect();
            let mut rig = Rig::new(open(&states));
            rig.restore(&own, &ALL);
            assert_eq!(rig.snapshot(), own, "a snapshot of what was restored is the same");
            let mut keys = 0;
            for name in &names {
                let here = range.contains(&u32::from(key(name).group.0));
                keys += u64::from(here);
                let value = rig.value(name, 0);
                let (list, map) = (rig.entries(name, 0), rig.entries(name, 1));
                if here {
                    assert_eq!(value.as_deref(), Some(&name[..]));
                    assert_eq!(list, [pair("", "x"), (vec![], name.to_vec())]);
                    assert_eq!(map, [pair("", "2"), (name.to_vec(), b"1".to_vec())]);
                } else {
                    assert_eq!((value, list, map), (None, vec![], vec![]));
                }
            }
            assert_eq!(rig.state.key_count(), keys);
            assert_eq!(Domain::ALL.map(|domain| rig.state.timer_count(domain)), [2 * keys, keys]);
            assert_eq!(rig.state.next_timer(Domain::Event), Some(Timestamp(-3)));
        }
    }
}

/// The order of what happened leaves no trace, nor does what is gone.
pub(super) fn equal_state_gives_equal_bytes(open: Open<'_>) {
    let states = KINDS.map(|kind| state(kind, Some(50)));
    let mut forth = Rig::new(open(&states));
    let mut back = Rig::new(open(&states));
    let names: Vec<[u8; 2]> = (0..50u16).map(u16::to_be_bytes).collect();
    let fill = |rig: &mut Rig, name: &[u8]| {
        let batch = Batch::default().put(0, 0, b"v").put_entry(0, 2, b"a", b"1").put_entry(0, 2, b"b", b"2").append(0, 1, b"e");
        rig.apply(&[name], &batch.register(0, Domain::Event, 1).register(0, Domain::Event, 2));
    };
    back.apply(&[b"gone"], &Batch::default().put(0, 0, &[1; 9_000]).register(0, Domain::Event, 1));
    back.apply(&[&names[7]], &(0..90u32).fold(Batch::default(), |batch, n| batch.put_entry(0, 2, &n.to_be_bytes(), b"x")));
    names.iter().for_each(|name| fill(&mut forth, name));
    back.apply(&[b"gone", &names[7]], &Batch::default().clear(0, 0).delete(0, Domain::Event, 1).clear(1, 2));
    names.iter().rev().for_each(|name| fill(&mut back, name));
    assert_eq!(forth.snapshot(), back.snapshot());
}

/// A key block replaces what the key had; a tombstone removes the key.
pub(super) fn deltas(open: Open<'_>) {
    let mut rig = Rig::new(open(&KINDS.map(|kind| state(kind, None))));
    let group = key(b"k").group;
    let others: Vec<Vec<u8>> = (0..200u16).map(|n| n.to_be_bytes().to_vec()).filter(|name| key(name).group == group).take(3).collect();
    let batch =
        Batch::default().put(0, 0, b"old").put_entry(0, 2, b"old", b"1").register(0, Domain::Event, 1).register(0, Domain::Processing, 1);
    rig.apply(&[b"k"], &batch);
    let large = (0..100u32).fold(Batch::default(), |batch, n| batch.append(0, 1, b"x").put_entry(0, 2, &n.to_be_bytes(), b""));
    rig.apply(&[&others[0]], &large.register(0, Domain::Event, 1));
    rig.apply(&[&others[1]], &Batch::default().put(0, 0, b"stays").register(0, Domain::Event, 9));
    let mut writer = Writer::default();
    writer.begin(group);
    let mut keys = [(b"k".to_vec(), true), (others[0].clone(), false), (others[2].clone(), false)];
    keys.sort();
    for (name, new) in &keys {
        if *new {
            writer.key(name);
            writer.value(0, None, b"new");
            writer.timers(&[2], &[]);
        } else {
            writer.tombstone(name);
        }
    }
    rig.restore(&vec![(group, writer.finish().to_vec())], &ALL);
    assert_eq!((rig.value(b"k", 0), rig.entries(b"k", 1)), (Some(b"new".to_vec()), vec![]));
    assert_eq!(rig.entries(&others[0], 0), [], "a tombstone removes");
    assert_eq!(rig.value(&others[1], 0), Some(b"stays".to_vec()));
    assert_eq!((rig.state.key_count(), Domain::ALL.map(|domain| rig.state.timer_count(domain))), (2, [2, 0]));
    assert_eq!(rig.due(Domain::Event, 9, 9).timestamp, [2, 9]);
}

/// States may have other ids than in the snapshot, be new, or be dropped for good.
pub(super) fn changed_states(open: Open<'_>) {
    let mut old = Rig::new(open(&KINDS.map(|kind| state(kind, None))));
    old.apply(&[b"k"], &Batch::default().put(0, 0, b"v").append(0, 1, b"e").put_entry(0, 2, b"a", b"1"));
    old.apply(&[b"list"], &Batch::default().append(0, 1, b"e"));
    let snapshot = old.snapshot();
    let mut new = Rig::new(open(&[state(StateKind::Map, None), state(StateKind::Reducing, None), state(StateKind::Value, None)]));
    new.restore(&snapshot, &[Some(2), None, Some(0)]);
    assert_eq!((new.value(b"k", 1), new.value(b"k", 0)), (Some(b"v".to_vec()), None));
    assert_eq!(new.entries(b"k", 0), [pair("a", "1")]);
    assert_eq!(new.state.key_count(), 1, "a key of which nothing is left is none");

    // Two states of one kind change places.
    let values = || [state(StateKind::Value, None), state(StateKind::Value, None)];
    let mut old = Rig::new(open(&values()));
    old.apply(&[b"k"], &Batch::default().put(0, 0, b"first").put(0, 1, b"second"));
    let both = old.snapshot();
    let mut new = Rig::new(open(&values()));
    new.restore(&both, &[Some(1), Some(0)]);
    assert_eq!((new.value(b"k", 0), new.value(b"k", 1)), (Some(b"second".to_vec()), Some(b"first".to_vec())));

    for states in [&[Some(0), None, Some(0)][..], &[Some(2), None], &[Some(9), None, Some(0)]] {
        let mut wrong = Rig::new(open(&[state(StateKind::Map, None), state(StateKind::Value, None), state(StateKind::Value, None)]));
        let refused = snapshot.iter().find_map(|(group, bytes)| wrong.state.restore(*group, bytes, states).err());
        assert_eq!(refused.map(|error| error.kind()), Some(Kind::Corrupt), "{states:?}");
    }
}

/// Bytes that were cut or flipped are refused as a whole.
pub(super) fn bad_bytes_change_nothing(open: Open<'_>) {
    let states = KINDS.map(|kind| state(kind, Some(10)));
    let mut rig = Rig::new(open(&states));
    rig.apply(&[b"k"], &Batch::default().put(0, 0, b"v").append(0, 1, b"e").put_entry(0, 2, b"a", b"1").register(0, Domain::Event, 1));
    let snapshot = rig.snapshot();
    let (group, bytes) = &snapshot[0];
    let mut bad: Vec<Vec<u8>> = (0..bytes.len()).map(|len| bytes[..len].to_vec()).collect();
    bad.extend((0..bytes.len() * 8).map(|bit| {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    }));
    for bad in bad {
        let error = rig.state.restore(*group, &bad, &ALL).expect_err("bad bytes must be refused");
        assert_eq!(error.kind(), Kind::Corrupt);
    }
    assert!(rig.state.restore(KeyGroup(group.0 + 1), bytes, &ALL).is_err(), "the bytes of another key group");
    assert_eq!(rig.snapshot(), snapshot);
}
