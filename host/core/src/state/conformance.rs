//! What every state backend must do, as one test to be called by each backend's tests. It panics where a backend differs.
//!
//! The cases are data to the backend: batches of writes and timer operations go in through [`KeyedState`], and what comes back is compared
//! with what must be there, in the end with a naive model over thousands of random steps.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that several crates call: it panics where the backend under test is wrong"
)]

mod content;
mod model;
mod random;
mod rescale;
mod rig;
mod snapshots;
mod timers;
mod ttl;

use tidemill_wit::descriptor::StateDescriptor;

use super::KeyedState;

/// Opens empty state for the given descriptors.
pub type Open<'a> = &'a mut dyn FnMut(&[StateDescriptor]) -> Box<dyn KeyedState>;

/// Runs every case on the backend that `open` opens; it is opened anew for each.
pub fn conformance(open: Open<'_>) {
    content::values(open);
    content::lists(open);
    content::maps(open);
    content::limits_of_prefetch(open);
    content::keys_vanish(open);
    content::hostile_reads(open);
    ttl::values(open);
    ttl::entries(open);
    ttl::touches(open);
    ttl::reads_renew_only_where_declared(open);
    ttl::expiry_removes(open);
    ttl::on_and_off(open);
    timers::order_and_duplicates(open);
    timers::limits(open);
    timers::extremes(open);
    timers::many_at_one_time(open);
    snapshots::round_trip(open);
    snapshots::equal_state_gives_equal_bytes(open);
    snapshots::deltas(open);
    snapshots::changed_states(open);
    snapshots::bad_bytes_change_nothing(open);
    // Fewer where code is not optimized, as under `make mutants`.
    let (few, many) = if cfg!(debug_assertions) { (1, 5) } else { (3, 40) };
    for seed in 0..few {
        rescale::round_trip(open, seed);
    }
    for seed in 0..many {
        random::run(open, seed, 150);
    }
}
