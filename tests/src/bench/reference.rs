//! The stock-out rule as a native loop that handles one record at a time: what one would write by hand, with state in encoded form, since
//! only that can be checkpointed.

use std::collections::{BTreeSet, HashMap};

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
    /// The alerts, encoded.
    pub outputs: Vec<u8>,
    /// How many alerts there were.
    pub alerts: u64,
}

#[derive(Default)]
struct Entry {
    stock: Vec<u8>,
    pending: Vec<(i64, i64)>,
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
            match entry.pending.iter_mut().find(|(time, _)| *time == line.event_ts) {
                Some((_, units)) => *units += line.qty,
                None => entry.pending.push((line.event_ts, line.qty)),
            }
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
        let Self { keys, timers, opening, outputs, alerts } = self;
        let Some(entry) = keys.get_mut(key) else { return Ok(()) };
        let mut stock: Stock = if entry.stock.is_empty() {
            Stock { level: opening.get(key).copied().unwrap_or(0), ..Stock::default() }
        } else {
            postcard::from_bytes(&entry.stock).map_err(|error| error.to_string())?
        };
        let mut emit = |kind, since, level| {
            let (store_id, sku) = key_parts(key)?;
            let alert = Alert { kind, store_id, sku: &sku, since, alert_ts: now, level, rule_version: 1 };
            outputs.extend_from_slice(&postcard::to_allocvec(&alert).map_err(|error| error.to_string())?);
            *alerts += 1;
            Ok::<_, String>(())
        };
        if let Some(at) = entry.pending.iter().position(|(time, _)| *time == now) {
            let (_, units) = entry.pending.swap_remove(at);
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
        entry.stock.clear();
        entry.stock = postcard::to_extend(&stock, std::mem::take(&mut entry.stock)).map_err(|error| error.to_string())?;
        Ok(())
    }
}

fn key_parts(key: &[u8]) -> Result<(i64, String), String> {
    let (store, mut rest) = key.split_first_chunk::<8>().ok_or("a short key")?;
    let mut sku = Vec::new();
    tidemill_wit::key::take_bytes(&mut rest, &mut sku)?;
    Ok((i64::from_be_bytes(*store) ^ i64::MIN, String::from_utf8(sku).map_err(|error| error.to_string())?))
}
