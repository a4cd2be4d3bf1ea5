//! What the contract promises to bindings that are written by hand, and the two places where a component can have its exports.

use tidemill_core::detector::DetectorFactory;
use wit_parser::{Function, Resolve, Type, TypeDefKind};

use super::super::GuestFactory;
use super::wat::{Guest, ZEROS, all, contract, emit};
use super::{Call, LIMITS, engine};

/// How many core values a value of a type takes.
fn flat(resolve: &Resolve, ty: &Type) -> usize {
    let Type::Id(id) = ty else { return if matches!(ty, Type::String) { 2 } else { 1 } };
    match &resolve.types[*id].kind {
        TypeDefKind::Type(ty) => flat(resolve, ty),
        TypeDefKind::Record(record) => record.fields.iter().map(|field| flat(resolve, &field.ty)).sum(),
        TypeDefKind::List(_) => 2,
        TypeDefKind::Enum(_) => 1,
        other => panic!("parameters of exports have no {}: count it", other.as_str()),
    }
}

fn flat_parameters(resolve: &Resolve, function: &Function) -> usize {
    function.params.iter().map(|parameter| flat(resolve, &parameter.ty)).sum()
}

/// The canonical ABI passes at most 16 flat parameters. An export with more gets one pointer to all of them, so a field that takes an export
/// over the limit changes its core signature, and every binding that was written by hand reads pointers as data. `process-elements` and
/// `process-broadcast-elements` were beyond the limit from the start.
#[test]
fn the_number_of_flat_parameters_stays() {
    let (resolve, package) = contract();
    let detector = resolve.packages[package].interfaces["detector"];
    let functions = &resolve.interfaces[detector].functions;
    let counted: Vec<_> = functions.iter().map(|(name, function)| (&**name, flat_parameters(&resolve, function))).collect();
    let expected = [("describe", 0), ("open", 2), ("process-elements", 20), ("on-timers", 16), ("process-broadcast-elements", 20)];
    assert_eq!(counted, expected, "the parameters of an export have changed, which breaks bindings that were written by hand");
    for (name, count) in counted {
        let is_by_pointer = name.ends_with("-elements");
        assert!(
            is_by_pointer || count <= Resolve::MAX_FLAT_PARAMS,
            "`{name}` has {count} flat parameters, more than {}: it would get a pointer instead, which breaks bindings that were written by \
             hand",
            Resolve::MAX_FLAT_PARAMS
        );
    }
}

/// Emits one record for the first row of a call.
fn one_record() -> Guest {
    // The outputs lie at 88 of the effects: lane, row, timestamp, timed, bytes and ends of the payload, each an address and a length.
    let columns: String = [(88, 40960, 1), (96, 40960, 1), (104, 40960, 1), (112, 0, 0), (120, 512, 3), (128, 40976, 1)]
        .map(|(to, address, len)| {
            let (to, then) = (ZEROS + to, ZEROS + to + 4);
            format!("(i32.store (i32.const {to}) (i32.const {address})) (i32.store (i32.const {then}) (i32.const {len}))")
        })
        .concat();
    let items = format!("{} (data (i32.const 512) \"abc\") (data (i32.const 40976) \"\\03\")", emit());
    Guest { items, elements: format!("{columns} (call $emit (i32.const {ZEROS})) {}", all()), ..Guest::default() }
}

#[test]
fn exports_are_found_in_the_interface_and_in_the_world() {
    let guest = one_record();
    let modules = [guest.build(), guest.build_with_root_exports()];
    let components = modules.clone().map(|module| wit_component::ComponentEncoder::default().module(&module).unwrap().encode().unwrap());
    for bytes in modules.into_iter().chain(components) {
        let component = engine().load("guest", &bytes, None).unwrap_or_else(|error| panic!("{}", error.chain()));
        assert_eq!(component.descriptor().name, "by-hand");
        let mut detector = GuestFactory::new(component, LIMITS).unwrap().open(&[]).unwrap();
        let mut call = Call::new();
        assert_eq!(call.elements(&mut *detector), Ok(2));
        assert_eq!(call.effects.outputs.payload.view().iter().collect::<Vec<_>>(), [b"abc"]);
        assert_eq!(call.broadcast(&mut *detector), Ok(2));
    }
}

#[test]
fn exports_that_are_missing_are_named() {
    let refused = |text: &str, expected: &str| {
        let error = engine().load("bad.wasm", &::wat::parse_str(text).unwrap(), None).unwrap_err().chain();
        assert!(error.contains(expected), "{error}");
    };
    let lifted = r#"(core module $m (func (export "f"))) (core instance $i (instantiate $m)) (func $f (canon lift (core func $i "f")))"#;
    let names = ["open", "process-elements", "on-timers", "process-broadcast-elements"];
    let hint = format!("does not export {}, so it lacks the interface tidemill:process/detector: export one with", names.join(", "));
    let in_interface = |version: &str| {
        format!(r#"(instance $d (export "describe" (func $f))) (export "tidemill:process/detector@{version}" (instance $d))"#)
    };
    refused(&format!("(component {lifted} {})", in_interface("0.1.0")), &hint);
    refused(&format!(r#"(component {lifted} (export "describe" (func $f)))"#), &hint);
    refused(
        &format!("(component {lifted} {})", in_interface("0.2.0")),
        "exports tidemill:process/detector@0.2.0, a version of the contract",
    );
}
