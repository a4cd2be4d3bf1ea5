use tidemill_sdk::Duration;
use tidemill_sdk::schema::table_of;
use tidemill_sdk::testing::Harness;

use super::{Alert, Kind, LateLine, Line, Opening, StockOut, StockOutParameters};

const MINUTE: i64 = 60_000;

/// A harness whose shelf (1, "A") opens with 3 units.
fn harness() -> Harness<StockOut> {
    let mut harness = Harness::<StockOut>::open(&StockOutParameters::default()).unwrap();
    harness.row("opening_stock", &(1i64, "A"), &Opening { opening: 3 }).unwrap();
    harness
}

fn line(sku: &str, event_ts: i64, qty: i64) -> Line<'_> {
    Line { basket_id: "b", store_id: 1, sku, qty, event_ts, uploaded_at: event_ts.saturating_add(90_000) }
}

fn sell(harness: &mut Harness<StockOut>, line: &Line<'_>) {
    harness.element(&(line.store_id, line.sku.to_owned()), line.event_ts, line).unwrap();
}

/// Alerts as (kind, sku, since, when, level).
fn alerts(harness: &mut Harness<StockOut>) -> Vec<(Kind, String, i64, i64, i64)> {
    let alerts = harness.outputs::<Alert<'_>>("main").unwrap();
    assert!(alerts.iter().all(|(time, alert)| *time == Some(alert.alert_ts) && alert.store_id == 1 && alert.rule_version == 1));
    alerts.into_iter().map(|(_, alert)| (alert.kind, alert.sku.to_owned(), alert.since, alert.alert_ts, alert.level)).collect()
}

/// The alerts of sales of sku A at these minutes, that arrive in this order, in batches of several sizes.
fn check(sales: &[(i64, i64)], expected: &[(Kind, i64, i64, i64)]) {
    for rows in [1, 2, 1024] {
        let mut harness = harness().batch_rows(rows);
        for &(minute, qty) in sales {
            sell(&mut harness, &line("A", minute * MINUTE, qty));
        }
        harness.watermark(i64::MAX).unwrap();
        let expected: Vec<_> =
            expected.iter().map(|&(kind, since, alert, level)| (kind, "A".to_owned(), since * MINUTE, alert * MINUTE, level)).collect();
        assert_eq!(alerts(&mut harness), expected, "{sales:?}, {rows} rows a batch");
        assert_eq!((harness.pending_timers().unwrap(), harness.stored().unwrap()), (0, 1), "{sales:?}");
    }
}

#[test]
fn a_shelf_that_stays_empty_is_out_of_stock_once() {
    check(&[(1, 2)], &[]);
    check(&[(1, 2), (5, 1)], &[(Kind::StockOut, 5, 35, 0)]);
    check(&[(1, 5)], &[(Kind::StockOut, 1, 31, -2)]);
    // In whatever order the lines arrive.
    check(&[(5, 1), (1, 2)], &[(Kind::StockOut, 5, 35, 0)]);
}

#[test]
fn a_sale_from_an_empty_shelf_is_a_book_error_once_and_cancels_the_stock_out() {
    check(&[(1, 3), (2, 1)], &[(Kind::BookError, 2, 2, -1)]);
    check(&[(1, 3), (2, 1), (3, 1), (90, 1)], &[(Kind::BookError, 2, 2, -1)]);
    // After the stock-out it is one as well.
    check(&[(1, 3), (40, 1)], &[(Kind::StockOut, 1, 31, 0), (Kind::BookError, 40, 40, -1)]);
}

#[test]
fn goods_that_come_back_do_not_bring_a_second_alert() {
    check(&[(1, 3), (40, -5), (41, 5)], &[(Kind::StockOut, 1, 31, 0), (Kind::BookError, 40, 40, 5)]);
}

#[test]
fn a_sale_at_the_deadline_itself_counts() {
    check(&[(1, 3), (31, 1)], &[(Kind::BookError, 31, 31, -1)]);
}

#[test]
fn units_sold_at_one_time_are_one_sale() {
    check(&[(1, 2), (1, 1)], &[(Kind::StockOut, 1, 31, 0)]);
    check(&[(1, 3), (1, 4)], &[(Kind::StockOut, 1, 31, -4)]);
}

#[test]
fn a_shelf_that_is_not_in_the_table_opens_empty() {
    let mut harness = harness();
    sell(&mut harness, &line("B", MINUTE, 1));
    harness.watermark(MINUTE).unwrap();
    assert_eq!(alerts(&mut harness), [(Kind::BookError, "B".to_owned(), MINUTE, MINUTE, -1)]);
}

#[test]
fn late_lines_leave_by_the_side_output_and_do_not_count() {
    let mut harness = harness();
    harness.watermark(10 * MINUTE).unwrap();
    let behind = line("A", 10 * MINUTE, 3);
    let ahead = line("A", 10 * MINUTE + 1, 1);
    let slow = Line { uploaded_at: 16 * MINUTE + 1, ..line("A", 11 * MINUTE, 3) };
    let just_in_time = Line { uploaded_at: 17 * MINUTE, ..line("A", 12 * MINUTE, 2) };
    for line in [&behind, &ahead, &slow, &just_in_time] {
        sell(&mut harness, line);
    }
    harness.watermark(i64::MAX).unwrap();
    let late = |line: &Line<'static>| LateLine {
        basket_id: "b",
        store_id: 1,
        sku: line.sku,
        qty: line.qty,
        event_ts: line.event_ts,
        uploaded_at: line.uploaded_at,
        watermark: 10 * MINUTE,
    };
    let found = harness.outputs::<LateLine<'_>>("late").unwrap();
    assert_eq!(found, [(Some(10 * MINUTE), late(&behind)), (Some(11 * MINUTE), late(&slow))]);
    assert_eq!(alerts(&mut harness), [(Kind::StockOut, "A".to_owned(), 12 * MINUTE, 42 * MINUTE, 0)]);
}

#[test]
fn parameters_move_deadline_and_lateness() {
    let parameters = StockOutParameters { confirm: Duration::from_mins(1), max_upload_delay: Duration::from_secs(89) };
    let mut harness = Harness::<StockOut>::open(&parameters).unwrap();
    harness.row("opening_stock", &(1i64, "A"), &Opening { opening: 1 }).unwrap();
    sell(&mut harness, &line("A", 1, 1));
    sell(&mut harness, &Line { uploaded_at: 90_000, ..line("A", 1_000, 1) });
    harness.watermark(i64::MAX).unwrap();
    assert_eq!(alerts(&mut harness), [(Kind::StockOut, "A".to_owned(), 1_000, 61_000, 0)]);
    assert_eq!(harness.outputs::<LateLine<'_>>("late").unwrap().len(), 1);
}

#[test]
fn extreme_numbers_do_not_overflow() {
    for (event_ts, qty) in [(i64::MAX, i64::MAX), (i64::MAX - 1, i64::MIN), (i64::MIN, i64::MAX), (i64::MIN + 1, i64::MIN)] {
        let mut harness = harness();
        for _ in 0..3 {
            let line = Line { uploaded_at: i64::MAX, ..line("A", event_ts, qty) };
            sell(&mut harness, &line);
            sell(&mut harness, &Line { uploaded_at: event_ts, ..line });
        }
        harness.watermark(i64::MAX).unwrap();
        assert!(alerts(&mut harness).len() <= 1, "{event_ts} {qty}");
    }
}

#[test]
fn what_basket_lines_emits_is_what_comes_in() {
    assert_eq!(table_of::<basket_lines::Line<'_>>(), table_of::<Line<'_>>());
}
