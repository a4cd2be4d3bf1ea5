//! What WebAssembly costs: the same work in the same operator, as a component and natively, and as a loop written by hand.

use std::path::Path;
use std::sync::Arc;
use std::task::Waker;

use fastrand::Rng;
use stock_out::{Line, StockOut};
use tidemill::guest::{GuestEngine, GuestFactory, Limits};
use tidemill_core::Timestamp;
use tidemill_core::batch::{Batch, Origin};
use tidemill_core::detector::DetectorFactory;
use tidemill_core::exchange::{Edge, Element, Outputs, Receiver, channel};
use tidemill_core::key_group::hash_key;
use tidemill_core::operator::{BATCH_ROWS, Env, Operator, OperatorSettings};
use tidemill_core::schema::KeyEncoder;
use tidemill_core::state::MemoryState;
use tidemill_core::table::Table;
use tidemill_core::time::Domain;

use super::median;
use super::reference::{Alerts, Loop};
use crate::native::NativeFactory;

const DAY: i64 = 1_786_752_000_000;
const BOUND: i64 = 5 * 60_000;

/// Batches of elements, each followed by a watermark, and the opening stock.
struct Work {
    batches: Vec<(Batch, i64)>,
    table: Table,
    records: usize,
}

/// Measures and prints.
///
/// # Errors
/// The component is missing, or the three ways do not agree.
#[expect(clippy::print_stdout, reason = "this is what the bench is for")]
pub fn run(guests: &Path, repetitions: usize, keys: &[u64]) -> Result<(), String> {
    let path = guests.join("stock_out.wasm");
    let bytes = std::fs::read(&path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    let engine = GuestEngine::new().map_err(|error| error.chain())?;
    let component = engine.load("stock_out", &bytes, None).map_err(|error| error.chain())?;
    let wasm: Arc<dyn DetectorFactory> = Arc::new(GuestFactory::new(component, Limits::default())?);
    let native: Arc<dyn DetectorFactory> = Arc::new(NativeFactory::<StockOut>::default());
    println!(
        "the stock-out operator, {BATCH_ROWS} rows a batch, elements and timers; medians of {repetitions} interleaved runs, ns per element"
    );
    println!(
        "{:>8} {:>9} {:>12} {:>12} {:>14} {:>12} {:>12}",
        "keys", "elements", "component", "native", "record by rec.", "ratio (1.3)", "ratio (1.5)"
    );
    for &keys in keys {
        let records = if keys < 10_000 { 300_000 } else { 1_200_000 };
        let work = work(keys, records, native.as_ref())?;
        let (mut with_wasm, mut natively, mut by_record) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..repetitions {
            let (time, alerts) = operator(&wasm, &work)?;
            with_wasm.push(time);
            let (time, natives) = operator(&native, &work)?;
            natively.push(time);
            let (time, loops) = record_by_record(&work)?;
            by_record.push(time);
            if alerts != natives || natives != loops || alerts.count == 0 {
                return Err(format!("the three ways differ: {alerts:?}, {natives:?} and {loops:?}"));
            }
        }
        let [wasm, native, record] = [with_wasm, natively, by_record].map(median);
        println!("{keys:>8} {records:>9} {wasm:>12.0} {native:>12.0} {record:>14.0} {:>12.2} {:>12.2}", wasm / native, wasm / record);
    }
    Ok(())
}

/// The records of a day, in nearly ascending order.
fn work(keys: u64, records: usize, detector: &dyn DetectorFactory) -> Result<Work, String> {
    let mut rng = Rng::with_seed(3);
    let encoder = KeyEncoder::new(&detector.descriptor().input, &["store_id".to_owned(), "sku".to_owned()])?;
    let name = |key: u64| (i64::try_from(key / 320).unwrap_or(0), format!("SKU-{:05}", key % 320));
    let mut work = Work { batches: Vec::new(), table: Table::default(), records };
    let mut encoded = Vec::new();
    for number in 0..keys {
        let (store_id, sku) = name(number);
        encode(&Line { basket_id: "", store_id, sku: &sku, qty: 1, event_ts: 0, uploaded_at: 0 }, &mut encoded)?;
        let mut key = Vec::new();
        encoder.encode(&encoded, &mut key)?;
        let opening = postcard::to_allocvec(&rng.i64(0..30)).map_err(|error| error.to_string())?;
        work.table.insert(&key, &opening)?;
    }
    let (mut batch, mut key) = (Batch::default(), Vec::new());
    for number in 0..records {
        let event_ts = DAY + i64::try_from(number as u64 * 57_600_000 / records as u64).unwrap_or(0) - rng.i64(0..60_000);
        let (store_id, sku) = name(rng.u64(0..keys));
        let basket_id = format!("B{number:09}");
        let line = Line { basket_id: &basket_id, store_id, sku: &sku, qty: rng.i64(1..3), event_ts, uploaded_at: event_ts + 1000 };
        encode(&line, &mut encoded)?;
        batch.push(&encoded, Some(event_ts), Origin::NONE);
        key.clear();
        encoder.encode(&encoded, &mut key)?;
        batch.key.push(&key);
        batch.hash.push(hash_key(&key));
        if batch.len() == BATCH_ROWS || number + 1 == records {
            work.batches.push((std::mem::take(&mut batch), event_ts - BOUND));
        }
    }
    if let Some((_, watermark)) = work.batches.last_mut() {
        *watermark = i64::MAX;
    }
    Ok(work)
}

fn encode(line: &Line<'_>, into: &mut Vec<u8>) -> Result<(), String> {
    *into = postcard::to_allocvec(line).map_err(|error| error.to_string())?;
    Ok(())
}

/// Runs the engine's operator. Returns nanoseconds per record and the alerts.
fn operator(factory: &Arc<dyn DetectorFactory>, work: &Work) -> Result<(f64, Alerts), String> {
    let descriptor = factory.descriptor();
    let parameters = tidemill::codec::from_value(&descriptor.parameters, &serde_json::json!({}))?;
    let mut settings = OperatorSettings::new("stock-out", Arc::clone(factory), parameters, 128);
    settings.tables = Arc::from([work.table.clone()]);
    let mut outputs = Outputs::new(settings.dead_letter_lane() + 1);
    let (sender, mut receiver) = channel(1, Waker::noop().clone(), Waker::noop().clone());
    outputs.connect(0, Edge::forward(sender));
    let mut alerts = Alerts::default();
    let state = Box::new(MemoryState::new(&settings.states));
    let mut operator = Operator::new(Arc::new(settings), state).map_err(|error| error.chain())?;
    let begin = tidemill::clock::monotonic();
    for (batch, watermark) in &work.batches {
        let mut env = Env { now: Timestamp(0), outputs: &mut outputs };
        operator.process(batch, &mut env).map_err(|error| error.chain())?;
        operator.begin_pass(Domain::Event, Timestamp(*watermark));
        while operator.continue_pass(&mut env).map_err(|error| error.chain())?.is_none() {
            take_alerts(&mut receiver, &mut alerts);
        }
    }
    Ok((nanos(begin, work.records), alerts))
}

/// Only timers raise alerts, one batch of them for each call.
fn take_alerts(receiver: &mut Receiver, alerts: &mut Alerts) {
    while let Some(element) = receiver.receive() {
        if let Element::Batch(batch) = element {
            batch.payload.view().iter().for_each(|alert| alerts.add(alert));
        }
    }
}

fn record_by_record(work: &Work) -> Result<(f64, Alerts), String> {
    let mut rule = Loop::default();
    for (key, row) in work.table.iter() {
        rule.opening.insert(key.into(), postcard::from_bytes(row).map_err(|error| error.to_string())?);
    }
    let begin = tidemill::clock::monotonic();
    let mut current = i64::MIN;
    for (batch, watermark) in &work.batches {
        for (payload, key) in batch.payload.view().iter().zip(batch.key.view().iter()) {
            rule.process_element(key, payload, current)?;
        }
        rule.advance(*watermark)?;
        current = *watermark;
    }
    Ok((nanos(begin, work.records), rule.alerts))
}

#[expect(clippy::cast_precision_loss, reason = "a measurement")]
fn nanos(begin: std::time::Instant, records: usize) -> f64 {
    begin.elapsed().as_nanos() as f64 / records as f64
}
