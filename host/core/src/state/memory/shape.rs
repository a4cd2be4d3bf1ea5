//! What the backend needs to know of a declared state.

use tidemill_wit::descriptor::{StateDescriptor, TtlUpdate};

use super::super::layout::{FRESH, Form};
use crate::time::Timestamp;

/// A declared state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) form: Form,
    /// The time to live in milliseconds.
    pub(super) ttl: Option<i64>,
    /// Whether reading renews it.
    pub(super) renewed_by_reads: bool,
    /// The index among the prefetched values, or among the prefetched lists and maps.
    pub(super) column: usize,
}

/// A time to live and the time at which it is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    ttl: Option<i64>,
    now: i64,
}

impl Shape {
    /// The shapes of declared states.
    pub(super) fn all(states: &[StateDescriptor]) -> Vec<Self> {
        let (mut values, mut entries) = (0, 0);
        states
            .iter()
            .map(|state| {
                let form = Form::of(state.kind);
                let next = if form == Form::Value { &mut values } else { &mut entries };
                let column = *next;
                *next += 1;
                let renewed_by_reads = state.ttl.is_some() && state.ttl_update == TtlUpdate::OnReadAndWrite;
                Self { form, ttl: state.ttl, renewed_by_reads, column }
            })
            .collect()
    }

    #[inline]
    pub(super) fn stamped(self) -> bool {
        self.ttl.is_some()
    }

    #[inline]
    pub(super) fn life(self, now: Timestamp) -> Life {
        Life { ttl: self.ttl, now: now.0 }
    }
}

impl Life {
    /// Whether anything ends at all.
    #[inline]
    pub(super) fn ends(self) -> bool {
        self.ttl.is_some()
    }

    /// When what was last renewed at `stamp` expires; at the end of time if never.
    #[inline]
    pub(super) fn end_of(self, stamp: i64) -> i64 {
        self.ttl.filter(|_| stamp != FRESH).map_or(i64::MAX, |ttl| stamp.saturating_add(ttl))
    }

    /// Whether what was last renewed at `stamp` has expired.
    #[inline]
    pub(super) fn is_over(self, stamp: i64) -> bool {
        self.ttl.is_some_and(|ttl| stamp != FRESH && stamp.saturating_add(ttl) <= self.now)
    }
}
