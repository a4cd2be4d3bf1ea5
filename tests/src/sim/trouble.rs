//! What may befall a life.

use std::io::ErrorKind;

use fastrand::Rng;

use super::life::Phase;
use crate::sim_disk::Faults;

/// What befalls a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing: it may run to its end.
    None,
    /// The machine loses its power: memory is lost, and on disk what was not synced is lost, kept or torn.
    PowerCut(When),
    /// The process is killed: memory is lost, the disk stays as it is.
    Kill(When),
    /// Calls to the disk fail.
    BadDisk(BadDisk),
    /// The user asks for a stop after so many steps.
    Stop(u64),
}

/// When a life is cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Amid a call to the disk, after so many others.
    Call(u64),
    /// Between two steps, after so many.
    Step(u64),
    /// After so many steps in a phase.
    In(Phase, u64),
}

/// How a disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadDisk {
    /// Any call may, with this probability in thousandths.
    Flaky(u64, ErrorKind),
    /// There is space for so many bytes only.
    Full(u64),
}

impl Trouble {
    /// Any.
    #[must_use]
    pub fn random(rng: &mut Rng) -> Self {
        match rng.u8(..16) {
            0..6 => Self::PowerCut(When::random(rng)),
            6..11 => Self::Kill(When::random(rng)),
            11..13 => Self::BadDisk(BadDisk::Flaky(rng.u64(5..80), if rng.bool() { ErrorKind::Other } else { ErrorKind::StorageFull })),
            13 => Self::BadDisk(BadDisk::Full(rng.u64(..200_000))),
            14 => Self::Stop(rng.u64(..3000)),
            _ => Self::None,
        }
    }

    /// How many calls to the disk succeed before the life is cut short.
    #[must_use]
    pub fn calls(self) -> Option<u64> {
        match self.cut() {
            Some(When::Call(calls)) => Some(calls),
            _ => None,
        }
    }

    /// How the disk fails.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    pub fn faults(self) -> Faults {
        match self {
            Self::BadDisk(BadDisk::Flaky(thousandths, kind)) => {
                Faults { probability: thousandths as f64 / 1000.0, kind, ..Faults::default() }
            }
            Self::BadDisk(BadDisk::Full(bytes)) => Faults { free_bytes: Some(bytes), ..Faults::default() },
            _ => Faults::default(),
        }
    }

    /// When the life is cut short, if it is.
    #[must_use]
    pub fn cut(self) -> Option<When> {
        match self {
            Self::PowerCut(when) | Self::Kill(when) => Some(when),
            _ => None,
        }
    }
}

impl When {
    fn random(rng: &mut Rng) -> Self {
        match rng.u8(..8) {
            // A restore makes only a few calls.
            0..2 => Self::Call(rng.u64(..20)),
            2..4 => Self::Call(rng.u64(..120)),
            4 => Self::Step(rng.u64(..3000)),
            5 => Self::In(Phase::Run, rng.u64(1..800)),
            6 => Self::In(Phase::BeforeManifest, rng.u64(1..800)),
            _ => Self::In(Phase::AfterManifest, rng.u64(1..100)),
        }
    }

    /// Whether it is now: after so many steps, of which so many in each phase.
    #[must_use]
    pub fn is_now(self, steps: u64, phase: Phase, steps_in_phase: u64) -> bool {
        match self {
            Self::Call(_) => false,
            Self::Step(after) => steps >= after,
            Self::In(wanted, after) => phase == wanted && steps_in_phase >= after,
        }
    }
}
