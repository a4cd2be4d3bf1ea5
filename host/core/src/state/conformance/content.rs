//! Values, lists and maps.

use tidemill_wit::descriptor::StateKind;

use super::Open;
use super::rig::{Batch, Rig, pair, state};
use crate::state::{PREFETCH_BYTES, PREFETCH_ENTRIES};
use crate::time::Domain;

const KINDS: [StateKind; 5] = [StateKind::Value, StateKind::List, StateKind::Map, StateKind::Reducing, StateKind::Aggregating];

pub(super) fn values(open: Open<'_>) {
    let mut rig = Rig::new(open(&KINDS.map(|kind| state(kind, None))));
    rig.prefetch(&[b"a", b"b"]);
    assert_eq!((rig.columns.values.len(), rig.columns.entries.len()), (3, 2), "one column per value, one per list or map");
    assert_eq!((rig.cell(0, 0), rig.cell(2, 1)), (None, None));
    rig.apply(&[b"a", b"b"], &Batch::default().put(0, 0, b"1").put(1, 4, b"22").put(0, 3, b""));
    rig.prefetch(&[b"b", b"a", b"c"]);
    assert_eq!([rig.cell(0, 0), rig.cell(0, 1), rig.cell(0, 2)], [None, Some(b"1".to_vec()), None]);
    assert_eq!([rig.cell(1, 0), rig.cell(1, 1)], [None, Some(Vec::new())], "an empty value is a value");
    assert_eq!([rig.cell(2, 0), rig.cell(2, 1)], [Some(b"22".to_vec()), None]);
    for value in [&b"longer than before"[..], b"s", &[7; 5_000], &[8; 70_000], &[9; 3_000], b"small"] {
        rig.apply(&[b"a"], &Batch::default().put(0, 0, value));
        assert_eq!(rig.value(b"a", 0).as_deref(), Some(value));
    }
    rig.apply(&[b"a"], &Batch::default().put(0, 0, &[1; 9_000]).clear(0, 0).put(0, 0, b"after").clear(0, 3).touch(0, 0, b""));
    rig.prefetch(&[b"a"]);
    assert_eq!([rig.cell(0, 0), rig.cell(1, 0)], [Some(b"after".to_vec()), None]);
}

pub(super) fn lists(open: Open<'_>) {
    let mut rig = Rig::new(open(&[state(StateKind::Value, None), state(StateKind::List, None)]));
    assert_eq!(rig.entries(b"k", 0), []);
    rig.apply(&[b"k"], &Batch::default().append(0, 1, b"z").append(0, 1, b"").append(0, 1, b"a"));
    assert_eq!(rig.entries(b"k", 0), [pair("", "z"), pair("", ""), pair("", "a")], "lists keep the order of insertion");
    assert_eq!(rig.get(b"k", 1, &1u32.to_be_bytes()), Some(Vec::new()));
    assert_eq!(rig.get(b"k", 1, &3u32.to_be_bytes()), None);
    rig.apply(&[b"k"], &Batch::default().clear(0, 1).append(0, 1, b"new"));
    assert_eq!(rig.entries(b"k", 0), [pair("", "new")], "a clear comes before what is appended after it");

    let many = (0..200u32).fold(Batch::default(), |batch, n| batch.append(0, 1, &n.to_le_bytes()));
    rig.apply(&[b"big"], &many);
    rig.prefetch(&[b"k", b"big", b"none"]);
    assert_eq!((rig.cells(0, 0).map(|found| found.len()), rig.cells(0, 1), rig.cells(0, 2)), (Some(1), None, Some(Vec::new())));
    assert_eq!(rig.get(b"big", 1, &199u32.to_be_bytes()), Some(199u32.to_le_bytes().to_vec()));
    let page = rig.scan(b"big", 1, Some(&9u32.to_be_bytes()), 2);
    let expected = [10u32, 11].map(|n| (n.to_be_bytes().to_vec(), n.to_le_bytes().to_vec()));
    assert_eq!(page, expected);
    assert_eq!(rig.scan(b"big", 1, None, 1_000).len(), 200);
    assert_eq!(rig.scan(b"k", 1, None, 1_000), [(0u32.to_be_bytes().to_vec(), b"new".to_vec())]);
    rig.apply(&[b"big"], &Batch::default().clear(0, 1));
    assert_eq!(rig.entries(b"big", 0), []);
}

