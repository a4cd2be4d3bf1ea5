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
    let next = AtomicU32::new(0);
    let open = || -> Result<Vec<(u32, States)>> {
        let mut opened = Vec::new();
        loop {
            let subtask = next.fetch_add(1, Ordering::Relaxed);
            if subtask >= workers {
                return Ok(opened);
            }
            opened.push((subtask, open_states(graph, setup, subtask)?));
        }
    };
    let threads = available_parallelism().map_or(1, NonZero::get).min(setup.wakers.len());
    let mut opened = scope(|scope| -> Result<Vec<(u32, States)>> {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(open)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().unwrap_or_else(|_| Err(Error::storage("opening the state of a worker stopped")))?);
        }
        Ok(all)
    })?;
    opened.sort_by_key(|(subtask, _)| *subtask);
    Ok(opened.into_iter().map(|(_, states)| states).collect())
}
