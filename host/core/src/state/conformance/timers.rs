//! Timers.

use tidemill_wit::descriptor::StateKind;

use super::Open;
use super::rig::{Batch, Rig, key, rows, state};
use crate::time::{Domain, Timestamp};

pub(super) fn order_and_duplicates(open: Open<'_>) {
    let mut rig = Rig::new(open(&[]));
    assert_eq!((rig.state.next_timer(Domain::Event), rig.state.timer_count(Domain::Event)), (None, 0));
    let batch = Batch::default().register(0, Domain::Event, 20).register(1, Domain::Event, 10).register(0, Domain::Event, 10);
    let batch = batch.register(0, Domain::Event, 20).register(2, Domain::Event, 10).register(0, Domain::Processing, 5);
    rig.apply(&[b"a", b"b", b"aa"], &batch.register(2, Domain::Event, 30).delete(2, Domain::Event, 30).delete(1, Domain::Event, 99));
    assert_eq!((rig.state.timer_count(Domain::Event), rig.state.timer_count(Domain::Processing)), (4, 1), "registered twice is once");
    assert_eq!(rig.state.next_timer(Domain::Event), Some(Timestamp(10)));
    assert_eq!(rows(&rig.due(Domain::Event, 9, 10)), []);
    let mut keys: Vec<&[u8]> = vec![b"a", b"b", b"aa"];
    keys.sort_by_key(|bytes| (key(bytes).group, *bytes));
    let expected: Vec<_> = keys.iter().map(|bytes| (10, bytes.to_vec())).chain([(20, b"a".to_vec())]).collect();
    let due = rig.due(Domain::Event, 20, 10);
    assert_eq!(rows(&due), expected, "by time, key group, key");
    assert_eq!((due.horizon, due.slots.len()), (Timestamp(20), 3), "all are here, so the pass's horizon holds");
    rig.remove(Domain::Event, &due, 2);
    assert_eq!(rows(&rig.due(Domain::Event, 20, 10)), expected[2..], "only removed ones are gone");
    assert_eq!(rows(&rig.due(Domain::Processing, 5, 10)), [(5, b"a".to_vec())]);
    let due = rig.due(Domain::Event, 20, 10);
    rig.remove(Domain::Event, &due, 2);
    assert_eq!((rig.state.key_count(), rig.state.next_timer(Domain::Event)), (1, None));
}

/// All that is due, or whole timestamps, or a part of one.
pub(super) fn limits(open: Open<'_>) {
    let mut rig = Rig::new(open(&[]));
    let names: Vec<[u8; 1]> = (0..10).map(|n| [n]).collect();
    let keys: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let times = [1, 1, 1, 2, 2, 3, 3, 3, 3, 3];
    let batch = times.iter().zip(0..).fold(Batch::default(), |batch, (time, slot)| batch.register(slot, Domain::Event, *time));
    rig.apply(&keys, &batch);
    let expect = |rig: &mut Rig, horizon, limit, count, joined| {
        let due = rig.due(Domain::Event, horizon, limit);
        assert_eq!((rows(&due).len(), due.horizon), (count, Timestamp(joined)), "horizon {horizon}, limit {limit}");
    };
    expect(&mut rig, 9, 10, 10, 9);
    expect(&mut rig, 3, 10, 10, 3);
    expect(&mut rig, 9, 9, 5, 2);
    expect(&mut rig, 9, 5, 5, 2);
    expect(&mut rig, 9, 4, 3, 1);
    expect(&mut rig, 1, 3, 3, 1);
    expect(&mut rig, 1, 2, 2, 1);
    expect(&mut rig, 9, 1, 1, 1);
    let parts = (0..4).flat_map(|_| {
        let due = rig.due(Domain::Event, 9, 3);
        rig.remove(Domain::Event, &due, due.slot.len());
        rows(&due)
    });
    let mut expected: Vec<_> = times.iter().zip(&keys).map(|(time, bytes)| (*time, key(bytes).group, bytes.to_vec())).collect();
    expected.sort();
    let expected: Vec<_> = expected.into_iter().map(|(time, _, bytes)| (time, bytes)).collect();
    assert_eq!(parts.collect::<Vec<_>>(), expected, "parts put together are the whole");
}

pub(super) fn extremes(open: Open<'_>) {
    let mut rig = Rig::new(open(&[]));
    let times = [i64::MAX, 0, i64::MIN, -7];
    rig.apply(&[b"k"], &times.iter().fold(Batch::default(), |batch, time| batch.register(0, Domain::Event, *time)));
    assert_eq!(rig.state.next_timer(Domain::Event), Some(Timestamp::MIN));
    assert_eq!(rows(&rig.due(Domain::Event, i64::MIN, 9)).len(), 1);
    assert_eq!(rows(&rig.due(Domain::Event, -7, 9)).len(), 2);
    let due = rig.due(Domain::Event, i64::MAX, 9);
    assert_eq!(due.timestamp, [i64::MIN, -7, 0, i64::MAX]);
    assert_eq!((due.slots.len(), due.horizon), (1, Timestamp::MAX), "a key with several timers is one slot");
}

/// Many timers at one time come in parts, in order; what is registered or deleted meanwhile is seen.
pub(super) fn many_at_one_time(open: Open<'_>) {
    // The first key group has more than two parts.
    const KEYS: u32 = if cfg!(debug_assertions) { 2_500 } else { 20_000 };
    const PART: usize = if cfg!(debug_assertions) { 80 } else { 1_024 };
    const DELETED: usize = PART + 70;
    let mut rig = Rig::new(open(&[state(StateKind::Value, None)]));
    let names: Vec<[u8; 4]> = (0..KEYS).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
    let mut keys: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
    rig.apply(&keys, &(0..KEYS).fold(Batch::default(), |batch, slot| batch.put(slot, 0, b"").register(slot, Domain::Event, 7)));
    keys.sort_by_key(|bytes| (key(bytes).group, *bytes));
    // A new key between the first two, of the same key group.
    let new = (0..=255).map(|n| [keys[0], &[n]].concat()).find(|name| key(name).group == key(keys[0]).group).expect("there are 8 groups");
    let mut fired = Vec::new();
    loop {
        let due = rig.due(Domain::Event, 7, PART);
        let count = due.slot.len();
        assert_eq!((due.horizon, count <= PART), (Timestamp(7), true));
        if count == 0 {
            break;
        }
        fired.extend(rows(&due).into_iter().map(|(_, bytes)| bytes));
        rig.remove(Domain::Event, &due, count);
        if fired.len() == PART {
            let meanwhile = [1, 2].into_iter().fold(Batch::default(), |batch, slot| batch.register(slot, Domain::Event, 7));
            rig.apply(&[keys[DELETED], keys[9], &new], &meanwhile.delete(0, Domain::Event, 7));
        }
    }
    let expected = [&keys[..PART], &[&new, keys[9]], &keys[PART..DELETED], &keys[DELETED + 1..]].concat();
    assert!(fired == expected, "parts put together, with what came meanwhile, are in order");
    assert_eq!(rig.state.key_count(), u64::from(KEYS));
}
