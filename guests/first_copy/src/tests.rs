use tidemill_sdk::testing::Harness;

use super::{Basket, FirstCopy, Item};

const DAY: i64 = 86_400_000;

fn basket(basket_id: &str, uploaded_at: i64) -> Basket<'_> {
    let lines = vec![Item { sku: "A-1", qty: 2 }, Item { sku: "B-2", qty: -1 }];
    Basket { basket_id, store_id: 7, till_id: 3, business_date: "2026-08-15", event_ts: 1_000, uploaded_at, lines }
}

fn send(harness: &mut Harness<FirstCopy>, id: &str, uploaded_at: i64) {
    harness.element(&id.to_owned(), 1_000, &basket(id, uploaded_at)).unwrap();
}

#[test]
fn only_the_first_copy_passes_unchanged() {
    for rows in [1, 3, 1024] {
        let mut harness = Harness::<FirstCopy>::open(&()).unwrap().batch_rows(rows);
        for (id, uploaded_at) in [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5)] {
            send(&mut harness, id, uploaded_at);
        }
        let passed = harness.outputs::<Basket<'_>>("main").unwrap();
        assert_eq!(passed, [(Some(1_000), basket("a", 1)), (Some(1_000), basket("b", 2))], "{rows} rows a batch");
    }
}

#[test]
fn a_basket_is_forgotten_after_three_days_whatever_copies_came_meanwhile() {
    let mut harness = Harness::<FirstCopy>::open(&()).unwrap();
    for (clock, uploaded_at) in [(0, 1), (2 * DAY, 2), (3 * DAY - 1, 3), (3 * DAY, 4)] {
        harness.processing_time(clock).unwrap();
        send(&mut harness, "a", uploaded_at);
    }
    let passed: Vec<i64> = harness.outputs::<Basket<'_>>("main").unwrap().iter().map(|(_, basket)| basket.uploaded_at).collect();
    assert_eq!(passed, [1, 4]);
    assert_eq!(harness.stored().unwrap(), 1);
}
