use tidemill_sdk::schema::table_of;
use tidemill_sdk::testing::Harness;

use super::{Basket, BasketLines, BasketLinesParameters, Item, Line};

fn basket<'a>(business_date: &'a str, lines: Vec<Item<'a>>) -> Basket<'a> {
    Basket { basket_id: "b", store_id: 7, till_id: 3, business_date, event_ts: 10, uploaded_at: 20, lines }
}

#[test]
fn baskets_of_the_business_date_become_lines() {
    let mut harness = Harness::<BasketLines>::open(&BasketLinesParameters { business_date: "2026-08-15".to_owned() }).unwrap();
    let items = || vec![Item { sku: "A", qty: 2 }, Item { sku: "B", qty: 1 }];
    for date in ["2026-08-14", "2026-08-15", "2026-08-16"] {
        harness.element(&(), 10, &basket(date, items())).unwrap();
    }
    harness.element(&(), None, &basket("2026-08-15", vec![Item { sku: "C", qty: 3 }])).unwrap();
    harness.element(&(), 12, &basket("2026-08-15", Vec::new())).unwrap();
    let line = |sku, qty| Line { basket_id: "b", store_id: 7, sku, qty, event_ts: 10, uploaded_at: 20 };
    let lines = harness.outputs::<Line<'_>>("main").unwrap();
    assert_eq!(lines, [(Some(10), line("A", 2)), (Some(10), line("B", 1)), (None, line("C", 3))]);
}

#[test]
fn the_business_date_must_be_given() {
    let error = Harness::<BasketLines>::open(&()).map(drop).unwrap_err();
    assert!(error.starts_with("the parameters do not decode as BasketLinesParameters: "), "{error}");
}

#[test]
fn what_first_copy_emits_is_what_comes_in() {
    assert_eq!(table_of::<first_copy::Basket<'_>>(), table_of::<Basket<'_>>());
}
