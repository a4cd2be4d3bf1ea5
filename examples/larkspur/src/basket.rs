//! Sales gathered into the baskets of a till.

use fastrand::Rng;

use crate::counts::SKUS;
use crate::plan::Sale;

/// Tills of a store.
const TILLS: usize = 8;
/// Lines of the largest basket.
pub(crate) const LARGEST: usize = 8;

/// A line of a basket.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    /// From zero.
    pub(crate) sku: usize,
    pub(crate) qty: i32,
}

/// What a till sold to one customer.
pub(crate) struct Basket {
    /// From zero.
    pub(crate) store: usize,
    pub(crate) till: usize,
    /// The business date, in days after the day's own; it need not be the date of the sale.
    pub(crate) date: i64,
    pub(crate) event_ts: i64,
    /// Milliseconds from the sale to the upload of a late basket; those of an on-time one hang on the file that it arrives in.
    pub(crate) late_by: Option<i64>,
    pub(crate) lines: Vec<Line>,
}

/// A basket, or a few at different tills, for every moment of a store at which something is sold.
pub(crate) fn from_sales(sales: &[Sale], rng: &mut Rng) -> Vec<Basket> {
    let mut sales = sales.to_vec();
    sales.sort_by_key(|sale| (sale.key / SKUS, sale.at));
    let mut baskets = Vec::new();
    for moment in sales.chunk_by(|a, b| (a.key / SKUS, a.at) == (b.key / SKUS, b.at)) {
        // Dealing the lines to several tills also parts the lines of one key, which arrive apart and are still one sale.
        let tills = if rng.u8(0..4) == 0 { 2 } else { moment.len().div_ceil(LARGEST) }.min(moment.len());
        let first = rng.usize(0..TILLS);
        for part in 0..tills {
            let lines: Vec<&Sale> = moment.iter().skip(part).step_by(tills).collect();
            for lines in lines.chunks(LARGEST) {
                baskets.extend(on_time(lines, (first + part) % TILLS));
            }
        }
    }
    baskets
}

/// A till of a store, any of them.
pub(crate) fn till(rng: &mut Rng) -> usize {
    rng.usize(0..TILLS)
}

fn on_time(sales: &[&Sale], till: usize) -> Option<Basket> {
    let first = sales.first()?;
    let lines = sales.iter().map(|sale| Line { sku: sale.key % SKUS, qty: sale.qty }).collect();
    Some(Basket { store: first.key / SKUS, till, date: 0, event_ts: first.at, late_by: None, lines })
}
