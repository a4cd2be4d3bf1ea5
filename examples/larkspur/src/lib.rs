//! One business day of the Larkspur shops, 15 August 2026: the sales of fifty stores and the stock they opened with.
//!
//! The day is constructed, not sampled: every seed gives another day with exactly the counts of [`Counts`], and with the cases that a
//! detector of empty shelves gets wrong: sales out of order, several at one moment, on a deadline, late, uploaded twice, of another date.
//!
//! Read `plan` (what each key sells), `basket` and `stray` (how that reaches a till), then `upload` (when and where it arrives).

mod basket;
mod clock;
mod counts;
mod plan;
mod stray;
mod upload;
mod write;

#[cfg(test)]
mod rule;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use fastrand::Rng;

pub use crate::counts::Counts;
pub use crate::upload::FILES;

/// What [`generate`] wrote.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The counts that the day has by construction.
    pub counts: Counts,
    /// Baskets in the files, copies and other business dates included.
    pub uploads: usize,
    /// Second copies among them.
    pub copies: usize,
}

/// Writes the day of `seed` into the folder `dir`: `pos-0.jsonl` to `pos-5.jsonl` in arrival order, and `opening_stock.csv`.
///
/// The same seed and scale give the same bytes.
///
/// # Errors
/// When the folder or a file cannot be written; the message names it.
pub fn generate(dir: &Path, seed: u64, scale: u16) -> io::Result<Summary> {
    let counts = Counts::at_scale(usize::from(scale));
    let mut rng = Rng::with_seed(seed);
    let clock = clock::Clock::new(&counts, &mut rng);
    let plan = plan::Plan::new(&counts, &clock, &mut rng);
    let mut baskets = basket::from_sales(&plan.sales, &mut rng);
    stray::add_late(&mut baskets, &counts, &plan, &mut rng);
    stray::add_other_dates(&mut baskets, &counts, &plan, &mut rng);
    let uploads = upload::uploads(&baskets, &mut rng);
    write::files(dir, &baskets, &uploads)?;
    write::opening_stock(dir, &plan.openings)?;
    Ok(Summary { uploads: uploads.len(), copies: uploads.len() - baskets.len(), counts })
}
