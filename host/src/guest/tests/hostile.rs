//! Guests that go over their limits or break the contract. Each must end in a failure in words, and leave the host as it was.

use std::time::Duration;

use tidemill_core::detector::{DetectorFactory, Failure};
use tidemill_core::effects::Writes;
use tidemill_core::state::BroadcastStates;
use tidemill_wit::descriptor::write_op;

use super::super::{GuestFactory, Limits, WORKER_STACK};
use super::wat::{ANSWER, Guest, ZEROS, all, emit, import, ok};
use super::{Call, LIMITS, engine, factory, open, trapped};

fn elements(body: impl Into<String>) -> Guest {
    Guest { elements: body.into(), ..Guest::default() }
}

/// Runs a guest that must trap, and checks that its instance is refused afterwards while the caller's parts are back.
#[track_caller]
fn traps(guest: &Guest, expected: &str) {
    let (mut call, mut detector) = (Call::new(), open(guest));
    let text = trapped(call.elements(&mut *detector));
    assert!(text.contains(expected) && !text.contains('\n'), "{text}");
    assert_eq!(call.reads.slots.len(), 1);
    assert!(trapped(call.elements(&mut *detector)).contains("of no more use"));
    assert_eq!(call.reads.slots.len(), 1);
}

#[test]
fn a_trap_says_what_and_where() {
    // Called through a table, since a direct call is inlined and leaves no frame.
    let items = "(table funcref (elem $crash)) (func $crash unreachable)".to_owned();
    let guest = Guest { items, ..elements("(call_indirect (i32.const 0)) (i32.const 0)") };
    traps(&guest, "the guest stopped itself (it reached `unreachable`) (in crash, called by process)");
    let items = "(table funcref (elem $core::panicking::panic_fmt)) (func $core::panicking::panic_fmt unreachable)".to_owned();
    let guest = Guest { items, ..elements("(call_indirect (i32.const 0)) (i32.const 0)") };
    traps(&guest, "the guest stopped itself (it reached `unreachable`) (in process)");
    traps(&elements("(i32.load (i32.const -4))"), "reached outside its memory");
    traps(&elements("(i32.div_u (i32.const 1) (i32.const 0))"), "the guest trapped: wasm trap: integer divide by zero");
}

#[test]
fn the_panic_text_of_a_guest_is_in_the_failure() {
    let items = format!("{} (data (i32.const 512) \"panicked at lib.rs:3:\\0aboom\")", import("telemetry", "log", "i32 i32 i32"));
    let guest = Guest { items, ..elements("(call $log (i32.const 0) (i32.const 512) (i32.const 26)) unreachable") };
    traps(&guest, "the guest stopped itself: panicked at lib.rs:3: boom (in");
}

#[test]
fn a_loop_ends_at_the_deadline() {
    let component = engine().load("hand.wasm", &elements("(loop $again (br $again)) unreachable").build(), None).unwrap();
    let factory = GuestFactory::new(component, Limits { deadline: Limits::MIN_DEADLINE, ..LIMITS }).unwrap();
    let (mut call, mut detector) = (Call::new(), factory.open(&[]).unwrap());
    let Err(Failure::Deadline(text)) = call.elements(&mut *detector) else { panic!("no deadline") };
    assert!(text.starts_with("the call took longer than 1 s"), "{text}");
    assert_eq!(call.reads.slots.len(), 1);
}

#[test]
fn a_call_ends_with_the_callers_patience_which_is_shorter_than_the_deadline() {
    for patience in [Duration::from_millis(50), Duration::from_secs(100)] {
        let (mut call, mut detector) = (Call::new(), open(&elements("(loop $again (br $again)) unreachable")));
        call.reads.patience = Some(patience);
        assert_eq!(call.elements(&mut *detector), Err(Failure::CutShort));
    }
}

#[test]
fn the_memory_of_an_instance_is_known() {
    let mut detector = open(&elements("(drop (memory.grow (i32.const 10))) (i32.const 0)"));
    let before = detector.memory();
    assert!(before >= 65_536, "{before}");
    _ = Call::new().elements(&mut *detector);
    assert_eq!(detector.memory(), before + 10 * 65_536);
}

#[test]
fn recursion_ends_at_the_guests_stack() {
    let guest = Guest { items: "(func $deep (call $deep) (call $deep))".to_owned(), ..elements("(call $deep) (i32.const 0)") };
    let worker = std::thread::Builder::new().stack_size(WORKER_STACK);
    worker.spawn(move || traps(&guest, "the guest ran out of stack")).unwrap().join().unwrap();
}

