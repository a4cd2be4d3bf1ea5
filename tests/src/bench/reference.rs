//! The stock-out rule as a native loop that handles one record at a time: what one would write by hand, with all state in encoded form, since
//! only that can be checkpointed.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use serde::de::DeserializeOwned;
use stock_out::{Alert, Kind, Line, Stock};
use tidemill_core::key_group::hash_key;

type Map<V> = HashMap<Box<[u8]>, V, foldhash::fast::FixedState>;

/// A day's state.
#[derive(Default)]
pub struct Loop {
    keys: Map<Entry>,
    timers: BTreeSet<(i64, u64, Box<[u8]>)>,
    /// The opening levels by encoded key.
    pub opening: Map<i64>,
    /// The alerts.
    pub alerts: Alerts,
}

/// What came out, whatever its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Alerts {
    /// How many.
    pub count: u64,
    /// The sum of the hashes of the encoded alerts.
    pub sum: u64,
}

impl Alerts {
    /// Adds an encoded alert.
    pub fn add(&mut self, alert: &[u8]) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(hash_key(alert));
    }
}

#[derive(Default)]
struct Entry {
    /// A [`Stock`], or nothing.
    stock: Vec<u8>,
    /// Times and units.
    pending: Vec<u8>,
}

const CONFIRM: i64 = 30 * 60_000;
const MAX_UPLOAD_DELAY: i64 = 5 * 60_000;

impl Loop {
    /// Handles an element.
    ///
    /// # Errors
    /// It does not decode.
    pub fn process_element(&mut self, key: &[u8], payload: &[u8], watermark: i64) -> Result<(), String> {
        let line: Line<'_> = postcard::from_bytes(payload).map_err(|error| error.to_string())?;
        if line.event_ts <= watermark || line.uploaded_at - line.event_ts > MAX_UPLOAD_DELAY {
            return Ok(());
        }
        if !self.keys.contains_key(key) {
            self.keys.insert(key.into(), Entry::default());
        }
        if let Some(entry) = self.keys.get_mut(key) {
            let mut pending: Vec<(i64, i64)> = decode(&entry.pending)?.unwrap_or_default();
            match pending.iter_mut().find(|(time, _)| *time == line.event_ts) {
                Some((_, units)) => *units += line.qty,
                None => pending.push((line.event_ts, line.qty)),
            }
            encode(&pending, &mut entry.pending)?;
        }
        self.timers.insert((line.event_ts, hash_key(key), key.into()));
        Ok(())
    }

    /// Fires the timers up to a watermark. Returns how many there were.
    ///
    /// # Errors
    /// A stored value does not decode.
    pub fn advance(&mut self, watermark: i64) -> Result<u64, String> {
        let mut fired = 0;
        while self.timers.first().is_some_and(|(time, ..)| *time <= watermark) {
            let Some((time, _, key)) = self.timers.pop_first() else { break };
            self.on_timer(time, &key)?;
            fired += 1;
        }
        Ok(fired)
    }

    fn on_timer(&mut self, now: i64, key: &[u8]) -> Result<(), String> {
        let Self { keys, timers, opening, alerts } = self;
        let Some(entry) = keys.get_mut(key) else { return Ok(()) };
        let mut stock =
            decode(&entry.stock)?.unwrap_or_else(|| Stock { level: opening.get(key).copied().unwrap_or(0), ..Stock::default() });
        let mut emit = |kind, since, level| {
            let (store_id, sku) = key_parts(key)?;
            let alert = Alert { kind, store_id, sku: &sku, since, alert_ts: now, level, rule_version: 1 };
            alerts.add(&postcard::to_allocvec(&alert).map_err(|error| error.to_string())?);
            Ok::<_, String>(())
        };
        let mut pending: Vec<(i64, i64)> = decode(&entry.pending)?.unwrap_or_default();
        if let Some(at) = pending.iter().position(|(time, _)| *time == now) {
            let (_, units) = pending.swap_remove(at);
            encode(&pending, &mut entry.pending)?;
            let before = stock.level;
            stock.level -= units;
            stock.out_since = None;
            if before <= 0 {
                if !stock.book_error {
                    stock.book_error = true;
                    emit(Kind::BookError, now, stock.level)?;
                }
            } else if stock.level <= 0 {
                stock.out_since = Some(now);
                timers.insert((now + CONFIRM, hash_key(key), key.into()));
            }
        }
        if let Some(since) = stock.out_since.filter(|since| since + CONFIRM == now) {
            stock.out_since = None;
            if !stock.stock_out {
                stock.stock_out = true;
                emit(Kind::StockOut, since, stock.level)?;
            }
        }
        encode(&stock, &mut entry.stock)
    }
}

/// A stored value; `None` if nothing is stored.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<T>, String> {
    if bytes.is_empty() { Ok(None) } else { postcard::from_bytes(bytes).map(Some).map_err(|error| error.to_string()) }
}

/// Replaces a stored value, in the memory that it has.
fn encode<T: Serialize>(value: &T, into: &mut Vec<u8>) -> Result<(), String> {
    into.clear();
    *into = postcard::to_extend(value, std::mem::take(into)).map_err(|error| error.to_string())?;
    Ok(())
}

fn key_parts(key: &[u8]) -> Result<(i64, String), String> {
    let (store, mut rest) = key.split_first_chunk::<8>().ok_or("a short key")?;
    let mut sku = Vec::new();
    tidemill_wit::key::take_bytes(&mut rest, &mut sku)?;
    Ok((i64::from_be_bytes(*store) ^ i64::MIN, String::from_utf8(sku).map_err(|error| error.to_string())?))
}
