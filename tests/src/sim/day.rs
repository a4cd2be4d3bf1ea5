//! A day of sales, and what it must lead to by a rule written down on its own: per key, sale by sale.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::{fs, io};

use fastrand::Rng;
use serde_json::{Value, json};

use super::moody::MARK;

/// The business day's first moment.
pub const MORNING: i64 = 1_786_752_000_000;
/// By how much a record may be behind an earlier one of its split.
pub const BOUND: i64 = 5 * 60_000;
const CONFIRM: i64 = 30 * 60_000;
const BUSINESS_DATE: &str = "2026-08-15";

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
    /// The ids of baskets that moody detectors call bad.
    pub bad: BTreeSet<String>,
}

/// Units sold on time, by key and time.
type Sales = BTreeMap<(i64, String), BTreeMap<i64, i64>>;

impl Day {
    /// A day of about that many baskets.
    #[must_use]
    pub fn new(seed: u64, baskets: usize, splits: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let skus = 4 + baskets / 40;
        let keys = (0..2).flat_map(|store| (0..skus).map(move |sku| (store, format!("S{sku}"))));
        let opening = keys.map(|(store, sku)| json!({"store_id": store, "sku": sku, "opening": rng.i64(-1..12)})).collect();
        let mut lines = vec![Vec::new(); splits];
        let mut now = MORNING;
        for number in 0..baskets {
            now += rng.i64(0..400_000);
            // Times are rounded, so that sales meet each other and deadlines.
            let time = (now - rng.i64(0..BOUND)) / 60_000 * 60_000;
            let uploaded = time + if rng.u8(..12) == 0 { 7_200_000 } else { rng.i64(0..90_000) };
            let items: Vec<_> =
                (0..rng.usize(1..4)).map(|_| json!({"sku": format!("S{}", rng.usize(..=skus)), "qty": rng.i64(1..3)})).collect();
            let basket = json!({
                "basket_id": format!("B{number}"), "store_id": rng.i64(0..2), "till_id": 1,
                "business_date": if rng.u8(..15) == 0 { "2026-08-14" } else { BUSINESS_DATE },
                "event_ts": time, "uploaded_at": uploaded, "lines": items,
            });
            for _ in 0..if rng.u8(..6) == 0 { 2 } else { 1 } {
                let split = rng.usize(..splits);
                if let Some(split) = lines.get_mut(split) {
                    split.push(basket.to_string());
                }
            }
        }
        Self::of(lines, opening)
    }

    /// Adds bad baskets: copies of others under ids of their own, right before them, so that they change no watermark.
    pub fn spoil(&mut self, rng: &mut Rng) {
        for number in 0..rng.usize(..8) {
            let split = rng.usize(..self.splits.len().max(1));
            let Some(lines) = self.splits.get_mut(split).filter(|lines| !lines.is_empty()) else { continue };
            let at = rng.usize(..lines.len());
            let id = format!("{MARK}{number}");
            let mut basket: Value = lines.get(at).and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
            if let Some(fields) = basket.as_object_mut() {
                fields.insert("basket_id".to_owned(), json!(id));
                lines.insert(at, basket.to_string());
                self.bad.insert(id);
            }
        }
    }

    /// Sends some baskets again, many times in a row: the copies change nothing but the state that recognizes them.
    pub fn repeat(&mut self, rng: &mut Rng) {
        for lines in &mut self.splits {
            for _ in 0..rng.usize(..3) {
                let at = rng.usize(..lines.len().max(1));
                let Some(line) = lines.get(at).filter(|line| !line.contains(MARK)).cloned() else { continue };
                let copies = std::iter::repeat_n(line, rng.usize(20..120));
                lines.splice(at..at, copies);
            }
        }
    }

    /// A day as the Larkspur generator writes it, a file a split.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(dir: &Path) -> io::Result<Self> {
        let text = |name: String| fs::read_to_string(dir.join(name));
        let splits = (0..larkspur::FILES).map(|file| Ok(text(format!("pos-{file}.jsonl"))?.lines().map(str::to_owned).collect()));
        let opening = |row: &str| {
            let mut fields = row.split(',');
            let (store, sku, opening) = (fields.next()?.parse::<i64>().ok()?, fields.next()?, fields.next()?.parse::<i64>().ok()?);
            Some(json!({"store_id": store, "sku": sku, "opening": opening}))
        };
        let openings = text("opening_stock.csv".to_owned())?.lines().skip(1).filter_map(opening).collect();
        Ok(Self::of(splits.collect::<io::Result<_>>()?, openings))
    }

    /// What these lines must lead to.
    #[expect(clippy::indexing_slicing, reason = "a JSON object gives null for a field that it lacks")]
    fn of(splits: Vec<Vec<String>>, opening: Vec<Value>) -> Self {
        let (mut sales, mut late, mut seen) = (Sales::new(), BTreeMap::new(), HashSet::new());
        for line in splits.iter().flatten() {
            let basket: Value = serde_json::from_str(line).unwrap_or_default();
            if !seen.insert(basket["basket_id"].to_string()) || basket["business_date"] != BUSINESS_DATE {
                continue;
            }
            let (time, uploaded) = (int(&basket["event_ts"]), int(&basket["uploaded_at"]));
            for item in basket["lines"].as_array().into_iter().flatten() {
                if uploaded - time > 5 * 60_000 {
                    let line = json!({
                        "basket_id": basket["basket_id"], "store_id": basket["store_id"], "sku": item["sku"], "qty": item["qty"],
                        "event_ts": time, "uploaded_at": uploaded,
                    });
                    *late.entry(line.to_string()).or_default() += 1;
                } else {
                    *sales.entry(key(&basket["store_id"], &item["sku"])).or_default().entry(time).or_default() += int(&item["qty"]);
                }
            }
        }
        let levels: BTreeMap<_, _> = opening.iter().map(|row| (key(&row["store_id"], &row["sku"]), int(&row["opening"]))).collect();
        Self { splits, alerts: alerts(&levels, &sales), opening, late, bad: BTreeSet::new() }
    }
}

fn key(store: &Value, sku: &Value) -> (i64, String) {
    (int(store), sku.as_str().unwrap_or_default().to_owned())
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn alerts(opening: &BTreeMap<(i64, String), i64>, sales: &Sales) -> BTreeSet<String> {
    let mut alerts = BTreeSet::new();
    for (key, times) in sales {
        let mut add = |kind: &str, since: i64, at: i64, level: i64| {
            let alert = json!({
                "kind": kind, "store_id": key.0, "sku": key.1, "since": since, "alert_ts": at, "level": level, "rule_version": 1,
            });
            alerts.insert(alert.to_string());
        };
        let (mut level, mut empty_since, mut book_error) = (opening.get(key).copied().unwrap_or(0), None::<i64>, false);
        for (&time, &units) in times {
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
