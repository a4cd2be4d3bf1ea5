//! What a guest may use.

use std::fmt;
use std::time::Duration;

use wasmtime::ResourceLimiter;

use super::engine::{TICK, WORKER_STACK};

/// What an instance of a guest may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The memory of an instance in bytes.
    pub memory: u64,
    /// How long a call may take.
    pub deadline: Duration,
    /// How many bytes a call may pass to the host.
    pub output: u64,
    /// How many functions a table may hold.
    pub table: u64,
    /// The stack of a call in bytes.
    pub stack: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 256 << 20, deadline: Duration::from_secs(10), output: 64 << 20, table: 100_000, stack: 512 << 10 }
    }
}

impl Limits {
    /// The least memory that makes sense.
    pub const MIN_MEMORY: u64 = 1 << 20;
    /// The least deadline: below it a busy machine would stop honest guests.
    pub const MIN_DEADLINE: Duration = Duration::from_secs(1);

    /// The least stack that makes sense.
    pub const MIN_STACK: u64 = 64 << 10;
    /// The largest stack: half of what the thread of a worker has.
    pub const MAX_STACK: u64 = WORKER_STACK as u64 / 2;

    /// Checks that a guest can run under these limits at all.
    ///
    /// # Errors
    /// Names the limit and the least value that it may have.
    pub fn check(&self) -> Result<(), String> {
        if self.memory < Self::MIN_MEMORY {
            return Err(format!("the memory limit of {} bytes is too low, the least is 1 MiB", self.memory));
        }
        if self.deadline < Self::MIN_DEADLINE {
            return Err(format!("the call deadline of {:?} is too short, the shortest is 1 s", self.deadline));
        }
        if self.output == 0 {
            return Err("the output limit of 0 bytes is too low, the least is 1 byte".to_owned());
        }
        if !(Self::MIN_STACK..=Self::MAX_STACK).contains(&self.stack) {
            return Err(format!("the stack limit of {} bytes is not between 64 KiB and 2 MiB", self.stack));
        }
        Ok(())
    }

    /// The deadline in ticks of the engine's epoch.
    pub(super) fn ticks(&self) -> u64 {
        ticks(self.deadline)
    }
}

/// A length of time in ticks of the engine's epoch, rounded up, since the first tick may come at once.
pub(super) fn ticks(length: Duration) -> u64 {
    let ticks = length.as_millis().div_ceil(TICK.as_millis());
    u64::try_from(ticks).unwrap_or(u64::MAX / 2).saturating_add(1)
}

/// Refuses growth over the limit with an error that ends the call, so that no guest can go on without the memory that it asked for.
#[derive(Debug)]
pub(super) struct Limiter {
    memory: u64,
    used: u64,
    table: u64,
}

/// A guest reached for more than its limits allow.
#[derive(Debug)]
pub(super) struct OverLimit(pub(super) String);

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OverLimit {}

impl Limiter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { memory: limits.memory, used: 0, table: limits.table }
    }

    /// The bytes of all memories of the instance.
    pub(super) fn used(&self) -> u64 {
        self.used
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let used = self.used.saturating_add(desired.saturating_sub(current) as u64);
        if used > self.memory {
            return Err(OverLimit(format!("the guest needed more than its {} of memory", bytes(self.memory))).into());
        }
        let allowed = maximum.is_none_or(|maximum| desired <= maximum);
        if allowed {
            self.used = used;
        }
        Ok(allowed)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(error.context("growing the guest's memory"))
    }

    fn table_growing(&mut self, _current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired as u64 > self.table {
            return Err(OverLimit(format!("the guest needed a table of more than {} functions", self.table)).into());
        }
        Ok(maximum.is_none_or(|maximum| desired <= maximum))
    }

    fn instances(&self) -> usize {
        32
    }

    fn tables(&self) -> usize {
        32
    }

    fn memories(&self) -> usize {
        8
    }
}

/// A number of bytes as people write it.
pub(super) fn bytes(count: u64) -> String {
    match count {
        _ if count >= 1 << 20 && count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        _ if count >= 1 << 10 && count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        _ => format!("{count} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Limits, bytes};

    #[test]
    fn useless_limits_are_refused() {
        let check = |limits: Limits| limits.check().err().unwrap_or_default();
        assert_eq!(check(Limits::default()), "");
        assert!(check(Limits { memory: 5, ..Limits::default() }).contains("the memory limit of 5 bytes is too low"));
        assert!(check(Limits { deadline: Duration::from_millis(999), ..Limits::default() }).contains("deadline of 999ms is too short"));
        assert!(check(Limits { output: 0, ..Limits::default() }).contains("the output limit"));
        assert!([0, 4 << 20].iter().all(|&stack| check(Limits { stack, ..Limits::default() }).contains("between 64 KiB and 2 MiB")));
    }

    #[test]
    fn a_deadline_is_never_shorter_than_asked() {
        let ticks = |millis| Limits { deadline: Duration::from_millis(millis), ..Limits::default() }.ticks();
        assert_eq!((ticks(1000), ticks(1001), ticks(1010)), (101, 102, 102));
        assert!(Limits { deadline: Duration::MAX, ..Limits::default() }.ticks() > 1 << 60);
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!([256 << 20, 64 << 10, 1500].map(bytes), ["256 MiB", "64 KiB", "1500 bytes"]);
    }
}
