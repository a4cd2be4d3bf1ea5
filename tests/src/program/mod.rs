//! Random programs for `guests/probe`: steps of a case, whose expected output the [model](crate::model) says.

mod case;
mod ops;
mod shrink;

use fastrand::Rng;
use probe::Input;

pub use case::text;
pub use ops::{Dice, KEYS, ops};
pub use shrink::smaller;

use crate::model::{Lives, Ttl};

/// The first number of a checkpoint in a pause.
const FIRST_OF_PAUSES: usize = 1_000;

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// How long state lives.
    pub lives: Lives,
    /// What happens.
    pub steps: Vec<Step>,
}

/// A step of a program.
#[derive(Clone, Debug)]
pub enum Step {
    /// A record comes in.
    Element(Option<i64>, Input),
    /// The watermark arrives.
    Watermark(i64),
    /// The clock goes on by so much.
    Clock(i64),
    /// A checkpoint with this number.
    Checkpoint(usize),
    /// A savepoint with this number.
    Savepoint(usize),
    /// All memory is lost.
    Crash,
    /// The job goes on from the snapshot with this number, on so many workers.
    Restore(usize, u32),
    /// The input ends.
    End,
}

/// The program of a seed with pauses: checkpoints in a row between which nothing happens, or the same again and again, and lives that begin
/// and end in such a pause.
#[must_use]
pub fn paused(seed: u64) -> Program {
    let rng = &mut Rng::with_seed(!seed);
    let Program { lives, steps } = program(seed);
    let (mut paused, mut number) = (Vec::new(), FIRST_OF_PAUSES);
    for step in steps {
        paused.push(step.clone());
        let repeated = match step {
            Step::End => continue,
            Step::Element(..) if rng.u8(0..10) == 0 => Some(step),
            _ if rng.u8(0..6) == 0 => None,
            _ => continue,
        };
        for _ in 0..rng.u8(2..5) {
            paused.extend(repeated.clone());
            paused.push(Step::Checkpoint(number));
            number += 1;
        }
        match rng.u8(0..4) {
            0 => paused.push(Step::Crash),
            1 => paused.push(Step::Restore(number - 1, rng.u32(1..6))),
            _ => {}
        }
    }
    Program { lives, steps: paused }
}

/// The program of a seed.
#[must_use]
pub fn program(seed: u64) -> Program {
    let rng = &mut Rng::with_seed(seed);
    let mut ttl = || (rng.u8(0..3) == 0).then(|| Ttl { life: rng.i64(1..30), on_read: rng.bool() });
    let lives = Lives { value: ttl(), list: ttl(), map: ttl(), sum: ttl(), average: ttl() };
    let (mut steps, mut watermark, mut snapshots) = (Vec::new(), 0, Vec::new());
    let bad = rng.bool();
    for number in 0..rng.usize(5..40) {
        match rng.u32(0..20) {
            0..3 => {
                watermark += rng.i64(-4..12);
                steps.push(Step::Watermark(watermark));
            }
            3..6 => steps.push(Step::Clock(rng.i64(0..12))),
            6 => {
                snapshots.push(number);
                steps.push(Step::Checkpoint(number));
            }
            7 if rng.bool() => {
                snapshots.push(number);
                steps.push(Step::Savepoint(number));
            }
            8 if rng.bool() => steps.push(Step::Crash),
            9 if !snapshots.is_empty() && rng.bool() => {
                let from = snapshots.get(rng.usize(0..snapshots.len())).copied().unwrap_or_default();
                steps.push(Step::Restore(from, rng.u32(1..6)));
            }
            _ => {
                let key = KEYS.get(rng.usize(0..KEYS.len())).copied().unwrap_or_default().to_owned();
                let time = (rng.u8(0..6) > 0).then(|| rng.i64(0..60));
                steps.push(Step::Element(time, Input { key, ops: ops(&mut Dice { rng, bad }) }));
            }
        }
    }
    if rng.bool() {
        steps.push(Step::End);
    }
    Program { lives, steps }
}
