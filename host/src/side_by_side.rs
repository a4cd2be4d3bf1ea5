//! Work that is done for many things, some at a time: to check or restore much takes a processor longer than a disk.

use std::num::NonZero;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{Builder, available_parallelism, scope};

use tidemill_core::{Error, Result};

/// Does something for each number below `count`, as many at one time as there are processors. Returns what came of each, in order.
///
/// # Errors
/// The first one's. The others are ended all the same.
pub fn side_by_side<T: Send>(count: u32, work: impl Fn(u32) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicU32::new(0);
    let some = || -> Result<Vec<(u32, T)>> {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(done);
            }
            done.push((number, work(number)?));
        }
    };
    let threads = available_parallelism().map_or(1, NonZero::get).min(count as usize);
    // All are waited for, whatever became of the first.
    let outcomes: Vec<Result<Vec<(u32, T)>>> = scope(|scope| {
        // Where no more threads can be made, those that were do it all; without any, this one.
        let threads: Vec<_> = (0..threads).map_while(|_| Builder::new().spawn_scoped(scope, some).ok()).collect();
        let stopped = || Err(Error::storage("one of several things done side by side stopped"));
        if threads.is_empty() {
            return vec![some()];
        }
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| stopped())).collect()
    });
    let mut done: Vec<(u32, T)> = outcomes.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, done)| done).collect())
}

#[cfg(test)]
mod tests {
    use tidemill_core::{Error, Result};

    use super::side_by_side;

    #[test]
    fn all_are_done_in_order_or_none() {
        for count in [0, 1, 7, 100] {
            assert_eq!(side_by_side(count, |number| Ok(number * 2)).unwrap(), (0..count).map(|number| number * 2).collect::<Vec<_>>());
        }
        let fails = |number| if number == 5 { Err(Error::storage("no")) } else { Ok(number) };
        assert_eq!(side_by_side(9, fails).unwrap_err().to_string(), "no");
        let stops = |_| -> Result<u32> { std::panic::resume_unwind(Box::new(())) };
        assert_eq!(side_by_side(2, stops).unwrap_err().to_string(), "one of several things done side by side stopped");
    }
}
