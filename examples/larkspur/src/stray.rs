//! Baskets that must not count: late ones and those of other business dates, placed where counting them would change an alert.
#![expect(clippy::indexing_slicing, reason = "positions are drawn below the length of the list, and the lists are never empty")]

use fastrand::Rng;

use crate::basket::{Basket, LARGEST, Line, till};
use crate::clock::{CLOSE, CONFIRM, HOUR, OPEN};
use crate::counts::{Counts, SKUS};
use crate::plan::Plan;

/// The least delay of a late basket.
const LATE: i64 = 2 * HOUR;

/// Adds baskets of the business date that are uploaded hours after the sale.
pub(crate) fn add_late(baskets: &mut Vec<Basket>, counts: &Counts, plan: &Plan, rng: &mut Rng) {
    let mut left = counts.late_lines;
    while left > 0 {
        let mut basket = stray(plan, rng);
        basket.lines.truncate(left);
        basket.late_by = Some(late(rng));
        left -= basket.lines.len();
        baskets.push(basket);
    }
}

/// Adds baskets of the day before and the day after, whose tills were closed too late or too early.
pub(crate) fn add_other_dates(baskets: &mut Vec<Basket>, counts: &Counts, plan: &Plan, rng: &mut Rng) {
    for _ in 0..counts.other_date_baskets {
        let mut basket = stray(plan, rng);
        basket.date = if rng.bool() { -1 } else { 1 };
        if basket.date < 0 && rng.u8(0..4) == 0 {
            // Sold last evening and uploaded this morning.
            basket.event_ts = rng.i64(CLOSE - 3 * HOUR..=CLOSE) - 24 * HOUR;
            basket.late_by = Some(rng.i64(9 * HOUR..=14 * HOUR));
        } else if rng.u8(0..10) == 0 {
            basket.late_by = Some(late(rng));
        }
        baskets.push(basket);
    }
}

/// A basket of lines of one store: of a key that runs out, soon after it did; of one that sells on time; or of any.
fn stray(plan: &Plan, rng: &mut Rng) -> Basket {
    let emptied = plan.emptied[rng.usize(0..plan.emptied.len())];
    let sold = plan.sales[rng.usize(0..plan.sales.len())];
    let (key, event_ts) = match rng.u8(0..6) {
        0 | 1 => (emptied.key, (emptied.at + rng.i64(1..=CONFIRM)).min(CLOSE)),
        2 => (emptied.key, (emptied.at + CONFIRM).min(CLOSE)),
        3 => (sold.key, sold.at),
        4 => (sold.key, rng.i64(OPEN..=CLOSE)),
        _ => (rng.usize(0..plan.openings.len()), rng.i64(OPEN..=CLOSE)),
    };
    let store = key / SKUS;
    let mut skus = vec![key % SKUS];
    for _ in 1..rng.usize(1..=LARGEST / 2) {
        let sku = rng.usize(0..SKUS);
        if !skus.contains(&sku) {
            skus.push(sku);
        }
    }
    let lines = skus.into_iter().map(|sku| Line { sku, qty: rng.i32(1..=3) }).collect();
    Basket { store, till: till(rng), date: 0, event_ts, late_by: None, lines }
}

fn late(rng: &mut Rng) -> i64 {
    if rng.u8(0..16) == 0 { LATE } else { rng.i64(LATE..=10 * HOUR) }
}
