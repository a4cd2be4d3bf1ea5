//! How far a call of timers reaches: a timer that is registered meanwhile fires in the same call if it is due soon enough after the others, so
//! a timer that renews itself could keep one call busy for ever.

use super::pace::{SLICE, Weight};
use crate::Timestamp;

/// After the last timer of a call, by how many milliseconds of their clock timers that join it may be later. It changes how a pass is cut,
/// never what comes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach(i64);

impl Reach {
    /// As far as the pass goes.
    pub(super) fn unlimited() -> Self {
        Self(i64::MAX)
    }

    /// From now on it is measured what calls take: begins with the given timers alone.
    pub(super) fn begin_small(&mut self) {
        self.0 = 0;
    }

    /// Up to which time timers may join a call whose last one is at `last`, in a part of a pass that goes up to `horizon`.
    pub(super) fn limit(self, last: i64, horizon: Timestamp) -> Timestamp {
        horizon.min(Timestamp(last.saturating_add(self.0)))
    }

    /// Takes in what a call made; `limited`: its reach was less than the pass's.
    pub(super) fn after(&mut self, limited: bool, weight: Weight) {
        if weight.took > SLICE || weight.is_heavy() {
            self.0 /= 4;
        } else if limited && weight.took < SLICE / 2 {
            self.0 = self.0.saturating_mul(2).saturating_add(1);
        }
    }

    /// After a call that was cut short.
    pub(super) fn was_cut_short(&mut self) {
        self.0 /= 1024;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Reach, SLICE, Timestamp, Weight};

    #[test]
    fn a_call_reaches_as_far_as_it_stays_short() {
        let mut reach = Reach::unlimited();
        assert_eq!(reach.limit(7, Timestamp::MAX), Timestamp::MAX);
        reach.begin_small();
        assert_eq!(reach.limit(7, Timestamp(100)), Timestamp(7));
        let fast = Weight { took: Duration::from_millis(1), ..Weight::default() };
        (0..6).for_each(|_| reach.after(true, fast));
        assert_eq!(reach.limit(7, Timestamp(100)), Timestamp(70));
        reach.after(false, fast);
        assert_eq!(reach.limit(7, Timestamp(100)), Timestamp(70), "it was enough");
        reach.after(true, Weight { took: SLICE * 2, ..Weight::default() });
        assert_eq!(reach.limit(7, Timestamp(100)), Timestamp(22));
        reach.was_cut_short();
        assert_eq!(reach.limit(i64::MAX, Timestamp::MAX), Timestamp::MAX);
        assert_eq!(reach.limit(7, Timestamp(100)), Timestamp(7));
    }
}
