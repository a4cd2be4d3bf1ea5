//! Time to live.

use tidemill_wit::descriptor::{StateDescriptor, StateKind, TtlUpdate};

use super::Open;
use super::rig::{Batch, Rig, pair, state};
use crate::time::Domain;

pub(super) fn values(open: Open<'_>) {
    for kind in [StateKind::Value, StateKind::Reducing, StateKind::Aggregating] {
        let mut rig = Rig::new(open(&[state(kind, Some(100)), state(StateKind::Value, None)]));
        rig.apply(&[b"k"], &Batch::default().put(0, 0, b"v").put(0, 1, b"stays"));
        rig.now += 99;
        assert_eq!(rig.value(b"k", 0), Some(b"v".to_vec()));
        rig.now += 1;
        assert_eq!(rig.value(b"k", 0), None, "expired once written + ttl <= now");
        assert_eq!(rig.value(b"k", 1), Some(b"stays".to_vec()));
        rig.apply(&[b"k"], &Batch::default().put(0, 0, b"again"));
        rig.now += 60;
        rig.apply(&[b"k"], &Batch::default().put(0, 0, &[3; 9_000]));
        rig.now += 60;
        assert_eq!(rig.value(b"k", 0), Some(vec![3; 9_000]), "a write renews");
        rig.now += 40;
        assert_eq!(rig.value(b"k", 0), None);
    }
    let mut rig = Rig::new(open(&[state(StateKind::Value, Some(i64::MAX))]));
    rig.apply(&[b"k"], &Batch::default().put(0, 0, b"v"));
    rig.now = i64::MAX - 1;
    assert_eq!(rig.value(b"k", 0), Some(b"v".to_vec()), "the end of life is held within the range of time");
}

pub(super) fn entries(open: Open<'_>) {
    let mut rig = Rig::new(open(&[state(StateKind::List, Some(100)), state(StateKind::Map, Some(100))]));
    rig.apply(&[b"k"], &Batch::default().append(0, 0, b"1").put_entry(0, 1, b"a", b"1").put_entry(0, 1, b"b", b"1"));
    rig.now += 50;
    rig.apply(&[b"k"], &Batch::default().append(0, 0, b"2").put_entry(0, 1, b"a", b"2").put_entry(0, 1, b"c", b"2"));
    rig.now += 50;
    assert_eq!(rig.entries(b"k", 0), [pair("", "2")], "each element has its own life");
    assert_eq!(rig.entries(b"k", 1), [pair("a", "2"), pair("c", "2")], "each entry has its own life");
    assert_eq!((rig.get(b"k", 1, b"b"), rig.get(b"k", 1, b"c")), (None, Some(b"2".to_vec())));
    assert_eq!(
        (rig.get(b"k", 0, &[0, 0, 0, 0]), rig.get(b"k", 0, &[0, 0, 0, 1])),
        (Some(b"2".to_vec()), None),
        "indexes count live elements"
    );
    assert_eq!(rig.scan(b"k", 1, None, 9), [pair("a", "2"), pair("c", "2")]);
    rig.now += 50;
    assert_eq!((rig.entries(b"k", 0), rig.entries(b"k", 1), rig.scan(b"k", 1, None, 9)), (vec![], vec![], vec![]));

    // A large map and list of which few entries live are prefetched: only live ones count.
    let many = (0..500u32).fold(Batch::default(), |batch, n| batch.append(0, 0, b"old").put_entry(0, 1, &n.to_be_bytes(), b"old"));
    rig.apply(&[b"big"], &many);
    rig.now += 99;
    rig.apply(&[b"big"], &Batch::default().append(0, 0, b"new").put_entry(0, 1, &300u32.to_be_bytes(), b"new"));
    rig.prefetch(&[b"big"]);
    assert_eq!((rig.cells(0, 0), rig.cells(1, 0)), (None, None));
    rig.now += 1;
    assert_eq!((rig.get(b"big", 0, &[0; 4]), rig.get(b"big", 0, &[0, 0, 0, 1])), (Some(b"new".to_vec()), None));
    rig.prefetch(&[b"big"]);
    assert_eq!(rig.cells(0, 0), Some(vec![pair("", "new")]));
    assert_eq!(rig.cells(1, 0), Some(vec![(300u32.to_be_bytes().to_vec(), b"new".to_vec())]));
}

