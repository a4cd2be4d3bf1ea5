//! What each key opens with and sells on time: the part that fixes the alerts.
#![expect(clippy::indexing_slicing, reason = "keys are numbers below the length of the lists they index")]

use fastrand::Rng;

use crate::clock::{CLOSE, CONFIRM, Clock, OPEN, SECOND};
use crate::counts::{Counts, SKUS};

/// A line of a till, not yet in a basket. A key is numbered store by store: `store * SKUS + sku`, both from zero.
#[derive(Clone, Copy)]
pub(crate) struct Sale {
    pub(crate) key: usize,
    pub(crate) at: i64,
    pub(crate) qty: i32,
}

/// The day as the detector should see it.
pub(crate) struct Plan {
    /// By key.
    pub(crate) openings: Vec<i32>,
    /// All on-time lines, those of a key side by side.
    pub(crate) sales: Vec<Sale>,
    /// The sales that empty a shelf, where a line that should not count would change an alert.
    pub(crate) emptied: Vec<Sale>,
}

/// What happens to a key over the day.
#[derive(Clone, Copy)]
enum Role {
    OpensEmpty,
    RunsOut,
    SellsAfter,
    SellsWithin,
    Lasts,
}

/// What one key has to do.
struct Share {
    key: usize,
    role: Role,
    /// Its number among the keys of the role.
    ordinal: usize,
    /// Lines beyond those that the role needs.
    extra: usize,
}

/// The moments between which a key's sales fall.
struct Course {
    /// The sale that takes the level to zero or below.
    emptied: i64,
    /// The first sale after that.
    next: Option<i64>,
}

impl Plan {
    pub(crate) fn new(counts: &Counts, clock: &Clock, rng: &mut Rng) -> Self {
        let mut keys: Vec<usize> = (0..counts.store_skus).collect();
        rng.shuffle(&mut keys);
        let (sold, unsold) = keys.split_at(counts.sold_keys());
        let mut plan = Self { openings: vec![0; keys.len()], sales: Vec::with_capacity(counts.on_time_lines), emptied: Vec::new() };
        let extra = extra_lines(counts, rng);
        for ((key, (role, ordinal)), extra) in sold.iter().zip(roles(counts)).zip(extra) {
            plan.add(&Share { key: *key, role, ordinal, extra }, clock, rng);
        }
        for (place, key) in unsold.iter().enumerate() {
            plan.openings[*key] = if place < counts.opens_empty_unsold { at_most_zero(rng) } else { rng.i32(1..=60) };
        }
        plan
    }

    /// Adds the sales of one key and the opening stock that they make necessary.
    fn add(&mut self, share: &Share, clock: &Clock, rng: &mut Rng) {
        let Share { key, role, ordinal, extra } = *share;
        let first = self.sales.len();
        let store = key / SKUS;
        let Some(course) = course(role, ordinal, store, clock, rng) else {
            for _ in 0..=extra {
                self.sales.push(Sale { key, at: clock.pick(store, OPEN, CLOSE, rng), qty: qty(rng) });
            }
            self.openings[key] = match role {
                Role::OpensEmpty => at_most_zero(rng),
                _ => units(&self.sales[first..]) + if rng.u8(0..6) == 0 { 1 } else { rng.i32(1..=40) },
            };
            return;
        };
        self.sales.push(Sale { key, at: course.emptied, qty: qty(rng) });
        self.emptied.extend(self.sales.last().copied());
        self.sales.extend(course.next.map(|at| Sale { key, at, qty: qty(rng) }));
        for _ in 0..extra {
            let at = match (rng.u8(0..4), course.next) {
                (0, _) => course.emptied,
                (1, Some(next)) => clock.pick(store, next, CLOSE, rng),
                _ => clock.pick(store, OPEN, course.emptied, rng),
            };
            self.sales.push(Sale { key, at, qty: qty(rng) });
        }
        let sold = |part: fn(&i64, &i64) -> bool| {
            self.sales[first..].iter().filter(|sale| part(&sale.at, &course.emptied)).map(|sale| sale.qty).sum::<i32>()
        };
        // Often less than what the emptying sale takes: its lines are one sale, so the second of them is no book error.
        self.openings[key] = sold(i64::lt) + rng.i32(1..=sold(i64::eq));
    }
}

/// How many lines each sold key has beyond what its role needs; a few keys are hot.
fn extra_lines(counts: &Counts, rng: &mut Rng) -> Vec<usize> {
    let needed = counts.sold_keys() + counts.sells_after + counts.sells_within;
    let mut extra = vec![0; counts.sold_keys()];
    let mut order: Vec<usize> = (0..extra.len()).collect();
    rng.shuffle(&mut order);
    for _ in needed..counts.on_time_lines {
        let limit = rng.usize(1..=order.len());
        extra[order[rng.usize(0..limit)]] += 1;
    }
    extra
}

/// The role of every sold key, with its number among the keys of that role.
fn roles(counts: &Counts) -> impl Iterator<Item = (Role, usize)> {
    let numbers = [
        (Role::OpensEmpty, counts.opens_empty_sold),
        (Role::RunsOut, counts.runs_out),
        (Role::SellsAfter, counts.sells_after),
        (Role::SellsWithin, counts.sells_within),
        (Role::Lasts, counts.lasts),
    ];
    numbers.into_iter().flat_map(|(role, number)| (0..number).map(move |ordinal| (role, ordinal)))
}

/// The moments of a key that runs out. The ordinal picks the hard cases, so that every day has them.
fn course(role: Role, ordinal: usize, store: usize, clock: &Clock, rng: &mut Rng) -> Option<Course> {
    let (emptied, next) = match role {
        Role::OpensEmpty | Role::Lasts => return None,
        Role::RunsOut => {
            // Deadlines of the last half hour lie behind the last sale of the day.
            let earliest = if ordinal.is_multiple_of(64) { CLOSE - CONFIRM } else { OPEN };
            (if ordinal == 0 { CLOSE } else { clock.pick(store, earliest, CLOSE, rng) }, None)
        }
        Role::SellsAfter => {
            let emptied = clock.pick(store, OPEN, CLOSE - CONFIRM - 1, rng);
            let first = emptied + CONFIRM + 1;
            (emptied, Some(if ordinal.is_multiple_of(8) { first } else { clock.pick(store, first, CLOSE, rng) }))
        }
        Role::SellsWithin => {
            let emptied = clock.pick(store, OPEN, CLOSE - CONFIRM, rng);
            let next = match ordinal % 8 {
                0 | 1 => emptied + CONFIRM,
                2 => emptied + CONFIRM - 1,
                3 => emptied + 1,
                // So close that the later sale often arrives first.
                4 | 5 => emptied + rng.i64(1..=20) * SECOND,
                _ => clock.pick(store, emptied + 1, emptied + CONFIRM, rng),
            };
            (emptied, Some(next))
        }
    };
    Some(Course { emptied, next })
}

fn qty(rng: &mut Rng) -> i32 {
    if rng.u8(0..4) == 0 { rng.i32(2..=4) } else { 1 }
}

fn at_most_zero(rng: &mut Rng) -> i32 {
    if rng.u8(0..3) == 0 { rng.i32(-6..=-1) } else { 0 }
}

fn units(sales: &[Sale]) -> i32 {
    sales.iter().map(|sale| sale.qty).sum()
}
