//! Smaller programs than one that fails.

use probe::Op;

use super::{Program, Step};
use crate::model::Lives;

/// All programs with something less, those with much less first.
#[must_use]
pub fn smaller(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    for size in [program.steps.len() / 2, program.steps.len() / 4, 1] {
        for start in (0..program.steps.len()).step_by(size.max(1)) {
            if size > 0 {
                let mut less = program.clone();
                less.steps.drain(start..(start + size).min(program.steps.len()));
                all.push(less);
            }
        }
    }
    for (index, step) in program.steps.iter().enumerate() {
        if let Step::Element(time, input) = step {
            for ops in fewer(&input.ops) {
                let mut less = program.clone();
                let input = probe::Input { ops, ..input.clone() };
                less.steps.splice(index..=index, [Step::Element(*time, input)]);
                all.push(less);
            }
        }
    }
    let Lives { value, list, map, sum, average } = program.lives;
    if [value, list, map, sum, average].iter().any(Option::is_some) {
        all.push(Program { lives: Lives::default(), ..program.clone() });
    }
    all
}

/// All lists with one op less, here or in a script.
fn fewer(ops: &[Op]) -> Vec<Vec<Op>> {
    let mut all = Vec::new();
    for (index, op) in ops.iter().enumerate() {
        let with = |new: Option<Op>| {
            let mut less = ops.to_vec();
            less.splice(index..=index, new);
            less
        };
        all.push(with(None));
        match op {
            Op::EventTimerDo { at, ops } => all.extend(fewer(ops).into_iter().map(|ops| with(Some(Op::EventTimerDo { at: *at, ops })))),
            Op::ProcessingTimerDo { at, ops } => {
                all.extend(fewer(ops).into_iter().map(|ops| with(Some(Op::ProcessingTimerDo { at: *at, ops }))));
            }
            _ => {}
        }
    }
    all
}
