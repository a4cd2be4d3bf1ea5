//! Splits baskets into lines and keeps those of one business date. Needs no key and no state.

use serde::{Deserialize, Serialize};
use tidemill_sdk::{Context, Detector, Failure, KeyedProcessFunction, Parameters, Schema};

/// A basket as a till sends it. Times are milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Basket<'a> {
    /// Unique.
    pub basket_id: &'a str,
    /// The store.
    pub store_id: i64,
    /// The till in the store.
    pub till_id: i64,
    /// The day it counts for, such as "2026-08-15".
    pub business_date: &'a str,
    /// When it was sold.
    pub event_ts: i64,
    /// When the till sent it.
    pub uploaded_at: i64,
    /// What was sold.
    #[serde(borrow)]
    pub lines: Vec<Item<'a>>,
}

/// A line of a basket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Item<'a> {
    /// The article.
    pub sku: &'a str,
    /// How many.
    pub qty: i64,
}

/// A line on its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Line<'a> {
    /// The basket that it is of.
    pub basket_id: &'a str,
    /// The store.
    pub store_id: i64,
    /// The article.
    pub sku: &'a str,
    /// How many.
    pub qty: i64,
    /// When it was sold.
    pub event_ts: i64,
    /// When the till sent it.
    pub uploaded_at: i64,
}

/// What the job spec says.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct BasketLinesParameters {
    /// The day to keep, such as "2026-08-15".
    pub business_date: String,
}

/// Emits the lines of every basket of the business date.
#[derive(Detector)]
#[detector(version = "1")]
pub struct BasketLines {
    parameters: Parameters<BasketLinesParameters>,
}

impl KeyedProcessFunction for BasketLines {
    type Key = ();
    type Input<'a> = Basket<'a>;
    type Output<'a> = Line<'a>;

    fn process_element(&mut self, basket: Basket<'_>, ctx: &mut Context<'_, Self>) -> Result<(), Failure> {
        if basket.business_date != self.parameters.business_date {
            return Ok(());
        }
        let Basket { basket_id, store_id, event_ts, uploaded_at, .. } = basket;
        for Item { sku, qty } in basket.lines {
            ctx.emit(&Line { basket_id, store_id, sku, qty, event_ts, uploaded_at });
        }
        Ok(())
    }
}

tidemill_sdk::export!(BasketLines);

#[cfg(test)]
mod tests;
