mod journal;
mod row;

use tidemill_wit::descriptor::{StateDescriptor, StateKind, timer_op, write_op};

use super::MemoryState;
use crate::detector::{KeyRef, Prefetched, SlotKeys};
use crate::effects::{TimerOps, Writes};
use crate::key_group::{KeyGroup, hash_key};
use crate::state::conformance::conformance;
use crate::state::layout::Writer;
use crate::state::{KeyedState, Scan};
use crate::time::Timestamp;

/// Keys, as big-endian numbers, whose hashes share their lower half.
const COLLISION: [u32; 2] = [55_297, 106_284];

fn state(kind: StateKind, ttl: Option<i64>) -> StateDescriptor {
    StateDescriptor { name: String::new(), kind, value: Default::default(), entry_key: None, ttl, ttl_update: Default::default() }
}

#[test]
fn does_what_every_backend_must() {
    conformance(&mut |states| Box::new(MemoryState::new(states)));
}

/// Keys are found by half of their hash; those that share it must be told apart.
#[test]
fn keys_of_one_tag_are_told_apart() {
    let names = COLLISION.map(|n: u32| n.to_be_bytes());
    let [a, b] = names.each_ref().map(|name| hash_key(name));
    assert_eq!(a & 0xffff_ffff, b & 0xffff_ffff, "the test needs keys whose hashes share their lower half");
    let mut memory = MemoryState::new(&[state(StateKind::Value, None)]);
    let mut columns = Prefetched::default();
    for (n, name) in names.iter().enumerate() {
        let mut slots = SlotKeys::default();
        slots.push(KeyRef { bytes: name, hash: hash_key(name), group: KeyGroup(0) });
        memory.prefetch(&slots, Timestamp(0), &mut columns).unwrap();
        assert_eq!(columns.values[0].present, [0]);
        let mut writes = Writes { op: vec![write_op::PUT], state: vec![0], slot: vec![0], ..Writes::default() };
        writes.entry.push(b"");
        writes.value.push(name);
        memory.apply(&slots, &writes, &TimerOps::default(), Timestamp(0)).unwrap();
        memory.prefetch(&slots, Timestamp(0), &mut columns).unwrap();
        assert_eq!((columns.values[0].items.get(0), memory.key_count()), (&name[..], n as u64 + 1));
    }
}

/// A sweep goes on in the middle of a large map, past entries that live.
#[test]
fn expiry_reaches_the_end_of_a_large_map() {
    let mut memory = MemoryState::new(&[state(StateKind::Map, Some(100))]);
    let mut slots = SlotKeys::default();
    slots.push(KeyRef { bytes: b"k", hash: hash_key(b"k"), group: KeyGroup(0) });
    let put = |memory: &mut MemoryState, entries: std::ops::Range<u32>, now| {
        let mut writes = Writes::default();
        for n in entries {
            writes.op.push(write_op::PUT_ENTRY);
            writes.state.push(0);
            writes.slot.push(0);
            writes.entry.push(&n.to_be_bytes());
            writes.value.push(b"v");
        }
        memory.apply(&slots, &writes, &TimerOps::default(), Timestamp(now)).unwrap();
    };
    put(&mut memory, 0..10_000, 0);
    put(&mut memory, 0..5_000, 50);
    let size = |memory: &mut MemoryState| {
        let mut size = 0;
        memory.snapshot(&mut |_, bytes| size = bytes.len()).unwrap();
        size
    };
    let before = size(&mut memory);
    (0..12).for_each(|_| memory.expire(Timestamp(100)).unwrap());
    assert!(size(&mut memory) < before * 6 / 10, "{} of {before} bytes are left", size(&mut memory));
}

