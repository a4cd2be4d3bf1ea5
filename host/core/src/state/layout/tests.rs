use xxhash_rust::xxh3::xxh3_64;

use super::{Entry, FRESH, Form, Item, Reader, Writer};
use crate::error::Kind;
use crate::key_group::KeyGroup;
use crate::time::Domain;

const GROUP: KeyGroup = KeyGroup(0x0102);

fn sample() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.begin(GROUP);
    writer.key(b"a");
    writer.value(0, None, b"v");
    writer.entries(2, Form::List, true, 2);
    writer.element(Some(FRESH), b"");
    writer.element(Some(5), &[7; 200]);
    writer.entries(3, Form::Map, false, 1);
    writer.entry(None, b"e", b"w");
    writer.timers(&[-1, 2], &[i64::MAX]);
    writer.tombstone(b"b");
    writer.finish().to_vec()
}

fn read(bytes: &[u8]) -> crate::Result<usize> {
    let mut reader = Reader::new(GROUP, bytes)?;
    let mut items = 0;
    while reader.next()?.is_some() {
        items += 1;
    }
    Ok(items)
}

/// The bytes with a checksum that fits.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.len().saturating_sub(8);
    bytes.truncate(len);
    let checksum = xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn what_was_written_is_read() {
    let bytes = sample();
    let mut reader = Reader::new(GROUP, &bytes).unwrap();
    let entry = |state, form, stamp, key, value| Item::Entry(Entry { state, form, stamp, key, value });
    let long = [7; 200];
    let expected = [
        Item::Key(b"a"),
        entry(0, Form::Value, None, b"", b"v"),
        entry(2, Form::List, Some(FRESH), b"", b""),
        entry(2, Form::List, Some(5), b"", &long),
        entry(3, Form::Map, None, b"e", b"w"),
        Item::Timer(Domain::Event, -1),
        Item::Timer(Domain::Event, 2),
        Item::Timer(Domain::Processing, i64::MAX),
        Item::Tombstone(b"b"),
    ];
    for item in expected {
        assert_eq!(reader.next().unwrap(), Some(item));
    }
    assert_eq!(reader.next().unwrap(), None);
}

/// Stored bytes outlive the program that wrote them: these may never change.
#[test]
fn the_layout_is_as_documented() {
    let mut writer = Writer::default();
    writer.begin(GROUP);
    writer.key(b"key");
    writer.value(1, Some(2), b"v");
    writer.timers(&[3], &[]);
    #[rustfmt::skip]
    let body = [
        1, 2, 1, 1, 0, 0, 0,
        0, 3, b'k', b'e', b'y',
        0x81, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, b'v', 0,
        1, 3, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let mut expected = body.to_vec();
    expected.extend_from_slice(&xxh3_64(&body).to_le_bytes());
    assert_eq!(writer.finish(), expected);
}

#[test]
fn cut_and_flipped_bytes_are_refused() {
    let bytes = sample();
    assert_eq!(read(&bytes).unwrap(), 9);
    for len in 0..bytes.len() {
        assert_eq!(read(&bytes[..len]).unwrap_err().kind(), Kind::Corrupt, "cut at {len}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(read(&flipped).unwrap_err().kind(), Kind::Corrupt, "bit {bit}");
    }
}

/// Even under a checksum that fits, lies about lengths and counts end in an error, soon.
#[test]
fn hostile_bytes_are_survived() {
    let bytes = sample();
    for at in 0..bytes.len() - 8 {
        assert!(read(&sealed(bytes[..at + 8].to_vec())).is_err(), "cut at {at}");
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            let items = read(&sealed(changed)).unwrap_or(0);
            assert!(items <= bytes.len(), "byte {at} as {value}: {items} items");
        }
    }
}

#[test]
fn disorder_is_refused() {
    let write = |fill: &dyn Fn(&mut Writer)| {
        let mut writer = Writer::default();
        writer.begin(GROUP);
        fill(&mut writer);
        read(writer.finish()).unwrap_err().to_string()
    };
    let keys = write(&|writer| ["b", "a"].iter().for_each(|key| writer.tombstone(key.as_bytes())));
    assert_eq!(keys, "the bytes of key group 258 are not what was written: the keys are not in order");
    let entries = write(&|writer| {
        writer.key(b"k");
        writer.entries(0, Form::Map, false, 2);
        writer.entry(None, b"e", b"");
        writer.entry(None, b"e", b"");
        writer.timers(&[], &[]);
    });
    assert!(entries.ends_with("the entries of a map are not in order"), "{entries}");
    let states = write(&|writer| {
        writer.key(b"k");
        writer.value(1, None, b"");
        writer.value(1, None, b"");
        writer.timers(&[], &[]);
    });
    assert!(states.ends_with("the states of a key are not in order"), "{states}");
    let timers = write(&|writer| {
        writer.key(b"k");
        writer.timers(&[2, 1], &[]);
    });
    assert!(timers.ends_with("the timers of a key are not in order"), "{timers}");
}
