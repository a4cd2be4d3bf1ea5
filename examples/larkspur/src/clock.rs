//! When stores are open and when their tills ring.
#![expect(
    clippy::indexing_slicing,
    reason = "stores are numbered from zero to the length of the list, and positions come from a search in it"
)]

use fastrand::Rng;

use crate::counts::Counts;

pub(crate) const SECOND: i64 = 1_000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;
/// Midnight at the start of 2026-08-15, in milliseconds since 1970.
pub(crate) const DAY: i64 = 1_786_752_000_000;
/// The first moment of a sale.
pub(crate) const OPEN: i64 = DAY + 6 * HOUR;
/// The last moment of a sale.
pub(crate) const CLOSE: i64 = DAY + 22 * HOUR;
/// An emptied shelf is confirmed as out of stock after this time without a sale.
pub(crate) const CONFIRM: i64 = 30 * MINUTE;

const MOMENTS_PER_STORE: usize = 520;

/// The moments at which each store's tills ring, so that sales of several SKUs meet in one basket.
pub(crate) struct Clock {
    moments: Vec<Vec<i64>>,
}

impl Clock {
    pub(crate) fn new(counts: &Counts, rng: &mut Rng) -> Self {
        let moments = (0..counts.stores).map(|_| {
            let mut store: Vec<i64> = (0..MOMENTS_PER_STORE).map(|_| moment(rng)).collect();
            store.sort_unstable();
            store
        });
        Self { moments: moments.collect() }
    }

    /// A moment of `store` from `first` to `last`, both included: one at which its tills ring, if there is one.
    pub(crate) fn pick(&self, store: usize, first: i64, last: i64, rng: &mut Rng) -> i64 {
        let moments = &self.moments[store];
        let start = moments.partition_point(|moment| *moment < first);
        let end = moments.partition_point(|moment| *moment <= last);
        if start < end { moments[rng.usize(start..end)] } else { rng.i64(first..=last) }
    }
}

/// Busy at noon and after work. Most tills write whole seconds, so different stores often share a moment.
fn moment(rng: &mut Rng) -> i64 {
    let at = match rng.u8(0..4) {
        0 => around(DAY + 12 * HOUR + 30 * MINUTE, 2 * HOUR, rng),
        1 => around(DAY + 17 * HOUR + 30 * MINUTE, 2 * HOUR, rng),
        _ => rng.i64(OPEN..=CLOSE),
    };
    if rng.u8(0..8) == 0 { at } else { at - at.rem_euclid(SECOND) }
}

fn around(middle: i64, reach: i64, rng: &mut Rng) -> i64 {
    middle + (rng.i64(-reach..=reach) + rng.i64(-reach..=reach)) / 2
}