/// What a key is taken to cost grows with what it holds, in its block or elsewhere.
#[test]
fn a_key_costs_what_it_holds() {
    let mut memory = MemoryState::new(&[state(StateKind::Value, None), state(StateKind::Map, None)]);
    let mut slots = SlotKeys::default();
    slots.push(KeyRef { bytes: b"k", hash: hash_key(b"k"), group: KeyGroup(0) });
    let mut size = |op, state, value: &[u8], timer: Option<i64>| {
        let mut writes = Writes { op: vec![op], state: vec![state], slot: vec![0], ..Writes::default() };
        writes.entry.push(b"entry");
        writes.value.push(value);
        let mut timers = TimerOps::default();
        if let Some(time) = timer {
            timers.op.push(timer_op::REGISTER);
            timers.domain.push(0);
            timers.slot.push(0);
            timers.timestamp.push(time);
        }
        memory.apply(&slots, &writes, &timers, Timestamp(0)).unwrap();
        let id = memory.find(slots.get(0)).unwrap();
        memory.size(id)
    };
    let small = size(write_op::PUT, 0, b"v", None);
    assert!((150..300).contains(&small), "{small}");
    let larger = size(write_op::PUT, 0, &[7; 2_000], None);
    assert!((small + 1_900..small + 2_600).contains(&larger), "{larger}");
    let timed = size(write_op::PUT, 0, &[7; 2_000], Some(5));
    assert_eq!(timed, larger + 40);
    let elsewhere = size(write_op::PUT_ENTRY, 1, &[7; 20_000], None);
    assert!((timed + 20_000..timed + 20_600).contains(&elsewhere), "{elsewhere}");
}

fn one_key() -> SlotKeys {
    let mut slots = SlotKeys::default();
    slots.push(KeyRef { bytes: b"k", hash: hash_key(b"k"), group: KeyGroup(0) });
    slots
}

/// Does the same with some values, to the first state of a key; map entries have big-endian numbers as keys.
fn write(memory: &mut MemoryState, op: u8, values: &[&[u8]], now: i64) {
    let mut writes = Writes { op: vec![op; values.len()], state: vec![0; values.len()], slot: vec![0; values.len()], ..Writes::default() };
    for (number, value) in (0u32..).zip(values) {
        writes.entry.push(
            if op == write_op::PUT_ENTRY { number.to_be_bytes() } else { [0; 4] }.get(..if op == write_op::TOUCH { 0 } else { 4 }).unwrap(),
        );
        writes.value.push(value);
    }
    memory.apply(&one_key(), &writes, &TimerOps::default(), Timestamp(now)).unwrap();
}

/// Large values lie outside of the blocks, and come back when they have half the size at which they went.
#[test]
fn values_lie_where_they_fit() {
    let mut memory = MemoryState::new(&[state(StateKind::Value, None)]);
    for (size, outside) in [(9_000, 1), (8_000, 1), (2_049, 1), (2_048, 0), (4_096, 0), (4_097, 1), (4_096, 1), (10, 0)] {
        write(&mut memory, write_op::PUT, &[&vec![7; size]], 0);
        assert_eq!(memory.larges.len(), outside, "{size} bytes");
    }
}

/// Lists and maps lie in the block up to a number of bytes, those of map keys counted.
#[test]
fn entries_lie_where_they_fit() {
    let cases = [(StateKind::List, write_op::APPEND, 41, 40), (StateKind::Map, write_op::PUT_ENTRY, 40, 39)];
    for (kind, op, small, smaller) in cases {
        for ttl in [None, Some(1_000)] {
            for (count, outside) in [(smaller, 0), (small, usize::from(kind == StateKind::Map)), (42, 1)] {
                let mut memory = MemoryState::new(&[state(kind, ttl)]);
                write(&mut memory, op, &vec![&[7; 99][..]; count], 0);
                assert_eq!(memory.larges.len(), outside, "{kind:?}, {count} entries, TTL {ttl:?}");
            }
        }
    }
}

