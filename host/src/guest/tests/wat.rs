//! Guests written by hand, so that they can do what no SDK would: a core module in text form, its descriptor laid out in its memory, and
//! the contract's type embedded.

use tidemill_wit::schema::{Type, TypeTable};
use wit_parser::{PackageId, Resolve};

/// Where the descriptor is.
pub(in crate::guest) const DESCRIPTOR: u32 = 1024;
/// An address for answers; zeros before a guest writes there.
pub(in crate::guest) const ANSWER: u32 = 20 << 10;
/// What stands before the names of the exports of a core module, since they are in an interface.
const IN_INTERFACE: &str = "tidemill:process/detector@0.1.0#";
/// The world with the exports outside an interface, as components have it that were built before there was the interface.
const ROOT: &str = "package tidemill:by-hand;
    world root {
        use tidemill:process/types@0.1.0.{context, elements, timers, failure, descriptor};
        import tidemill:process/collector@0.1.0;
        import tidemill:process/keyed-state@0.1.0;
        import tidemill:process/broadcast-state@0.1.0;
        import tidemill:process/reference-tables@0.1.0;
        import tidemill:process/telemetry@0.1.0;
        export describe: func() -> descriptor;
        export open: func(parameters: list<u8>) -> result<_, string>;
        export process-elements: func(context: context, elements: elements) -> result<u32, failure>;
        export on-timers: func(context: context, timers: timers) -> result<u32, failure>;
        export process-broadcast-elements: func(context: context, elements: elements) -> result<u32, failure>;
    }";
/// An address of zeros: effects without effects, an `ok` without content.
pub(in crate::guest) const ZEROS: u32 = 32 << 10;

/// A guest with a lane `main` that consumes all rows and does nothing, to be changed.
pub(in crate::guest) struct Guest {
    /// Imports, further functions and globals.
    pub(in crate::guest) items: String,
    /// The memory.
    pub(in crate::guest) memory: &'static str,
    /// The body of `describe`: gives the address of a descriptor.
    pub(in crate::guest) describe: String,
    /// The body of `open`: gives the address of a `result<_, string>`. `$at` and `$len` are the parameters.
    pub(in crate::guest) open: String,
    /// The body of `process-elements`: gives the address of a `result<u32, failure>`. `$args` is the address of (context, elements).
    pub(in crate::guest) elements: String,
    /// The body of `process-broadcast-elements`, as of `process-elements`.
    pub(in crate::guest) broadcast: String,
    /// The kinds of the states.
    pub(in crate::guest) states: Vec<u8>,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            items: String::new(),
            memory: r#"(memory (export "memory") 4)"#,
            describe: format!("(i32.const {DESCRIPTOR})"),
            open: format!("(i32.const {ZEROS})"),
            elements: all(),
            broadcast: all(),
            states: Vec::new(),
        }
    }
}

/// Answers `ok` with the number of rows in the call: the length of the column `timestamp`.
pub(in crate::guest) fn all() -> String {
    ok("(i32.load offset=60 (local.get $args))")
}

/// Answers `ok` with a number.
pub(in crate::guest) fn ok(number: &str) -> String {
    format!("(i32.store8 (i32.const {ANSWER}) (i32.const 0)) (i32.store offset=4 (i32.const {ANSWER}) {number}) (i32.const {ANSWER})")
}

