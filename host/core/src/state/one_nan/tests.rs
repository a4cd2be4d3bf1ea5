use tidemill_wit::key::{ORDERED_NAN_64, ordered_f64};
use tidemill_wit::schema::{Type, TypeTable};

use super::{Moved, OneNan};
use crate::key_group::{KeyGroup, hash_key, key_group};
use crate::state::layout::{Entry, Form, Item, Reader, Writer};

const GROUPS: u32 = 128;
/// Other forms of NaN: that of an x86 processor, and one with a payload.
const OTHERS: [u64; 2] = [!0xFFF8_0000_0000_0000, 0x7FF8_0000_0000_0009 ^ (1 << 63)];

fn key(ordered: u64) -> Vec<u8> {
    ordered.to_be_bytes().to_vec()
}

fn group_of(key: &[u8]) -> KeyGroup {
    key_group(hash_key(key), GROUPS)
}

/// The bytes of a group with one key: a value, a list, a map by floats and timers.
fn stored(key: &[u8], value: u8, entries: &[(u64, u8)], timers: &[i64]) -> (KeyGroup, Vec<u8>) {
    let mut writer = Writer::default();
    writer.begin(group_of(key));
    writer.key(key);
    writer.value(0, value.is_multiple_of(2).then_some(5), &[value]);
    writer.entries(1, Form::List, false, 2);
    writer.element(None, &[value]);
    writer.element(None, &[value + 1]);
    let mut entries = entries.to_vec();
    entries.sort_unstable();
    writer.entries(2, Form::Map, true, entries.len());
    entries.iter().for_each(|(key, value)| writer.entry(Some(7), &key.to_be_bytes(), &[*value]));
    writer.timers(timers, &[9]);
    (group_of(key), writer.finish().to_vec())
}

/// The items of a group as text, keys as their bits.
fn items(group: KeyGroup, bytes: &[u8]) -> Vec<String> {
    let (mut reader, mut items) = (Reader::new(group, bytes).unwrap(), Vec::new());
    let bits = |key: &[u8]| key.try_into().map(u64::from_be_bytes).unwrap_or_default();
    while let Some(item) = reader.next().unwrap() {
        items.push(match item {
            Item::Key(key) => format!("key {:x}", bits(key)),
            Item::Tombstone(key) => format!("gone {:x}", bits(key)),
            Item::Entry(Entry { state, stamp, key, value, .. }) => format!("{state} {stamp:?} {:x} {value:?}", bits(key)),
            Item::Timer(_, time) => format!("timer {time}"),
        });
    }
    items
}

fn of_floats() -> OneNan {
    let float = TypeTable::of(Type::F64);
    OneNan::of(Some(&float), [None, None, Some(&float)].into_iter(), GROUPS).unwrap()
}

#[test]
fn keys_of_several_nans_become_one_and_others_stay() {
    let one = of_floats();
    let groups = [
        stored(&key(OTHERS[0]), 1, &[(ordered_f64(1.0), 1)], &[1, 3]),
        stored(&key(OTHERS[1]), 3, &[(ordered_f64(1.0), 2), (ordered_f64(2.0), 3)], &[2, 3]),
        stored(&key(ordered_f64(0.5)), 8, &[], &[4]),
    ];
    let mut moved = Moved::default();
    groups.iter().for_each(|(group, bytes)| one.moved(*group, bytes, &mut moved).unwrap());
    let home = group_of(&key(ORDERED_NAN_64));
    moved.keep(&(0..GROUPS));
    assert_eq!(moved.groups(), [home]);
    let mut writer = Writer::default();
    for (group, bytes) in &groups {
        let found = items(*group, one.group(*group, bytes, &mut moved, &mut writer).unwrap());
        let (nan, half) = (found.contains(&format!("key {ORDERED_NAN_64:x}")), found.contains(&format!("key {:x}", ordered_f64(0.5))));
        assert_eq!((nan, half, found.is_empty()), (*group == home, *group == groups[2].0, *group != home && *group != groups[2].0));
    }
    // Nothing was stored under the group that they move to.
    assert_eq!(moved.groups(), [home]);
    let bits = |float| format!("{:x}", ordered_f64(float));
    assert_eq!(
        items(home, one.group(home, &[], &mut moved, &mut writer).unwrap()),
        [
            format!("key {ORDERED_NAN_64:x}"),
            "0 None 0 [1]".to_owned(),
            "1 None 0 [1]".to_owned(),
            "1 None 0 [2]".to_owned(),
            "1 None 0 [3]".to_owned(),
            "1 None 0 [4]".to_owned(),
            format!("2 Some(7) {} [1]", bits(1.0)),
            format!("2 Some(7) {} [3]", bits(2.0)),
            "timer 1".to_owned(),
            "timer 2".to_owned(),
            "timer 3".to_owned(),
            "timer 9".to_owned(),
        ]
    );
    assert!(moved.groups().is_empty());
}

#[test]
fn what_was_stored_under_the_one_form_counts_more() {
    let one = of_floats();
    let (home, bytes) =
        stored(&key(ORDERED_NAN_64), 4, &[(OTHERS[0], 1), (ordered_f64(0.0), 2), (ORDERED_NAN_64, 3), (ordered_f64(-0.0), 4)], &[5]);
    let (other, more) = stored(&key(OTHERS[0]), 6, &[(OTHERS[1], 9)], &[6]);
    let mut moved = Moved::default();
    for (group, bytes) in [(home, &bytes), (other, &more)] {
        one.moved(group, bytes, &mut moved).unwrap();
    }
    let found = items(home, one.group(home, &bytes, &mut moved, &mut Writer::default()).unwrap());
    assert!(found.contains(&"0 Some(5) 0 [4]".to_owned()) && found.contains(&"timer 6".to_owned()), "{found:?}");
    let entries: Vec<&String> = found.iter().filter(|item| item.starts_with("2 ")).collect();
    assert_eq!(
        entries,
        [
            &format!("2 Some(7) {:x} [4]", ordered_f64(-0.0)),
            &format!("2 Some(7) {:x} [2]", ordered_f64(0.0)),
            &format!("2 Some(7) {ORDERED_NAN_64:x} [3]")
        ]
    );
}

#[test]
fn keys_without_floats_need_nothing() {
    let text = TypeTable::of(Type::String);
    assert!(OneNan::of(Some(&text), [None, Some(&text)].into_iter(), GROUPS).is_none());
    assert!(OneNan::of(None, [Some(&TypeTable::of(Type::F32))].into_iter(), GROUPS).is_some_and(|one| !one.moves_keys()));
}
