//! What the compiler says of types and detectors that cannot be: each message tells what to do instead.
//!
//! After a change of messages, of this crate's or the compiler's, `TRYBUILD=overwrite` writes the new ones down.

#[test]
fn what_cannot_be_is_refused_with_advice() {
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}
