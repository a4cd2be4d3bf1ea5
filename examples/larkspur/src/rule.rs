//! The stock-out rule over a whole written day at once, to check what `generate` wrote. Tests only.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::clock::{CONFIRM, MINUTE};

pub(crate) type Key = (u32, String);

#[derive(Deserialize, Clone, PartialEq, Debug)]
pub(crate) struct Basket {
    pub(crate) basket_id: String,
    pub(crate) store_id: u32,
    pub(crate) till_id: u32,
    pub(crate) business_date: String,
    pub(crate) event_ts: i64,
    pub(crate) uploaded_at: i64,
    pub(crate) lines: Vec<Line>,
}

#[derive(Deserialize, Clone, PartialEq, Debug)]
pub(crate) struct Line {
    pub(crate) sku: String,
    pub(crate) qty: i32,
}

impl Basket {
    pub(crate) fn is_late(&self) -> bool {
        self.uploaded_at - self.event_ts > 5 * MINUTE
    }
}

/// What the rule says about one key, from its opening stock and its on-time units by event time.
#[derive(Default, PartialEq, Debug)]
pub(crate) struct Verdict {
    pub(crate) emptied: Option<i64>,
    pub(crate) stock_out: bool,
    pub(crate) book_error: Option<i64>,
    pub(crate) level: i32,
}

pub(crate) fn judge(opening: i32, sales: &BTreeMap<i64, Vec<i32>>) -> Verdict {
    let mut verdict = Verdict { level: opening, ..Verdict::default() };
    for (at, units) in sales {
        if verdict.level <= 0 {
            verdict.book_error.get_or_insert(*at);
        }
        let before = verdict.level;
        verdict.level -= units.iter().sum::<i32>();
        if before > 0 && verdict.level <= 0 {
            verdict.emptied = Some(*at);
        }
    }
    verdict.stock_out = verdict.emptied.is_some_and(|emptied| verdict.book_error.is_none_or(|next| next > emptied + CONFIRM));
    verdict
}

/// A written day, read back.
pub(crate) struct Day {
    pub(crate) files: Vec<Vec<Basket>>,
    pub(crate) openings: HashMap<Key, i32>,
}

impl Day {
    pub(crate) fn read(dir: &Path) -> Self {
        let file = |name: String| fs::read_to_string(dir.join(name)).unwrap();
        let files = (0..crate::FILES).map(|n| file(format!("pos-{n}.jsonl")).lines().map(|l| serde_json::from_str(l).unwrap()).collect());
        let table = file("opening_stock.csv".to_owned());
        let openings = table.lines().skip(1).map(|row| {
            let [store, sku, opening] = row.split(',').collect::<Vec<_>>().try_into().unwrap();
            ((store.parse().unwrap(), sku.to_owned()), opening.parse().unwrap())
        });
        Self { files: files.collect(), openings: openings.collect() }
    }

    /// First copies of the business date.
    pub(crate) fn baskets(&self) -> Vec<&Basket> {
        let mut seen = HashSet::new();
        self.files.iter().flatten().filter(|b| seen.insert(&b.basket_id) && b.business_date == "2026-08-15").collect()
    }

    /// The quantities of on-time lines by key and event time.
    pub(crate) fn on_time(&self) -> HashMap<Key, BTreeMap<i64, Vec<i32>>> {
        let mut sales: HashMap<Key, BTreeMap<i64, Vec<i32>>> = HashMap::new();
        for basket in self.baskets().into_iter().filter(|basket| !basket.is_late()) {
            for line in &basket.lines {
                let key = (basket.store_id, line.sku.clone());
                sales.entry(key).or_default().entry(basket.event_ts).or_default().push(line.qty);
            }
        }
        sales
    }
}
