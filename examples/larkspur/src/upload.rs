//! When baskets arrive, in which file, and which of them twice.
#![expect(clippy::indexing_slicing, reason = "files are numbered below the length of the lists, and uploads name baskets by position")]

use fastrand::Rng;

use crate::basket::Basket;
use crate::clock::SECOND;

/// Files that the stores' baskets arrive in.
pub const FILES: usize = 6;

/// By file: the longest time from sale to upload of an on-time basket, so that no file is further out of order than that.
pub(crate) const LONGEST: [i64; FILES] = [15 * SECOND, 30 * SECOND, 45 * SECOND, 60 * SECOND, 75 * SECOND, 90 * SECOND];

/// A basket on its way into a file.
#[derive(Clone, Copy)]
pub(crate) struct Upload {
    /// Position in the list of baskets.
    pub(crate) basket: usize,
    pub(crate) file: usize,
    pub(crate) uploaded_at: i64,
}

/// Every basket once and some of them twice, in arrival order.
pub(crate) fn uploads(baskets: &[Basket], rng: &mut Rng) -> Vec<Upload> {
    let mut uploads = Vec::with_capacity(baskets.len() + baskets.len() / 32);
    for (position, basket) in baskets.iter().enumerate() {
        let file = basket.store % FILES;
        let delay = basket.late_by.unwrap_or_else(|| on_time(SECOND / 2, LONGEST[file], rng));
        let first = Upload { basket: position, file, uploaded_at: basket.event_ts + delay };
        uploads.push(first);
        if rng.u8(0..32) == 0 {
            uploads.push(copy(first, basket, rng));
        }
    }
    uploads.sort_by_key(|upload| upload.uploaded_at);
    uploads
}

/// The second copy of a basket, on the same side of the lateness test: the same, or uploaded again after it to the same file, or to another.
///
/// In another file a late copy has the same `uploaded_at`: whichever is read first, the late line is the same.
fn copy(first: Upload, basket: &Basket, rng: &mut Rng) -> Upload {
    let delay = first.uploaded_at - basket.event_ts;
    let other = rng.usize(0..FILES);
    let (file, delay) = match (rng.u8(0..3), basket.late_by) {
        (0, _) => (first.file, delay),
        (1, None) => (first.file, on_time(delay, LONGEST[first.file], rng)),
        (1, Some(_)) => (first.file, delay + rng.i64(0..=600 * SECOND)),
        (_, None) => (other, on_time(SECOND / 2, LONGEST[other], rng)),
        (_, Some(_)) => (other, delay),
    };
    Upload { basket: first.basket, file, uploaded_at: basket.event_ts + delay }
}

/// Mostly a few seconds, sometimes as long as may be.
fn on_time(least: i64, longest: i64, rng: &mut Rng) -> i64 {
    match rng.u8(0..32) {
        0 => longest,
        1..8 => rng.i64(least..=longest),
        _ => rng.i64(least..=longest.min(least + 5 * SECOND)),
    }
}
