//! One thing of an answer changed, and what must come of it.

use fastrand::Rng;
use tidemill_core::effects::Effects;
use tidemill_wit::columns::BlobsBuf;
use tidemill_wit::descriptor::{time_domain, timer_op, write_op};

/// What must come of a changed answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Must {
    /// It is as valid as before.
    Pass,
    /// It is refused.
    Fail,
    /// Either; the checks know.
    Either,
}

/// The numbers that an answer is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Rows in the call.
    pub rows: u32,
    /// Key slots in the call; 1 for what broadcast records write.
    pub slots: usize,
    /// Key slots that timers may name.
    pub timer_slots: usize,
    /// Declared states.
    pub states: usize,
    /// Declared lanes.
    pub lanes: usize,
}

/// The names of all changes, in the order of their numbers.
pub const CHANGES: [&str; 22] = [
    "consumed",
    "writes.op",
    "writes.state",
    "writes.slot",
    "writes.entry bytes",
    "writes.entry ends",
    "writes.value bytes",
    "writes.value ends",
    "writes length",
    "timers.op",
    "timers.domain",
    "timers.slot",
    "timers.timestamp",
    "timers length",
    "outputs.lane",
    "outputs.row",
    "outputs.timestamp",
    "outputs.timed",
    "outputs.payload bytes",
    "outputs.payload ends",
    "outputs.payload item",
    "outputs length",
];

/// Makes change number `which`; `None` if the answer has nothing of the kind.
pub fn change(which: usize, effects: &mut Effects, consumed: &mut u32, bounds: Bounds, rng: &mut Rng) -> Option<Must> {
    let Effects { writes, timers, outputs, .. } = effects;
    let other = |_: bool| Must::Either;
    let all_or_none = |valid: bool| if valid { Must::Pass } else { Must::Fail };
    Some(match which {
        0 => {
            *consumed = near(bounds.rows as usize, rng);
            all_or_none((1..=bounds.rows).contains(consumed))
        }
        1 => byte(&mut writes.op, usize::from(write_op::COUNT), rng, other)?,
        2 => byte(&mut writes.state, bounds.states, rng, other)?,
        3 => word(&mut writes.slot, bounds.slots, rng)?,
        4 => if_of_its_type(bytes(&mut writes.entry, rng)?),
        5 => if_of_its_type(ends(&mut writes.entry, rng)?),
        6 => if_of_its_type(bytes(&mut writes.value, rng)?),
        7 => if_of_its_type(ends(&mut writes.value, rng)?),
        8 => match rng.u32(0..5) {
            0 => length(&mut writes.op, rng),
            1 => length(&mut writes.state, rng),
            2 => length(&mut writes.slot, rng),
            3 => length(&mut writes.entry.ends, rng),
            _ => length(&mut writes.value.ends, rng),
        },
        9 => byte(&mut timers.op, usize::from(timer_op::COUNT), rng, all_or_none)?,
        10 => byte(&mut timers.domain, usize::from(time_domain::COUNT), rng, all_or_none)?,
        11 => word(&mut timers.slot, bounds.timer_slots, rng)?,
        12 => time(&mut timers.timestamp, rng)?,
        13 => match rng.u32(0..4) {
            0 => length(&mut timers.op, rng),
            1 => length(&mut timers.domain, rng),
            2 => length(&mut timers.slot, rng),
            _ => length(&mut timers.timestamp, rng),
        },
        // Another lane may have another type.
        14 => byte(&mut outputs.lane, bounds.lanes, rng, other)?,
        15 => word(&mut outputs.row, bounds.rows as usize, rng)?,
        16 => time(&mut outputs.timestamp, rng)?,
        17 => timed(&mut outputs.timed, outputs.lane.len(), rng),
        18 => if_of_its_type(bytes(&mut outputs.payload, rng)?),
        19 => if_of_its_type(ends(&mut outputs.payload, rng)?),
        20 => item(&mut outputs.payload, rng)?,
        _ => match rng.u32(0..4) {
            0 => length(&mut outputs.lane, rng),
            1 => length(&mut outputs.row, rng),
            2 => length(&mut outputs.timestamp, rng),
            _ => length(&mut outputs.payload.ends, rng),
        },
    })
}

/// What a changed value must pass, if its column still holds together: the check of its type, which decides.
fn if_of_its_type(must: Must) -> Must {
    if must == Must::Pass { Must::Either } else { must }
}