/// Guests report every read; only where the state says so does it renew. A list is read as a whole.
pub(super) fn reads_renew_only_where_declared(open: Open<'_>) {
    let by_writes = |kind| StateDescriptor { ttl_update: TtlUpdate::OnCreateAndWrite, ..state(kind, Some(100)) };
    let states = [by_writes(StateKind::Value), by_writes(StateKind::Map), state(StateKind::List, Some(100)), by_writes(StateKind::List)];
    let mut rig = Rig::new(open(&states));
    let put = Batch::default().put(0, 0, b"v").put_entry(0, 1, b"a", b"1").append(0, 2, b"x").append(0, 2, b"y").append(0, 3, b"z");
    rig.apply(&[b"k"], &put);
    rig.now += 60;
    rig.apply(&[b"k"], &Batch::default().touch(0, 0, b"").touch(0, 1, b"a").touch(0, 2, b"").touch(0, 3, b""));
    rig.now += 60;
    assert_eq!((rig.value(b"k", 0), rig.entries(b"k", 0)), (None, vec![]));
    assert_eq!((rig.entries(b"k", 1), rig.entries(b"k", 2)), (vec![pair("", "x"), pair("", "y")], vec![]));
}

pub(super) fn touches(open: Open<'_>) {
    let kinds = [StateKind::Value, StateKind::List, StateKind::Map];
    let mut rig = Rig::new(open(&kinds.map(|kind| state(kind, Some(100)))));
    let put =
        Batch::default().put(0, 0, b"v").append(0, 1, b"x").append(0, 1, b"y").put_entry(0, 2, b"a", b"1").put_entry(0, 2, b"b", b"1");
    rig.apply(&[b"k"], &put);
    rig.now += 60;
    let second = 1u32.to_be_bytes();
    rig.apply(&[b"k"], &Batch::default().touch(0, 0, b"").touch(0, 1, &second).touch(0, 2, b"b").touch(0, 2, b"none").touch(0, 1, b"?"));
    rig.now += 60;
    assert_eq!(rig.value(b"k", 0), Some(b"v".to_vec()));
    assert_eq!((rig.entries(b"k", 0), rig.entries(b"k", 1)), (vec![pair("", "y")], vec![pair("b", "1")]));
    let first = 0u32.to_be_bytes();
    rig.apply(&[b"k"], &Batch::default().touch(0, 1, &first).touch(0, 2, b"a"));
    rig.now += 60;
    assert_eq!(rig.value(b"k", 0), None);
    assert_eq!((rig.entries(b"k", 0), rig.entries(b"k", 1)), (vec![pair("", "y")], vec![]), "a touch of what has expired does nothing");
    rig.apply(&[b"k"], &Batch::default().touch(0, 0, b"").touch(0, 2, b"b"));
    assert_eq!((rig.value(b"k", 0), rig.entries(b"k", 1)), (None, vec![]));

    // The same in content that is too large to be prefetched.
    let many = (0..100u32).fold(Batch::default().put(0, 0, &[1; 9_000]), |batch, n| {
        batch.append(0, 1, &n.to_be_bytes()).put_entry(0, 2, &n.to_be_bytes(), b"")
    });
    rig.apply(&[b"big"], &many);
    rig.now += 60;
    rig.apply(&[b"big"], &Batch::default().touch(0, 0, b"").touch(0, 1, &70u32.to_be_bytes()).touch(0, 2, &70u32.to_be_bytes()));
    rig.now += 60;
    let kept = 70u32.to_be_bytes().to_vec();
    assert_eq!(rig.value(b"big", 0).map(|value| value.len()), Some(9_000));
    assert_eq!((rig.entries(b"big", 0), rig.entries(b"big", 1)), (vec![(vec![], kept.clone())], vec![(kept, vec![])]));
}

