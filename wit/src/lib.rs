//! The contract between the host and its guests, as far as it is Rust: the columns that cross the boundary, the codes in them, the type
//! tables that describe every type, and the order-preserving encoding of keys. The calls themselves are in `wit/process.wit`.
//!
//! Host and SDK share this crate, so that neither can drift from the other.

pub mod columns;
pub mod descriptor;
pub mod key;
pub mod schema;
