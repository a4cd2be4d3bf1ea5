//! What the benches measure.

pub mod big_state;
pub mod boundary;
pub mod job;
pub mod reference;
pub mod restore;
pub mod stages;

/// The middle one of some measurements.
#[must_use]
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
