use std::collections::BTreeMap;
use std::fmt::Debug;

use fastrand::Rng;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{append, from_bytes};

fn encoded<T: Serialize + ?Sized>(key: &T) -> Vec<u8> {
    let mut out = Vec::new();
    append(key, &mut out).unwrap();
    out
}

/// Values come back, compare as their bytes do, and no encoding is the beginning of another.
fn check<T: Serialize + DeserializeOwned + Ord + Debug>(mut value: impl FnMut(&mut Rng) -> T) {
    let mut rng = Rng::with_seed(11);
    let values: Vec<T> = (0..120).map(|_| value(&mut rng)).collect();
    for a in &values {
        let bytes = encoded(a);
        assert_eq!(&from_bytes::<T>(&bytes).unwrap(), a);
        for b in &values {
            let other = encoded(b);
            assert_eq!(a.cmp(b), bytes.cmp(&other), "{a:?} and {b:?}");
            assert!(a == b || !other.starts_with(&bytes), "{a:?} begins {b:?}");
        }
        assert!(from_bytes::<T>(&[bytes, vec![0]].concat()).is_err());
    }
}

/// Numbers of all sizes, with the extremes.
fn number(rng: &mut Rng) -> i64 {
    let choices = [0, 1, -1, i64::MIN, i64::MAX, rng.i64(-300..300), rng.i64(..)];
    choices[rng.usize(0..choices.len())]
}

/// Texts with zeros, escapes and common beginnings.
fn text(rng: &mut Rng) -> String {
    (0..rng.usize(0..5)).map(|_| ['\0', '\u{1}', 'a', 'b', '\u{ff}', 'ä', '\u{10ffff}'][rng.usize(0..7)]).collect()
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Choice {
    Nothing,
    Text(String),
    Pair(i64, bool),
    Fields { number: i32, text: Option<String> },
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Wrapped(i64);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Fields {
    id: Wrapped,
    name: String,
    unit: (),
}

#[test]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any number will do")]
fn order_is_kept_and_values_come_back() {
    check(number);
    check(|rng| number(rng) as u64);
    check(|rng| number(rng) as i32);
    check(|rng| number(rng) as u16);
    check(|rng| number(rng) as i8);
    check(|rng| rng.bool());
    check(text);
    check(|rng| (number(rng), text(rng)));
    check(|rng| (text(rng), text(rng), number(rng) as i16));
    check(|rng| rng.bool().then(|| text(rng)));
    check(|rng| (0..rng.usize(0..4)).map(|_| text(rng)).collect::<Vec<_>>());
    check(|rng| (vec![number(rng); rng.usize(0..3)], text(rng)));
    check(|rng| Fields { id: Wrapped(number(rng)), name: text(rng), unit: () });
    check(|rng| (0..rng.usize(0..3)).map(|_| (text(rng), number(rng))).collect::<BTreeMap<_, _>>());
    check(|rng| match rng.u8(0..4) {
        0 => Choice::Nothing,
        1 => Choice::Text(text(rng)),
        2 => Choice::Pair(number(rng), rng.bool()),
        _ => Choice::Fields { number: number(rng) as i32, text: rng.bool().then(|| text(rng)) },
    });
}

#[test]
fn floats_order_as_numbers() {
    let ordered = [f64::NEG_INFINITY, -2.5, -0.0, 0.0, 1e-9, 3.0, f64::INFINITY];
    for pair in ordered.windows(2) {
        assert!(encoded(&pair[0]) < encoded(&pair[1]), "{pair:?}");
    }
    assert!(ordered.iter().all(|number| from_bytes::<f64>(&encoded(number)).unwrap().to_bits() == number.to_bits()));
    assert!(encoded(&-1.5f32) < encoded(&1.5f32));
    assert_eq!(from_bytes::<f32>(&encoded(&-1.5f32)), Ok(-1.5));
}

#[test]
fn one_field_encodes_the_same_bare_and_as_a_tuple() {
    assert_eq!(encoded(&("a",)), encoded("a"));
    assert_eq!(encoded(&(5i64,)), encoded(&5i64));
    assert_eq!(encoded(&(1i64, "a")), [encoded(&1i64), encoded("a")].concat());
}

/// The bytes are stored, so they may never change.
#[test]
fn bytes_are_as_documented() {
    assert_eq!(encoded(&1i64), [0x80, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(encoded(&-1i16), [0x7f, 0xff]);
    assert_eq!(encoded(&258u32), [0, 0, 1, 2]);
    assert_eq!(encoded("a\0b"), [b'a', 0, 0xff, b'b', 0, 1]);
    assert_eq!(encoded(&Some(true)), [1, 1]);
    assert_eq!(encoded(&None::<bool>), [0]);
    assert_eq!(encoded(&vec![1u8, 2]), [1, 1, 1, 2, 0]);
    assert_eq!(encoded(&Choice::Pair(0, true)), [0, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert!(encoded(&()).is_empty());
}

#[test]
fn what_is_no_key_is_refused() {
    let error = |bytes: &[u8]| from_bytes::<(bool, String)>(bytes).unwrap_err().to_string();
    assert_eq!(error(&[]), "the key ends too early");
    assert_eq!(error(&[2, 0, 1]), "2 is neither 0 nor 1");
    assert_eq!(error(&[1, b'a']), "a string in a key has no end");
    assert_eq!(error(&[1, 0, 1, 9]), "1 bytes follow the key");
    assert!(error(&[1, 0xff, 0, 1]).contains("utf-8"));
    assert!(append(&'c', &mut Vec::new()).unwrap_err().to_string().contains("use a String"));
    assert!(from_bytes::<Choice>(&[0, 0, 0, 9]).is_err());
}

#[test]
fn there_is_one_nan_and_two_zeros() {
    let zero = std::hint::black_box(0.0f64);
    assert!([-f64::NAN, zero / zero, f64::from_bits(u64::MAX)].iter().all(|nan| encoded(nan) == encoded(&f64::NAN)));
    assert_eq!(encoded(&Some(-f32::NAN)), encoded(&Some(f32::NAN)));
    assert!(encoded(&-0.0f64) < encoded(&0.0f64) && encoded(&f64::INFINITY) < encoded(&f64::NAN));
}
