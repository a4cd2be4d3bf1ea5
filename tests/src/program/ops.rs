//! Random ops, over few keys, entries and times, so that they meet.

use std::collections::BTreeMap;

use fastrand::Rng;
use probe::{Lane, Op};
use tidemill_sdk::Duration;

/// The keys that records have.
pub const KEYS: [&str; 7] = ["", "a", "b", "c", "aa", "\u{e9}", "a long key, longer than sixteen bytes"];
/// How deep scripts may be nested.
const DEPTH: u32 = 2;
/// So many entries are more than are prefetched with a batch.
const MANY: i64 = 70;

/// Draws ops.
pub struct Dice<'a> {
    /// Where chance comes from.
    pub rng: &'a mut Rng,
    /// Whether a record may be bad.
    pub bad: bool,
}

/// Ops of one record.
pub fn ops(dice: &mut Dice<'_>) -> Vec<Op> {
    some(dice, DEPTH)
}

fn some(dice: &mut Dice<'_>, depth: u32) -> Vec<Op> {
    (0..dice.rng.u32(1..6)).map(|_| op(dice, depth)).collect()
}

fn op(dice: &mut Dice<'_>, depth: u32) -> Op {
    // A bad record is gone with all its ops, so scripts are bad more often.
    if dice.bad && dice.rng.u32(0..if depth == DEPTH { 50 } else { 8 }) == 0 {
        return Op::Fail(text(dice.rng));
    }
    match dice.rng.u32(0..100) {
        0..30 => timer(dice, depth),
        30..45 => value(dice),
        45..58 => list(dice.rng),
        58..78 => map(dice.rng),
        78..90 => sums(dice.rng),
        _ => said(dice),
    }
}

fn timer(dice: &mut Dice<'_>, depth: u32) -> Op {
    let at = time(dice.rng);
    let delay = Duration::from_millis(dice.rng.i64(-3..12));
    match dice.rng.u32(0..12) {
        0 | 1 => Op::EventTimer(at),
        2 if dice.bad => Op::EventTimerIn(delay),
        3 => Op::DeleteEventTimer(at),
        4 => Op::ProcessingTimer(at),
        5 => Op::ProcessingTimerIn(delay),
        6 => Op::DeleteProcessingTimer(at),
        7..9 if depth > 0 => Op::ProcessingTimerDo { at, ops: some(dice, depth - 1) },
        _ if depth > 0 => Op::EventTimerDo { at, ops: some(dice, depth - 1) },
        _ => Op::EventTimer(at),
    }
}

fn value(dice: &mut Dice<'_>) -> Op {
    let number = dice.rng.i64(-5..6);
    match dice.rng.u32(0..10) {
        0..2 => Op::Put(number),
        2 => Op::Get,
        3..6 => Op::Add(number),
        6 => Op::ClearValue,
        7 => Op::Note { text: text(dice.rng), count: dice.rng.u32(0..3), tag: "-".to_owned() },
        8 => Op::GetNote,
        _ => Op::ClearNote,
    }
}

fn list(rng: &mut Rng) -> Op {
    match rng.u32(0..10) {
        0..4 => Op::ListAdd(text(rng)),
        4 if rng.u32(0..4) == 0 => Op::ListAddAll((0..MANY).map(|n| n.to_string()).collect()),
        4 => Op::ListAddAll((0..rng.u32(0..4)).map(|_| text(rng)).collect()),
        5 => Op::ListUpdate((0..rng.u32(0..3)).map(|_| text(rng)).collect()),
        6 => Op::ListClear,
        _ => Op::ListGet,
    }
}

fn map(rng: &mut Rng) -> Op {
    let name = entry(rng);
    match rng.u32(0..14) {
        0..4 => Op::MapPut((0..rng.u32(0..3)).map(|_| (entry(rng), rng.i64(-5..6))).collect()),
        4 if rng.u32(0..3) == 0 => Op::MapPut((0..MANY).map(|n| (format!("m{n}"), n)).collect::<BTreeMap<_, _>>()),
        4..6 => Op::MapRemove(name),
        6 => Op::MapClear,
        7..9 => Op::MapGet(name),
        9 => Op::MapContains(name),
        10 => Op::MapIsEmpty,
        11 => Op::MapLen,
        12 => Op::MapKeys,
        _ => Op::MapEntries,
    }
}

fn sums(rng: &mut Rng) -> Op {
    let number = rng.i64(-5..6);
    match rng.u32(0..10) {
        0..3 => Op::SumAdd(number),
        3..5 => Op::GetSum,
        5 => Op::SumClear,
        6..8 => Op::AverageAdd(number),
        8 => Op::GetAverage,
        _ => Op::AverageClear,
    }
}

fn said(dice: &mut Dice<'_>) -> Op {
    let say = text(dice.rng);
    match dice.rng.u32(0..10) {
        0..2 => Op::Emit(say),
        2..4 => Op::Side { lane: if dice.rng.bool() { Lane::Late } else { Lane::Other }, say },
        4 => Op::SayTimestamp,
        5..7 => Op::SayWatermark,
        7 => Op::SayProcessingTime,
        _ => Op::Greet,
    }
}

fn text(rng: &mut Rng) -> String {
    match rng.u32(0..12) {
        0 => String::new(),
        1 => "x".repeat(rng.usize(60..300)),
        n => ["p", "q", "\u{fc}", "r s"].get(n as usize % 4).copied().unwrap_or_default().to_owned(),
    }
}

fn entry(rng: &mut Rng) -> String {
    ["", "k", "kk", "l", "m1", "m69", "z"].get(rng.usize(0..7)).copied().unwrap_or_default().to_owned()
}

fn time(rng: &mut Rng) -> i64 {
    match rng.u32(0..40) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => rng.i64(..),
        _ => rng.i64(-5..60),
    }
}
