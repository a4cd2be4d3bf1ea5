use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;

use sha2::{Digest, Sha256};

use crate::clock::{CLOSE, CONFIRM, HOUR};
use crate::rule::{Basket, Day, Verdict, judge};
use crate::upload::LONGEST;
use crate::{Counts, FILES, generate};

fn day(seed: u64, scale: u16) -> Day {
    let dir = tempfile::tempdir().unwrap();
    let summary = generate(dir.path(), seed, scale).unwrap();
    let day = Day::read(dir.path());
    assert_eq!(summary.uploads, day.files.iter().map(Vec::len).sum::<usize>());
    day
}

fn check_counts(seed: u64, scale: u16) {
    let (day, n) = (day(seed, scale), usize::from(scale));
    let sales = day.on_time();
    assert_eq!(day.openings.len(), 121_450 * n);
    assert_eq!(day.openings.values().filter(|opening| **opening <= 0).count(), 6_386 * n);
    assert!(day.openings.values().any(|opening| *opening < 0));
    assert_eq!(sales.len(), 37_897 * n);
    assert_eq!(sales.values().flat_map(BTreeMap::values).map(Vec::len).sum::<usize>(), 56_429 * n);
    assert_eq!(day.baskets().iter().filter(|b| b.is_late()).map(|b| b.lines.len()).sum::<usize>(), 1_141 * n);

    let verdicts: Vec<(i32, Verdict)> = sales.iter().map(|(key, sales)| (day.openings[key], judge(day.openings[key], sales))).collect();
    let count = |of: fn(i32, &Verdict) -> bool| verdicts.iter().filter(|(opening, verdict)| of(*opening, verdict)).count();
    assert_eq!(count(|_, v| v.stock_out), 6_779 * n);
    assert_eq!(count(|_, v| v.book_error.is_some()), 3_054 * n);
    assert_eq!(count(|opening, v| v.book_error.is_some() && opening <= 0), 1_948 * n);
    assert_eq!(count(|_, v| v.book_error.is_some() && v.stock_out), 978 * n);
    assert_eq!(count(|_, v| v.book_error.is_some() && v.emptied.is_some() && !v.stock_out), 128 * n);
}

#[test]
fn every_seed_and_scale_has_the_counts() {
    for (seed, scale) in [(29, 1), (0, 1), (7, 1), (u64::MAX, 1), (29, 2), (4, 3)] {
        check_counts(seed, scale);
    }
}

#[test]
fn counts_of_the_summary_add_up() {
    let counts = Counts::at_scale(1);
    assert_eq!((counts.alerts(), counts.stock_outs(), counts.book_errors()), (9_833, 6_779, 3_054));
    assert_eq!((counts.sold_keys(), counts.opens_empty(), counts.store_skus), (37_897, 6_386, 121_450));
}

#[test]
fn files_are_in_arrival_order_and_out_of_event_order_within_their_bound() {
    for seed in [29, 3] {
        let day = day(seed, 1);
        for (file, bound) in day.files.iter().zip(LONGEST) {
            assert!(file.is_sorted_by_key(|basket| basket.uploaded_at));
            let mut latest = i64::MIN;
            let mut furthest = 0;
            for basket in file {
                if !basket.is_late() {
                    assert!(basket.uploaded_at - basket.event_ts <= bound);
                    furthest = furthest.max(latest.saturating_sub(basket.event_ts));
                }
                latest = latest.max(basket.event_ts);
            }
            assert!(furthest <= bound && furthest > bound / 2, "{furthest} of {bound}");
            assert!(latest <= CLOSE);
        }
    }
}