pub(super) fn maps(open: Open<'_>) {
    let mut rig = Rig::new(open(&[state(StateKind::Map, None), state(StateKind::Value, None), state(StateKind::Map, None)]));
    let batch =
        Batch::default().put_entry(0, 0, b"m", b"1").put_entry(0, 0, b"a", b"2").put_entry(0, 0, b"", b"").put_entry(1, 2, b"x", b"9");
    rig.apply(&[b"k", b"l"], &batch.put(0, 1, b"value between"));
    assert_eq!(rig.entries(b"k", 0), [pair("", ""), pair("a", "2"), pair("m", "1")], "maps are in key order");
    assert_eq!((rig.cells(1, 0), rig.cell(0, 0)), (Some(Vec::new()), Some(b"value between".to_vec())));
    let batch = Batch::default()
        .put_entry(0, 0, b"a", b"longer")
        .remove_entry(0, 0, b"m")
        .remove_entry(0, 0, b"absent")
        .put_entry(0, 0, b"b", b"3");
    rig.apply(&[b"k"], &batch);
    assert_eq!(rig.entries(b"k", 0), [pair("", ""), pair("a", "longer"), pair("b", "3")]);
    assert_eq!((rig.get(b"k", 0, b"a"), rig.get(b"k", 0, b""), rig.get(b"k", 0, b"m")), (Some(b"longer".to_vec()), Some(Vec::new()), None));
    assert_eq!(rig.scan(b"k", 0, Some(b""), 1), [pair("a", "longer")]);
    assert_eq!(rig.scan(b"k", 0, Some(b"aa"), 9), [pair("b", "3")], "a scan may begin between entries");

    let many = (0..3_000u32).rev().fold(Batch::default(), |batch, n| batch.put_entry(0, 2, &n.to_be_bytes(), &n.to_le_bytes()));
    rig.apply(&[b"big"], &many);
    rig.prefetch(&[b"big"]);
    assert_eq!(rig.cells(1, 0), None);
    assert_eq!(rig.get(b"big", 2, &77u32.to_be_bytes()), Some(77u32.to_le_bytes().to_vec()));
    let page = rig.scan(b"big", 2, Some(&2_997u32.to_be_bytes()), 10);
    assert_eq!(page, [2_998u32, 2_999].map(|n| (n.to_be_bytes().to_vec(), n.to_le_bytes().to_vec())));
    let fewer = (5..3_000u32).fold(Batch::default(), |batch, n| batch.remove_entry(0, 2, &n.to_be_bytes()));
    rig.apply(&[b"big"], &fewer.put_entry(0, 2, &3u32.to_be_bytes(), b"three"));
    let left = rig.entries(b"big", 1);
    assert_eq!(left.iter().map(|found| found.1.len()).collect::<Vec<_>>(), [4, 4, 4, 5, 4], "a map that shrinks is prefetched again");
    rig.apply(&[b"big"], &Batch::default().clear(0, 2).put_entry(0, 2, b"n", b"1"));
    assert_eq!(rig.entries(b"big", 1), [pair("n", "1")]);
}