/// Just as many and as large as may lie in the block do, and an entry that replaces another is not counted twice.
#[test]
fn the_limits_of_a_block_are_exact() {
    for (count, size, outside) in [(32, 128, 0), (32, 129, 1), (64, 8, 0), (65, 8, 1)] {
        let mut memory = MemoryState::new(&[state(StateKind::List, None)]);
        write(&mut memory, write_op::APPEND, &vec![&vec![7; size][..]; count], 0);
        assert_eq!(memory.larges.len(), outside, "{count} elements of {size} bytes");
    }
    let mut memory = MemoryState::new(&[state(StateKind::Map, None)]);
    for _ in 0..2 {
        write(&mut memory, write_op::PUT_ENTRY, &[&[7; 99][..]; 39], 0);
        assert_eq!(memory.larges.len(), 0);
    }
}

/// A large value stays until it expires, and a look at a large map removes what has expired of it.
#[test]
fn large_content_expires() {
    let mut memory = MemoryState::new(&[state(StateKind::Value, Some(100))]);
    write(&mut memory, write_op::PUT, &[&[7; 9_000]], 0);
    write(&mut memory, write_op::PUT, &[&[7; 9_000]], 60);
    for (now, keys) in [(50, 1), (100, 1), (159, 1), (170, 0)] {
        (0..3).for_each(|_| memory.expire(Timestamp(now)).unwrap());
        assert_eq!((memory.key_count(), memory.larges.len()), (keys, usize::try_from(keys).unwrap()), "at {now}");
    }
    let mut memory = MemoryState::new(&[state(StateKind::Map, Some(100))]);
    write(&mut memory, write_op::PUT_ENTRY, &[&[7; 50][..]; 300], 60);
    // The first ones are older.
    write(&mut memory, write_op::PUT_ENTRY, &[&[7; 50][..]; 200], 0);
    let size = |memory: &mut MemoryState| {
        let mut size = 0;
        memory.snapshot(&mut |_, bytes| size = bytes.len()).unwrap();
        size
    };
    let before = size(&mut memory);
    memory.prefetch(&one_key(), Timestamp(120), &mut Prefetched::default()).unwrap();
    assert!(size(&mut memory) < before / 2);
}

/// Restored content is stamped when it is first seen, where there is any and its state has a TTL.
#[test]
fn only_content_under_a_ttl_is_stamped() {
    let ttls = [Some(100), None, Some(100)];
    let mut memory = MemoryState::new(&ttls.map(|ttl| state(StateKind::Value, ttl)));
    let mut writer = Writer::default();
    writer.begin(KeyGroup(0));
    writer.key(b"k");
    writer.value(0, None, b"first");
    writer.value(1, None, b"a second value");
    writer.timers(&[], &[]);
    memory.restore(KeyGroup(0), writer.finish(), &[Some(0), Some(1), Some(2)]).unwrap();
    let mut columns = Prefetched::default();
    for (now, present) in [(50, [1, 1, 0]), (149, [1, 1, 0]), (150, [0, 1, 0])] {
        memory.prefetch(&one_key(), Timestamp(now), &mut columns).unwrap();
        assert_eq!([0, 1, 2].map(|column: usize| columns.values[column].present[0]), present, "at {now}");
        assert_eq!(columns.values[1].items.get(0), b"a second value");
    }
}

/// A look at a large list renews what lives, and nothing else.
#[test]
fn a_large_list_is_renewed_as_a_whole() {
    let mut declared = state(StateKind::List, Some(100));
    declared.ttl_update = tidemill_wit::descriptor::TtlUpdate::OnReadAndWrite;
    let mut memory = MemoryState::new(&[declared]);
    write(&mut memory, write_op::APPEND, &[&[7; 50][..]; 200], 0);
    assert_eq!(memory.larges.len(), 1);
    let live = |memory: &MemoryState, now| {
        let slots = one_key();
        let (mut count, scan) = (0, Scan { key: slots.get(0), state: 0, after: None, limit: 1_000 });
        memory.scan_entries(&scan, Timestamp(now), &mut |_, _| count += 1).unwrap();
        count
    };
    write(&mut memory, write_op::TOUCH, &[b""], 60);
    assert_eq!((live(&memory, 120), live(&memory, 160)), (200, 0));
    write(&mut memory, write_op::TOUCH, &[b""], 170);
    assert_eq!(live(&memory, 180), 0, "what has expired is not renewed");
}