pub(super) fn expiry_removes(open: Open<'_>) {
    let kinds = [StateKind::Value, StateKind::List, StateKind::Map];
    let mut rig = Rig::new(open(&kinds.map(|kind| state(kind, Some(100)))));
    for n in 0..300u32 {
        let key = n.to_be_bytes();
        let mut batch = match n % 3 {
            0 => Batch::default().put(0, 0, b"v"),
            1 => Batch::default().append(0, 1, b"v"),
            _ => Batch::default().put_entry(0, 2, b"e", b"v"),
        };
        if n % 100 == 0 {
            batch = batch.register(0, Domain::Processing, 5_000);
        }
        rig.apply(&[&key], &batch);
    }
    let many = (0..5_000u32).fold(Batch::default(), |batch, n| batch.put_entry(0, 2, &n.to_be_bytes(), b"v"));
    rig.apply(&[b"large"], &many);
    rig.now += 50;
    rig.apply(&[b"late", b"large"], &Batch::default().put(0, 0, b"v").put_entry(1, 2, &4_000u32.to_be_bytes(), b"kept"));
    rig.now += 50;
    rig.expire_to(5);
    assert_eq!(rig.value(b"late", 0), Some(b"v".to_vec()));
    assert_eq!(rig.entries(b"large", 1), [(4_000u32.to_be_bytes().to_vec(), b"kept".to_vec())]);
    rig.now += 50;
    rig.expire_to(3);
    assert_eq!(rig.state.timer_count(Domain::Processing), 3, "timers outlive the state of their key");
}

/// A TTL may be switched on for restored state, which then lives from when it is first seen, and off, which makes it permanent.
pub(super) fn on_and_off(open: Open<'_>) {
    let kinds = [StateKind::Value, StateKind::List, StateKind::Map];
    let mut open_with = |ttl| Rig::new(open(&kinds.map(|kind| state(kind, ttl))));
    let mut off = open_with(None);
    let put = Batch::default().put(0, 0, b"v").append(0, 1, b"v").put_entry(0, 2, b"e", b"v").put(1, 0, &[1; 9_000]);
    off.apply(&[b"k", b"big"], &(0..100u32).fold(put, |batch, n| batch.append(1, 1, b"v").put_entry(1, 2, &n.to_be_bytes(), b"v")));
    let all = [Some(0), Some(1), Some(2)];
    let mut on = open_with(Some(100));
    on.restore(&off.snapshot(), &all);
    let unseen = on.snapshot();
    for restore in [Rig::restore, Rig::restore_one_by_one] {
        let mut on = open_with(Some(100));
        restore(&mut on, &unseen, &all);
        for (wait, alive) in [(1_000_000, true), (99, true), (1, false)] {
            on.now += wait;
            on.prefetch(&[b"k", b"big"]);
            assert_eq!([on.cell(0, 0).is_some(), on.cell(0, 1).is_some()], [alive; 2]);
            assert_eq!([0, 1].map(|column| on.cells(column, 0).map(|found| found.len())), [Some(usize::from(alive)); 2]);
            assert_eq!([0, 1].map(|column| on.cells(column, 1).is_none()), [alive; 2]);
        }
    }

    let mut on = open_with(Some(100));
    on.apply(&[b"k"], &Batch::default().put(0, 0, b"v").append(0, 1, b"v").put_entry(0, 2, b"e", b"v"));
    let mut off = open_with(None);
    off.restore(&on.snapshot(), &all);
    off.now += 1_000_000;
    assert_eq!(off.value(b"k", 0), Some(b"v".to_vec()));
    assert_eq!((off.entries(b"k", 0), off.entries(b"k", 1)), (vec![pair("", "v")], vec![pair("e", "v")]));
    on.now += 40;
    let mut again = open_with(Some(100));
    again.restore(&on.snapshot(), &all);
    again.now = on.now + 60;
    assert_eq!(again.value(b"k", 0), None, "stamps are kept by a snapshot");
}