/// Imports a function of the contract under its name.
pub(in crate::guest) fn import(interface: &str, function: &str, params: &str) -> String {
    format!(r#"(import "tidemill:process/{interface}@0.1.0" "{function}" (func ${function} (param {params})))"#)
}

/// The import of `emit`.
pub(in crate::guest) fn emit() -> String {
    import("collector", "emit", "i32")
}

impl Guest {
    /// The core module with the embedded component type, as cargo would make it.
    pub(in crate::guest) fn build(&self) -> Vec<u8> {
        embedded(&self.text(IN_INTERFACE), "keyed-process-function")
    }

    /// The same guest with its exports outside an interface.
    pub(in crate::guest) fn build_with_root_exports(&self) -> Vec<u8> {
        let mut resolve = contract().0;
        let package = resolve.push_str("root.wit", ROOT).unwrap();
        with_type(&self.text(""), &resolve, package, "root")
    }

    /// The core module in text form; `place` stands before the names of its exports.
    fn text(&self, place: &str) -> String {
        let Self { items, memory, describe, open, elements, broadcast, states } = self;
        let data: String = descriptor(states).iter().map(|byte| format!("\\{byte:02x}")).collect();
        format!(
            r#"(module {items} {memory}
            (data (i32.const {DESCRIPTOR}) "{data}")
            (global $top (mut i32) (i32.const 65536))
            (func (export "cabi_realloc") (param i32 i32 i32) (param $size i32) (result i32)
                (global.set $top (i32.and (i32.add (global.get $top) (i32.const 15)) (i32.const -16)))
                (global.get $top)
                (global.set $top (i32.add (global.get $top) (local.get $size))))
            (func (export "{place}describe") (result i32) {describe})
            (func (export "{place}open") (param $at i32) (param $len i32) (result i32) {open})
            (func $process (export "{place}process-elements") (param $args i32) (result i32)
                (global.set $top (i32.const 65536)) {elements})
            (func (export "{place}process-broadcast-elements") (param $args i32) (result i32)
                (global.set $top (i32.const 65536)) {broadcast})
            (func (export "{place}on-timers") (param i64 i64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (param $times i32) (param i64)
                (result i32) {}))"#,
            ok("(local.get $times)")
        )
    }
}

/// The contract, as its text in `wit/` has it.
pub(in crate::guest) fn contract() -> (Resolve, PackageId) {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/wit")).unwrap();
    (resolve, package)
}

/// A module of WebAssembly text with the type of a world of the contract embedded.
pub(in crate::guest) fn embedded(text: &str, world: &str) -> Vec<u8> {
    let (resolve, package) = contract();
    with_type(text, &resolve, package, world)
}

fn with_type(text: &str, resolve: &Resolve, package: PackageId, world: &str) -> Vec<u8> {
    let mut module = wat::parse_str(text).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    wit_component::embed_component_metadata(&mut module, resolve, world, wit_component::StringEncoding::UTF8).unwrap();
    module
}

/// The descriptor as it lies in memory at [`DESCRIPTOR`]: name, version and encoding, three types, then lists of states, lanes and tables,
/// the type of the broadcast input and one broadcast state.
fn descriptor(states: &[u8]) -> Vec<u8> {
    let table = TypeTable::of(Type::I64).to_bytes();
    let count = u32::try_from(states.len()).unwrap();
    let lane = DESCRIPTOR + 88;
    let first_state = lane + 16;
    let mut tail = Tail { at: first_state + 48 * (count + 1), bytes: Vec::new() };
    let mut words: Vec<u32> = [&b"by-hand"[..], b"1", b"postcard", &table, &table, &table].iter().flat_map(|item| tail.put(item)).collect();
    words.extend([first_state, count, lane, 1, 0, 0]);
    words.extend(tail.put(&table).into_iter().chain([first_state + 48 * count, 1]));
    words.extend(tail.put(b"main").into_iter().chain(tail.put(&table)));
    for (index, &kind) in states.iter().chain(&[2]).enumerate() {
        words.extend(tail.put(format!("s{index}").as_bytes()));
        words.push(u32::from(kind));
        words.extend(tail.put(&table));
        words.extend(if kind == 2 { tail.put(&table) } else { [0, 0] });
        words.extend([0; 5]);
    }
    words.into_iter().flat_map(u32::to_le_bytes).chain(tail.bytes).collect()
}

struct Tail {
    at: u32,
    bytes: Vec<u8>,
}

impl Tail {
    fn put(&mut self, item: &[u8]) -> [u32; 2] {
        let at = self.at + u32::try_from(self.bytes.len()).unwrap();
        self.bytes.extend_from_slice(item);
        [at, u32::try_from(item.len()).unwrap()]
    }
}
