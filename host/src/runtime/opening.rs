//! Opens the state of all workers, several side by side: to restore much of it takes the processors longer than the disk.

use std::num::NonZero;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{available_parallelism, scope};

use tidemill_core::worker::{Graph, States, WorkerSetup, open_states};
use tidemill_core::{Error, Result};

/// The states of all workers, by their indexes.
///
/// # Errors
/// A state cannot be opened or restored.
pub(super) fn open_all(graph: &Graph, setup: &WorkerSetup) -> Result<Vec<States>> {
    let workers = u32::try_from(setup.wakers.len()).unwrap_or(u32::MAX);
    side_by_side(workers, |subtask| open_states(graph, setup, subtask))
}

/// Opens something for each subtask, as many at one time as there are processors.
///
/// # Errors
/// One cannot be opened.
pub fn side_by_side<T: Send>(subtasks: u32, open: impl Fn(u32) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicU32::new(0);
    let open_some = || -> Result<Vec<(u32, T)>> {
        let mut opened = Vec::new();
        loop {
            let subtask = next.fetch_add(1, Ordering::Relaxed);
            if subtask >= subtasks {
                return Ok(opened);
            }
            opened.push((subtask, open(subtask)?));
        }
    };
    let threads = available_parallelism().map_or(1, NonZero::get).min(subtasks as usize);
    // All are waited for, whatever became of the first.
    let outcomes: Vec<Result<Vec<(u32, T)>>> = scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(open_some)).collect();
        let stopped = || Err(Error::storage("opening the state of a worker stopped"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| stopped())).collect()
    });
    let mut opened: Vec<(u32, T)> = outcomes.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    opened.sort_by_key(|(subtask, _)| *subtask);
    Ok(opened.into_iter().map(|(_, opened)| opened).collect())
}

#[cfg(test)]
mod tests {
    use tidemill_core::{Error, Result};

    use super::side_by_side;

    #[test]
    fn all_are_opened_in_order_or_none() {
        for count in [0, 1, 7, 100] {
            assert_eq!(side_by_side(count, |subtask| Ok(subtask * 2)).unwrap(), (0..count).map(|subtask| subtask * 2).collect::<Vec<_>>());
        }
        let fails = |subtask| if subtask == 5 { Err(Error::storage("no")) } else { Ok(subtask) };
        assert_eq!(side_by_side(9, fails).unwrap_err().to_string(), "no");
        let stops = |_| -> Result<u32> { std::panic::resume_unwind(Box::new(())) };
        assert_eq!(side_by_side(2, stops).unwrap_err().to_string(), "opening the state of a worker stopped");
    }
}