/// A number around a bound, or far from it.
fn near(bound: usize, rng: &mut Rng) -> u32 {
    let bound = u32::try_from(bound).unwrap_or(u32::MAX);
    match rng.u32(0..6) {
        0 => bound,
        1 => u32::MAX,
        2 => rng.u32(..),
        3 => bound.saturating_add(1),
        _ => rng.u32(0..=bound),
    }
}

/// A code or id. `below` says what must come of one within bounds, and of one beyond.
fn byte(column: &mut [u8], bound: usize, rng: &mut Rng, below: impl Fn(bool) -> Must) -> Option<Must> {
    let place = pick(column, rng)?;
    *place = if rng.bool() { u8::try_from(near(bound, rng) & 0xff).unwrap_or(u8::MAX) } else { rng.u8(..) };
    Some(if usize::from(*place) < bound { below(true) } else { Must::Fail })
}

fn word(column: &mut [u32], bound: usize, rng: &mut Rng) -> Option<Must> {
    let place = pick(column, rng)?;
    *place = near(bound, rng);
    Some(if (*place as usize) < bound { Must::Pass } else { Must::Fail })
}

fn time(column: &mut [i64], rng: &mut Rng) -> Option<Must> {
    *pick(column, rng)? = match rng.u32(0..4) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => rng.i64(..),
        _ => rng.i64(-5..60),
    };
    Some(Must::Pass)
}

fn timed(column: &mut Vec<u8>, len: usize, rng: &mut Rng) -> Must {
    match rng.u32(0..3) {
        0 => column.push(rng.u8(0..3)),
        1 => drop(column.pop()),
        _ => drop(pick(column, rng).map(|place| *place = rng.u8(0..4))),
    }
    let valid = column.is_empty() || column.len() == len && column.iter().all(|&code| code < 2);
    if valid { Must::Pass } else { Must::Fail }
}

/// Another number of items.
fn length<T: Clone + Default>(column: &mut Vec<T>, rng: &mut Rng) -> Must {
    match rng.u32(0..4) {
        0 if !column.is_empty() => drop(column.pop()),
        1 if !column.is_empty() => column.clear(),
        2 if !column.is_empty() => column.extend_from_within(..),
        _ => column.push(column.last().cloned().unwrap_or_default()),
    }
    Must::Fail
}

fn bytes(column: &mut BlobsBuf, rng: &mut Rng) -> Option<Must> {
    match rng.u32(0..4) {
        0 => column.bytes.push(rng.u8(..)),
        1 => drop(column.bytes.pop()?),
        _ => {
            *pick(&mut column.bytes, rng)? ^= 1 << rng.u32(0..8);
            return Some(Must::Pass);
        }
    }
    Some(Must::Fail)
}

fn ends(column: &mut BlobsBuf, rng: &mut Rng) -> Option<Must> {
    let index = rng.usize(0..column.ends.len().max(1));
    let (before, after) =
        (index.checked_sub(1).and_then(|at| column.ends.get(at)).copied().unwrap_or(0), column.ends.get(index + 1).copied());
    let place = column.ends.get_mut(index)?;
    let old = *place;
    *place = match rng.u32(0..4) {
        0 => old.wrapping_add(1),
        1 => old.wrapping_sub(1),
        2 => near(column.bytes.len(), rng),
        _ => rng.u32(..),
    };
    let valid = match after {
        Some(after) => (before..=after).contains(place),
        None => *place == old,
    };
    Some(if valid { Must::Pass } else { Must::Fail })
}

/// Other content of one item.
fn item(column: &mut BlobsBuf, rng: &mut Rng) -> Option<Must> {
    let which = rng.usize(0..column.len().max(1));
    column.ends.get(which)?;
    let mut changed = BlobsBuf::default();
    for (index, old) in column.view().iter().enumerate() {
        let mut new = old.to_vec();
        if index == which {
            match rng.u32(0..4) {
                0 => new.clear(),
                1 => new.truncate(rng.usize(0..=new.len())),
                2 => new.extend((0..rng.usize(1..9)).map(|_| rng.u8(..))),
                _ => new.iter_mut().for_each(|byte| *byte = rng.u8(..)),
            }
        }
        changed.push(&new);
    }
    *column = changed;
    Some(Must::Either)
}

fn pick<'a, T>(column: &'a mut [T], rng: &mut Rng) -> Option<&'a mut T> {
    let index = rng.usize(0..column.len().max(1));
    column.get_mut(index)
}
