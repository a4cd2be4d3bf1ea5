//! WebAssembly guests: the only place that names wasmtime.
//!
//! [`GuestEngine::load`] turns the bytes of an upload into a checked and compiled [`GuestComponent`] (name, digest, size, descriptor), by
//! way of the [`ComponentCache`] if there is one. A [`GuestFactory`] binds a component to [`Limits`] and opens instances of it as
//! [`Detector`](tidemill_core::detector::Detector)s, on threads with a stack of [`WORKER_STACK`].
//!
//! Nothing that a guest does may harm the host: a call has a deadline, an instance has bounded memory, and what it passes to the host is
//! bounded and copied before it is looked at. After a trap an instance is of no more use.

mod limits;

mod cache;
mod component;
mod describe;
mod engine;
mod exports;

mod failure;
mod foreign;
mod imports;
mod instance;
mod packages;
mod store;
mod telemetry;
mod voice;

#[cfg(test)]
mod tests;

pub use cache::ComponentCache;
pub use component::GuestComponent;
pub use engine::{GuestEngine, WORKER_STACK};
pub use instance::GuestFactory;
pub use limits::Limits;

/// What wasmtime generates from the contract.
mod generated {
    wasmtime::component::bindgen!({
        world: "keyed-process-function",
        path: "../wit/wit",
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}
