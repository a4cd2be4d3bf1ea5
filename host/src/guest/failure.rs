//! How a call failed, in words for the component's author.

use tidemill_core::detector::Failure;
use wasmtime::{Trap, WasmBacktrace};

use super::component::chain;
use super::limits::{Limits, OverLimit, bytes};
use super::store::Host;
use crate::machine;

/// How many functions of the guest's stack a message names.
const FRAMES: usize = 3;

/// What an error of the engine means. `host` is the store's data after the call.
pub(super) fn of(error: &wasmtime::Error, host: &mut Host, limits: &Limits) -> Failure {
    if let Some(fatal) = host.take_fatal() {
        return Failure::Fatal(fatal);
    }
    let trap = error.downcast_ref::<Trap>().copied();
    if trap.is_none() && machine::is_lacking(&error.root_cause().to_string()) {
        return Failure::Machine(format!("the machine has no room for an instance of the component: {}", chain(error)));
    }
    if trap == Some(Trap::Interrupt) {
        return Failure::Deadline(format!("the call took longer than {} s{}", limits.deadline.as_secs_f64(), frames(error)));
    }
    let said = host.telemetry().take_error();
    let what = match (trap, said) {
        (Some(Trap::UnreachableCodeReached), Some(said)) => format!("the guest stopped itself: {said}"),
        (Some(trap), Some(said)) => format!("{}; before that it said: {said}", meaning(trap)),
        (Some(trap), None) => meaning(trap),
        (None, _) => refusal(error, limits),
    };
    let advice = advice(&what);
    Failure::Trap(format!("{what}{}{advice}", frames(error)))
}

/// What to do about a panic of the standard library, which has neither a clock nor files, network and threads in a guest.
fn advice(what: &str) -> &'static str {
    if what.contains("time not implemented on this platform") {
        "; a guest has no clock of its own: use ctx.current_processing_time()"
    } else if what.contains("operation not supported on this platform") {
        "; a guest has no files, network, threads or environment: use parameters and reference tables"
    } else {
        ""
    }
}

fn meaning(trap: Trap) -> String {
    match trap {
        Trap::UnreachableCodeReached => "the guest stopped itself (it reached `unreachable`)".to_owned(),
        Trap::StackOverflow => "the guest ran out of stack: it recurses too deeply".to_owned(),
        Trap::MemoryOutOfBounds => "the guest reached outside its memory, or ran out of stack".to_owned(),
        Trap::CannotEnterComponent => "the instance is of no more use after a trap".to_owned(),
        other => format!("the guest trapped: {other}"),
    }
}

/// An error that the host raised while it served the guest.
fn refusal(error: &wasmtime::Error, limits: &Limits) -> String {
    if let Some(OverLimit(text)) = error.downcast_ref() {
        return text.clone();
    }
    let cause = error.root_cause().to_string();
    // The engine keeps the type of this error to itself.
    if cause.starts_with("too much data is being copied") {
        return format!("the guest passed more than {} to the host in one call", bytes(limits.output));
    }
    format!("the guest broke the contract: {}", cause.lines().next().unwrap_or_default())
}

/// Whether a function is a part of how Rust panics, which says nothing about the detector.
fn is_panicking(name: &str) -> bool {
    const MACHINERY: [&str; 9] = [
        "std::panicking::",
        "core::panicking::",
        "std::sys::",
        "std::process::abort",
        "core::option::unwrap_failed",
        "core::option::expect_failed",
        "core::result::unwrap_failed",
        "__rustc::",
        "rust_",
    ];
    MACHINERY.iter().any(|part| name.starts_with(part))
}

/// The innermost functions of the guest, if it kept their names.
fn frames(error: &wasmtime::Error) -> String {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    let names = backtrace.frames().iter().filter_map(|frame| Some(format!("{:#}", rustc_demangle::demangle(frame.func_name()?))));
    let names: Vec<_> = names.skip_while(|name| is_panicking(name)).take(FRAMES).collect();
    if names.is_empty() { String::new() } else { format!(" (in {})", names.join(", called by ")) }
}
