//! What becomes of the records of a source that cannot be decoded.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::source::{InvalidRow, Split};

/// What becomes of records that cannot be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInvalid {
    /// They go to the lane `invalid`, and are counted there if nothing reads it.
    #[default]
    Lane,
    /// The first one fails the job.
    Fail,
}

/// The policy of a source, shared by its subtasks.
#[derive(Debug, Default)]
pub struct InvalidPolicy {
    on_invalid: OnInvalid,
    /// How many go to the lane before the job fails; `None`: any number.
    most: Option<u64>,
    /// What the user can do about a record that fails the job, as a sentence.
    advice: String,
    /// How many there have been since the job's first start. Counted with the positions that a restart goes back to.
    seen: AtomicU64,
}

impl InvalidPolicy {
    /// A policy. With [`OnInvalid::Lane`] the job fails after `most` invalid records, over all subtasks and since the job's first start.
    #[must_use]
    pub fn new(on_invalid: OnInvalid, most: Option<u64>, advice: impl Into<String>) -> Self {
        Self { on_invalid, most, advice: advice.into(), seen: AtomicU64::new(0) }
    }

    /// An attempt begins from these splits: what was counted after them counts again.
    pub(super) fn begin(&self, splits: &[Split]) {
        self.seen.store(splits.iter().fold(0, |sum, split| sum.saturating_add(split.invalid)), Ordering::Relaxed);
    }

    /// The first of these records, which are in the order of the split, that fails the job, and why it does.
    pub(super) fn refuses<'a>(&self, invalid: &'a [InvalidRow]) -> Option<(&'a InvalidRow, String)> {
        match (self.on_invalid, self.most) {
            (OnInvalid::Fail, _) => invalid.first().map(|row| (row, self.advice.clone())),
            (OnInvalid::Lane, None) => None,
            (OnInvalid::Lane, Some(most)) => {
                let before = self.seen.fetch_add(invalid.len() as u64, Ordering::Relaxed);
                let left = usize::try_from(most.saturating_sub(before)).unwrap_or(usize::MAX);
                let row = invalid.get(left)?;
                Some((row, format!("it is one more than max_invalid, {most}: {}", self.advice)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidPolicy, OnInvalid};
    use crate::source::{InvalidRow, Split};

    fn rows(positions: &[u64]) -> Vec<InvalidRow> {
        positions.iter().map(|&position| InvalidRow { position, raw: Vec::new(), reason: String::new() }).collect()
    }

    fn refused(policy: &InvalidPolicy, positions: &[u64]) -> Option<u64> {
        policy.refuses(&rows(positions)).map(|(row, _)| row.position)
    }

    #[test]
    fn the_first_one_fails_the_job_or_none_does() {
        assert_eq!(refused(&InvalidPolicy::new(OnInvalid::Fail, None, ""), &[4, 9]), Some(4));
        assert_eq!(refused(&InvalidPolicy::default(), &[4, 9]), None);
    }

    #[test]
    fn a_limit_counts_from_what_was_restored() {
        let policy = InvalidPolicy::new(OnInvalid::Lane, Some(3), "");
        assert_eq!((refused(&policy, &[1, 2]), refused(&policy, &[3, 4])), (None, Some(4)));
        let split = |invalid| Split { invalid, ..Split::new(&[], "a") };
        policy.begin(&[split(1), split(1)]);
        assert_eq!((refused(&policy, &[1]), refused(&policy, &[2])), (None, Some(2)));
        policy.begin(&[split(u64::MAX), split(1)]);
        assert_eq!(refused(&policy, &[7]), Some(7));
    }
}
