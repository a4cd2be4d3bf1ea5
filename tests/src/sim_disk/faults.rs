//! Which calls fail.

use std::io::ErrorKind;

use fastrand::Rng;

/// What goes wrong on a [`SimDisk`](super::SimDisk). The default is nothing.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// How probable it is that a call which changes something fails.
    pub probability: f64,
    /// The kind of that failure.
    pub kind: ErrorKind,
    /// How many more bytes can be written until the disk is full; then writes fail with [`ErrorKind::StorageFull`].
    pub free_bytes: Option<u64>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { probability: 0.0, kind: ErrorKind::Other, free_bytes: None }
    }
}

impl Faults {
    pub(super) fn fails(&self, rng: &mut Rng) -> bool {
        self.probability > 0.0 && rng.f64() < self.probability
    }

    /// How many of `wanted` bytes fit.
    pub(super) fn take(&mut self, wanted: usize) -> usize {
        let Some(free) = &mut self.free_bytes else { return wanted };
        let fits = wanted.min(usize::try_from(*free).unwrap_or(usize::MAX));
        *free -= fits as u64;
        fits
    }
}
