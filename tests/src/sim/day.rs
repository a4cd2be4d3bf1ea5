//! A small day of sales, and what it must lead to by a rule written down on its own: per key, sale by sale.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use serde_json::{Value, json};

/// The business day's first moment.
pub const MORNING: i64 = 1_786_752_000_000;
/// By how much a record may be behind an earlier one of its split.
pub const BOUND: i64 = 5 * 60_000;
const CONFIRM: i64 = 30 * 60_000;

/// Baskets by split, and the expected output.
#[derive(Clone, Debug)]
pub struct Day {
    /// The lines of each split, in order of arrival.
    pub splits: Vec<Vec<String>>,
    /// Rows of the opening stock.
    pub opening: Vec<Value>,
    /// The alerts as JSON text.
    pub alerts: BTreeSet<String>,
    /// The late lines as JSON text, without the watermark.
    pub late: BTreeMap<String, usize>,
}

struct Sale {
    key: (i64, String),
    time: i64,
    units: i64,
}

impl Day {
    /// A day of about that many baskets.
    #[must_use]
    pub fn new(seed: u64, baskets: usize, splits: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let skus = 4 + baskets / 40;
        let keys = (0..2).flat_map(|store| (0..skus).map(move |sku| (store, format!("S{sku}"))));
        let opening: BTreeMap<_, _> = keys.map(|key| (key, rng.i64(-1..12))).collect();
        let mut day = Self { splits: vec![Vec::new(); splits], opening: Vec::new(), alerts: BTreeSet::new(), late: BTreeMap::new() };
        day.opening = opening.iter().map(|((store, sku), level)| json!({"store_id": store, "sku": sku, "opening": level})).collect();
        let mut sales = Vec::new();
        let mut now = MORNING;
        for number in 0..baskets {
            now += rng.i64(0..400_000);
            // Times are rounded, so that sales meet each other and deadlines.
            let time = (now - rng.i64(0..BOUND)) / 60_000 * 60_000;
            let is_late = rng.u8(..12) == 0;
            let uploaded = time + if is_late { 7_200_000 } else { rng.i64(0..90_000) };
            let other_day = rng.u8(..15) == 0;
            let store = rng.i64(0..2);
            let lines: Vec<_> = (0..rng.usize(1..4)).map(|_| (format!("S{}", rng.usize(..=skus)), rng.i64(1..3))).collect();
            let basket = json!({
                "basket_id": format!("B{number}"), "store_id": store, "till_id": 1,
                "business_date": if other_day { "2026-08-14" } else { "2026-08-15" },
                "event_ts": time, "uploaded_at": uploaded,
                "lines": lines.iter().map(|(sku, qty)| json!({"sku": sku, "qty": qty})).collect::<Vec<_>>(),
            });
            for _ in 0..if rng.u8(..6) == 0 { 2 } else { 1 } {
                let split = rng.usize(..splits);
                if let Some(split) = day.splits.get_mut(split) {
                    split.push(basket.to_string());
                }
            }
            for (sku, qty) in lines.into_iter().filter(|_| !other_day) {
                if is_late {
                    let line = json!({
                        "basket_id": format!("B{number}"), "store_id": store, "sku": sku, "qty": qty,
                        "event_ts": time, "uploaded_at": uploaded,
                    });
                    *day.late.entry(line.to_string()).or_default() += 1;
                } else {
                    sales.push(Sale { key: (store, sku), time, units: qty });
                }
            }
        }
        day.alerts = alerts(&opening, &sales);
        day
    }
}

fn alerts(opening: &BTreeMap<(i64, String), i64>, sales: &[Sale]) -> BTreeSet<String> {
    let mut by_key: BTreeMap<&(i64, String), BTreeMap<i64, i64>> = BTreeMap::new();
    for sale in sales {
        *by_key.entry(&sale.key).or_default().entry(sale.time).or_default() += sale.units;
    }
    let mut alerts = BTreeSet::new();
    for (key, times) in by_key {
        let mut add = |kind: &str, since: i64, at: i64, level: i64| {
            let alert = json!({
                "kind": kind, "store_id": key.0, "sku": key.1, "since": since, "alert_ts": at, "level": level, "rule_version": 1,
            });
            alerts.insert(alert.to_string());
        };
        let (mut level, mut empty_since, mut book_error) = (opening.get(key).copied().unwrap_or(0), None::<i64>, false);
        for (&time, &units) in &times {
            if let Some(since) = empty_since.filter(|since| since + CONFIRM < time) {
                add("STOCK_OUT", since, since + CONFIRM, level);
            }
            let before = level;
            (level, empty_since) = (level - units, None);
            if before <= 0 && !book_error {
                book_error = true;
                add("BOOK_ERROR", time, time, level);
            } else if before > 0 && level <= 0 {
                empty_since = Some(time);
            }
        }
        if let Some(since) = empty_since {
            add("STOCK_OUT", since, since + CONFIRM, level);
        }
    }
    alerts
}