#[test]
fn late_baskets_and_copies_and_other_dates_are_as_described() {
    let day = day(29, 1);
    let all: Vec<&Basket> = day.files.iter().flatten().collect();
    assert!(all.iter().all(|b| !b.lines.is_empty() && (!b.is_late() || b.uploaded_at - b.event_ts >= 2 * HOUR)));
    assert!(all.iter().any(|b| b.uploaded_at - b.event_ts == 2 * HOUR));
    for date in ["2026-08-14", "2026-08-16"] {
        assert!(all.iter().filter(|b| b.business_date == date).count() > 500);
    }

    let mut first: HashMap<&str, &Basket> = HashMap::new();
    let (mut same, mut later, mut late) = (0, 0, 0);
    for basket in all {
        let Some(first) = first.insert(&basket.basket_id, basket) else { continue };
        assert_eq!(Basket { uploaded_at: basket.uploaded_at, ..first.clone() }, *basket);
        assert_eq!(first.is_late(), basket.is_late());
        same += usize::from(first.uploaded_at == basket.uploaded_at);
        later += usize::from(first.uploaded_at != basket.uploaded_at);
        late += usize::from(first.is_late());
    }
    assert!(same > 200 && later > 200 && late > 10, "{same} {later} {late}");
}

#[test]
fn hard_cases_are_in_every_day() {
    for seed in [29, 30, 31] {
        let day = day(seed, 1);
        let sales = day.on_time();
        let late: HashSet<(u32, &str)> =
            day.baskets().into_iter().filter(|b| b.is_late()).flat_map(|b| b.lines.iter().map(|l| (b.store_id, l.sku.as_str()))).collect();
        let verdicts = || sales.iter().map(|(key, sales)| (key, sales, judge(day.openings[key], sales)));
        let gap = |v: &Verdict| Some(v.book_error? - v.emptied?);
        assert!(verdicts().filter(|(_, _, v)| gap(v) == Some(CONFIRM)).count() >= 32, "sales at the deadline");
        assert!(verdicts().filter(|(_, _, v)| gap(v) == Some(CONFIRM + 1)).count() >= 100, "sales just after it");
        assert!(verdicts().any(|(_, _, v)| gap(&v) == Some(CONFIRM - 1)), "sales just before it");
        assert!(verdicts().any(|(_, _, v)| v.stock_out && v.emptied == Some(CLOSE)), "a deadline behind the last sale");
        assert!(verdicts().filter(|(_, _, v)| v.level == 1).count() > 1_000, "keys sold down to one");
        assert!(verdicts().any(|(_, _, v)| v.stock_out && v.level < -2), "levels below zero");
        let together = verdicts().filter(|(_, sales, v)| v.emptied.is_some_and(|at| sales[&at].len() > 1 && v.level <= -1)).count();
        assert!(together > 200, "several lines in one emptying sale: {together}");
        let arrived: HashMap<(u32, &str, i64), i64> = day
            .baskets()
            .into_iter()
            .filter(|b| !b.is_late())
            .flat_map(|b| b.lines.iter().map(|l| ((b.store_id, l.sku.as_str(), b.event_ts), b.uploaded_at)))
            .collect();
        let swapped = verdicts().filter(|((store, sku), _, v)| {
            let at = |ts: i64| arrived[&(*store, sku.as_str(), ts)];
            v.emptied.zip(v.book_error).is_some_and(|(emptied, next)| at(next) < at(emptied))
        });
        assert!(swapped.count() > 3, "the sale after the emptying one arrives first");
        let ignored = verdicts().filter(|((store, sku), _, v)| v.stock_out && late.contains(&(*store, sku))).count();
        assert!(ignored > 100, "late lines on keys that run out: {ignored}");
        assert!(late.iter().any(|(store, sku)| !sales.contains_key(&(*store, (*sku).to_owned()))), "late lines only");
    }
}

#[test]
fn same_seed_same_bytes() {
    let hash = |seed: u64| {
        let dir = tempfile::tempdir().unwrap();
        generate(dir.path(), seed, 1).unwrap();
        let mut hasher = Sha256::new();
        for name in (0..FILES).map(|n| format!("pos-{n}.jsonl")).chain(["opening_stock.csv".to_owned()]) {
            hasher.update(fs::read(dir.path().join(name)).unwrap());
        }
        hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    assert_eq!(hash(29), "b2a496c08ea51f639d77acac5f2e182e36d98a302ee0002ee5602bd8475c43a2");
    assert_ne!(hash(30), hash(29));
}

#[test]
fn an_unwritable_folder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("taken");
    fs::write(&file, "").unwrap();
    let message = generate(&file, 29, 1).unwrap_err().to_string();
    assert!(message.starts_with(&format!("writing {}", file.display())), "{message}");
}