/// Entries are prefetched up to the limits exactly, by number and by bytes of keys and values.
pub(super) fn limits_of_prefetch(open: Open<'_>) {
    for kind in [StateKind::List, StateKind::Map] {
        for ttl in [None, Some(10)] {
            let mut rig = Rig::new(open(&[state(kind, ttl)]));
            let add = |batch: Batch, n: usize, value: &[u8]| match kind {
                StateKind::List => batch.append(0, 0, value),
                _ => batch.put_entry(0, 0, &u32::try_from(n).unwrap_or(0).to_be_bytes(), value),
            };
            let full = (0..PREFETCH_ENTRIES).fold(Batch::default(), |batch, n| add(batch, n, b"v"));
            rig.apply(&[b"k"], &full);
            assert_eq!(rig.entries(b"k", 0).len(), PREFETCH_ENTRIES);
            rig.apply(&[b"k"], &add(Batch::default(), PREFETCH_ENTRIES, b"v"));
            rig.prefetch(&[b"k"]);
            assert_eq!(rig.cells(0, 0), None, "one entry too many");

            let room = PREFETCH_BYTES - if kind == StateKind::Map { 4 } else { 0 };
            rig.apply(&[b"l"], &add(Batch::default(), 0, &vec![1; room]));
            assert_eq!(rig.entries(b"l", 0).len(), 1);
            rig.apply(&[b"m"], &add(Batch::default(), 0, &vec![1; room + 1]));
            rig.prefetch(&[b"m"]);
            assert_eq!(rig.cells(0, 0), None, "one byte too many");
        }
    }
}

pub(super) fn keys_vanish(open: Open<'_>) {
    let mut rig = Rig::new(open(&[state(StateKind::Value, None), state(StateKind::Map, None)]));
    let batch =
        Batch::default().put(0, 0, b"1").put_entry(1, 1, b"e", b"1").register(2, Domain::Event, 5).clear(3, 0).remove_entry(4, 1, b"e");
    rig.apply(&[b"a", b"b", b"c", b"d", b"e"], &batch.delete(5, Domain::Event, 1));
    assert_eq!(rig.state.key_count(), 3, "a clear, removal or deletion makes no key");
    rig.apply(&[b"a", b"b", b"c"], &Batch::default().clear(0, 0).put(0, 0, b"2").remove_entry(1, 1, b"e").register(1, Domain::Event, 5));
    assert_eq!(rig.state.key_count(), 3);
    rig.apply(&[b"a", b"b", b"c"], &Batch::default().clear(0, 0).delete(1, Domain::Event, 5).delete(2, Domain::Event, 6));
    assert_eq!(rig.state.key_count(), 1, "only the timer of c is left");
    let due = rig.due(Domain::Event, 5, 10);
    rig.remove(Domain::Event, &due, 1);
    assert_eq!(rig.state.key_count(), 0);
    // Places that became free are used again, also between a prefetch and the writes that follow it.
    rig.prefetch(&[b"x", b"y"]);
    rig.apply(&[b"z"], &Batch::default().put(0, 0, b"z"));
    rig.apply(&[b"x", b"y"], &Batch::default().put(1, 0, b"y").put(0, 0, b"x"));
    rig.prefetch(&[b"x", b"y", b"z", b"a"]);
    assert_eq!([0, 1, 2, 3].map(|slot| rig.cell(0, slot).unwrap_or_default()), [&b"x"[..], b"y", b"z", b""]);
}

/// Reads that name what does not exist, as guests may, find nothing.
pub(super) fn hostile_reads(open: Open<'_>) {
    let mut rig = Rig::new(open(&[state(StateKind::Value, None), state(StateKind::List, None), state(StateKind::Map, None)]));
    rig.apply(&[b"k"], &Batch::default().put(0, 0, b"v").append(0, 1, b"v").put_entry(0, 2, b"e", b"v"));
    for (of, state, entry) in
        [(&b"k"[..], 0, &b""[..]), (b"k", 3, b""), (b"k", 1, b"abc"), (b"k", 1, b"\xff\xff\xff\xff"), (b"none", 2, b"e")]
    {
        assert_eq!(rig.get(of, state, entry), None, "state {state}, entry {entry:?}");
    }
    for (of, state, after) in [(&b"k"[..], 0, None), (b"k", 255, None), (b"k", 1, Some(&b"\xff\xff\xff\xff"[..])), (b"k", 1, Some(b"x"))] {
        assert_eq!(rig.scan(of, state, after, usize::MAX), [], "state {state}, after {after:?}");
    }
    assert_eq!(rig.scan(b"k", 2, None, 0), []);
}
