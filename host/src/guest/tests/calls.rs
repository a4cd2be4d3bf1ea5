//! Guests that do what they should: what goes in and comes out.

use std::sync::Arc;

use tidemill_core::Timestamp;
use tidemill_core::detector::{CallContext, Failure, Prefetched, Timers};
use tidemill_core::table::Table;
use tidemill_core::time::Domain;

use super::super::GuestFactory;
use super::wat::{ANSWER, Guest, ZEROS, all, emit, import};
use super::{Call, LIMITS, engine, factory, open};

/// Emits what came in: the payload, timestamps and `timed` of the elements, lane and row 0 for each.
fn echo() -> Guest {
    let copy =
        |from: u32, to: u32| format!("(i64.store (i32.const {}) (i64.load (i32.add (local.get $args) (i32.const {from}))))", ZEROS + to);
    let zeros = |to: u32| {
        let (address, length) = (ZEROS + to, ZEROS + to + 4);
        format!(
            "(i32.store (i32.const {address}) (i32.const 40960)) (i32.store (i32.const {length}) (i32.load offset=60 (local.get $args)))"
        )
    };
    // In the elements: timestamp at 56, timed at 64, payload at 72 and 80. In the effects: the outputs from 88.
    let columns = [zeros(88), zeros(96), copy(56, 104), copy(64, 112), copy(72, 120), copy(80, 128)].concat();
    Guest { items: emit(), elements: format!("{columns} (call $emit (i32.const {ZEROS})) {}", all()), ..Guest::default() }
}

#[test]
fn what_is_emitted_arrives() {
    let (mut call, mut detector) = (Call::new(), open(&echo()));
    for _ in 0..3 {
        assert_eq!(call.elements(&mut *detector), Ok(2));
        let outputs = &call.effects.outputs;
        assert_eq!(outputs.payload.view().iter().collect::<Vec<_>>(), [&b"one"[..], b"two!"]);
        assert_eq!((&outputs.timestamp[..], &outputs.timed[..]), (&[10, 20][..], &[1, 0][..]));
        assert_eq!((&outputs.lane[..], &outputs.row[..]), (&[0, 0][..], &[0, 0][..]));
        assert!(call.effects.writes.op.is_empty() && call.effects.timers.op.is_empty());
    }
}

#[test]
fn a_call_that_emits_nothing_has_no_effects() {
    let mut call = Call::new();
    call.elements(&mut *open(&echo())).unwrap();
    assert_eq!(call.elements(&mut *open(&Guest::default())), Ok(2));
    assert!(call.effects.outputs.lane.is_empty() && call.effects.outputs.payload.is_empty());
}

#[test]
fn timers_are_consumed() {
    let (mut call, mut detector) = (Call::new(), open(&Guest::default()));
    let prefetched = Prefetched::default();
    let slots = Arc::clone(&call.reads.slots);
    let context = CallContext { watermark: Timestamp(9), processing_time: Timestamp(9), keys: slots.keys.view(), prefetched: &prefetched };
    let timers = Timers { domain: Domain::Processing, slot: &[0, 0, 0], timestamp: &[7, 8, 9], horizon: Timestamp(9) };
    assert_eq!(detector.on_timers(&context, &timers, &mut call.reads, &mut call.effects), Ok(3));
}

#[test]
fn a_row_of_a_table_is_found() {
    let lookup = |key: &str| {
        // Answers a bad record whose row is 1 if the key was found, else 0.
        let body = format!(
            "(call $lookup (i32.const 0) (i32.const 512) (i32.const 2) (i32.const {at}))
             (i32.store (i32.const {ANSWER}) (i32.const 1)) (i32.store offset=4 (i32.const {ANSWER}) (i32.const 0))
             (i32.store offset=8 (i32.const {ANSWER}) (i32.load8_u (i32.const {at})))
             (i32.store offset=12 (i32.const {ANSWER}) (i32.load offset=4 (i32.const {at})))
             (i32.store offset=16 (i32.const {ANSWER}) (i32.load offset=8 (i32.const {at}))) (i32.const {ANSWER})",
            at = ANSWER + 64
        );
        let items = format!("{} (data (i32.const 512) \"{key}\")", import("reference-tables", "lookup", "i32 i32 i32 i32"));
        let mut table = Table::default();
        table.insert(b"ab", b"the row").unwrap();
        let mut call = Call::new();
        call.reads.tables = Arc::from([table]);
        call.elements(&mut *open(&Guest { items, elements: body, ..Guest::default() }))
    };
    assert_eq!(lookup("ab"), Err(Failure::BadRecord { row: 1, reason: "the row".to_owned() }));
    assert_eq!(lookup("ac"), Err(Failure::BadRecord { row: 0, reason: String::new() }));
}

#[test]
fn what_a_call_counts_is_one_of_its_effects() {
    let items = format!("{} (data (i32.const 512) \"late\")", import("telemetry", "count", "i32 i32 i64"));
    let count = "(call $count (i32.const 512) (i32.const 4) (i64.const 5))";
    let factory = factory(&Guest { items, elements: format!("{count} {count} {}", all()), ..Guest::default() });
    let mut detector = tidemill_core::detector::DetectorFactory::open(&factory, &[]).unwrap();
    for _ in 0..2 {
        let mut call = Call::new();
        call.elements(&mut *detector).unwrap();
        assert_eq!(call.effects.counts, [("late".into(), 10)]);
    }
}

#[test]
fn an_instance_outlives_its_factory() {
    let component = engine().load("hand.wasm", &echo().build(), None).unwrap();
    let factory = GuestFactory::new(component, LIMITS).unwrap();
    let mut detector = tidemill_core::detector::DetectorFactory::open(&factory, &[]).unwrap();
    drop(factory);
    assert_eq!(Call::new().elements(&mut *detector), Ok(2));
}
