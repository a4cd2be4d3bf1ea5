//! Times in which nothing comes in, while checkpoints go on. Drawn from a seed of their own: a schedule without pauses stays as it was.

use fastrand::Rng;

use super::day::Day;
use super::source::Gate;

/// A pause ends after so many steps, whatever has become of its checkpoints.
const STEPS: u64 = 4_000;

/// The pauses of a schedule.
pub(super) struct Pauses {
    rng: Rng,
    /// Whether there are any.
    any: bool,
    pub(super) gate: Gate,
    /// In a pause: how many checkpoints it lasts, and how many steps at most.
    left: Option<(u64, u64)>,
}

impl Pauses {
    pub(super) fn new(rng: Rng, any: bool) -> Self {
        Self { rng, any, gate: Gate::default(), left: None }
    }

    /// Lets the same baskets come again and again, so that only one operator has anything to do.
    pub(super) fn prepare(&mut self, day: &mut Day) {
        if self.any {
            day.repeat(&mut self.rng);
        }
    }

    /// Whether local files may be links to files of checkpoints.
    pub(super) fn links(&mut self) -> bool {
        !self.any || self.rng.u8(..4) > 0
    }

    pub(super) fn is_paused(&self) -> bool {
        self.left.is_some()
    }

    /// Before a step. Returns whether a pause begins.
    pub(super) fn step(&mut self) -> bool {
        let begins = match &mut self.left {
            Some((_, 0)) => {
                self.left = None;
                false
            }
            Some((_, steps)) => {
                *steps -= 1;
                false
            }
            None if self.any && self.rng.u16(..1_000) == 0 => {
                self.left = Some((self.rng.u64(2..6), STEPS));
                true
            }
            None => false,
        };
        self.gate.shut(self.left.is_some());
        begins
    }

    /// A checkpoint has been committed.
    pub(super) fn committed(&mut self) {
        self.left = self.left.and_then(|(checkpoints, steps)| Some((checkpoints.checked_sub(1)?, steps)));
    }
}
