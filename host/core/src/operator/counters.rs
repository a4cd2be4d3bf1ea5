//! What a detector counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::effects::Count;

/// How many counters a subtask has at most.
const MOST: usize = 1_024;

/// The counters of a subtask by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters(BTreeMap<Arc<str>, u64>);

impl Counters {
    /// Adds what a call has counted, once its effects are applied.
    pub(super) fn add(&mut self, counts: &mut Vec<Count>) {
        for (name, n) in counts.drain(..) {
            if let Some(sum) = self.0.get_mut(&*name) {
                *sum = sum.saturating_add(n);
            } else if self.0.len() < MOST {
                self.0.insert(name, n);
            }
        }
    }

    /// All of them.
    pub(super) fn read(&self) -> Vec<Count> {
        self.0.iter().map(|(name, n)| (Arc::clone(name), *n)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Counters, MOST};

    #[test]
    fn counters_add_up_and_are_bounded() {
        let mut counters = Counters::default();
        counters.add(&mut vec![("late".into(), 2), ("late".into(), u64::MAX), ("early".into(), 0)]);
        assert_eq!(counters.read(), [("early".into(), 0), ("late".into(), u64::MAX)]);
        counters.add(&mut (0..2 * MOST).map(|n| (n.to_string().into(), 1)).collect());
        assert_eq!(counters.read().len(), MOST);
    }
}