#[test]
fn a_guest_has_the_stack_that_its_limits_say() {
    let down = "(func $down (param i32) (result i32) (if (result i32) (local.get 0)
      (then (i32.add (i32.const 1) (call $down (i32.sub (local.get 0) (i32.const 1))))) (else (i32.const 0))))";
    let guest = Guest { items: down.to_owned(), ..elements(ok("(i32.sub (call $down (i32.const 8000)) (i32.const 7998))")) };
    let call = move |stack| {
        let component = engine().with_stack(stack).unwrap().load("hand.wasm", &guest.build(), None).unwrap();
        let factory = GuestFactory::new(component, Limits { stack, ..LIMITS }).unwrap();
        Call::new().elements(&mut *factory.open(&[]).unwrap())
    };
    let worker = std::thread::Builder::new().stack_size(WORKER_STACK);
    let [small, large] = worker.spawn(move || [Limits::MIN_STACK, Limits::MAX_STACK].map(call)).unwrap().join().unwrap();
    assert!(trapped(small).contains("the guest ran out of stack"));
    assert_eq!(large, Ok(2));
}

#[test]
fn memory_ends_at_the_limit() {
    let grow = "(loop $again (drop (memory.grow (i32.const 1))) (br $again)) unreachable";
    traps(&elements(grow), "the guest needed more than its 4 MiB of memory");
    traps(&elements("(memory.grow (i32.const 60000))"), "the guest needed more than its 4 MiB of memory");
    // A module that says itself how far its memory grows is answered with -1, as WebAssembly has it.
    let bounded =
        Guest { memory: r#"(memory (export "memory") 4 5)"#, ..elements(ok("(i32.add (memory.grow (i32.const 9)) (i32.const 2))")) };
    assert_eq!(Call::new().elements(&mut *open(&bounded)), Ok(1));
}

#[test]
fn memory_that_is_declared_counts_too() {
    let guest = Guest { memory: r#"(memory (export "memory") 100)"#, ..Guest::default() };
    let Err(Failure::Trap(text)) = factory(&guest).open(&[]).map(drop) else { panic!("no trap") };
    assert!(text.contains("more than its 4 MiB of memory"), "{text}");
}

#[test]
fn tables_are_bounded() {
    let guest = Guest { items: "(table 10000000 funcref)".to_owned(), ..Guest::default() };
    let error = engine().load("hand.wasm", &guest.build(), None).unwrap_err().chain();
    assert!(error.contains("the guest needed a table of more than 100000 functions"), "{error}");
}

#[test]
fn open_fails_in_words() {
    let open = |body: &str| match factory(&Guest { open: body.to_owned(), items: emit(), ..Guest::default() }).open(&[1, 2]) {
        Ok(_) => panic!("it opened"),
        Err(failure) => failure,
    };
    assert!(matches!(open("unreachable"), Failure::Trap(text) if text.contains("stopped itself")));
    let refuse = format!(
        "(i32.store (i32.const {ANSWER}) (i32.const 1)) (i32.store offset=4 (i32.const {ANSWER}) (i32.const 1024))
         (i32.store offset=8 (i32.const {ANSWER}) (i32.const 0)) (i32.const {ANSWER})"
    );
    assert_eq!(open(&refuse), Failure::Fatal(String::new()));
    let early = format!("(call $emit (i32.const {ZEROS})) (i32.const {ZEROS})");
    assert!(matches!(open(&early), Failure::Trap(text) if text.contains("it emitted outside process-elements")));
}

/// A guest that emits effects whose column at `offset` has this address and length.
fn emits(offset: u32, address: u32, length: u32) -> Guest {
    let put = |at: u32, word: u32| format!("(i32.store (i32.const {}) (i32.const {word}))", ZEROS + at);
    let body = format!("{} {} (call $emit (i32.const {ZEROS})) {}", put(offset, address), put(offset + 4, length), all());
    Guest { items: emit(), ..elements(body) }
}

#[test]
fn what_is_emitted_is_bounded() {
    traps(&emits(120, 0, 1 << 30), "the guest broke the contract");
    traps(&emits(16, 0, u32::MAX), "the guest broke the contract");
    traps(&emits(80, 4, 1), "the guest broke the contract");
    traps(&emits(0, 1 << 20, 1), "the guest broke the contract");
    traps(&emits(0, u32::MAX, 2), "the guest broke the contract");
    let large = Guest { memory: r#"(memory (export "memory") 40)"#, ..emits(120, 0, 2 << 20) };
    traps(&large, "the guest passed more than 1 MiB to the host in one call");
}

#[test]
fn emitting_twice_is_refused() {
    let emit_once = format!("(call $emit (i32.const {ZEROS}))");
    traps(&Guest { items: emit(), ..elements(format!("{emit_once} {emit_once} {}", all())) }, "it emitted twice in one call");
}

#[test]
fn consuming_more_rows_than_there_are_is_refused() {
    for (consumed, expected) in [("3", "consumed 3 rows, but the call has 2"), ("-1", "consumed 4294967295 rows"), ("0", "consumed none")] {
        let mut detector = open(&elements(ok(&format!("(i32.const {consumed})"))));
        let text = trapped(Call::new().elements(&mut *detector));
        assert!(text.contains(expected), "{text}");
    }
}

/// Answers with an error: a bad record in this row, without a reason.
fn bad_record(row: u32) -> Guest {
    elements(format!(
        "(i32.store (i32.const {ANSWER}) (i32.const 1)) (i32.store offset=8 (i32.const {ANSWER}) (i32.const {row})) (i32.const {ANSWER})"
    ))
}

#[test]
fn a_bad_record_leaves_the_instance_in_use() {
    let (mut call, mut detector) = (Call::new(), open(&bad_record(1)));
    for _ in 0..2 {
        assert_eq!(call.elements(&mut *detector), Err(Failure::BadRecord { row: 1, reason: String::new() }));
    }
    assert!(trapped(call.elements(&mut *open(&bad_record(2)))).contains("row 2 is bad, but the call has 2"));
}

#[test]
fn reads_of_what_is_not_there_are_refused() {
    let items = [
        import("keyed-state", "get-entry", "i32 i32 i32 i32 i32"),
        import("keyed-state", "scan-entries", "i32 i32 i32 i32 i32 i32 i32"),
        import("reference-tables", "lookup", "i32 i32 i32 i32"),
    ]
    .concat();
    let guest = |call: &str| Guest { items: items.clone(), states: vec![0, 2], ..elements(format!("{call} {}", all())) };
    let get = |slot: u32, state: u32| {
        guest(&format!("(call $get-entry (i32.const {slot}) (i32.const {state}) (i32.const 0) (i32.const 0) (i32.const {ANSWER}))"))
    };
    assert_eq!(Call::new().elements(&mut *open(&get(0, 1))), Ok(2));
    traps(&get(1, 1), "it read state of slot 1, but the call has 1 slots");
    traps(&get(0, 0), "it read entries of state 0, which is of kind Value");
    traps(&get(0, 2), "it read entries of state 2, but it declares 2 states");
    let scan =
        "(call $scan-entries (i32.const 0) (i32.const 9) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 20480))";
    traps(&guest(scan), "it read entries of state 9");
    traps(&guest("(call $lookup (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 20480))"), "lookup names table 0, but the call has 0");
}

#[test]
fn broadcast_calls_are_bounded_like_others() {
    let broadcast = |body: String| Guest { broadcast: body, items: emit(), ..Guest::default() };
    let traps = |body: String, expected: &str| {
        let text = trapped(Call::new().broadcast(&mut *open(&broadcast(body))));
        assert!(text.contains(expected), "{text}");
    };
    assert_eq!(Call::new().broadcast(&mut *open(&broadcast(all()))), Ok(2));
    traps("unreachable".to_owned(), "stopped itself");
    traps(ok("(i32.const 3)"), "consumed 3 rows, but the call has 2");
    let emit_once = format!("(call $emit (i32.const {ZEROS}))");
    traps(format!("{emit_once} {emit_once} {}", all()), "it emitted twice in one call");
}

#[test]
fn reads_of_broadcast_states_that_are_not_there_are_refused() {
    let items =
        [import("broadcast-state", "get-entry", "i32 i32 i32 i32"), import("broadcast-state", "scan-entries", "i32 i32 i32 i32 i32 i32")]
            .concat();
    let guest = |call: &str| Guest { items: items.clone(), ..elements(format!("{call} {}", all())) };
    let get = |state: u32| guest(&format!("(call $get-entry (i32.const {state}) (i32.const 0) (i32.const 0) (i32.const {ANSWER}))"));
    let mut call = Call::new();
    call.reads.broadcast = BroadcastStates::new(1);
    assert_eq!(call.elements(&mut *open(&get(0))), Ok(2));
    let text = trapped(call.elements(&mut *open(&get(1))));
    assert!(text.contains("it read broadcast state 1, but it declares 1"), "{text}");
    let scan = "(call $scan-entries (i32.const 7) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 20480))";
    traps(&guest(scan), "it read broadcast state 7, but it declares 0");
}

#[test]
fn a_scan_of_too_much_broadcast_state_ends_the_call() {
    let items = import("broadcast-state", "scan-entries", "i32 i32 i32 i32 i32 i32");
    let scan = "(call $scan-entries (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 20480))";
    let mut call = Call::new();
    call.reads.broadcast = BroadcastStates::new(1);
    let mut writes = Writes { op: vec![write_op::PUT_ENTRY; 3], state: vec![0; 3], slot: vec![0; 3], ..Writes::default() };
    for entry in 0..3 {
        writes.entry.push(&[entry]);
        writes.value.push(&vec![0; 400 << 10]);
    }
    call.reads.broadcast.apply(&writes);
    let text = trapped(call.elements(&mut *open(&Guest { items, ..elements(format!("{scan} {}", all())) })));
    assert!(text.contains("gave more than 1 MiB: use a lower limit"), "{text}");
}
