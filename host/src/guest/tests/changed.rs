//! A guest whose whole answer, as it lies in its memory, is given by the test and then changed: the host reads it or refuses it in words.

use std::collections::BTreeMap;

use fastrand::Rng;
use tidemill_core::detector::{DetectorFactory, Failure};
use tidemill_core::effects::Shape;
use tidemill_wit::descriptor::StateKind;

use super::wat::{Guest, ZEROS, emit};
use super::{Call, factory};

/// How many answers are tried. A failing seed is printed; `TIDEMILL_SEED=n` replays it.
const TRIALS: u64 = 20_000;
/// The effects: 17 columns, an address and a length each.
const HEAD: u32 = 17 * 8;
/// The answer of the call, after the effects.
const ANSWER: u32 = 20;

/// Copies its first record to where zeros were, emits the effects that begin there and gives the answer after them.
fn guest() -> Guest {
    let copy = format!(
        "(memory.copy (i32.const {ZEROS}) (i32.load offset=72 (local.get $args)) (i32.load (i32.load offset=80 (local.get $args))))"
    );
    let elements = format!("{copy} (call $emit (i32.const {ZEROS})) (i32.const {})", ZEROS + HEAD);
    Guest { items: emit(), elements, states: vec![0, 2], ..Guest::default() }
}

/// Answers as they lie in memory: both rows were consumed, the second row is bad, the job must fail.
const ANSWERS: [[u32; 6]; 3] = [[0, 2, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]];

/// Effects of two rows in all columns, and the answer.
fn image(answer: [u32; 6]) -> Vec<u8> {
    let words = |items: &[u32]| items.iter().flat_map(|item| item.to_le_bytes()).collect::<Vec<u8>>();
    let columns: [(Vec<u8>, u32); 17] = [
        (vec![0, 2], 2),
        (vec![0, 1], 2),
        (words(&[0, 0]), 2),
        (b"key".to_vec(), 3),
        (words(&[0, 3]), 2),
        (b"value12".to_vec(), 7),
        (words(&[5, 7]), 2),
        (vec![0, 1], 2),
        (vec![0, 1], 2),
        (words(&[0, 0]), 2),
        (words(&[10, 0, 20, 0]), 2),
        (vec![0, 0], 2),
        (words(&[0, 1]), 2),
        (words(&[10, 0, 20, 0]), 2),
        (vec![1, 0], 2),
        (vec![2, 3], 2),
        (words(&[1, 2]), 2),
    ];
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for (content, length) in columns {
        while tail.len() % 8 != 0 {
            tail.push(0);
        }
        let at = ZEROS + HEAD + ANSWER + 4 + u32::try_from(tail.len()).unwrap();
        head.extend(words(&[at, length]));
        tail.extend(content);
    }
    head.extend(words(&answer));
    head.extend(tail);
    head
}

/// Changes one word of the head or the answer, or one byte of the columns.
fn change(image: &mut [u8], rng: &mut Rng) {
    let head = (HEAD + ANSWER) as usize;
    if rng.u8(0..4) == 0 {
        let at = rng.usize(head..image.len());
        image[at] = rng.u8(..);
        return;
    }
    let at = rng.usize(0..head / 4) * 4;
    let word: &mut [u8; 4] = image[at..].first_chunk_mut().unwrap();
    let old = u32::from_le_bytes(*word);
    *word = match rng.u8(0..8) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => old ^ 1 << rng.u8(0..32),
        3 => rng.u32(0..8),
        4 => ZEROS + rng.u32(0..256),
        5 => u32::MAX,
        6 => 4 << 16,
        _ => rng.u32(..),
    }
    .to_le_bytes();
}

/// What became of an answer, in a word or two.
fn outcome(seed: u64, answer: Result<u32, Failure>, call: &Call) -> &'static str {
    const TRAPS: [&str; 3] = ["broke the contract", "consumed", "is bad, but the call has"];
    let shape = Shape { rows: 2, slots: 1, states: &[StateKind::Value, StateKind::Map], lanes: 1, broadcast: false };
    match answer {
        Ok(1..=2) => match call.effects.check(&shape) {
            Ok(()) => "accepted",
            Err(reason) => {
                assert!(!reason.is_empty() && !reason.contains('\n'), "TIDEMILL_SEED={seed}: {reason}");
                "effects refused"
            }
        },
        Err(Failure::BadRecord { row: 0..2, .. }) => "bad record",
        Err(Failure::Fatal(_)) => "fatal",
        Err(Failure::Trap(text)) => {
            assert!(!text.contains('\n'), "TIDEMILL_SEED={seed}: {text}");
            TRAPS.iter().find(|known| text.contains(*known)).unwrap_or_else(|| panic!("TIDEMILL_SEED={seed}: not a known reason: {text}"))
        }
        other => panic!("TIDEMILL_SEED={seed}: {other:?}"),
    }
}

#[test]
fn any_answer_in_a_guests_memory_is_read_or_refused_in_words() {
    let factory = factory(&guest());
    let open = || factory.open(&[]).unwrap_or_else(|failure| panic!("{failure:?}"));
    let (valid, mut call, mut detector) = (ANSWERS.map(image), Call::new(), open());
    assert_eq!(call.rows(&mut *detector, &[&valid[0], b""]), Ok(2));
    assert_eq!(outcome(0, Ok(2), &call), "accepted");
    let one = std::env::var("TIDEMILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or_else(|| 0..TRIALS, |seed: u64| seed..seed + 1);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in seeds {
        let rng = &mut Rng::with_seed(seed);
        let mut image = valid[rng.usize(0..valid.len())].clone();
        change(&mut image, rng);
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call.rows(&mut *detector, &[&image, b""])));
        let answer = answer.unwrap_or_else(|_| panic!("TIDEMILL_SEED={seed}: the host panicked"));
        assert_eq!(call.reads.slots.len(), 1, "TIDEMILL_SEED={seed}: the call's parts are not back");
        if matches!(answer, Err(Failure::Trap(_))) {
            detector = open();
        }
        *counts.entry(outcome(seed, answer, &call)).or_default() += 1;
    }
    println!("{counts:#?}");
    // None of it stays: the instance answers as before.
    assert_eq!(call.rows(&mut *detector, &[&valid[0], b""]), Ok(2));
    assert_eq!(outcome(0, Ok(2), &call), "accepted");
    if one.is_none() {
        assert_eq!(counts.len(), 7, "an outcome never came: {counts:?}");
    }
}
