//! What a machine, or a limit of the process, may lack: threads, memory, open files. It is said which limit it is, and nobody else is blamed.

use std::fmt::Write as _;
use std::thread::{Builder, JoinHandle};

use rlimit::{INFINITY, Resource};
use tidemill_core::{Error, Kind, Result};

/// What an instance reserves with the pages that guard it, 4 GiB and 64 MiB, and half a GiB for code, threads and the host's memory.
const LEAST_ADDRESS_SPACE: u64 = (4 << 30) + (64 << 20) + (512 << 20);

/// Starts a thread.
///
/// # Errors
/// Of [`Kind::Machine`]: no more threads can be made.
pub(crate) fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    spawned(name, Builder::new().name(name.to_owned()).spawn(work))
}

/// What came of starting a thread.
///
/// # Errors
/// As [`spawn`].
pub(crate) fn spawned<T>(name: &str, outcome: std::io::Result<T>) -> Result<T> {
    outcome.map_err(|error| Error::new(Kind::Machine, format!("cannot start the thread `{name}`")).caused_by(error))
}

/// Whether the process may use the address space of one instance of a component and of itself. With less an allocation somewhere would end it.
///
/// # Errors
/// Of [`Kind::Machine`]: a limit is below that.
pub(crate) fn check_address_space() -> Result<()> {
    match rlimit::getrlimit(Resource::AS) {
        Ok((limit, _)) if limit < LEAST_ADDRESS_SPACE => Err(Error::new(
            Kind::Machine,
            format!(
                "the process may use {} MiB of address space (ulimit -v), but needs {} MiB, since each instance of a component reserves 4 GiB, \
                 without using it as memory: raise the limit",
                limit >> 20,
                LEAST_ADDRESS_SPACE >> 20
            ),
        )),
        _ => Ok(()),
    }
}

/// Whether an error of WebAssembly's engine says that the process gets no more memory or threads, by its text: the engine keeps its types.
pub(crate) fn is_lacking(text: &str) -> bool {
    text.contains(&os_error(libc::ENOMEM)) || text.contains(&os_error(libc::EAGAIN))
}

/// Which limit an error runs into, as a sentence that follows it; empty if none.
pub(crate) fn advice(error: &Error) -> String {
    advice_for(&error.chain(), error.kind() == Kind::Machine)
}

/// By the text: errors of files, folders, sockets and threads come from everywhere, and all of them end with the operating system's number.
fn advice_for(text: &str, machine: bool) -> String {
    let has = |number| text.contains(&os_error(number));
    let mut advice = String::new();
    // Writing to a string cannot fail.
    _ = if has(libc::EMFILE) {
        write!(advice, "; the process may have {} files open: raise the limit (ulimit -n)", limit(Resource::NOFILE))
    } else if has(libc::ENFILE) {
        write!(advice, "; the machine has as many files open as it may: close some, or raise the limit (sysctl fs.file-max)")
    } else if machine && has(libc::EAGAIN) {
        write!(
            advice,
            "; the user may have {} threads and processes (ulimit -u), and the container or service may have fewer (pids.max of its cgroup, \
             TasksMax): raise the limit, or give the job less parallelism",
            limit(Resource::NPROC)
        )
    } else if has(libc::ENOMEM) {
        write!(
            advice,
            "; the process may use {} of address space (ulimit -v), of which each instance of a component reserves 4 GiB, without using it as \
             memory: raise the limit, or give the machine more memory",
            bytes(Resource::AS)
        )
    } else {
        Ok(())
    };
    advice
}

fn os_error(number: i32) -> String {
    format!("(os error {number})")
}

fn limit(resource: Resource) -> String {
    rlimit::getrlimit(resource)
        .map_or_else(|_| "only some".to_owned(), |(soft, _)| if soft == INFINITY { "any number of".to_owned() } else { soft.to_string() })
}

fn bytes(resource: Resource) -> String {
    rlimit::getrlimit(resource).map_or_else(
        |_| "only some".to_owned(),
        |(soft, _)| if soft == INFINITY { "any amount".to_owned() } else { format!("{} MiB", soft >> 20) },
    )
}

#[cfg(test)]
mod tests {
    use std::io::Error as IoError;

    use tidemill_core::{Error, Kind};

    use super::{advice, is_lacking, spawned};

    #[test]
    fn a_limit_is_named_whatever_ran_into_it() {
        let of = |kind, number| advice(&Error::new(kind, "doing this").caused_by(IoError::from_raw_os_error(number)));
        assert!(of(Kind::Config, libc::EMFILE).contains("ulimit -n"));
        assert!(of(Kind::Connector, libc::ENFILE).contains("fs.file-max"));
        assert!(of(Kind::Machine, libc::EAGAIN).contains("ulimit -u") && of(Kind::Machine, libc::ENOMEM).contains("ulimit -v"));
        // A socket that would block says so with the same number.
        assert_eq!(of(Kind::Connector, libc::EAGAIN), "");
        assert_eq!(of(Kind::Storage, libc::ENOSPC), "");
        assert!(is_lacking("mmap failed: Cannot allocate memory (os error 12)") && !is_lacking("the guest trapped"));
        let failed = spawned::<()>("worker-0", Err(IoError::from_raw_os_error(libc::EAGAIN))).unwrap_err();
        assert!(failed.kind() == Kind::Machine && failed.chain().starts_with("cannot start the thread `worker-0`: "), "{}", failed.chain());
    }
}
