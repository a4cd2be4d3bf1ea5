//! The memory that all caches of a job share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that caches share: as long as some is left, each takes what it needs; when it is used up, those that have more than an
/// equal part give back. Clones are of the same pool.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: usize,
    used: AtomicUsize,
    members: AtomicUsize,
}

impl Pool {
    /// A pool of so many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Inner { limit, used: AtomicUsize::new(0), members: AtomicUsize::new(0) }))
    }

    /// A new member, which has taken nothing yet.
    pub(super) fn join(&self) -> Share {
        self.0.members.fetch_add(1, Ordering::Relaxed);
        Share { pool: self.clone(), own: 0 }
    }
}

/// What one cache has taken of the pool.
#[derive(Debug)]
pub(super) struct Share {
    pool: Pool,
    own: usize,
}

impl Share {
    /// Something that took `before` bytes takes `after` bytes now.
    pub(super) fn change(&mut self, before: usize, after: usize) {
        let Inner { used, .. } = &*self.pool.0;
        if after >= before {
            used.fetch_add(after - before, Ordering::Relaxed);
            self.own += after - before;
        } else {
            used.fetch_sub(before - after, Ordering::Relaxed);
            self.own -= before - after;
        }
    }

    /// Whether this cache must give back.
    pub(super) fn is_over(&self) -> bool {
        let Inner { limit, used, members } = &*self.pool.0;
        used.load(Ordering::Relaxed) > *limit && self.own > limit / members.load(Ordering::Relaxed).max(1)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.pool.0.used.fetch_sub(self.own, Ordering::Relaxed);
        self.pool.0.members.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Pool;

    #[test]
    fn those_with_more_than_an_equal_part_give_back() {
        let pool = Pool::new(100);
        let (mut a, mut b) = (pool.join(), pool.join());
        let mut set = |a_bytes: (usize, usize), b_bytes: (usize, usize)| {
            a.change(a_bytes.0, a_bytes.1);
            b.change(b_bytes.0, b_bytes.1);
            (a.is_over(), b.is_over())
        };
        assert_eq!(set((0, 80), (0, 20)), (false, false), "all is used");
        assert_eq!(set((80, 80), (20, 30)), (true, false), "more than all");
        assert_eq!(set((80, 60), (30, 30)), (false, false));
        assert_eq!(set((60, 50), (30, 60)), (false, true), "just an equal part is not too much");
        assert_eq!(set((50, 20), (60, 80)), (false, false));
        drop(b);
        a.change(20, 100);
        assert!(!a.is_over(), "what the other had is free");
        a.change(100, 101);
        assert!(a.is_over());
    }
}
