//! Alignment of sources in event time: no split reads further ahead of the slowest member of its group than it is allowed to (Flink's
//! `withWatermarkAlignment`). Each subtask of a source is a member and tells how far it has come by storing a number, so that workers share
//! it without locks, and a pause ends with the step after the one in which the slowest went on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::Timestamp;

/// Of a member that holds nobody back. It is no watermark of any member: those are the end of time only when the member has ended.
const HOLDS_NOBODY: i64 = i64::MAX;

/// The subtasks of the sources that are aligned with each other.
#[derive(Debug)]
pub struct Group {
    reached: Vec<AtomicI64>,
}

/// One subtask's place in a group.
#[derive(Clone, Debug)]
pub struct Member {
    group: Arc<Group>,
    index: usize,
    max_drift: i64,
}

impl Group {
    /// A group of which nobody has come anywhere yet.
    #[must_use]
    pub fn new(members: usize) -> Arc<Self> {
        Arc::new(Self { reached: (0..members).map(|_| AtomicI64::new(HOLDS_NOBODY)).collect() })
    }

    /// A member, which may be ahead of the slowest one by so many milliseconds.
    #[must_use]
    pub fn member(self: &Arc<Self>, index: usize, max_drift: i64) -> Member {
        Member { group: Arc::clone(self), index, max_drift }
    }
}

impl Member {
    /// Tells how far this member has come. `None`: it is idle, has ended, or has had no record yet, and holds nobody back.
    pub fn report(&self, reached: Option<Timestamp>) {
        if let Some(place) = self.group.reached.get(self.index) {
            place.store(reached.map_or(HOLDS_NOBODY, |reached| reached.0), Ordering::Relaxed);
        }
    }

    /// Up to which watermark this member may read on; the end of time if nobody holds it back.
    #[must_use]
    pub fn limit(&self) -> Timestamp {
        let slowest = self.group.reached.iter().map(|reached| reached.load(Ordering::Relaxed)).min().unwrap_or(HOLDS_NOBODY);
        Timestamp(slowest).plus(self.max_drift)
    }
}

#[cfg(test)]
mod tests {
    use super::Group;
    use crate::Timestamp;

    #[test]
    fn w7_the_slowest_active_member_is_the_measure() {
        let group = Group::new(2);
        let (a, b) = (group.member(0, 20), group.member(1, 20));
        assert_eq!(a.limit(), Timestamp::MAX, "who has had nothing holds nobody");
        a.report(Some(Timestamp(100)));
        b.report(Some(Timestamp(50)));
        assert_eq!((a.limit(), b.limit()), (Timestamp(70), Timestamp(70)));
        b.report(Some(Timestamp(90)));
        assert_eq!(a.limit(), Timestamp(110));
        b.report(None);
        assert_eq!(a.limit(), Timestamp(120), "its own drift");
        a.report(None);
        assert_eq!(a.limit(), Timestamp::MAX, "no overflow when all are idle");
    }
}
