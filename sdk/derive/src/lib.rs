//! The derive macros of `tidemill-sdk`, which re-exports and documents them.

mod attributes;
mod detector;
mod rename;
mod schema;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Describes a type to the host: what serde's derives serialize, so put it beside `Serialize` and `Deserialize`.
///
/// Serde's `rename`, `rename_all`, `rename_all_fields`, `alias`, `default`, `skip`, `transparent`, `borrow` and `bound` are honoured; other
/// attributes would make the bytes differ from what the schema says, and are refused.
#[proc_macro_derive(Schema, attributes(serde))]
pub fn derive_schema(input: TokenStream) -> TokenStream {
    schema::derive(&parse_macro_input!(input as DeriveInput)).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct of handles a detector.
///
/// On the struct: `#[detector(name = "..", version = "..")]`, by default the package's, and `broadcast` for a detector with a broadcast
/// input. On a state: `#[state(name = "..", ttl = "3d", ttl_update = "on_read_and_write")]`; on a side output `#[output(name = "..")]`, on a
/// table `#[table(name = "..", optional)]`; names are by default
/// the field's. On a field that is no handle: `#[detector(skip)]`.
#[proc_macro_derive(Detector, attributes(detector, state, output, table))]
pub fn derive_detector(input: TokenStream) -> TokenStream {
    detector::derive(&parse_macro_input!(input as DeriveInput)).unwrap_or_else(syn::Error::into_compile_error).into()
}

#[cfg(test)]
mod tests;
