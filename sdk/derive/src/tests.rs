//! What the macros refuse, and how they say it.

use syn::DeriveInput;

use crate::{detector, schema};

type Derive = fn(&DeriveInput) -> syn::Result<proc_macro2::TokenStream>;

/// The macro's answer to a type: nothing, or the error.
fn answer(derive: Derive, item: &str) -> Option<String> {
    let input = syn::parse_str(item).unwrap();
    derive(&input).err().map(|error| error.to_string())
}

#[track_caller]
fn check(derive: Derive, cases: &[(&str, &str)]) {
    for (item, text) in cases {
        let error = answer(derive, item).unwrap_or_default();
        assert!(error.starts_with(text), "{item}: {error}");
    }
}

#[test]
fn attributes_that_change_the_bytes_are_refused_with_advice() {
    check(
        schema::derive,
        &[
            ("struct A { #[serde(flatten)] b: B }", "Schema does not support serde's `flatten`: give the struct the fields themselves"),
            ("#[serde(untagged)] enum A { B }", "Schema does not support serde's `untagged`: enums are tagged by"),
            ("#[serde(tag = \"kind\")] enum A { B }", "Schema does not support serde's `tag`: enums are tagged by"),
            ("struct A { #[serde(with = \"b\")] b: B }", "Schema does not support serde's `with`: the schema could not say"),
            ("struct A { #[serde(skip_serializing_if = \"f\")] b: B }", "Schema does not support serde's `skip_serializing_if`: a field"),
            ("struct A { #[serde(rename(serialize = \"c\"))] b: B }", "write `rename = \"..\"`: the same in both directions"),
            ("#[serde(rename_all = \"Title Case\")] struct A { b: B }", "unknown rename rule `Title Case`: use one of lowercase, "),
            ("enum A { B, #[serde(skip)] C }", "a variant cannot be skipped, since that would renumber the others"),
            ("union A { b: u8 }", "a union has no schema: use an enum"),
        ],
    );
}

#[test]
fn detectors_that_make_no_sense_are_refused_with_advice() {
    check(
        detector::derive,
        &[
            ("enum A { B }", "a detector is a struct whose fields are handles"),
            ("struct A(ValueState<i64>);", "a detector needs named fields, since states are stored under their names"),
            ("struct A { #[state(ttl = \"3 days\")] b: ValueState<i64> }", "`3 days` is not a time to live: write a whole number"),
            ("struct A { #[state(ttl = \"0s\")] b: ValueState<i64> }", "`0s` is not a time to live"),
            ("struct A { #[state(ttl = \"106751991168d\")] b: ValueState<i64> }", "`106751991168d` is not a time to live"),
            ("struct A { #[state(ttl_update = \"no\")] b: ValueState<i64> }", "use \"on_create_and_write\" or \"on_read_and_write\""),
            ("struct A { #[state(tll = \"3d\")] b: ValueState<i64> }", "a state has the options `name`, `ttl` and `ttl_update`"),
            ("struct A { #[output(ttl = \"3d\")] b: SideOutput<i64> }", "the only option here is `name`"),
            ("struct A { #[table(optionl)] b: Table<C, D> }", "a table has the options `name` and `optional`"),
            ("struct A { main: SideOutput<i64> }", "`main` is the lane of `Output`: name the side output otherwise"),
            ("struct A { b: Parameters<C>, d: Parameters<C> }", "a detector has one field of type Parameters"),
            ("struct A { b: MapState<C, D>, #[state(name = \"b\")] d: ValueState<C> }", "the name `b` is taken by the field `b`"),
            ("#[detector(title = \"a\")] struct A {}", "a detector has the options `name`, `version` and `broadcast`"),
            (
                "struct A { b: BroadcastState<C, D> }",
                "mark the detector #[detector(broadcast)] and implement KeyedBroadcastProcessFunction",
            ),
            (
                "#[detector(broadcast)] struct A { #[state(ttl = \"3d\")] b: BroadcastState<C, D> }",
                "a broadcast state has the option `name`",
            ),
            ("struct A { #[detector(skipped)] b: u8 }", "the only option here is `skip`"),
        ],
    );
}

#[test]
fn skipped_fields_are_no_handles() {
    assert_eq!(answer(detector::derive, "struct A { #[detector(skip)] main: SideOutput<i64>, other: ValueState<i64> }"), None);
}
