//! Ctrl-C, SIGTERM, and the signal of a file that has become too large.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use tidemill_core::{Error, Result};

/// What a shell reports of a process that was interrupted.
const INTERRUPTED: i32 = 130;

/// Makes the first signal set the flag, and the second one end the process at once. A limit on the size of files (`ulimit -f`) becomes an
/// error of what is written, as a full disk is, and does not kill the process.
pub(super) fn install(stop: &Arc<AtomicBool>) -> Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag not yet set.
        flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(stop))
            .and_then(|_| flag::register(signal, Arc::clone(stop)))
            .map_err(|error| Error::config("cannot listen for Ctrl-C").caused_by(error))?;
    }
    // Any handler will do: then the write fails instead.
    flag::register(SIGXFSZ, Arc::default()).map_err(|error| Error::config("cannot listen for the limit of file sizes").caused_by(error))?;
    Ok(())
}
